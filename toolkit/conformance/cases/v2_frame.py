"""Preamble, segments, crcs and late status of frames (docs/protocol.md §4.4, §4.5)."""

import time
from typing import Any

from messenger.v2.wire import MESSAGE_HEADER, AuthRequest, Hello, KeepAlive2, Tag
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, CRASHED, OPEN, SILENCE, Area, Level, Need
from toolkit.conformance.peers import V2Peer, introduction
from toolkit.node.raw.frames import ABORTED, COMPLETE, FLAG_COMPRESSED, RawFrame

PREAMBLE = Area("v2/preamble", "4.4")
FRAME = Area("v2/frame", "4.5", Need.SESSION, Need.CRC)
_PING = 2
_ACCEPTED = "AUTH_BAD_METHOD"
"""Outcome of a HELLO that was accepted: the answer to the AUTH_REQUEST that follows."""
_FOUR_GIB = 0xFFFFFFFF


def _hello(attempt: Attempt, what: str, tag: int = Tag.HELLO, **changes: Any) -> str:
    """Send a HELLO in a frame with these deviations; return the answer to the AUTH_REQUEST that follows."""
    peer = attempt.dial()
    peer.banner()
    peer.expect(Hello)
    payload = Hello(peer.name.type, peer.other.addr).encode()
    peer.frame(RawFrame(tag, (payload,), **changes), what)
    peer.send(AuthRequest(77, [1], introduction()))
    return peer.outcome()


@PREAMBLE.case("A wrong crc of a preamble: the link is closed", CLOSED)
def _preamble_crc(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with a wrong preamble crc", preamble_mask=1)


@PREAMBLE.case("A wrong highest bit of the preamble's crc: the link is closed", CLOSED)
def _preamble_high_bit(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with a wrong preamble crc", preamble_mask=1 << 31)


@PREAMBLE.case("Tag 0: the link is closed", CLOSED, section="4.3")
def _tag_0(attempt: Attempt) -> str:
    return _hello(attempt, "a frame with tag 0", tag=0)


@PREAMBLE.case("Tag 23, one above the highest: the link is closed", CLOSED, section="4.3")
def _tag_23(attempt: Attempt) -> str:
    return _hello(attempt, "a frame with tag 23", tag=23)


@PREAMBLE.case("Tag 255: the link is closed", CLOSED, section="4.3")
def _tag_255(attempt: Attempt) -> str:
    return _hello(attempt, "a frame with tag 255", tag=255)


@PREAMBLE.case("No segments: the link is closed", CLOSED)
def _no_segments(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with 0 segments", count=0)


@PREAMBLE.case("Five segments: the link is closed", CLOSED)
def _five_segments(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with 5 segments", count=5)


@PREAMBLE.case("255 segments: the link is closed", CLOSED)
def _many_segments(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with 255 segments", count=255)


@PREAMBLE.case("Two segments, the last of them empty: the link is closed", CLOSED)
def _last_empty(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with an empty second segment", count=2)


@PREAMBLE.case("Four segments, the last three of them empty: the link is closed", CLOSED)
def _all_empty(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with three empty segments behind it", count=4)


@PREAMBLE.case(
    "A HELLO of 4 GiB before authentication: the link is closed",
    CLOSED,
    classic=(SILENCE,),
    level=Level.TOLERANT,
    destructive=True,
)
def _four_gib(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO that announces 4 GiB", lengths=(_FOUR_GIB,))


@PREAMBLE.case("Alignment 0: it is ignored", _ACCEPTED, level=Level.TOLERANT, classic=(CRASHED,), destructive=True)
def _alignment_0(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with alignment 0", alignments=(0, 0, 0, 0))


@PREAMBLE.case("Alignment 4096 of a control frame: it is ignored", _ACCEPTED)
def _alignment_page(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with alignment 4096", alignments=(4096, 0, 0, 0))


@PREAMBLE.case(
    "Alignment 3, not a power of two: it is ignored",
    _ACCEPTED,
    level=Level.TOLERANT,
    classic=(CLOSED, CRASHED),
    destructive=True,
)
def _alignment_3(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with alignment 3", alignments=(3, 0, 0, 0))


@PREAMBLE.case("A reserved byte other than 0: it is ignored", _ACCEPTED, level=Level.TOLERANT)
def _reserved(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with reserved byte 1", reserved=1)


@PREAMBLE.case("An unknown flag: it is ignored", _ACCEPTED, level=Level.TOLERANT)
def _unknown_flag(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with flag 0x80", flags=0x80)


@PREAMBLE.case(
    "The compression flag without negotiated compression: the link is closed",
    CLOSED,
    section="4.10",
    classic=(CRASHED, _ACCEPTED),
    destructive=True,
)
def _compressed(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with the flag for compression", flags=FLAG_COMPRESSED)


@PREAMBLE.case("A wrong crc of a control segment: the link is closed", CLOSED, section="4.5")
def _segment_crc(attempt: Attempt) -> str:
    return _hello(attempt, "HELLO with a wrong segment crc", crc_masks=(1, 0, 0, 0))


@PREAMBLE.case("A length in the preamble one byte below that of the segment: the link is closed", CLOSED)
def _short_length(attempt: Attempt) -> str:
    peer = attempt.dial()
    payload = Hello(peer.name.type, peer.other.addr).encode()
    peer.hang_up()
    return _hello(attempt, "HELLO whose length is too small", lengths=(len(payload) - 1,))


@PREAMBLE.case(
    "A control frame of two segments: the link is closed",
    CLOSED,
    level=Level.TOLERANT,
    classic=(_ACCEPTED,),
    crimson=(_ACCEPTED,),
)
def _two_segments(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.banner()
    peer.expect(Hello)
    payload = Hello(peer.name.type, peer.other.addr).encode()
    peer.frame(RawFrame(Tag.HELLO, (payload, payload)), "HELLO in two segments")
    peer.send(AuthRequest(77, [1], introduction()))
    return peer.outcome()


@PREAMBLE.case("A frame that arrives byte by byte is read", _ACCEPTED)
def _bytewise(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.banner()
    peer.expect(Hello)
    for byte in RawFrame(Tag.HELLO, (Hello(peer.name.type, peer.other.addr).encode(),)).encode():
        peer.write(bytes([byte]))
        time.sleep(0.0005)
    peer.send(AuthRequest(77, [1], introduction()))
    return peer.outcome()


@PREAMBLE.case("The stream ends inside a preamble: the link is closed", CLOSED)
def _end_in_preamble(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.put(RawFrame(Tag.AUTH_REQUEST, (bytes(20),)).preamble()[:16], "16 bytes of a preamble")
    peer.half_close()
    return peer.outcome()


@PREAMBLE.case("The stream ends inside a segment: the link is closed", CLOSED)
def _end_in_segment(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.put(RawFrame(Tag.AUTH_REQUEST, (bytes(20),)).encode()[:40], "8 bytes of a segment of 20")
    peer.half_close()
    return peer.outcome()


# ---- frames of several segments, on an open session


def message(seq: int, *parts: bytes, **changes: Any) -> RawFrame:
    """Return an MPing with these parts after its header; the target ignores their contents."""
    header = MESSAGE_HEADER.pack(seq, seq, _PING, 127, 1, 0, 0, 0, 3, 1, 0)
    return RawFrame(Tag.MESSAGE, (header, *parts), **changes)


def _sent(attempt: Attempt, frame: RawFrame, what: str) -> str:
    peer = attempt.open()
    peer.frame(frame, what)
    return peer.fate()


@FRAME.case("A MESSAGE of one segment, all parts empty: it is accepted", OPEN, section="4.8")
def _one_segment(attempt: Attempt) -> str:
    return _sent(attempt, message(1), "a message without parts")


@FRAME.case("A MESSAGE of two segments: it is accepted", OPEN)
def _two_parts(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front"), "a message with a front")


@FRAME.case("A MESSAGE of four segments: it is accepted", OPEN)
def _four_parts(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", b"middle", b"data"), "a message with three parts")


@FRAME.case("A MESSAGE with data, but an empty front and middle: it is accepted", OPEN)
def _empty_inside(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"", b"", b"data"), "a message with data only")


@FRAME.case("A wrong crc of a message's header: the link is closed", CLOSED)
def _header_crc(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", crc_masks=(1, 0, 0, 0)), "a message with a wrong header crc")


@FRAME.case("A wrong crc of a message's front: the link is closed", CLOSED)
def _front_crc(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", crc_masks=(0, 1, 0, 0)), "a message with a wrong front crc")


@FRAME.case("A wrong crc of a message's middle: the link is closed", CLOSED)
def _middle_crc(attempt: Attempt) -> str:
    frame = message(1, b"front", b"middle", crc_masks=(0, 0, 1, 0))
    return _sent(attempt, frame, "a message with a wrong middle crc")


@FRAME.case("A wrong crc of a message's data: the link is closed", CLOSED)
def _data_crc(attempt: Attempt) -> str:
    frame = message(1, b"front", b"", b"data", crc_masks=(0, 0, 0, 1))
    return _sent(attempt, frame, "a message with a wrong data crc")


@FRAME.case("A wrong crc of an empty segment within the segment count: the link is closed", CLOSED)
def _empty_slot(attempt: Attempt) -> str:
    frame = message(1, b"front", b"", b"data", crc_masks=(0, 0, 1, 0))
    return _sent(attempt, frame, "a message with a wrong crc of its empty middle")


@FRAME.case("Late status 0: the link is closed", CLOSED)
def _status_0(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", late_status=0), "a message with late status 0")


@FRAME.case("Late status 0xF: the link is closed", CLOSED)
def _status_f(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", late_status=0xF), "a message with late status 0xF")


@FRAME.case("The reserved high bits of the late status are set: they are ignored", OPEN)
def _status_high_bits(attempt: Attempt) -> str:
    return _sent(attempt, message(1, b"front", late_status=0xA0 | COMPLETE), "a message with late status 0xAE")


@FRAME.case("A message that its sender aborted: it is dropped, the link stays open", OPEN, kernel=(CLOSED,))
def _aborted(attempt: Attempt) -> str:
    return _sent(attempt, message(1, bytes(64), late_status=ABORTED), "an aborted message")


@FRAME.case("The message after an aborted one may have the same seq", OPEN, section="4.8", kernel=(CLOSED,))
def _aborted_again(attempt: Attempt) -> str:
    peer = attempt.open()
    peer.frame(message(1, bytes(64), late_status=ABORTED), "an aborted message")
    peer.frame(message(1, b"front"), "a message of the same seq")
    return peer.fate()


@FRAME.case("An aborted message with a wrong crc: the link is closed", CLOSED)
def _aborted_crc(attempt: Attempt) -> str:
    frame = message(1, bytes(64), late_status=ABORTED, crc_masks=(0, 1, 0, 0))
    return _sent(attempt, frame, "an aborted message with a wrong crc")


@FRAME.case(
    "A MESSAGE with a header of 40 bytes instead of 41: the link is closed",
    CLOSED,
    section="4.8",
    destructive=True,
)
def _short_header(attempt: Attempt) -> str:
    return _sent(attempt, RawFrame(Tag.MESSAGE, (bytes(40),)), "a message with a header of 40 bytes")


@FRAME.case("A message and a keepalive in one TCP segment: both are read", OPEN)
def _together(attempt: Attempt) -> str:
    peer = attempt.open()
    ping = KeepAlive2(7, 7)
    raw = message(1, b"front").encode() + RawFrame(ping.TAG, (ping.encode(),)).encode()
    peer.put(raw, "a message and KEEPALIVE2 together")
    return peer.fate() if _answered(peer) else SILENCE


def _answered(peer: V2Peer) -> bool:
    while (frame := peer.await_next()) is not None:
        if getattr(frame, "TAG", None) is Tag.KEEPALIVE2_ACK:
            return True
    return False
