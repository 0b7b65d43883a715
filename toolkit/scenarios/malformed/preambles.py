"""MF: malformed preambles of frames."""

from collections.abc import Callable
from typing import Any

from messenger.crc import crc32c
from messenger.denc.features import MSGR2_SUPPORTED
from messenger.v1.framing import HEADER
from messenger.v1.wire import ConnectReply
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.compressor import Algorithm
from messenger.v2.wire import Hello, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, Place, arrive, breaks, leave, stage
from toolkit.lab.ways import V2_WAYS
from toolkit.node.raw.frames import FLAG_COMPRESSED, RawFrame
from toolkit.node.raw.peer import RawPeer
from toolkit.node.raw.v2 import RawV2Link
from toolkit.scenarios.malformed import MF
from toolkit.scenarios.shared.by_hand import header
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS, FEW_WAYS, ROLES, early_and_late, places_of

_HUGE = (0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
_PREAUTH_BYTES = 128 << 10
"""Longest frame that is accepted before the peer has authenticated."""
_DATA_BYTES = 1 << 20
"""Longest frame that nodes of MF-05 accept from a peer that has authenticated."""
_MARGIN_BYTES = 256
"""More than the overhead of a frame around its segments, in any mode."""
_READ_AHEAD_BYTES = 1 << 20
"""Bytes that a node may hold beyond the frame that it waits for."""


def proper(link: RawV2Link, place: Place, seq: int = 1, **fields: Any) -> RawFrame:  # noqa: ANN401 - of RawFrame
    """A well-formed frame for the state of the link, HELLO or a message, with some fields changed."""
    if place.state == "READY":
        return RawFrame(Tag.MESSAGE, (header(seq), b"front", b"", b"data"), **fields)
    seen = link.other.addr if link.connecting else link.socket_addr
    return RawFrame(Tag.HELLO, (Hello(link.name.type, seen).encode(),), **fields)


Build = Callable[[RawV2Link, Place], bytes]


def _everywhere(lab: Lab, peer: RawPeer, role: str, build: Build, *reasons: str) -> None:
    """Require that the frame breaks its link, before authentication and in the data phase."""
    for place in early_and_late(role):
        link = arrive(peer, place)
        breaks(lab, link, lambda: link.write(build(link, place)), *reasons, state=place.state)  # noqa: B023


@MF.scenario("MF-03", "preamble_crc", cases=ROLES, ways=FEW_V2_WAYS)
def preamble_crc(lab: Lab, role: str) -> None:
    """A preamble with a wrong crc breaks the link before its fields are used.

    Before authentication and in the data phase a frame arrives whose preamble has one bit changed, at each of its
    32 bytes; and one that announces a gigabyte with a wrong crc. In crc mode the fault is the crc, never the
    length; in secure mode a changed bit fails authentication, and a wrong crc that was sealed properly is the
    fault. No memory is allocated for the announced length.
    """
    peer = stage(lab, role)
    for byte in range(32):

        def flipped(link: RawV2Link, place: Place, byte: int = byte) -> bytes:
            raw = bytearray(proper(link, place).encode(link.seal))
            raw[byte] ^= 1 << byte % 8
            return bytes(raw)

        _everywhere(lab, peer, role, flipped, "PREAMBLE_CRC", "AUTH_TAG")
    huge: dict[str, Any] = {"lengths": (1 << 30,), "preamble_mask": 1}
    _everywhere(lab, peer, role, lambda link, place: proper(link, place, **huge).encode(link.seal), "PREAMBLE_CRC")
    lab.expect_memory("a", _PREAUTH_BYTES)


@MF.scenario("MF-04", "segment_count", priority=2, cases=ROLES, ways=FEW_V2_WAYS)
def segment_count(lab: Lab, role: str) -> None:
    """A frame has one to four segments, and the last of several is not empty.

    Preambles declare 0, 5 and 255 segments, or two to four of which the last is empty. Each breaks its link as a
    malformed frame, before authentication and in the data phase.
    """
    peer = stage(lab, role)
    wrong: list[dict[str, Any]] = [{"count": count} for count in (0, 5, 255)]
    wrong += [{"count": count, "lengths": (41, *[1] * (count - 2), 0)} for count in (2, 3, 4)]
    for fields in wrong:

        def build(link: RawV2Link, place: Place, fields: dict[str, Any] = fields) -> bytes:
            return proper(link, place, **fields).encode(link.seal)

        _everywhere(lab, peer, role, build, "FRAME")


@MF.scenario("MF-05", "segment_length_huge", cases=ROLES, ways=FEW_WAYS)
def segment_length_huge(lab: Lab, role: str) -> None:
    """A frame that announces more than its limit breaks the link at its preamble; one just below is waited for.

    The limit is 128 KiB until the peer has authenticated, and max_frame_bytes, here 1 MiB, after that. In every
    state a preamble with a right crc announces 256 bytes more than the limit, 2 GiB less one, 2 GiB, and 4 GiB
    less one, in the first segment, in the last, and in all four at once, whose sum may exceed 32 bits. The link
    breaks at once, and nothing is allocated. At 256 bytes below the limit the node waits for the rest, and holds
    no more than the limit plus what it reads ahead. On v1 the same holds for authorizers and for the three parts
    of a message.
    """
    peer = stage(lab, role, max_frame_bytes=_DATA_BYTES)
    if lab.is_v1:
        _v1_lengths(lab, peer, role)
        return
    for place in places_of(role):
        if place.resumes or "COMPRESSION" in place.state:
            continue
        authenticated = place.state == "READY" or place.before == "ident"
        limit_bytes = _DATA_BYTES if authenticated else _PREAUTH_BYTES
        for length in (limit_bytes + _MARGIN_BYTES, *_HUGE):
            for lengths in ((length,), (1, 1, 1, length), (length,) * 4):
                link = arrive(peer, place)
                frame = RawFrame(Tag.MESSAGE, (b"",), count=len(lengths), lengths=lengths)
                breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "OVERSIZE", state=place.state)  # noqa: B023
        allowed_bytes = limit_bytes - _MARGIN_BYTES
        for lengths in ((allowed_bytes,), (1, 1, 1, allowed_bytes), (allowed_bytes // 4,) * 4):
            link = arrive(peer, place)
            link.write(RawFrame(Tag.MESSAGE, (b"",), count=len(lengths), lengths=lengths).encode(link.seal))
            _waits(lab, link, limit_bytes)
    lab.expect_memory("a", 0)


def _waits(lab: Lab, link: Any, limit_bytes: int) -> None:  # noqa: ANN401 - of either protocol
    """Require that the node waits for the rest, and holds no more than the announced length; ends the link."""
    faults = len(lab.faults("a"))
    lab.wait(0.01)
    lab.require(not link.closed and len(lab.faults("a")) == faults, f"it broke the link: {lab.last_fault('a')}")
    lab.expect_memory("a", limit_bytes + _READ_AHEAD_BYTES)
    leave(lab, link)


def _v1_lengths(lab: Lab, peer: RawPeer, role: str) -> None:
    """Lengths of authorizers in CONNECT and in its reply, and of the parts of a message."""
    place = next(place for place in places_of(role, v1=True) if place.before == "connect")
    for length in (_PREAUTH_BYTES - _MARGIN_BYTES, _PREAUTH_BYTES + _MARGIN_BYTES, *_HUGE):
        link = arrive(peer, place)
        if role == CONNECTOR:
            at, raw = 21, bytearray(ConnectReply(V1Tag.READY, 0).encode()[:26])
        else:
            at, raw = 28, bytearray(link.connect_message().encode()[:33])
        raw[at : at + 4] = length.to_bytes(4, "little")
        if length < _PREAUTH_BYTES:
            link.write(bytes(raw))
            _waits(lab, link, _PREAUTH_BYTES)
        else:
            breaks(lab, link, lambda: link.write(bytes(raw)), "OVERSIZE", state=place.state)  # noqa: B023
    place = next(place for place in places_of(role, v1=True) if place.state == "OPENED")
    for part in range(3):
        for length in (_DATA_BYTES - _MARGIN_BYTES, _DATA_BYTES + _MARGIN_BYTES, *_HUGE):
            link = arrive(peer, place)
            raw = bytearray(link.message(1)[: 1 + HEADER.size])
            raw[1 + 22 + 4 * part : 1 + 26 + 4 * part] = length.to_bytes(4, "little")
            raw[-4:] = crc32c(bytes(raw[1:-4]), 0).to_bytes(4, "little")
            if length < _DATA_BYTES:
                link.write(bytes(raw))
                _waits(lab, link, _DATA_BYTES)
            else:
                breaks(lab, link, lambda: link.write(bytes(raw)), "OVERSIZE")  # noqa: B023
    lab.expect_memory("a", 0)


@MF.scenario("MF-23", "oversize_in_one_read", cases=ROLES, ways=FEW_WAYS)
def oversize_in_one_read(lab: Lab, role: str) -> None:
    """A message above max_frame_bytes breaks the link although it arrives at once.

    The limit is 8 KiB. A message of 8,000 bytes of data is delivered; one of 9,000, which the node has read with
    its last byte before it judges its length, breaks the link and is not delivered.
    """
    peer = stage(lab, role, max_frame_bytes=8192)
    place = places_of(role, v1=lab.is_v1)[-1]
    link = arrive(peer, place)
    link.write(link.message(1, data=bytes(8000)))
    lab.expect_delivered("b", "a", 1)
    reasons = ("COMPRESSION",) if lab.way.mode == "compressed" else ("OVERSIZE",)
    breaks(lab, link, lambda: link.write(link.message(2, data=bytes(9000))), *reasons, state=place.state)
    lab.require(lab.tids("a") == [1], f"messages {lab.tids('a')} were delivered")


@MF.scenario("MF-06", "alignment", priority=2, cases=ROLES, ways=V2_WAYS)
def alignment(lab: Lab, role: str) -> None:
    """Segments of any alignment are accepted.

    HELLO and messages have alignments of 0, of 3, of 65535 and mixed ones. They are accepted like frames with
    alignments of 8 and 4096.
    """
    peer = stage(lab, role)
    for number, alignments in enumerate([(0,) * 4, (3,) * 4, (0xFFFF,) * 4, (1, 0, 0xFFFF, 7)], 1):
        for place in early_and_late(role):
            link = arrive(peer, place)
            link.write(proper(link, place, number, alignments=alignments).encode(link.seal))
            goes_on(lab, link, place, number)


def goes_on(lab: Lab, link: RawV2Link, place: Place, delivered: int) -> None:
    """Require that the frame sent in place of HELLO, or as a message, was accepted; ends the link.

    Args:
        lab: the lab of the scenario.
        link: the link on which it was sent.
        place: the state of the link when it was sent.
        delivered: number of messages that must be delivered by now.
    """
    if place.state == "READY":
        lab.expect_delivered("b", "a", delivered)
    else:
        link.expect(Hello)
        for step in link.steps[2:]:
            step()
    lab.require(not link.closed, f"the link broke in {place.state}: {lab.last_fault('a')}")
    before = len(lab.faults("a"))
    link.hang_up()
    lab.expect_fault_count("a", before + 1)


@MF.scenario("MF-07", "reserved_bits", priority=2, cases=ROLES)
def reserved_bits(lab: Lab, role: str) -> None:
    """Reserved bits are ignored.

    The reserved byte of a preamble, its undefined flags, the upper half of the late status and the reserved field
    of a message header are all set, on v1 those of a message header and of its footer. HELLO and messages with
    them are accepted as usual.
    """
    peer = stage(lab, role)
    if lab.is_v1:
        _v1_reserved(lab, peer, role)
        return
    for number, fields in enumerate([{"reserved": 0xFF}, {"flags": 0xFE}, {"late_status": 0xFE}], 1):
        for place in early_and_late(role):
            link = arrive(peer, place)
            link.write(proper(link, place, number, **fields).encode(link.seal))
            goes_on(lab, link, place, number)
    link = arrive(peer, next(place for place in places_of(role) if place.state == "READY"))
    link.write(RawFrame(Tag.MESSAGE, (header(4, reserved=0xFFFF), b"front")).encode(link.seal))
    lab.expect_delivered("b", "a", 4)


def _v1_reserved(lab: Lab, peer: RawPeer, role: str) -> None:
    link = arrive(peer, next(place for place in places_of(role, v1=True) if place.state == "OPENED"))
    raw = bytearray(link.message(1))
    raw[-1] |= 0xF8
    link.write(bytes(raw))
    lab.expect_delivered("b", "a", 1)
    lab.require(lab.faults("a") == [], f"the link broke: {lab.last_fault('a')}")


@MF.scenario("MF-08", "compressed_flag", cases=ROLES, ways=V2_WAYS)
def compressed_flag(lab: Lab, role: str) -> None:
    """A frame flagged as compressed without negotiation breaks its link only.

    Compression was not negotiated, or negotiated and refused. Frames with the flag arrive in every state: in place
    of HELLO, before and after authentication, control frames and messages. Each breaks its link as a malformed
    frame, and the next proper link opens. If compression was negotiated, segments that do not decompress break the
    link too.
    """
    peer = stage(lab, role)
    for place in places_of(role):
        if place.resumes or place.before == "compression":
            continue
        for features in (1, MSGR2_SUPPORTED):
            link = arrive(peer, place, {"features": features, "algorithm": Algorithm.NONE})
            frames = [
                proper(link, place, flags=FLAG_COMPRESSED),
                RawFrame(Tag.ACK, (bytes(8),), flags=FLAG_COMPRESSED),
            ]
            for frame in frames:
                breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "FRAME", state=place.state)  # noqa: B023
                link = arrive(peer, place, {"features": features, "algorithm": Algorithm.NONE})
            leave(lab, link)
    if lab.way.mode == "compressed":
        place = next(place for place in places_of(role) if place.state == "READY")
        for segments in ((b"\xff" * 41,), (header(), b"\xff" * 100), (header(), b"front", b"", b"data")):
            link = arrive(peer, place)
            frame = RawFrame(Tag.MESSAGE, segments, flags=FLAG_COMPRESSED)
            breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "COMPRESSION")  # noqa: B023
    delivered = len(lab.tids("a"))
    link = arrive(peer, next(place for place in places_of(role) if place.state == "READY"))
    link.send_messages(1)
    lab.expect_delivered("b", "a", delivered + 1)
