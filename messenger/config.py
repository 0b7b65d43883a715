"""Options with Ceph's names and defaults (docs/protocol.md §7), and those that only this messenger has."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

from messenger.algorithms import Algorithm, CompressionMode
from messenger.cephx.exchange import ConMode
from messenger.cephx.v1 import CephxRequirements
from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES, MSGR2_SUPPORTED
from messenger.errors import LocalError
from messenger.rules import RuleOptions, rules_of

_CONNECTION_MODES = (
    "ms_mon_cluster_mode",
    "ms_mon_service_mode",
    "ms_mon_client_mode",
    "ms_cluster_mode",
    "ms_service_mode",
    "ms_client_mode",
)
_COMPRESS_OPTIONS = {
    EntityType.OSD: "ms_osd_compress_mode",
    EntityType.CLIENT: "ms_client_compress_mode",
}
"""By type of peer; links with others are never compressed."""
_LIST_SEPARATORS = str.maketrans(";,=\t", "    ")
_BYTES_PER_HELD_MESSAGE = 256
"""Estimated memory, in bytes, of a received message without parts."""
_LEAST_HELD_MESSAGES = 1024
FIXED_OPTIONS = frozenset(
    {
        "dispatch_by_priority",
        "ms_type",
        "ms_pq_max_tokens_per_priority",
        "ms_pq_min_cost",
        "osd_client_message_size_cap",
        "osd_client_message_cap",
        "mon_client_bytes",
        "mon_daemon_bytes",
    }
)
"""Options that are read once, when a messenger or its policies are created."""
_RANGES = {
    "ms_bind_port_min": range(1 << 16),
    "ms_bind_port_max": range(1 << 16),
    "ms_tcp_rcvbuf": range(1 << 31),
    "ms_tcp_listen_backlog": range(1 << 31),
}
"""What the kernel accepts."""
_ZLIB_LEVELS = range(10)
_ZSTD_LEVELS = range(1, 23)
_MONITORS = (EntityType.MON, EntityType.MGR)
_DAEMONS = (EntityType.OSD, EntityType.MDS)


@dataclass(slots=True, kw_only=True)
class Config(RuleOptions):
    """Options of one messenger. Times are seconds, sizes bytes."""

    ms_initial_backoff: float = 0.2
    """First delay before dialling again; doubled at each further failure."""
    ms_max_backoff: float = 15.0
    """Longest delay before dialling again, and how long the loser of a connection race waits for the winner."""
    ms_connection_ready_timeout: float = 10.0
    """Time from the dial or accept within which a link must be READY."""
    ms_connection_idle_timeout: float = 900.0
    """A READY link without traffic for this long is closed."""
    ms_learn_addr_from_peer: bool = True
    """Learn this messenger's own IP address from the first peer's HELLO rather than from the socket."""
    ms_dispatch_throttle_bytes: int = 100 << 20
    """Received bytes that the application may hold before reading pauses; 0 = no limit."""

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
    """Connection modes to offer and to allow, the preferred one first; §4.7 lists which option applies."""

    cephx_sign_messages: bool = True
    """v1: sign messages and check signatures if there is a session key and MSG_AUTH was negotiated (§3.7)."""
    cephx_require_signatures: bool = False
    """v1: require MSG_AUTH of every peer that authenticates by cephx."""
    cephx_cluster_require_signatures: bool = False
    """v1: require MSG_AUTH of daemons that authenticate by cephx."""
    cephx_service_require_signatures: bool = False
    """v1: require MSG_AUTH of clients that authenticate by cephx."""
    cephx_require_version: int = 2
    """v1: 2 or more requires CEPHX_V2 of every peer that authenticates by cephx."""
    cephx_cluster_require_version: int = 2
    """v1: 2 or more requires CEPHX_V2 of daemons that authenticate by cephx."""
    cephx_service_require_version: int = 2
    """v1: 2 or more requires CEPHX_V2 of clients that authenticate by cephx."""
    require_authorizer: bool = True
    """v1: refuse peers without an authorizer, except clients of monitors. False for an OSD's heartbeat servers."""

    ms_osd_compress_mode: str = "none"
    """Compression of links to OSDs: none, passive, aggressive or force; all except none enable it. Ceph's OSDs
    grant it to OSDs only."""
    ms_client_compress_mode: str = "none"
    """Compression of links with clients, for an OSD: the same values; clients that request compression are
    granted it. Ceph's OSDs never grant it."""
    ms_osd_compress_min_size: int = 1024
    """Shortest frame that is compressed, in bytes."""
    ms_osd_compression_algorithm: str = "snappy"
    """Algorithms to offer or to allow, the preferred one first: snappy, zlib, zstd, lz4, brotli."""
    ms_compress_secure: bool = False
    """Compress secure links too, although the frame lengths then reveal something about the plaintext."""
    compressor_zlib_level: int = 5
    compressor_zstd_level: int = 1
    """Compression levels: 0 to 9 with zlib, 1 to 22 with zstd."""

    msgr2_features: int = MSGR2_SUPPORTED
    """Feature mask of the banner (§2.5): 3 as Ceph 20.2, 1 as crimson, 0 as releases without msgr 2.1."""
    features_supported: int = CLIENT_FEATURES
    """Feature mask advertised in CLIENT_IDENT and SERVER_IDENT (§2.4)."""
    max_frame_bytes: int = 512 << 20
    """Longest message accepted from an authenticated peer."""
    max_preauth_frame_bytes: int = 128 << 10
    """Longest frame accepted before the peer has authenticated, and longest control frame after that."""
    max_preauth_bytes: int = 512 << 10
    """Most bytes exchanged with an unauthenticated peer (both directions are kept for the signature)."""
    frame_timeout_s: float = 30.0
    """An open link may wait this long for the rest of a frame; 0 = without limit."""
    frame_min_bytes_per_s: int = 32 << 10
    """A frame may take longer than ``frame_timeout_s`` as long as it arrives at this average rate."""
    frame_timeout_contended_s: float = 5.0
    """``frame_timeout_s`` while other links wait for a throttle that only incomplete messages fill; 0 = no other
    timeout than ``frame_timeout_s``."""
    max_held_messages: int = 0
    """Received messages that the application may hold before reading pauses; 0 = one for each 256 bytes of
    ``ms_dispatch_throttle_bytes``, at least 1024. Bounds messages without parts, which take no bytes of that
    throttle."""
    write_ahead_bytes: int = 2 << 20
    """Bytes handed to the transport but not yet written; further frames are built only below this."""

    def __post_init__(self) -> None:
        self._check("compressor_zlib_level", _ZLIB_LEVELS)
        self._check("compressor_zstd_level", _ZSTD_LEVELS)
        self._check("msgr2_features", range(MSGR2_SUPPORTED + 1))
        self._check_kinds()
        for option, numbers in _RANGES.items():
            self._check(option, numbers)
        self.check_injection()
        self.check_transport()
        self.check_rules()
        for option in _CONNECTION_MODES:
            parse_modes(option, getattr(self, option))
        for peer in _COMPRESS_OPTIONS:
            self.compression(peer, secure=False)
        if self.frame_min_bytes_per_s < 1:
            raise LocalError(f"frame_min_bytes_per_s = {self.frame_min_bytes_per_s}: give 1 or more")

    def _check_kinds(self) -> None:
        """Raise LocalError if a value has another type than the option's default, or is a number below 0."""
        for option, kind in OPTIONS.items():
            value = getattr(self, option)
            if not _WANTED[kind][0](value):
                raise LocalError(f"{option} = {value!r}: give {_WANTED[kind][1]}")

    def _check(self, option: str, allowed: range) -> None:
        value = getattr(self, option)
        if value not in allowed:
            raise LocalError(f"{option} = {value!r}: give {allowed.start} to {allowed.stop - 1}")

    @property
    def held_messages_limit(self) -> int:
        """Most received messages that the application may hold; 0 = no limit."""
        if self.max_held_messages or not self.ms_dispatch_throttle_bytes:
            return self.max_held_messages
        return max(self.ms_dispatch_throttle_bytes // _BYTES_PER_HELD_MESSAGE, _LEAST_HELD_MESSAGES)

    @property
    def first_frame_check_s(self) -> float:
        """Seconds after which an incomplete frame is checked for its timeout for the first time."""
        return min(self.frame_timeout_contended_s or self.frame_timeout_s, self.frame_timeout_s)

    @property
    def cephx_requirements(self) -> CephxRequirements:
        """The values of all options ``cephx_*require*``."""
        return CephxRequirements(
            **{option.name: getattr(self, option.name) for option in fields(CephxRequirements)}
        )

    def connection_modes(self, me: EntityType, peer: EntityType, *, connecting: bool) -> tuple[ConMode, ...]:
        """The connection modes to offer or to allow, in order of preference (§4.7)."""
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

    def compression(self, peer: EntityType, *, secure: bool) -> tuple[CompressionMode, tuple[Algorithm, ...]]:
        """The compression mode of links to such a peer, and the algorithms to offer or to allow (§4.10)."""
        option = _COMPRESS_OPTIONS.get(peer)
        mode = CompressionMode.NONE if option is None else _parse_compression_mode(option, getattr(self, option))
        if option is None or (mode is CompressionMode.NONE and peer is not EntityType.OSD):
            return CompressionMode.NONE, ()  # towards OSDs methods are named even so
        methods = _parse_algorithms(self.ms_osd_compression_algorithm)
        return CompressionMode.NONE if secure and not self.ms_compress_secure else mode, methods

    @classmethod
    def only_mode(cls, mode: ConMode, **options: object) -> "Config":
        """A configuration that offers and allows one connection mode, except for ``options``."""
        modes = dict.fromkeys(_CONNECTION_MODES, mode.name.lower())
        return cls(**(modes | options))  # type: ignore[arg-type]

    @classmethod
    def like(cls, implementation: str, **options: object) -> "Config":
        """A configuration with the rules of ``classic``, ``crimson`` or ``kernel``, except for ``options``.

        Raises:
            LocalError: ``implementation`` is none of these.
        """
        return cls(**rules_of(implementation) | options)  # type: ignore[arg-type]


OPTIONS: dict[str, type] = {option.name: type(option.default) for option in fields(Config)}
"""The type of each option's values, by option name."""


# NaN is refused, because it compares false with 0.
def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool) and value >= 0  # type: ignore[operator]


def _exceeds_float(value: object) -> bool:
    """True for a whole number that no time could be added to."""
    return isinstance(value, int) and value > sys.float_info.max


_WANTED: dict[type, tuple[Callable[[object], bool], str]] = {
    bool: (lambda value: isinstance(value, int) and value in (0, 1), "True or False"),
    int: (lambda value: _is_number(value, int), "a whole number, 0 or more"),
    float: (lambda value: _is_number(value, int, float) and not _exceeds_float(value), "a number, 0 or more"),
    str: (lambda value: isinstance(value, str), "a text"),
}
"""By the type of an option's default: the values that it accepts, and how an error message describes them."""


@cache
def parse_modes(option: str, text: str) -> tuple[ConMode, ...]:
    """Parse the text of a mode option: ``crc``, ``secure`` or both, the preferred one first.

    Raises:
        LocalError: the text is empty or names an unknown mode.
    """
    known = {"crc": ConMode.CRC, "secure": ConMode.SECURE}
    words = text.replace(",", " ").split()
    if not words or any(word not in known for word in words):
        raise LocalError(f"{option} = {text!r}: give 'crc', 'secure' or both, the preferred one first")
    return tuple(known[word] for word in words)


@cache
def _parse_compression_mode(option: str, text: str) -> CompressionMode:
    try:
        return CompressionMode[text.upper()]
    except KeyError:
        names = ", ".join(mode.name.lower() for mode in CompressionMode)
        raise LocalError(f"{option} = {text!r}: give one of {names}") from None


@cache
def _parse_algorithms(text: str) -> tuple[Algorithm, ...]:
    known = {algorithm.name.lower(): algorithm for algorithm in Algorithm if algorithm is not Algorithm.NONE}
    words = text.translate(_LIST_SEPARATORS).split()
    if not words or any(word not in known for word in words):
        names = ", ".join(known)
        raise LocalError(f"ms_osd_compression_algorithm = {text!r}: give some of {names}, the preferred one first")
    return tuple(known[word] for word in words)
