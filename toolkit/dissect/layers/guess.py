"""Recognises frames in TCP payload, and binds the layers to scapy's TCP."""

from collections.abc import Callable
from typing import Any

from scapy.config import conf
from scapy.layers.inet import TCP
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from messenger.crc import crc32c
from messenger.denc.features import Msgr2Feature
from messenger.v1.framing import HEADER
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.preamble import MAX_SEGMENTS, PREAMBLE_SIZE
from messenger.v2.wire import BANNER_HEAD_SIZE, BANNER_PREFIX, V1_BANNER, Tag
from toolkit.dissect.layers.frame import MSGR2, Frame, MSGR2_Banner, MSGR2_Rev0
from toolkit.dissect.layers.v1 import MSGR1, MSGR1_Banner

MON_V2_PORT = 3300
MON_V1_PORT = 6789
DAEMON_PORTS = range(6800, 7569)
"""``ms_bind_port_min`` to ``ms_bind_port_max``."""

_Guess = Callable[[Packet, bytes], type[Packet]]

_PREAMBLE_CRC_AT = PREAMBLE_SIZE - 4
_V1_HEAD_SIZE = 1 + HEADER.size
_SMALL = {V1Tag.ACK: 9, V1Tag.KEEPALIVE2: 9, V1Tag.KEEPALIVE2_ACK: 9, V1Tag.KEEPALIVE: 1, V1Tag.CLOSE: 1}


def guess_layer(data: bytes) -> type[Packet]:
    """Return the layer of bytes that begin with a banner or a frame; scapy's raw layer for all others.

    Banners are recognised by their text, frames of msgr v2 and messages of v1 by the crc of their head. Small
    frames of v1 are recognised by their length alone.
    """
    if data.startswith(BANNER_PREFIX):
        return MSGR2_Banner
    if data.startswith(V1_BANNER):
        return MSGR1_Banner
    if _is_preamble(data):
        return _revision(data)
    if data[:1] == bytes([V1Tag.MSG]) and _has_crc(data, 1, _V1_HEAD_SIZE - 4):
        return MSGR1
    if data and _SMALL.get(data[0]) == len(data):  # type: ignore[call-overload]  # a tag is an int
        return MSGR1
    return conf.raw_layer


def _has_crc(data: bytes, start: int, at: int) -> bool:
    return len(data) >= at + 4 and crc32c(data[start:at], 0) == int.from_bytes(data[at : at + 4], "little")


def _is_preamble(data: bytes) -> bool:
    """True if the crc and the number of segments are valid. The crc of zeros is 0, so it alone proves nothing."""
    return _has_crc(data, 0, _PREAMBLE_CRC_AT) and 1 <= data[1] <= MAX_SEGMENTS


def _revision(data: bytes) -> type[Frame]:
    """Return the layer of msgr 2.1 unless only the crcs of 2.0 are right.

    A frame of 2.1 may look complete with one of 2.0 after it.
    """
    fitting = [layer for layer in (MSGR2, MSGR2_Rev0) if _fits(layer(data))]
    exact = [layer for layer in fitting if conf.padding_layer not in layer(data)]
    return (exact or fitting or [MSGR2])[0]


def _fits(frame: Frame) -> bool:
    return frame.whole and frame.crc_ok


class MSGR(Packet):
    """A stream or frame of either protocol, recognised by its bytes.

    With scapy's ``StreamSocket(sock, MSGR)`` a v2 connection in crc mode is read frame by frame.
    """

    name = "MSGR"

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: object, **_kwargs: object) -> type[Packet]:
        """See scapy."""
        return guess_layer(bytes(_pkt or b""))

    @classmethod
    def tcp_reassemble(cls, data: bytes, _metadata: dict[str, Any], session: dict[str, Any]) -> Packet | None:
        """Return the v2 banner or frame at the start of ``data``; None while it is incomplete.

        ``session`` keeps the revision that the peer's banner announced.
        """
        if BANNER_PREFIX.startswith(data[: len(BANNER_PREFIX)]):
            size = BANNER_HEAD_SIZE + int.from_bytes(data[BANNER_HEAD_SIZE - 2 : BANNER_HEAD_SIZE], "little")
            if len(data) < max(size, BANNER_HEAD_SIZE):
                return None
            banner = MSGR2_Banner(data)
            session["revision"] = 1 if (banner.given("supported") or 0) & Msgr2Feature.REVISION_1 else 0
            return banner
        if not _is_preamble(data):
            return None if len(data) < PREAMBLE_SIZE and data[0] in list(Tag) else conf.raw_layer(data)
        layer = MSGR2 if session.get("revision", 1) else MSGR2_Rev0
        if len(data) < PREAMBLE_SIZE + sum(layer(data[:PREAMBLE_SIZE]).segment_table()):
            return None
        frame = layer(data)
        return frame if frame.whole else None


class _PortsFrom6800:
    """Equal to every port that daemons bind to, so that one binding replaces hundreds."""

    def __eq__(self, other: object) -> bool:
        return other in DAEMON_PORTS

    def __hash__(self) -> int:
        return hash(DAEMON_PORTS)


def _default_with_banners(before: _Guess) -> _Guess:
    """Wrap scapy's default for TCP payload without a binding: banners are dissected as MSGR."""

    def default_payload_class(self: Packet, payload: bytes) -> type[Packet]:
        return MSGR if payload.startswith((BANNER_PREFIX, V1_BANNER)) else before(self, payload)

    return default_payload_class


def bind() -> None:
    """Bind these layers to Ceph's ports, and to banners on any port."""
    for port in (MON_V2_PORT, MON_V1_PORT, _PortsFrom6800()):
        bind_bottom_up(TCP, MSGR, sport=port)
        bind_bottom_up(TCP, MSGR, dport=port)
    for layer, port in ((MSGR2, MON_V2_PORT), (MSGR2_Banner, MON_V2_PORT), (MSGR1_Banner, MON_V1_PORT)):
        bind_top_down(TCP, layer, dport=port)
    setattr(TCP, "default_payload_class", _default_with_banners(TCP.default_payload_class))  # noqa: B010 - no mistake
