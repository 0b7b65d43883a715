import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.utime import UTime
from messenger.errors import DecodeError, LocalError

u32 = st.integers(0, 2**32 - 1)


def encoded(value: UTime) -> bytes:
    encoder = Encoder()
    value.encode(encoder)
    return encoder.getvalue()


def test_layout():
    assert encoded(UTime(0x65000000, 0x075BCD15)).hex() == "0000006515cd5b07"


@given(u32, u32)
def test_roundtrip_keeps_even_nanoseconds_out_of_range(sec, nsec):
    value = UTime(sec, nsec)
    assert UTime.decode(Decoder(encoded(value))) == value
    assert str(value)


@pytest.mark.parametrize("size", range(8))
def test_truncated(size):
    with pytest.raises(DecodeError):
        UTime.decode(Decoder(bytes(size)))


@given(st.floats(0, 2**32 - 1))
def test_float_seconds_are_kept_to_the_precision_of_a_float(value_s):
    back = UTime.from_seconds(value_s)
    assert 0 <= back.nsec < 10**9
    assert math.isclose(back.to_seconds(), value_s, rel_tol=1e-15, abs_tol=1e-9)


def test_nanoseconds_never_reach_a_second():
    assert UTime.from_seconds(math.nextafter(1, 0)) == UTime(0, 999_999_999)


@pytest.mark.parametrize("value_s", [-1e-9, -1.0, float(2**32), math.nan, math.inf])
def test_seconds_that_do_not_fit(value_s):
    with pytest.raises(LocalError, match="not between 0 and"):
        UTime.from_seconds(value_s)


def test_prints_as_ceph_does():
    assert str(UTime(1795202585, 997397568)) == "2026-11-20T19:23:05.997397+0000"
    assert str(UTime()) == "0.000000"
    assert str(UTime(5, 1_500_000)) == "5.001500"


def test_order_is_that_of_time():
    assert sorted([UTime(2, 0), UTime(1, 9), UTime(1, 1)]) == [UTime(1, 1), UTime(1, 9), UTime(2, 0)]
