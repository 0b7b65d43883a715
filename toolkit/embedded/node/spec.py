"""The spec of an embedded daemon: everything it needs to start, as plain values."""

from dataclasses import dataclass, field
from uuid import UUID

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import ConMode
from messenger.cephx.key_server import DEFAULT_AUTH_TTL_S
from messenger.cephx.keyring import Keyring
from messenger.cephx.rotating import DEFAULT_SERVICE_TTL_S
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from toolkit.node.program import ProgramSpec

MOST_QUEUED_BYTES = 256 << 20
"""Default of ``max_queued_bytes``: answers that wait for one client. librados has at most 100 MiB in flight."""
_COMPRESSED = {"ms_client_compress_mode": "force", "ms_osd_compress_min_size": 1}


@dataclass(slots=True, kw_only=True)
class EmbeddedSpec(ProgramSpec):
    """Everything an embedded daemon needs to start, as plain JSON values."""

    WHAT = "embedded daemon"

    embedded: str
    """``mon`` or ``osd``."""
    id: str
    """Ceph's id of the daemon: a number for OSDs, a name for monitors."""
    addr: str
    """Own address vector."""
    fsid: str
    monitors: dict[str, str]
    """Address vectors of the monitors by id."""
    keyring: str
    """Text of a keyring: an OSD's own key; for a monitor, the keys of all entities."""
    auth: str = "cephx"
    """``cephx`` or ``none``."""
    cipher: str = "aes"
    """Type of the keys that the monitor creates, ``aes`` or ``aes256k``."""
    mode: str = "crc"
    """``crc``, ``secure``, or ``compressed``: crc, and an OSD compresses on links whose client requests it."""
    auth_ttl_s: float = DEFAULT_AUTH_TTL_S
    """Lifetime of the AUTH tickets, with which clients renew service tickets; ``auth_mon_ticket_ttl``."""
    service_ttl_s: float = DEFAULT_SERVICE_TTL_S
    """Lifetime of service tickets, and rotation period of service keys; ``auth_service_ticket_ttl``."""
    osds: dict[str, str] = field(default_factory=dict)
    """For a monitor: host names by OSD id."""
    pools: dict[str, int] = field(default_factory=dict)
    """For a monitor: the initial pools, and their numbers of placement groups."""
    names: dict[str, str] = field(default_factory=dict)
    """Names of nodes by their address vectors, for the history."""

    @property
    def type(self) -> EntityType:
        """Entity type of the daemon."""
        return EntityType.from_label(self.embedded)

    @property
    def addrs(self) -> AddrVec:
        """Own addresses, parsed."""
        return AddrVec.parse(self.addr)

    @property
    def cluster_id(self) -> UUID:
        """The cluster's fsid, parsed."""
        return UUID(self.fsid)

    @property
    def keys(self) -> Keyring:
        """The keyring, parsed."""
        return Keyring.parse(self.keyring, f"keyring of {self.name}")

    @property
    def key_type(self) -> KeyType:
        """Type of the keys that the monitor creates."""
        return KeyType.from_label(self.cipher)

    def config(self) -> Config:
        """Return the options with the connection mode applied.

        Raises:
            LocalError: an option is unknown.
        """
        mode = ConMode.SECURE if self.mode == "secure" else ConMode.CRC
        own: dict[str, object] = {"max_queued_bytes": MOST_QUEUED_BYTES}
        if self.mode == "compressed":
            own |= _COMPRESSED
        try:
            return Config.only_mode(mode, **(own | self.options))
        except TypeError as error:
            raise LocalError(f"embedded daemon options: {error}") from None
