"""A whole link, in either role and at any point of its life, with a peer that sends arbitrary bytes.

An input is two bytes of options and a script. The first byte chooses role, security, and how many proper steps
the peer takes before the script; the second the policy, a small dispatch throttle, an application that keeps its
messages, the peer's msgr2 features, whether the node compresses, and whether its interceptor stops the link: two
more bytes then select the frame that is read and the action. Each step of the script is an operation of
``OPERATIONS`` with its arguments.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from messenger.denc.features import Msgr2Feature
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.wire import MESSAGE_HEADER, CompressionRequest, Tag
from tests.fuzz.seeds import SECURITY, captured_messages, conversation, one_way, reconnection
from tests.fuzz.talk import (
    ACTIONS,
    LIMITS,
    Cutting,
    HoardingNode,
    Operation,
    Stop,
    Talk,
    meet_again,
    raw,
    run_every_way,
    send,
    skip_step,
    step,
    throttling,
    time_passes,
    unblock,
)
from tests.fuzz.target import KIB, Cursor, Cut, Target
from tests.support.node import B_ADDR, Node, new_node
from tests.support.raw_peer import ROLES, RawPeer
from toolkit.dissect.direction import Direction

_FEATURES = (
    Msgr2Feature.REVISION_1,
    Msgr2Feature.REVISION_1 | Msgr2Feature.COMPRESSION,
    0,
    Msgr2Feature.COMPRESSION,
)
_COMPRESSING = {
    "ms_osd_compress_mode": "force",
    "ms_osd_compress_min_size": 0,
    "ms_compress_secure": True,
    "ms_osd_compression_algorithm": "snappy zlib zstd lz4 brotli",
}


class CutPeer(Cutting, RawPeer):
    """A raw peer whose bytes arrive in pieces."""


def _frame(talk: Talk, cursor: Cursor) -> None:
    tag, payload = cursor.number(), cursor.counted()
    talk.peer.write(talk.peer.writer.control(tag, payload))


def _message(talk: Talk, cursor: Cursor) -> None:
    """A message with any header: the numbers that matter one by one, the rest as usual."""
    seq, ack_seq, kind, version = cursor.number(), cursor.number(), cursor.number(2), cursor.number()
    front, data, times = cursor.counted(), cursor.counted(), cursor.number()
    header = MESSAGE_HEADER.pack(seq, seq, kind, 127, version, 0, 0, ack_seq, 3, 1, 0)
    _write_message(talk.peer, header, front, data * (1 + times))


def _any_message(talk: Talk, cursor: Cursor) -> None:
    _write_message(talk.peer, cursor.take(MESSAGE_HEADER.size), cursor.counted(), cursor.counted())


def _write_message(peer: RawPeer, header: bytes, front: bytes, data: bytes) -> None:
    pieces: list = []
    peer.writer.message(pieces, header, front, b"", data)
    peer.write(b"".join(pieces))


def _spoilt_step(talk: Talk, cursor: Cursor) -> None:
    """The next proper step, with one byte of its next frame's payload changed before it is sealed."""
    at, mask, peer = cursor.number(), cursor.number(), talk.peer
    writer = peer.writer

    class Spoiler:
        message = staticmethod(writer.message)
        compressed = staticmethod(writer.compressed)

        @staticmethod
        def control(tag: int, payload: bytes) -> bytes:
            changed = bytearray(payload or b"\0")
            changed[at % len(changed)] ^= mask
            return writer.control(tag, bytes(changed))

    peer.writer = Spoiler
    peer.proper_step()
    if peer.writer is Spoiler:
        peer.writer = writer


def _batch(talk: Talk, cursor: Cursor) -> None:
    """Several frames that arrive together."""
    frames = [talk.peer.writer.control(cursor.number(), cursor.counted()) for _ in range(cursor.number() % 4)]
    talk.peer.write(b"".join(frames))


def _compressed(talk: Talk, cursor: Cursor) -> None:
    """Send a frame with the compressed flag, around two segments that may be compressed."""
    tag, algorithm = cursor.number(), cursor.number() % (len(Algorithm) + 1)
    segments = [cursor.counted(), cursor.counted()]
    if 0 < algorithm < len(Algorithm):
        compressor = new_compressor(Algorithm(algorithm))
        segments = [compressor.compress(segment) or segment if segment else b"" for segment in segments]
    pieces: list = []
    talk.peer.writer.compressed(pieces, tag, (*segments, b"", b""))
    talk.peer.write(b"".join(pieces))


OPERATIONS: tuple[Operation, ...] = (
    raw,
    _frame,
    _message,
    _any_message,
    step,
    _spoilt_step,
    _batch,
    time_passes,
    send,
    meet_again,
    _compressed,
    skip_step,
    unblock,
)
(
    _RAW,
    _FRAME,
    _MESSAGE,
    _ANY_MESSAGE,
    _STEP,
    _SPOILT,
    _BATCH,
    _TIME,
    _SEND,
    _AGAIN,
    _COMPRESSED,
    _SKIP,
    _UNBLOCK,
) = range(len(OPERATIONS))


def play(data: bytes, cut: Cut) -> tuple[Node, int]:
    """Run a script; returns the node as it is then, and the number of bytes sent to it."""
    cursor = Cursor(data)
    choice, options = cursor.number(), cursor.number()
    role, choice = ROLES[choice % 2], choice // 2
    (auth, mode), proper_steps = SECURITY[choice % len(SECURITY)], choice // len(SECURITY) % 8
    node = new_node(
        auth=auth,
        mode=mode,
        **throttling(options),
        interceptor=Stop(cursor) if options & 128 else None,
        **LIMITS,
        **_COMPRESSING if options & 64 else {},
    )
    if options & 8:
        node = HoardingNode(node.endpoint)
    peer = partial(CutPeer, auth=auth, mode=mode, features=_FEATURES[options >> 4 & 3])
    return node, Talk(node, role, peer, B_ADDR).run(proper_steps, OPERATIONS, cursor, cut)


def run(data: bytes) -> int:
    """Play the script in every way its bytes may be cut."""
    return run_every_way(partial(play, data))


def script(role: int, security: int, steps: int, options: int, *parts: bytes) -> bytes:
    """An input."""
    return bytes([role + 2 * (security + len(SECURITY) * steps), options]) + b"".join(parts)


def seeds() -> Iterator[bytes]:
    """Proper handshakes, conversations as raw bytes, every control frame in every state, messages, reconnects."""
    again = bytes([_SEND, 1, _AGAIN, *[_STEP] * 5])
    for role, security in product(range(2), range(len(SECURITY))):
        for options in (0, 1, 2, 12):
            yield script(role, security, 6, options, bytes([_TIME, 3]), again, bytes([_TIME, 20]))
        for options in (16, 32, 48, 80):
            yield script(role, security, 7, options, bytes([_SEND, 1, _MESSAGE, 1, 1, 2, 0, 1, 1, 65, 1, 66, 40]))
        for steps in range(6):
            yield script(role, security, steps, 0, bytes([_SPOILT, 9, 1]))
    for action, nth in product(range(len(ACTIONS)), (1, 4, 6)):
        stop = bytes([nth, action])
        yield script(1, 0, 6, 128, stop, bytes([_MESSAGE, 1, 0, 2, 0, 1, 0, 1, 5, 9, _UNBLOCK, _STEP, _TIME, 200]))
    for algorithm in Algorithm:
        asked = CompressionRequest(is_compress=True, methods=[algorithm]).encode()
        header = MESSAGE_HEADER.pack(1, 1, 2, 127, 1, 0, 0, 0, 3, 1, 0)
        compressed = bytes([_COMPRESSED, Tag.MESSAGE, algorithm, len(header)]) + header + b"\x04abcd"
        agree = bytes([_FRAME, Tag.COMPRESSION_REQUEST, len(asked)]) + asked
        yield script(1, 0, 5, 80, agree, bytes([_SKIP, _STEP]), compressed)
    for message in captured_messages()[:5]:
        front = bytes(message.front)[:255]
        head = bytes([_MESSAGE, 1, 0, *message.type.to_bytes(2, "little"), message.version, len(front)])
        yield script(1, 0, 6, 4, head, front, b"\0\0", bytes([_MESSAGE, 1, 9, 2, 0, 1, 0, 1, 5, 255]))
    for tag in Tag:
        yield script(
            tag % 2, 0, 6, 0, bytes([_FRAME, tag, 8]), bytes(8), bytes([_BATCH, 2, 18, 8]) + bytes(8) + b"\x14\0"
        )
    for chunks, role in ((conversation(*SECURITY[0]), Direction.TO_SERVER), (reconnection(), Direction.TO_CLIENT)):
        sent = one_way(chunks, role)[:255]
        yield script(role is Direction.TO_SERVER, 0, 0, 1, bytes([_RAW, len(sent)]), sent)


TARGETS = (
    Target(
        name="v2-link",
        run=run,
        seeds=seeds,
        # Three endpoints, each with its scratch buffer, and their histories.
        allowance_bytes=4096 * KIB,
        coarse=True,
        mutations=40,
        max_bytes=500,
    ),
)
