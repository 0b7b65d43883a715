"""The spec of a client node: its options, as plain values."""

from dataclasses import dataclass, field

from messenger.cephx.exchange import ConMode
from messenger.cephx.keyring import Keyring
from messenger.config import Config
from messenger.errors import LocalError
from toolkit.node.program import ProgramSpec

_COMPRESSED = {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1}


@dataclass(slots=True, kw_only=True)
class RadosSpec(ProgramSpec):
    """The options of a client node, as plain JSON values."""

    WHAT = "client"

    rados: str
    """Its entity name: ``client.writer``."""
    monitors: list[str]
    """Address vectors of the monitors; their types say which protocols to use."""
    keyring: str = ""
    """Text of a keyring with its key; empty for a cluster without authentication."""
    pool: str = "objects"
    mode: str = "crc"
    """Connection mode: crc, secure, or compressed (crc, with compression requested from OSDs)."""
    names: dict[str, str] = field(default_factory=dict)
    """Names of nodes by their address vectors, for the history."""

    @property
    def keys(self) -> Keyring | None:
        """Its key; None without authentication."""
        return Keyring.parse(self.keyring, f"keyring of {self.name}") if self.keyring else None

    def config(self) -> Config:
        """Options with the connection mode applied."""
        mode = ConMode.SECURE if self.mode == "secure" else ConMode.CRC
        compressed = _COMPRESSED if self.mode == "compressed" else {}
        try:
            return Config.only_mode(mode, **(compressed | self.options))
        except TypeError as error:
            raise LocalError(f"client options: {error}") from None
