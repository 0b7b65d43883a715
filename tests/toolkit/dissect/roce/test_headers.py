"""The header of a packet of a queue pair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import DecodeError
from toolkit.dissect.roce.headers import RESPONSES, Answer, Opcode, RoceHeader

numbers = st.integers(0, (1 << 24) - 1)
answering = sorted(RESPONSES - {Opcode.READ_RESPONSE_MIDDLE})
requests = st.builds(
    RoceHeader,
    st.sampled_from(sorted(set(Opcode) - set(answering))),
    numbers,
    numbers,
    st.integers(0, 3),
    st.booleans(),
)
answers = st.builds(
    RoceHeader,
    *(st.sampled_from(answering), numbers, numbers, st.integers(0, 3), st.booleans()),
    *(st.sampled_from(Answer), st.integers(0, 31), numbers),
)


@given(requests | answers, st.binary(max_size=8))
def test_headers_survive_encode_and_decode(header: RoceHeader, behind: bytes) -> None:
    raw = header.encode()
    assert len(raw) == header.size_bytes
    assert RoceHeader.decode(raw + behind) == header


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_none(raw: bytes) -> None:
    try:
        header = RoceHeader.decode(raw)
    except DecodeError:
        return
    assert RoceHeader.decode(header.encode()) == header


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        ("0440ffff00000012000000", "11 bytes are no RoCE header of 12"),
        ("6440ffff0000001200000007", "no header of a reliable connection: opcode 0x64"),
        ("0441ffff0000001200000007", "version 1"),
        ("1100ffff0000001200000007", "12 bytes are no RoCE acknowledgement of 16"),
    ],
)
def test_decode_refuses_invalid_headers(raw: str, detail: str) -> None:
    with pytest.raises(DecodeError, match=detail):
        RoceHeader.decode(bytes.fromhex(raw))


def test_an_acknowledgement_of_soft_roce() -> None:
    header = RoceHeader.decode(bytes.fromhex("1100ffff00000012000000076300000a"))
    assert (header.opcode, header.qpn, header.psn) == (Opcode.ACKNOWLEDGE, 0x12, 7)
    assert (header.answer, header.value, header.message_number) == (Answer.NAK, 3, 10)
