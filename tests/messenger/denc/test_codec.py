import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError

INTEGERS = {
    "u8": (0, 2**8 - 1, 1),
    "u16": (0, 2**16 - 1, 2),
    "u32": (0, 2**32 - 1, 4),
    "u64": (0, 2**64 - 1, 8),
    "i8": (-(2**7), 2**7 - 1, 1),
    "i16": (-(2**15), 2**15 - 1, 2),
    "i32": (-(2**31), 2**31 - 1, 4),
    "i64": (-(2**63), 2**63 - 1, 8),
}


@pytest.mark.parametrize("kind", INTEGERS)
@given(data=st.data())
def test_integers_are_little_endian(kind, data):
    low, high, size = INTEGERS[kind]
    value = data.draw(st.integers(low, high))
    encoder = Encoder()
    getattr(encoder, kind)(value)
    assert encoder.getvalue() == value.to_bytes(size, "little", signed=low < 0)
    assert getattr(Decoder(encoder.getvalue()), kind)() == value
    with pytest.raises(DecodeError):
        getattr(Decoder(encoder.getvalue()[:-1]), kind)()


def test_minus_one_may_be_written_as_u64():
    encoder = Encoder()
    encoder.u64(-1)
    assert encoder.getvalue() == b"\xff" * 8


@given(st.floats(allow_nan=False))
def test_double(value):
    encoder = Encoder()
    encoder.f64(value)
    assert Decoder(encoder.getvalue()).f64() == value


@given(st.floats(width=32, allow_nan=False))
def test_float(value):
    encoder = Encoder()
    encoder.f32(value)
    assert len(encoder) == 4
    assert Decoder(encoder.getvalue()).f32() == value


def test_any_non_zero_byte_is_true():
    assert [Decoder(bytes([byte])).boolean() for byte in (0, 1, 2, 255)] == [False, True, True, True]


@given(st.binary())
def test_strings_keep_bytes_that_are_not_utf8(data):
    encoder = Encoder()
    encoder.blob(data)
    text = Decoder(encoder.getvalue()).string()
    again = Encoder()
    again.string(text)
    assert again.getvalue() == encoder.getvalue()


@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=5))
def test_nested_containers(items):
    encoder = Encoder()
    encoder.mapping(items, encoder.string, lambda value: encoder.sequence(value, encoder.u32))
    decoder = Decoder(encoder.getvalue())
    assert decoder.mapping(decoder.string, lambda: decoder.sequence(decoder.u32, 4), 8) == items
    assert decoder.remaining == 0


def test_a_count_that_cannot_fit_is_refused_before_anything_is_read():
    decoder = Decoder(b"\xff\xff\xff\xff" + bytes(100))
    with pytest.raises(DecodeError, match="4294967295"):
        decoder.sequence(lambda: pytest.fail("an item was read"), 4)


def test_count_may_fill_the_remaining_bytes_exactly():
    image = b"\x02\0\0\0" + bytes(8)
    assert Decoder(image).sequence(lambda: 0, 4) == [0, 0]
    with pytest.raises(DecodeError, match="count 2 needs 8 bytes, 7 left"):
        Decoder(image[:-1]).sequence(lambda: pytest.fail("an item was read"), 4)


def test_a_limit_counts_items():
    image = b"\x02\0\0\0" + bytes(8)
    assert Decoder(image).sequence(lambda: 0, 4, most=2) == [0, 0]
    with pytest.raises(DecodeError, match="count 2, at most 1 are accepted"):
        Decoder(image).sequence(lambda: pytest.fail("an item was read"), 4, most=1)


def test_a_blob_longer_than_the_buffer_is_refused():
    with pytest.raises(DecodeError, match="2147483647 bytes"):
        Decoder(b"\xff\xff\xff\x7fabc").blob()


def test_raw_rest_skip_and_remaining():
    decoder = Decoder(memoryview(b"abcdef"))
    assert decoder.raw(2) == b"ab"
    decoder.skip(1)
    assert decoder.remaining == 3
    assert decoder.rest() == b"def"
    with pytest.raises(DecodeError):
        decoder.skip(1)


def test_envelope_layout_and_length():
    encoder = Encoder()
    with encoder.versioned(3, 1):
        encoder.u16(0x0201)
        with encoder.versioned(1, 1):
            encoder.u8(9)
    assert encoder.getvalue().hex() == "0301" + "09000000" + "0102" + "0101" + "01000000" + "09"
    assert len(encoder) == 15


def test_a_newer_envelope_is_read_as_far_as_known():
    decoder = Decoder(bytes.fromhex("0902" + "04000000" + "2a" + "ffffff" + "07"))
    body = decoder.versioned(2)
    assert (body.struct_v, body.u8()) == (9, 42)
    assert decoder.u8() == 7


def test_an_envelope_for_newer_readers_is_refused():
    with pytest.raises(DecodeError, match="version 3, this one knows 2"):
        Decoder(bytes.fromhex("0303" + "00000000")).versioned(2)


def test_reads_stop_at_the_end_of_an_envelope():
    body = Decoder(bytes.fromhex("0101" + "01000000" + "2a" + "0000000000")).versioned(1)
    with pytest.raises(DecodeError):
        body.u32()


@given(st.binary(max_size=12))
def test_truncated_envelopes(data):
    try:
        body = Decoder(data).versioned(255)
    except DecodeError:
        assert len(data) < 6 or int.from_bytes(data[2:6], "little") > len(data) - 6
    else:
        assert body.remaining == int.from_bytes(data[2:6], "little")
