"""Passing over messages of crc mode: the same checks as when each is read, without the messages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Buffer
from messenger.errors import PeerError
from messenger.v2.framing import CrcReader, CrcWriter
from messenger.v2.wire import MESSAGE_HEADER, Tag
from toolkit.dissect.columns.crc_messages import MessagePlans, pass_messages

LIMIT_BYTES = 4096
AUTH_TYPE = (17).to_bytes(2, "little")
HEADER_SIZE = MESSAGE_HEADER.size
HEAD_SIZE = 32 + HEADER_SIZE + 4
"""Preamble, header and its crc (docs/protocol.md §4.4)."""


def header(type_: int = 42, seq: int = 1) -> bytes:
    return (seq.to_bytes(8, "little") + bytes(8) + type_.to_bytes(2, "little")).ljust(HEADER_SIZE, b"\0")


def message(*parts: bytes, type_: int = 42) -> bytes:
    pieces: list[Buffer] = []
    front, middle, data = (*parts, b"", b"", b"")[:3]
    CrcWriter().message(pieces, header(type_), front, middle, data)
    return b"".join(pieces)


Borders = list[tuple[int, int]]
"""Start and end of each message."""


def passed(stream: bytes) -> Borders:
    """Pass over the messages of a stream, which begins and ends within other bytes."""
    stops: list[int] = []
    view = memoryview(b"before" + stream + b"behind")[: 6 + len(stream)]
    stop = pass_messages(MessagePlans(), view, 6, LIMIT_BYTES, {AUTH_TYPE}, stops)
    borders = [6, *stops]
    assert borders[-1] == stop
    return list(pairwise(borders))


def read(stream: bytes) -> Borders:
    """Read the messages of a stream up to the first other or invalid frame."""
    found: Borders = []
    reader, at = CrcReader(LIMIT_BYTES), 0
    try:
        while at < len(stream) and (frame := reader.next_frame(memoryview(stream), at, len(stream), owned=False)):
            stop, tag, head, *_ = frame
            if tag != Tag.MESSAGE or len(head) != HEADER_SIZE or bytes(head[16:18]) == AUTH_TYPE:
                break
            found.append((6 + at, 6 + stop))
            at = stop
    except PeerError:
        pass
    return found


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(CrcWriter().control(Tag.ACK, bytes(8)), id="control frame"),
        pytest.param(message(b"login", type_=17), id="special type"),
        pytest.param(message(b"long", b"", bytes(LIMIT_BYTES)), id="oversize"),
        pytest.param(message(b"front", b"", b"data")[:-1], id="incomplete"),
        pytest.param(b"\x07" * 80, id="noise"),
    ],
)
def test_passing_stops_before_any_other_frame(other: bytes) -> None:
    first, second = message(b"front", b"middle", b"data"), message()
    found = passed(first + second + other + first)
    assert found == [(6, 6 + len(first)), (6 + len(first), 6 + len(first + second))]


@pytest.mark.parametrize("parts", [(b"front", b"middle", b"data"), (b"", b"", b"data"), (b"front",)])
def test_passing_stops_before_a_message_that_a_reader_would_refuse(
    parts: tuple[bytes, ...],
) -> None:
    first, whole = message(b"one"), message(*parts)
    noticed = 0
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x01
        stream = first + bytes(changed)
        assert passed(stream) == read(stream), at
        noticed += len(passed(stream)) == 1
    assert noticed >= HEAD_SIZE


@given(
    st.lists(st.tuples(*[st.binary(max_size=40)] * 3), max_size=5),
    st.sampled_from(["message", "ack", "nothing"]),
    st.integers(min_value=0),
    st.integers(min_value=0, max_value=255),
)
def test_passed_messages_equal_those_of_a_frame_reader(
    messages: list[tuple[bytes, bytes, bytes]], last: str, place: int, flip: int
) -> None:
    tail = {"message": message(b"login", type_=17), "ack": CrcWriter().control(Tag.ACK, bytes(8)), "nothing": b""}
    stream = bytearray(b"".join(message(*parts) for parts in messages) + tail[last])
    if stream:
        stream[place % len(stream)] ^= flip
    assert passed(bytes(stream)) == read(bytes(stream))
