"""LG: frames split at every byte, with every number of segments, and with every alignment."""

from collections.abc import Callable, Mapping
from functools import partial
from struct import unpack_from

from messenger.compat import override
from messenger.rules import SETTINGS
from messenger.v2.preamble import PREAMBLE_SIZE
from messenger.v2.wire import Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, breaks, leave, stage
from toolkit.lab.ways import CRC_WAYS, V2_WAYS
from toolkit.node.raw.frames import RawFrame
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.stream import PATIENCE_S, Stream
from toolkit.scenarios.large_messages import LG
from toolkit.scenarios.shared.by_hand import header, messages, opened

_LONGEST_BYTES = 240
"""About the length of the longest frame of these handshakes."""
_STRIDE = 9


class _Halves(Stream):
    """A stream that delivers each write in two reads.

    Args:
        stream: the stream below it.
        at: length of the first part.
        pause: lets the first part arrive.
    """

    def __init__(self, stream: Stream, at: int, pause: Callable[[], None]) -> None:
        self._stream = stream
        self._at = at
        self._pause = pause

    @override
    def write(self, raw: bytes) -> None:
        at = self._at % max(len(raw), 1)
        self._stream.write(raw[:at])
        self._pause()
        self._stream.write(raw[at:])

    @override
    def read(self) -> bytes:
        return self._stream.read()

    @property
    @override
    def closed(self) -> bool:
        return self._stream.closed

    @override
    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return self._stream.wait(condition, timeout_s)

    @override
    def close(self) -> None:
        self._stream.close()


@LG.scenario(
    "LG-08",
    "short_reads_writes",
    cases={
        "message": {"role": "", "first": 0},
        "connector": {"role": CONNECTOR, "first": 1},
        "acceptor": {"role": ACCEPTOR, "first": 1},
    },
)
def short_reads_writes(lab: Lab, role: str, first: int) -> None:
    """A frame may come in two reads, wherever it is cut.

    A message with all its parts is sent once for each of its bytes, cut in two at that byte, on one link: all are
    delivered, in order. Handshakes whose frames each come in two parts, cut at another byte each time, open the
    session, whichever side dials.
    """
    if not role:
        _messages_in_two(lab)
        return
    peer = stage(lab, role)
    places = range(first, _LONGEST_BYTES, _STRIDE * 3 if lab.real_time else _STRIDE)
    for number, at in enumerate(places, 1):
        link: RawLink = peer.dial("a") if role == ACCEPTOR else peer.accept("a")
        link.stream = _Halves(link.stream, at, lambda: lab.wait(0.001))
        link.handshake()
        link.send_messages(number)  # type: ignore[attr-defined]
        lab.wait_for(lambda number=number: len(lab.tids("a")) >= number, f"a message behind handshake {number}")  # type: ignore[misc]
        closes = lab.closes("a")
        link.hang_up()
        lab.expect_closes("a", closes + 1)
    lab.require(
        {*lab.faults("a")} <= {"EOF", "SOCKET"}, f"links may end by the peer's hanging up alone: {lab.faults('a')}"
    )


def _messages_in_two(lab: Lab) -> None:
    _, link = opened(lab, ACCEPTOR)
    whole, parts = link.stream, {"front": b"front", "middle": b"mid", "data": b"some data"}
    raw = link.message(1, **parts)
    size = len(raw)
    for at in range(1, size):
        link.stream = _Halves(whole, at, lambda: lab.wait(0.0005))
        link.write(raw)
        raw = link.message(at + 1, **parts)
    lab.expect_delivered("b", "a", size - 1)
    lab.require(lab.tids("a") == [*range(1, size)], f"delivered were {lab.tids('a')}")
    sizes = {record["size"] for record in lab.records("a", "deliver")}
    lab.require(sizes == {17}, f"messages of {sizes} bytes were delivered")
    lab.require(not link.closed, f"the link broke: {lab.last_fault('a')}")


_PARTS = {
    "header": ((0, 0, 0), 1),
    "front": ((5, 0, 0), 2),
    "middle": ((0, 6, 0), 3),
    "front and middle": ((5, 6, 0), 3),
    "data": ((0, 0, 7), 4),
    "all": ((5, 6, 7), 4),
}


@LG.scenario(
    "LG-05",
    "max_segments",
    priority=2,
    ways=V2_WAYS,
    cases={name: {"parts": parts, "segments": segments} for name, (parts, segments) in _PARTS.items()},
)
def max_segments(lab: Lab, parts: tuple[int, int, int], segments: int) -> None:
    """The last segment that is not empty gives the number of segments, four at most.

    A node sends messages with and without front, middle and data: empty segments at the end are left out, empty
    ones before others are written with length 0. A node that receives such frames from a peer delivers all their
    parts.
    """
    front, middle, data = parts
    _, link = opened(lab, ACCEPTOR)
    lab.send("a", "b", 1, data, front_bytes=front, middle_bytes=middle)
    if not lab.is_secure:
        link.stream.wait(lambda: len(link.inbound) >= PREAMBLE_SIZE, PATIENCE_S)
        tag, counted = link.inbound[:2]
        lab.require((tag, counted) == (Tag.MESSAGE, segments), f"frame {tag} with {counted} segments came")
    (message,) = messages(link)
    lengths = len(message.front), len(message.middle), len(message.data)
    lab.require(lengths == parts, f"parts of {parts} bytes came as {lengths}")
    pieces = (header(), bytes(front), bytes(middle), bytes(data))[:segments]
    link.write(RawFrame(Tag.MESSAGE, pieces).encode(link.seal))
    lab.expect_delivered("b", "a", 1)
    got = lab.records("a", "deliver")[-1]["size"]
    lab.require(got == sum(parts), f"{sum(parts)} bytes were sent, {got} came")


_ALIGNMENTS = (0, 1, 2, 3, 8, 4096, 65535)
_TAKEN = {0, 1, 2, 8, 4096}
"""The alignments that are accepted if they are checked."""


@LG.scenario(
    "LG-06",
    "alignment_values",
    ways=V2_WAYS,
    cases={
        f"{value} {rule}": {"value": value, "rule": rule}
        for value in _ALIGNMENTS
        for rule in SETTINGS["segment_alignment"]
    },
)
def alignment_values(lab: Lab, value: int, rule: str) -> None:
    """Segments of any alignment arrive whole or break the link.

    Messages declare an alignment for each of their four segments in turn. If ``segment_alignment`` is ignored all
    are delivered; if it is checked, alignments of 0 or a power of two are, and any other breaks the link.
    """
    peer = stage(lab, ACCEPTOR, segment_alignment=rule)
    good = rule == "ignored" or value in _TAKEN
    for slot in range(4):
        alignments = (*(8,) * slot, value, *(8,) * (3 - slot))
        link = peer.dial("a").handshake()
        pieces = (header(slot + 1), b"front", b"middle", b"data" * 300)
        frame = RawFrame(Tag.MESSAGE, pieces, alignments=alignments).encode(link.seal)
        if not good:
            breaks(lab, link, partial(link.write, frame), "FRAME")
            continue
        link.write(frame)
        lab.expect_delivered("b", "a", slot + 1)
        leave(lab, link)
    lab.expect_memory("a", 0)
    sizes = [record["size"] for record in lab.records("a", "deliver")]
    lab.require(sizes == [1211] * (4 if good else 0), f"messages of {sizes} bytes were delivered")


_MESSAGE_PARTS: Mapping[str, tuple[tuple[int, int, int], list[tuple[int, int]]]] = {
    "front": ((100, 0, 0), [(41, 8), (100, 8)]),
    "middle": ((10, 20, 0), [(41, 8), (10, 8), (20, 8)]),
    "data": ((0, 0, 9000), [(41, 8), (0, 8), (0, 8), (9000, 4096)]),
    "all": ((10, 20, 30), [(41, 8), (10, 8), (20, 8), (30, 4096)]),
}
"""Bytes of front, middle and data, and the lengths and alignments in the preamble (docs/protocol.md §4.4)."""


@LG.scenario(
    "LG-11",
    "preamble_of_a_message",
    priority=2,
    ways=CRC_WAYS,
    cases={name: {"parts": name} for name in _MESSAGE_PARTS},
)
def preamble_of_a_message(lab: Lab, parts: str) -> None:
    """The preamble of a message has the lengths of its parts, with 8 as alignment, or 4096 for the data.

    A message with some parts is sent. On the wire its preamble declares the header and the parts up to the last
    that is not empty, with their lengths and alignments; the other slots are zero.
    """
    sizes, due = _MESSAGE_PARTS[parts]
    lab.two("lossless_peer")
    tape = lab.tape("a", "b")
    lab.connect("a", "b")
    front_bytes, middle_bytes, size_bytes = sizes
    lab.send("a", "b", 1, size_bytes, front_bytes=front_bytes, middle_bytes=middle_bytes)
    lab.expect_delivered("a", "b", 1)
    raw = next(frame.raw for frame in tape.frames if frame.tag == "MESSAGE")
    found = [unpack_from("<IH", raw, 2 + 6 * slot) for slot in range(4)]
    lab.require((raw[0], raw[1]) == (Tag.MESSAGE, len(due)), f"tag {raw[0]} with {raw[1]} segments")
    lab.require(found == due + [(0, 0)] * (4 - len(due)), f"the preamble has {found}, {due} are due")
    lab.settle()
