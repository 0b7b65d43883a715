"""Links watched from outside: the frame follower, and the tap that the proxy passes bytes through.

An input is a byte of options and a list of chunks, each a byte of direction (bit 0) and a length (u16) before
its bytes. Option bit 0: with the keys of the link.
"""

from collections.abc import Iterator

from messenger.cephx.exchange import ConMode
from messenger.denc.entity import EntityType
from messenger.link import Protocol
from tests.fuzz.seeds import ADMIN, KEYS, SECURITY, Chunk, conversation, reconnection
from tests.fuzz.target import Cursor, Cut, Target, require_same, same_for_every_cut
from tests.support.node import SECRET_ID, SHARED_KEY
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower
from toolkit.dissect.keys import KeyBook
from toolkit.faults.tap import LinkTap

_DIRECTIONS = tuple(Direction)
_MOST_CHUNKS = 24


def keys_of_links() -> KeyBook:
    """The keys of every link; each run begins with no more than that."""
    return KeyBook({ADMIN: KEYS[1]}, {service: {SECRET_ID: SHARED_KEY} for service in EntityType})


def chunks_of(cursor: Cursor) -> list[Chunk]:
    """The chunks of an input."""
    found: list[Chunk] = []
    while cursor and len(found) < _MOST_CHUNKS:
        direction = _DIRECTIONS[cursor.number() & 1]
        found.append((direction, cursor.counted(2)))
    return found


def run(data: bytes) -> None:
    """Follow a link, however its chunks are cut, and pass it through a tap unharmed."""
    cursor = Cursor(data)
    with_keys = cursor.number() & 1
    chunks = chunks_of(cursor)

    def follow(cut: Cut) -> list[object]:
        follower = LinkFollower(keys_of_links() if with_keys else None)
        seen: list[object] = []
        for direction, raw in chunks:
            for piece in cut(raw):
                seen += [
                    (frame.direction, frame.tag, frame.index, frame.offset, frame.raw, frame.fields)
                    for frame in follower.feed(direction, piece)
                ]
        return [*seen, follower.con_mode, follower.blind and follower.blind.reason]

    same_for_every_cut(follow)
    for direction in _DIRECTIONS:
        _check_tap(LinkTap("a", "b", [], keys_of_links() if with_keys else None), direction, chunks)


def _check_tap(tap: LinkTap, watched: Direction, chunks: list[Chunk]) -> None:
    """Without a breakpoint everything gets through, in order."""
    passed, fed = b"", b""
    for direction, raw in chunks:
        passage = tap.feed(direction, raw)
        if direction is watched:
            passed, fed = passed + passage.forward, fed + raw
    require_same("what was fed, and what got through or is held", passed + tap.pending(watched), fed)


def encoded_chunks(chunks: list[Chunk]) -> bytes:
    """The part of an input that stands for these chunks."""
    return b"".join(
        bytes([_DIRECTIONS.index(direction)]) + len(raw).to_bytes(2, "little") + raw for direction, raw in chunks
    )


def seeds() -> Iterator[bytes]:
    """Conversations in every security, followed with and without keys."""
    v1 = [conversation(auth, ConMode.CRC, Protocol.V1) for auth in ("none", "cephx")]
    for chunks in (*(conversation(*security) for security in SECURITY), reconnection(), *v1):
        for options in range(2):
            yield bytes([options]) + encoded_chunks(chunks[:_MOST_CHUNKS])


TARGETS = (Target(name="follow", run=run, seeds=seeds, coarse=True, mutations=100, max_bytes=4096),)
