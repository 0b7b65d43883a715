"""The stream of an open v1 link: messages and small frames, as a link reads them (docs/protocol.md §3.7).

An input is a byte of options and a script: each step is raw bytes, or a message with good crcs from its parts,
so that fuzzing gets behind them. Options choose signatures, the old footer, the old header and which crcs are
checked.
"""

from collections.abc import Iterator

from messenger.cephx.exchange import ConMode
from messenger.cephx.signature import aes_signer
from messenger.denc.codec import Buffer
from messenger.link import Protocol
from messenger.receive import SCRATCH_BYTES
from messenger.v1.framing import MessageWriter, StreamReader, printable_message
from messenger.v1.wire import Tag
from tests.fuzz.receiving import read
from tests.fuzz.seeds import conversation, one_way
from tests.fuzz.target import KIB, Cursor, Cut, Target, same_for_every_cut
from toolkit.dissect.direction import Direction

_LIMIT_BYTES = 160 * KIB
_MOST_STEPS = 12
_SECRET = bytes(range(16))
_RAW, _MESSAGE, _SPOILT = range(3)


def stream(cursor: Cursor, writer: MessageWriter) -> bytes:
    """The bytes that a script stands for."""
    out = bytearray()
    for _ in range(_MOST_STEPS):
        if not cursor:
            break
        kind = cursor.number() % 3
        if kind == _RAW:
            out += cursor.counted(2)
            continue
        message = bytearray(_message(cursor, writer))
        if kind == _SPOILT:
            message[cursor.number(2) % len(message)] ^= cursor.number()
        out += message
    return bytes(out)


def _message(cursor: Cursor, writer: MessageWriter) -> bytes:
    seq, kind, version = cursor.number(), cursor.number(2), cursor.number()
    front, middle, data = cursor.counted(), cursor.counted(), cursor.counted()
    data *= 2 * cursor.number() + 1
    pieces: list[Buffer] = []
    writer.message(pieces, (seq, seq, kind, 127, version), (front, middle, data), 0, (4, 2), 1)
    return b"".join(pieces)


def _plain(frame: tuple) -> object:
    if len(frame) == 2:
        return frame[1].PIECE, frame[1].printable()
    _, header, front, middle, data, flags = frame
    return tuple(header), printable_message(header), bytes(front), bytes(middle), bytes(data), flags


def run(data: bytes) -> int:
    """Read a stream in every way it may be cut."""
    cursor = Cursor(data)
    options = cursor.number()
    msg_auth, old_header = bool(options & 1), bool(options & 2)
    signed = msg_auth and options & 4
    signer = aes_signer(_SECRET) if signed else None
    writer = MessageWriter(signer, msg_auth=msg_auth, old_header=old_header, sum_data=not options & 8)
    raw = stream(cursor, writer)

    def play(cut: Cut) -> list[object]:
        reader = StreamReader(
            _LIMIT_BYTES,
            signer,
            msg_auth=msg_auth,
            old_header=old_header,
            check_header=not options & 16,
            check_data=not options & 32,
        )
        return read(reader, raw, cut, _plain, _LIMIT_BYTES)

    same_for_every_cut(play)
    return len(raw)


def seeds() -> Iterator[bytes]:
    """Messages under every option, small frames, and a real conversation."""
    message = bytes([_MESSAGE, 1, 2, 0, 1, 3]) + b"abc" + bytes([0, 2]) + b"xy" + b"\0"
    large = bytes([_MESSAGE, 2, 2, 0, 1, 0, 0, 130]) + bytes(130) + b"\xff"
    small = b"\x08" + bytes(8) + b"\x09\x0e" + bytes(8) + b"\x06"
    for options in (0, 1, 2, 3, 5, 8, 9, 16, 48):
        yield bytes([options]) + message + large + bytes([_RAW, len(small), 0]) + small + message
    yield bytes([1, _SPOILT]) + message[1:] + bytes([60, 0, 1])
    sent = one_way(conversation("none", ConMode.CRC, Protocol.V1), Direction.TO_SERVER)
    at = sent.index(bytes([Tag.MSG, 1, 0, 0, 0]))
    yield bytes([1, _RAW]) + (len(sent) - at).to_bytes(2, "little") + sent[at:]


TARGETS = (
    Target(
        name="v1-stream",
        run=run,
        seeds=seeds,
        allowance_bytes=8 * SCRATCH_BYTES,
        bytes_per_byte=16,
        mutations=250,
        max_bytes=600,
    ),
)
