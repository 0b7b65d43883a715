"""Passing over messages: the same checks as when each is read, without the messages."""

from collections.abc import Callable, Container
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.signature import aes_signer
from messenger.denc.codec import Buffer
from messenger.errors import PeerError
from messenger.v1.framing import HEADER, MessageWriter, StreamReader
from messenger.v1.wire import Ack

LIMIT = 4096
KEY = bytes(range(16))
PARTS = (b"front", b"mid", b"some data")
FRONT_AT = 1 + HEADER.size
FOOTER_AT = FRONT_AT + sum(map(len, PARTS))


@dataclass(frozen=True, slots=True)
class Form:
    """The form that both sides have agreed on."""

    msg_auth: bool = True
    signed: bool = False
    summed: bool = True

    @property
    def signer(self) -> Callable[..., int] | None:
        return aes_signer(KEY) if self.signed else None

    def writer(self) -> MessageWriter:
        sums = {"sum_header": self.summed, "sum_data": self.summed}
        return MessageWriter(self.signer, msg_auth=self.msg_auth, **sums)

    def reader(self) -> StreamReader:
        return StreamReader(LIMIT, self.signer, msg_auth=self.msg_auth, check_header=self.summed)


FORMS = [Form(), Form(signed=True), Form(msg_auth=False), Form(summed=False)]


def message(form: Form, parts: tuple[Buffer, Buffer, Buffer] = PARTS, type_: int = 42, seq: int = 1) -> bytes:
    pieces: list[Buffer] = []
    form.writer().message(pieces, (seq, 0, type_, 127, 1), parts, 0, (8, 1), 1)
    return b"".join(pieces)


def passed(form: Form, stream: bytes, special: Container[int] = ()) -> list[tuple[int, int]]:
    """Borders of the messages that are passed over, which follow on each other from the first byte on."""
    starts: list[int] = []
    stops: list[int] = []
    view = memoryview(b"before" + stream + b"\x07behind")
    stop = form.reader().pass_messages(view, 6, 6 + len(stream), starts, stops, special)
    assert [6, *stops] == [*starts, stop]
    return [(start - 6, end - 6) for start, end in zip(starts, stops, strict=True)]


def read(form: Form, stream: bytes) -> list[tuple[int, int]]:
    """Borders of the messages that a reader reads before anything else."""
    found: list[tuple[int, int]] = []
    at, reader = 0, form.reader()
    try:
        while at < len(stream):
            frame = reader.next_frame(memoryview(stream), at, len(stream), owned=False)
            if frame is None or len(frame) == 2:
                break
            found.append((at, frame[0]))
            at = frame[0]
    except PeerError:
        pass
    return found


@pytest.mark.parametrize("form", FORMS)
def test_messages_are_passed_up_to_a_small_frame(form: Form) -> None:
    first, second = message(form), message(form, (b"", b"", b""), seq=2)
    border, end = len(first), len(first) + len(second)
    assert passed(form, first + second + Ack(1).encode() + first) == [(0, border), (border, end)]


@pytest.mark.parametrize("form", FORMS)
def test_incomplete_messages_are_not_passed(form: Form) -> None:
    raw = message(form)
    for size in range(len(raw)):
        assert passed(form, raw[:size]) == []
        assert passed(form, raw + raw[:size]) == [(0, len(raw))]


def test_special_types_and_long_messages_are_not_passed() -> None:
    form = Form()
    one, other = message(form), message(form, type_=17)
    assert len(passed(form, one + other, {17})) == 1
    assert len(passed(form, one + other)) == 2
    assert passed(form, message(form, (b"", b"", bytes(LIMIT)))) == []


@pytest.mark.parametrize(
    "at", [1, FRONT_AT - 4, FRONT_AT, FRONT_AT + 5, FRONT_AT + 8, FOOTER_AT, FOOTER_AT + 4, FOOTER_AT + 8]
)
def test_a_wrong_byte_anywhere_under_a_crc_stops(at: int) -> None:
    form = Form()
    raw = bytearray(message(form))
    raw[at] ^= 1
    assert passed(form, message(form) + raw) == [(0, len(raw))]


def test_aborted_messages_and_wrong_signatures_stop() -> None:
    form = Form(signed=True)
    raw = message(form)
    aborted, forged = bytearray(raw), bytearray(raw)
    aborted[-1] &= ~1
    forged[-9] ^= 1
    assert passed(form, bytes(aborted)) == passed(form, bytes(forged)) == []
    assert passed(Form(), bytes(forged)) == [(0, len(raw))]


def test_headers_without_nosrcaddr_are_left_to_the_reader() -> None:
    raw = message(Form())
    reader = StreamReader(LIMIT, old_header=True)
    assert reader.pass_messages(memoryview(raw), 0, len(raw), [], [], ()) == 0


@given(st.sampled_from(FORMS), st.lists(st.integers(0, 300), max_size=5), st.data())
def test_passed_messages_are_those_that_a_reader_reads(form: Form, sizes: list[int], data: st.DataObject) -> None:
    stream = bytearray(b"".join(message(form, (b"f", b"", bytes(size))) for size in sizes) + Ack(1).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= data.draw(st.integers(1, 255))
    assert passed(form, bytes(stream)) == read(form, bytes(stream))
