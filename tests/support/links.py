"""Links as captures have them: sessions of our own endpoints, cut into runs, with holes and wrong bytes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from tests.support.packets import ACK, FIN, SYN, Segment
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links import LinkDecoder
from toolkit.dissect.stream import Gap, Run, Stream, StreamEvent
from toolkit.lab.sim.sim_lab import SimLab

Script = Sequence[tuple[Direction, bytes]]
"""What passes on a link, in the order of the capture."""

_COMPRESSED = {"ms_osd_compress_mode": "force", "ms_compress_secure": True, "ms_osd_compression_algorithm": "lz4"}
SESSIONS: dict[str, tuple[str, dict[str, object]]] = {
    "v1": ("v1-crc", {}),
    "v1 aes256k": ("v1-crc-aes256k", {}),
    "v2.1 crc": ("v2-crc", {}),
    "v2.1 secure": ("v2-secure", {}),
    "v2.1 secure aes256k": ("v2-secure-aes256k", {}),
    "v2.0 crc": ("v2-crc", {"msgr2_features": 0}),
    "v2.0 secure": ("v2-secure", {"msgr2_features": 0}),
    "v2.1 crc compressed": ("v2-crc", _COMPRESSED),
    "v2.1 secure compressed": ("v2-secure", _COMPRESSED),
    "v2.0 secure compressed": ("v2-secure", {"msgr2_features": 2, **_COMPRESSED}),
}
"""Ways of the simulation, and options of both ends."""


class Session:
    """A short session: three messages of 2000 bytes one way, five of 100 the other, then three more."""

    def __init__(self, name: str) -> None:
        way, options = SESSIONS[name]
        lab = SimLab(way, 3)
        self.name = name
        self.script: list[tuple[Direction, bytes]] = []
        self.links: list[Script] = []
        lab.node("a", "osd.1", "lossless_peer", **options)
        lab.node("b", "osd.2", "lossless_peer", **options)
        lab.start("a", "b")
        lab.network.on_bytes = lambda _wire, direction, chunk: self.script.append((direction, bytes(chunk)))
        lab.connect("a", "b")
        lab.send("a", "b", count=3, size_bytes=2000)
        lab.settle()
        lab.send("b", "a", count=5, size_bytes=100)
        lab.send("a", "b", count=3, size_bytes=300)
        lab.settle()
        self.keys = lab.keys

    @property
    def protocol(self) -> str:
        return self.name.split()[0]

    @property
    def secure(self) -> bool:
        return "secure" in self.name

    def bytes_of(self, direction: Direction) -> bytes:
        return b"".join(raw for way, raw in self.script if way is direction)

    def opened_at(self, direction: Direction) -> int:
        """The offset of the first frame behind the handshake."""
        return next(
            frame.offset
            for frame in decode(self.script, self.keys)
            if frame.direction is direction and frame.tag in {"MESSAGE", "MSG", "ACK"}
        )


@cache
def session(name: str) -> Session:
    """The session of that name, always the same."""
    return Session(name)


# ---- as captures have it


def new_stream(*, opening_seen: bool = True, server_port: int = 6801) -> Stream:
    return Stream(0, "127.0.0.1:40001", f"127.0.0.1:{server_port}", opening_seen)


def runs(stream: Stream, script: Script, rng: Random | None = None) -> Iterator[Run]:
    """The script as runs, one each; with ``rng`` cut into any, each of several packets."""
    packet = 0
    for direction, raw in script:
        at = 0
        while at < len(raw):
            piece = raw[at : at + (rng.choice((1, 7, 50, 333, 5000)) if rng else len(raw))]
            at += len(piece)
            ends = (
                sorted({*rng.sample(range(1, len(piece) + 1), min(3, len(piece))), len(piece)})
                if rng
                else [len(piece)]
            )
            numbers = range(packet, packet + len(ends))
            packet += len(ends)
            # Memory that will be used for something else once the run is taken.
            view = memoryview(bytearray(piece))
            yield Run(stream, direction, view, ends, [number * 1000 for number in numbers], list(numbers))
            view[:] = bytes(len(view))


def shuffled(script: Script, rng: Random) -> Script:
    """The same bytes in each direction, the two directions in any order to each other."""
    queues = {way: [raw for each, raw in script if each is way] for way in Direction}
    found = []
    while any(queues.values()):
        way = rng.choice([way for way in Direction if queues[way]])
        found.append((way, queues[way].pop(0)))
    return found


def decode_events(
    stream: Stream, events: Iterable[StreamEvent], keys: KeyBook | None = None
) -> list[DecodedFrame]:
    """Decode the events of a stream."""
    frames: list[DecodedFrame] = []
    decoder = LinkDecoder(stream, keys or KeyBook(), frames.append)
    for event in events:
        decoder.take(event)
    decoder.finish()
    return frames


def decode(script: Script, keys: KeyBook | None = None, rng: Random | None = None) -> list[DecodedFrame]:
    """Decode a whole link."""
    stream = new_stream()
    return decode_events(stream, runs(stream, script, rng), keys)


def changed(script: Script, direction: Direction, at: int, change: Callable[[int], int]) -> Script:
    """The script with one byte changed, that at an offset of a direction."""
    found, seen = [], 0
    for way, raw in script:
        if way is direction:
            if seen <= at < seen + len(raw):
                place = at - seen
                raw = raw[:place] + bytes([change(raw[place])]) + raw[place + 1 :]  # noqa: PLW2901
            seen += len(raw)
        found.append((way, raw))
    return found


def with_gap(stream: Stream, script: Script, direction: Direction, start: int, stop: int) -> Iterator[StreamEvent]:
    """The script as runs, without some bytes of a direction."""
    seen, packet, is_replaced = 0, 0, False
    for way, raw in script:
        pieces = [raw]
        if way is direction:
            pieces = [raw[: max(0, start - seen)], raw[max(0, stop - seen) :]]
            seen += len(raw)
        for number, piece in enumerate(pieces):
            if way is direction and number and seen > start and not is_replaced and piece:
                is_replaced = True
                yield Gap(stream, direction, stop - start, packet * 1000, packet)
            if piece:
                yield Run(stream, way, memoryview(piece), [len(piece)], [packet * 1000], [packet])
                packet += 1


# ---- what was made of it


def frame_content(frame: DecodedFrame) -> tuple[object, ...]:
    """Return the fields of a frame's record, except for the time at which it was complete."""
    return (
        frame.direction,
        frame.protocol,
        frame.mode,
        frame.tag,
        frame.offset,
        frame.length,
        frame.crc,
        frame.auth,
        frame.error,
        frame.message,
        frame.compressed,
        tuple(map(bytes, frame.segments)),
        bytes(frame.wire),
        repr(frame.fields),
    )


def of(direction: Direction, frames: Iterable[DecodedFrame]) -> list[DecodedFrame]:
    """The records of one direction."""
    return [frame for frame in frames if frame.direction is direction]


def require_tiled(frames: Iterable[DecodedFrame], sizes: dict[Direction, int]) -> None:
    """Each byte of each direction is in one record, and the records are in order."""
    frames = list(frames)
    for direction, size in sizes.items():
        at = 0
        for frame in of(direction, frames):
            assert frame.offset == at, (direction, frame.tag, frame.offset, at)
            assert frame.length > 0
            at += frame.length
        assert at == size, (direction, at, size)


# ---- as captures


def packets_of(
    script: Script, *, client: str = "10.0.0.1:40000", server: str = "10.0.0.2:6800", mss: int = 1448
) -> list[Segment]:
    """The packets of a whole connection, its ends included."""
    out = Segment(client, server)
    back = out.back
    found = [replace(out, flags=SYN), replace(back, flags=SYN | ACK, acknowledged=out.sequence + 1)]
    sent = {Direction.TO_SERVER: out.sequence + 1, Direction.TO_CLIENT: back.sequence + 1}
    for way, raw in script:
        packet = out if way is Direction.TO_SERVER else back
        for at in range(0, len(raw), mss):
            piece = raw[at : at + mss]
            found.append(replace(packet, sequence=sent[way], acknowledged=sent[way.other], payload=piece))
            sent[way] += len(piece)
    for way, packet in (Direction.TO_SERVER, out), (Direction.TO_CLIENT, back):
        found.append(replace(packet, sequence=sent[way], acknowledged=sent[way.other], flags=FIN | ACK))
        sent[way] += 1
    return found
