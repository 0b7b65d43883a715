"""Options under Ceph's own names and defaults (protocol.md §7), and the few that only this messenger has."""

from dataclasses import dataclass, fields

from messenger.cephx.exchange import ConMode
from messenger.cephx.v1 import CephxRequirements
from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.errors import LocalError

_MONITORS = (EntityType.MON, EntityType.MGR)
_DAEMONS = (EntityType.OSD, EntityType.MDS)


@dataclass(slots=True, kw_only=True)
class Config:
    """One messenger's options. Times are seconds, sizes bytes."""

    ms_initial_backoff: float = 0.2
    """First delay before dialling again; doubled at each further failure."""
    ms_max_backoff: float = 15.0
    """Longest delay before dialling again, and how long a race loser waits for the winner."""
    ms_connection_ready_timeout: float = 10.0
    """A link must be READY within this, from the dial or the accept on."""
    ms_connection_idle_timeout: float = 900.0
    """A READY link without traffic for this long is given up."""
    ms_learn_addr_from_peer: bool = True
    """Take the own blank address from the first peer's HELLO rather than from the socket."""
    ms_dispatch_throttle_bytes: int = 100 << 20
    """Received bytes the application may hold before reading stops; 0 = no limit."""

    ms_crc_header: bool = True
    """v1: compute and check the crcs of message headers, front and middle segments."""
    ms_crc_data: bool = True
    """v1: compute and check the crcs of data segments."""

    ms_mon_cluster_mode: str = "secure crc"
    ms_mon_service_mode: str = "secure crc"
    ms_mon_client_mode: str = "secure crc"
    ms_cluster_mode: str = "crc secure"
    ms_service_mode: str = "crc secure"
    ms_client_mode: str = "crc secure"

    cephx_sign_messages: bool = True
    """v1: sign messages and check signatures, where there is a session key and MSG_AUTH (§3.7)."""
    cephx_require_signatures: bool = False
    """v1: require MSG_AUTH of everybody who authenticates by cephx; the next two of daemons, of clients."""
    cephx_cluster_require_signatures: bool = False
    cephx_service_require_signatures: bool = False
    cephx_require_version: int = 2
    """v1: from 2 on, require CEPHX_V2 of everybody who authenticates by cephx; the next two likewise."""
    cephx_cluster_require_version: int = 2
    cephx_service_require_version: int = 2
    require_authorizer: bool = True
    """v1: refuse peers without authorizer, except clients of monitors. Off where heartbeats are answered."""

    features_supported: int = CLIENT_FEATURES
    """Feature mask advertised in CLIENT_IDENT and SERVER_IDENT (§2.4)."""
    max_frame_bytes: int = 512 << 20
    """Longest frame accepted from an authenticated peer."""
    max_preauth_frame_bytes: int = 128 << 10
    """Longest frame accepted before the peer has authenticated."""
    max_preauth_bytes: int = 512 << 10
    """What may be exchanged with an unauthenticated peer (both directions are kept for the signature)."""
    write_ahead_bytes: int = 2 << 20
    """Frames handed to the transport but not yet written by it; more is built only below this."""

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.name.endswith("_mode"):
                parse_modes(option.name, getattr(self, option.name))

    @property
    def cephx_requirements(self) -> CephxRequirements:
        """The ``cephx_*require*`` options together."""
        return CephxRequirements(
            **{option.name: getattr(self, option.name) for option in fields(CephxRequirements)}
        )

    def connection_modes(self, me: EntityType, peer: EntityType, *, connecting: bool) -> tuple[ConMode, ...]:
        """The modes to offer or to allow, in order of preference (the matrix of §4.7)."""
        if me in _MONITORS or me is EntityType.AUTH:
            option = "ms_mon_cluster_mode" if peer in _MONITORS else "ms_mon_service_mode"
        elif me in _DAEMONS:
            option = "ms_mon_cluster_mode" if peer in _MONITORS else "ms_cluster_mode"
            if peer not in (*_MONITORS, *_DAEMONS):
                option = "ms_service_mode"
        elif not connecting:
            option = "ms_service_mode"
        else:
            option = "ms_mon_client_mode" if peer in _MONITORS else "ms_client_mode"
        return parse_modes(option, getattr(self, option))

    @classmethod
    def only_mode(cls, mode: ConMode, **options: object) -> "Config":
        """A configuration that offers and allows one connection mode everywhere."""
        names = [option.name for option in fields(cls) if option.name.endswith("_mode")]
        return cls(**dict.fromkeys(names, mode.name.lower()), **options)  # type: ignore[arg-type]


def parse_modes(option: str, text: str) -> tuple[ConMode, ...]:
    """The modes in a mode option's text, which names ``crc`` and ``secure`` by preference.

    Raises:
        LocalError: an unknown mode, or none at all.
    """
    known = {"crc": ConMode.CRC, "secure": ConMode.SECURE}
    words = text.replace(",", " ").split()
    if not words or any(word not in known for word in words):
        raise LocalError(f"{option} = {text!r}: give 'crc', 'secure' or both, the preferred one first")
    return tuple(known[word] for word in words)
