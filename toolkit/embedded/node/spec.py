"""What an embedded daemon is: everything it needs to know to start, as plain values."""

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

_COMPRESSED = {"ms_client_compress_mode": "force", "ms_osd_compress_min_size": 1}


@dataclass(slots=True, kw_only=True)
class EmbeddedSpec(ProgramSpec):
    """Everything an embedded daemon needs to know to start, as plain JSON values."""

    WHAT = "embedded daemon"

    embedded: str
    """``mon`` or ``osd``."""
    id: str
    """As Ceph has it: a number for OSDs, a name for monitors."""
    addr: str
    """Own address vector."""
    fsid: str
    monitors: dict[str, str]
    """Address vectors of the monitors by id."""
    keyring: str
    """Text of a keyring: of an OSD its own key, of a monitor those of all entities."""
    auth: str = "cephx"
    """``cephx`` or ``none``."""
    cipher: str = "aes"
    """Of keys that the monitor makes."""
    mode: str = "crc"
    """Connection mode: crc, secure, or compressed: crc, and an OSD compresses with clients that ask for it."""
    auth_ttl_s: float = DEFAULT_AUTH_TTL_S
    """How long the tickets by which clients renew others are good for, ``auth_mon_ticket_ttl``."""
    service_ttl_s: float = DEFAULT_SERVICE_TTL_S
    """How long tickets for services are good for, and a service key seals them, ``auth_service_ticket_ttl``."""
    osds: dict[str, str] = field(default_factory=dict)
    """Of a monitor: names of hosts by the ids of the OSDs on them."""
    pools: dict[str, int] = field(default_factory=dict)
    """Of a monitor: pools to be made first, and their numbers of placement groups."""
    names: dict[str, str] = field(default_factory=dict)
    """Names of nodes by their address vectors, for the history."""

    @property
    def type(self) -> EntityType:
        """What it is."""
        return EntityType.from_label(self.embedded)

    @property
    def addrs(self) -> AddrVec:
        """Own addresses."""
        return AddrVec.parse(self.addr)

    @property
    def cluster_id(self) -> UUID:
        """The cluster's."""
        return UUID(self.fsid)

    @property
    def keys(self) -> Keyring:
        """The keyring."""
        return Keyring.parse(self.keyring, f"keyring of {self.name}")

    @property
    def key_type(self) -> KeyType:
        """Of keys that the monitor makes."""
        return KeyType.from_label(self.cipher)

    def config(self) -> Config:
        """Options with the connection mode applied.

        Raises:
            LocalError: an option that there is not.
        """
        mode = ConMode.SECURE if self.mode == "secure" else ConMode.CRC
        compressed = _COMPRESSED if self.mode == "compressed" else {}
        try:
            return Config.only_mode(mode, **(compressed | self.options))
        except TypeError as error:
            raise LocalError(f"embedded daemon options: {error}") from None
