"""Links as captures have them: arbitrary bytes in both directions, with holes, with keys and without.

An input is a byte of options and a list of chunks, each a byte and a length (u16) before its bytes. Option bit 0:
with the keys of the link; bit 1: its beginning was not captured; bit 2: on a port that no daemon uses. Of a
chunk's byte, bit 0 is its direction, and bit 1 marks it as missing.
"""

from collections.abc import Iterator
from itertools import takewhile

from messenger.cephx.exchange import ConMode
from messenger.link import Protocol
from tests.fuzz.seeds import SECURITY, conversation, reconnection
from tests.fuzz.target import BrokenPromise, Cursor, Cut, Target, same_for_every_cut
from tests.fuzz.targets.following import encoded_chunks, keys_of_links
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links import LinkDecoder
from toolkit.dissect.stream import Gap, Run, Stream

_DIRECTIONS = tuple(Direction)
_MOST_CHUNKS = 32
_DATA = frozenset({"MESSAGE", "MSG", "ACK", "KEEPALIVE2", "KEEPALIVE2_ACK"})


def _chunks_of(cursor: Cursor) -> list[tuple[Direction, bool, bytes]]:
    found: list[tuple[Direction, bool, bytes]] = []
    while cursor and len(found) < _MOST_CHUNKS:
        number = cursor.number()
        found.append((_DIRECTIONS[number & 1], bool(number & 2), cursor.counted(2)))
    return found


def run(data: bytes) -> None:
    """Decode a link, however its chunks are cut; every byte is in one record, or the link is nobody's."""
    cursor = Cursor(data)
    options = cursor.number()
    chunks = _chunks_of(cursor)

    def decode(cut: Cut) -> list[object]:
        stream = Stream(0, "a:40000", "b:80" if options & 4 else "b:6800", opening_seen=not options & 2)
        frames: list[DecodedFrame] = []
        decoder = LinkDecoder(stream, keys_of_links() if options & 1 else KeyBook(), frames.append)
        for direction, missing, raw in chunks:
            if missing and raw:
                decoder.take(Gap(stream, direction, len(raw), 0, 0))
                continue
            for piece in cut(raw):
                if piece:
                    decoder.take(Run(stream, direction, memoryview(piece), [len(piece)], [0], [0]))
        decoder.finish()
        if decoder.is_messenger or not options & 4:
            _require_tiled(frames, chunks)
        elif frames:
            raise BrokenPromise(f"{len(frames)} records of a link that is nobody's")
        if not _opened_well(frames):
            # How far one direction has come when the other breaks its word depends on the cuts.
            return []
        return [_content(frame) for direction in Direction for frame in frames if frame.direction is direction]

    same_for_every_cut(decode)


def _opened_well(frames: list[DecodedFrame]) -> bool:
    """True if both directions begin with a complete handshake."""
    for direction in Direction:
        mine = [frame for frame in frames if frame.direction is direction]
        opening = takewhile(lambda frame: frame.tag not in _DATA, mine)
        if mine and (mine[0].tag != "BANNER" or any(frame.error for frame in opening)):
            return False
    return True


def _content(frame: DecodedFrame) -> tuple[object, ...]:
    contents = tuple(map(bytes, frame.segments)), bytes(frame.wire), frame.as_json()
    return frame.direction, frame.tag, frame.offset, frame.length, frame.compressed, contents


def _require_tiled(frames: list[DecodedFrame], chunks: list[tuple[Direction, bool, bytes]]) -> None:
    for direction in Direction:
        at = 0
        for frame in frames:
            if frame.direction is direction:
                if frame.offset != at or frame.length <= 0:
                    raise BrokenPromise(f"{frame.tag} at {frame.offset}, {frame.length} bytes, behind {at}")
                at += frame.length
        size = sum(len(raw) for way, _, raw in chunks if way is direction)
        if at != size:
            raise BrokenPromise(f"records for {at} of {size} bytes")


def seeds() -> Iterator[bytes]:
    """Conversations in every security, whole and with holes, with keys and without."""
    v1 = [conversation(auth, ConMode.CRC, Protocol.V1) for auth in ("none", "cephx")]
    for chunks in (*(conversation(*security) for security in SECURITY), reconnection(), *v1):
        some = encoded_chunks(chunks[:_MOST_CHUNKS])
        for options in range(2):
            yield bytes([options]) + some
        for missing in 3, len(chunks) // 2, len(chunks) - 4:
            head, tail = encoded_chunks(chunks[:missing]), encoded_chunks(chunks[missing:_MOST_CHUNKS])
            yield b"\1" + head + bytes([tail[0] | 2]) + tail[1:]
        yield b"\6" + encoded_chunks(chunks[len(chunks) // 2 :][:_MOST_CHUNKS])


TARGETS = (
    Target(
        name="dissect-link",
        run=run,
        seeds=seeds,
        coarse=True,
        mutations=30,
        max_bytes=4096,
        bytes_per_byte=4096,
        allowance_bytes=1 << 20,
    ),
)
