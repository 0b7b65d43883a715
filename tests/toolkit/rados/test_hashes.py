"""The vectors of docs/protocol.md §10."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.rados.hashes import (
    crush_hash32,
    crush_hash32_2,
    crush_hash32_3,
    crush_hash32_4,
    crush_hash32_5,
    rjenkins_str,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xBD49D10D),
        (b"a", 0x29EEC818),
        (b"foo", 0x7FC1F406),
        (b"rbd_directory", 0x30A98C1C),
        (b"hello world 123", 0x7A083936),
        (b"ns\x1ffoo", 0xAC17F0B6),
    ],
)
def test_names(text, expected):
    assert rjenkins_str(text) == expected


@pytest.mark.parametrize(
    ("function", "numbers", "expected"),
    [
        (crush_hash32, (0,), 0x17C4A80B),
        (crush_hash32, (1,), 0xD5082851),
        (crush_hash32, (0x12345678,), 0x8443A4E2),
        (crush_hash32_2, (0, 0), 0x19AD4CE9),
        (crush_hash32_2, (1, 2), 0xB78DEE9C),
        (crush_hash32_2, (0xDEADBEEF, 7), 0xDF42E2D9),
        (crush_hash32_3, (0, 0, 0), 0x7A3BF3B2),
        (crush_hash32_3, (1, 2, 3), 0x735AD42B),
        (crush_hash32_3, (0x1234, -2, 1), 0x26A0F40F),
        (crush_hash32_4, (1, 2, 3, 4), 0x696D1F16),
        (crush_hash32_5, (1, 2, 3, 4, 5), 0x4B42A1A1),
    ],
)
def test_numbers(function, numbers, expected):
    assert function(*numbers) == expected


@given(st.binary(max_size=40))
def test_every_name_has_a_hash_of_32_bits(text):
    assert 0 <= rjenkins_str(text) < 1 << 32
