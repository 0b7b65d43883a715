"""The tap: what passes, and where it strikes."""

import pytest

from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.v2.framing import CrcWriter
from messenger.v2.wire import Ack, encode_banner
from toolkit.dissect.direction import Direction
from toolkit.faults.tap import Breakpoint, ByteCut, LinkTap

BANNER = encode_banner(1, 0)
ACKS = [CrcWriter().control(Ack.TAG, Ack(seq).encode()) for seq in range(1, 6)]


def _feed(tap: LinkTap, stream: bytes, step: int = 7) -> tuple[bytes, Breakpoint | None]:
    """Feed a stream in small pieces from the connector; what passed, and what struck."""
    passed = b""
    for start in range(0, len(stream), step):
        passage = tap.feed(Direction.TO_SERVER, stream[start : start + step])
        passed += passage.forward
        if passage.cut is not None:
            return passed, passage.cut
    return passed, None


def test_without_breakpoints_everything_passes() -> None:
    stream = BANNER + b"".join(ACKS)
    assert _feed(LinkTap("a", "b", []), stream) == (stream, None)


@pytest.mark.parametrize(("byte", "rest"), [(0, b""), (3, ACKS[2][:3]), (-1, ACKS[2][:-1]), (None, ACKS[2])])
def test_cut_at_a_byte_of_the_nth_frame(byte: int | None, rest: bytes) -> None:
    cut = Breakpoint("a", "ACK", nth=3, byte=byte)
    passed, struck = _feed(LinkTap("a", "b", [cut]), BANNER + b"".join(ACKS))
    assert struck is cut
    assert passed == BANNER + ACKS[0] + ACKS[1] + rest
    assert cut.hit is not None
    assert (cut.hit.tag, cut.hit.index, cut.hit.fields) == ("ACK", 3, {"seq": 3})


def test_breakpoint_counts_over_links_and_hits_once() -> None:
    cut = Breakpoint("a", "ACK", nth=2)
    assert _feed(LinkTap("a", "b", [cut]), BANNER + ACKS[0])[1] is None
    assert _feed(LinkTap("a", "b", [cut]), BANNER + ACKS[1])[1] is cut
    stream = BANNER + ACKS[2]
    assert _feed(LinkTap("a", "b", [cut]), stream) == (stream, None)


def test_frames_of_the_other_side_do_not_count() -> None:
    stream = BANNER + ACKS[0]
    assert _feed(LinkTap("a", "b", [Breakpoint("b", "ACK")]), stream) == (stream, None)


def test_bytes_that_are_no_frames_pass_unchanged() -> None:
    stream = b"GET / HTTP/1.1\r\n\r\n"
    tap = LinkTap("a", "b", [Breakpoint("a", "ACK")])
    assert _feed(tap, stream) == (stream, None)
    assert "looks like an HTTP client" in tap.blind
    assert tap.feed(Direction.TO_CLIENT, b"HTTP/1.1 200").forward == b"HTTP/1.1 200"


def test_tap_holds_an_incomplete_frame() -> None:
    tap = LinkTap("a", "b", [])
    assert tap.feed(Direction.TO_SERVER, BANNER + ACKS[0][:20]).forward == BANNER
    assert tap.pending(Direction.TO_SERVER) == ACKS[0][:20]


def test_parse() -> None:
    assert Breakpoint.parse("a:MESSAGE:10:20") == Breakpoint("a", "MESSAGE", 10, 20)
    assert Breakpoint.parse("a:MESSAGE:2:") == Breakpoint("a", "MESSAGE", 2, None)
    assert Breakpoint.parse("osd:BANNER") == Breakpoint("osd", "BANNER", 1, None)


def test_parse_v1() -> None:
    assert Breakpoint.parse("a:CONNECT_REPLY:2:5", Protocol.V1) == Breakpoint("a", "CONNECT_REPLY", 2, 5)
    for text, protocol in (("a:MSG", Protocol.V2), ("a:MESSAGE", Protocol.V1)):
        with pytest.raises(LocalError, match=r"breakpoint, column 3: no tag 'M.*'; did you mean M"):
            Breakpoint.parse(text, protocol)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "column 1: SENDER is missing; a breakpoint is SENDER:TAG"),
        (":ACK", "column 1: SENDER is missing"),
        ("a", "column 2: it ends too early; expected here: a tag: one of BANNER, HELLO"),
        ("a:", "column 3: no tag ''"),
        ("a:NOPE", "column 3: no tag 'NOPE'; known: ACK"),
        ("a:ACK:x", "column 7: 'x' is not NTH, a number from 1 on"),
        ("a:ACK:0", "column 7: '0' is not NTH"),
        ("a:ACK:-1", "column 7: '-1' is not NTH"),
        ("a:ACK:1:y", "column 9: 'y' is not BYTE, a whole number"),
        ("a:ACK:1:2:3", "column 11: '3' does not belong here; BYTE is the last number"),
    ],
)
def test_parse_reports_column_and_accepted_words(text: str, complaint: str) -> None:
    with pytest.raises(LocalError, match=f"^breakpoint, {complaint}"):
        Breakpoint.parse(text)


@pytest.mark.parametrize(("after_bytes", "step"), [(0, 7), (5, 7), (65, 65), (65, 7), (100, 200)])
def test_byte_cut_ends_one_connection_after_the_given_bytes(after_bytes: int, step: int) -> None:
    records = bytes(range(130))
    cut = ByteCut("a", byte=after_bytes)
    passed, struck = _feed(LinkTap("a", "b", [cut]), records, step)
    assert (passed, struck) == (records[:after_bytes], cut)
    assert _feed(LinkTap("a", "b", [cut]), records, step) == (records, None)


def test_an_introduction_is_cut_by_the_bytes_of_its_sender_on_one_link() -> None:
    records = bytes(range(130))
    cut = ByteCut("b", byte=0)
    assert _feed(LinkTap("a", "b", [cut]), records) == (records, None)
    longer = ByteCut("a", byte=130)
    for _ in range(2):
        assert _feed(LinkTap("a", "b", [longer]), records) == (records, None)
