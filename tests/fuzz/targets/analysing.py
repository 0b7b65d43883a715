"""Captures as conversations: tables, histories and charts of arbitrary frames.

An input is a list of frames, each a byte (bit 0: its direction, bit 1: on which of two links, bit 2: its crcs are
wrong, all others: which tag it has), and a payload after its length (u16). The payload of a MESSAGE begins with
its header.
"""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from messenger.cephx.exchange import ConMode
from messenger.denc.codec import Buffer
from messenger.v2.revision import crc_frames
from messenger.v2.wire import MESSAGE_HEADER, Tag, encode_banner
from tests.fuzz.seeds import conversation, reconnection
from tests.fuzz.target import BrokenPromise, Cursor, Target
from tests.support.packets import MILLISECOND_NS, TIME_NS
from toolkit.checks.invariants import check
from toolkit.dissect.analysis import Analysis
from toolkit.dissect.analysis.history import HistoryMaker
from toolkit.dissect.analysis.timeline import timeline
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links import LinkDecoder
from toolkit.dissect.stream import Run, Stream
from toolkit.report.sequence import SequenceChart

_DIRECTIONS = tuple(Direction)
_TAGS = tuple(Tag)
_LINKS = 2
_MOST_FRAMES = 40
_BANNER = encode_banner(1, 0)
_WRITER = crc_frames(1, 1 << 20)[1]
_BAD = 4


def _wire(tag: Tag, payload: bytes, *, is_bad: bool) -> bytes:
    pieces: list[Buffer] = []
    if tag is Tag.MESSAGE:
        _WRITER.message(pieces, payload[: MESSAGE_HEADER.size], payload[MESSAGE_HEADER.size :], b"", b"")
    else:
        pieces.append(_WRITER.control(tag, payload))
    wire = bytearray(b"".join(pieces))
    if is_bad and payload:
        wire[32] ^= 1  # the first byte of its first segment
    return bytes(wire)


def _frames(cursor: Cursor) -> Iterator[DecodedFrame]:
    """Yield the frames as a decoder does, each in a packet of its own."""
    found: list[DecodedFrame] = []
    book = KeyBook()
    streams = [
        Stream(index, f"10.0.0.1:{index + 1}", "10.0.0.2:6800", opening_seen=True) for index in range(_LINKS)
    ]
    decoders = [LinkDecoder(stream, book, found.append) for stream in streams]
    packet = 0

    def pass_on(link: int, way: Direction, raw: bytes) -> None:
        nonlocal packet
        packet += 1
        time_ns = TIME_NS + packet * MILLISECOND_NS
        decoders[link].take(Run(streams[link], way, memoryview(raw), [len(raw)], [time_ns], [packet]))

    for link in range(_LINKS):
        for way in Direction:
            pass_on(link, way, _BANNER)
    while cursor and packet < _MOST_FRAMES:
        choice = cursor.number()
        tag = _TAGS[(choice >> 3) % len(_TAGS)]
        pass_on(
            choice >> 1 & 1, _DIRECTIONS[choice & 1], _wire(tag, cursor.counted(2), is_bad=bool(choice & _BAD))
        )
    for decoder in decoders:
        decoder.finish()
    found.sort(key=lambda frame: frame.packet)
    for number, frame in enumerate(found):
        frame.frame = number
        yield frame


def run(data: bytes) -> None:
    """Analyse them; what is judged bad is in no table of messages and in no history."""
    analysis = Analysis()
    maker = HistoryMaker(analysis)
    messages = 0
    for frame in _frames(Cursor(data)):
        analysis.take(frame)
        maker.take(frame)
        messages += frame.message is not None and not frame.is_bad
    table = analysis.message_table()
    if table["sent"].sum() > messages:  # those before a link joins another session are in none
        raise BrokenPromise(f"{table['sent'].sum()} messages in the table, of {messages} that can be believed")
    analysis.session_table()
    analysis.handshake_table()
    analysis.latency_table()
    analysis.traffic_table(0.01)
    analysis.batch_table()
    for seq in (1, 1 << 63):
        analysis.where(seq)
    history = maker.history()
    for result in check(history):
        repr(result)
    for picture in (SequenceChart(history), timeline(analysis)):
        ET.fromstring(picture.svg())


def _encoded(link: int, way: Direction, tag: Tag, payload: bytes, *, is_bad: bool = False) -> bytes:
    choice = _DIRECTIONS.index(way) | link << 1 | is_bad * _BAD | _TAGS.index(tag) << 3
    return bytes([choice]) + len(payload).to_bytes(2, "little") + payload


def seeds() -> Iterator[bytes]:
    """Conversations as they were, with bad frames among them, resumed, and with seqs far apart."""
    for chunks in (conversation("none", ConMode.CRC), conversation("cephx", ConMode.CRC), reconnection()):
        for bad_one in (None, 3, 9):
            yield b"".join(_encoded_conversation(list(chunks), 0, bad_one))
        yield b"".join(_encoded_conversation(list(chunks), 0, None)) + b"".join(
            _encoded_conversation(list(chunks), 1, None)
        )
    ends = 1, (1 << 64) - 1
    yield b"".join(
        _encoded(0, way, Tag.MESSAGE, MESSAGE_HEADER.pack(seq, seq, 42, 127, 8, 0, 0, ack, 0, 3, 0))
        for way in Direction
        for seq in ends
        for ack in ends
    )


def _encoded_conversation(
    chunks: list[tuple[Direction, bytes]], link: int, bad_one: int | None
) -> Iterator[bytes]:
    found: list[DecodedFrame] = []
    stream = Stream(0, "a:1", "b:6800", opening_seen=True)
    decoder = LinkDecoder(stream, KeyBook(), found.append)
    for way, raw in chunks:
        if raw:
            decoder.take(Run(stream, way, memoryview(raw), [len(raw)], [0], [0]))
    decoder.finish()
    for number, frame in enumerate(found):
        if frame.segments and frame.tag in Tag.__members__:
            payload = b"".join(map(bytes, frame.segments))
            yield _encoded(link, frame.direction, Tag[frame.tag], payload, is_bad=number == bad_one)


TARGETS = (
    Target(
        name="analysis",
        run=run,
        seeds=seeds,
        coarse=True,
        mutations=25,
        max_bytes=4096,
        bytes_per_byte=4096,
        allowance_bytes=4 << 20,
    ),
)
