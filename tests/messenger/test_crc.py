import importlib.util
import sys
from types import ModuleType

import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger import crc
from messenger.crc import crc32c, standard_crc32c

MINUS_ONE = 0xFFFFFFFF
COUNTING = bytes(range(32))

# docs/protocol.md §1.4
VECTORS = [
    (b"", 0, 0x00000000),
    (b"", MINUS_ONE, 0xFFFFFFFF),
    (b"123456789", 0, 0x58E3FA20),
    (b"123456789", MINUS_ONE, 0x1CF96D7C),
    (b"foo bar baz", 0, 0xF58C78AC),
    (b"foo bar baz", 1234, 0x348DACCE),
    (b"whiz bang boom", 0, 0x8CAE40C8),
    (b"whiz bang boom", 5678, 0xDF19F0C8),
    (bytes(32), 0, 0x00000000),
    (bytes(32), MINUS_ONE, 0x756EC955),
    (b"\xff" * 32, 0, 0xE8399DE9),
    (b"\xff" * 32, MINUS_ONE, 0x9D5754BC),
    (COUNTING, 0, 0xCC4C4FE4),
    (COUNTING, MINUS_ONE, 0xB92286B1),
    (bytes(4096), MINUS_ONE, 0x6706BE76),
    (bytes(4096), 0x12345678, 0x9963D3B4),
    (bytes(1), 1, 0xF26B8303),
]

reference = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
seeds = st.integers(0, MINUS_ONE)
buffer_types = st.sampled_from([bytes, bytearray, memoryview])


def crc_without_fastcrc(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A second copy of the module, loaded as if fastcrc were not installed."""
    monkeypatch.setitem(sys.modules, "fastcrc.crc32", None)
    spec = importlib.util.spec_from_file_location("crc_without_fastcrc", crc.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("data", "seed", "expected"), VECTORS)
def test_vectors(data, seed, expected):
    assert crc32c(data, seed) == expected


@pytest.mark.parametrize(("data", "seed", "expected"), VECTORS)
def test_vectors_with_the_fallback(data, seed, expected, monkeypatch):
    fallback = crc_without_fastcrc(monkeypatch)
    assert fallback.standard_crc32c is not standard_crc32c
    assert fallback.crc32c(data, seed) == expected
    assert fallback.standard_crc32c(memoryview(data)) == standard_crc32c(data)


@given(st.binary(max_size=300), seeds, buffer_types)
def test_agrees_with_crcmod_for_every_type_of_buffer(data, seed, buffer_type):
    assert crc32c(buffer_type(data), seed) == reference(data, seed ^ MINUS_ONE) ^ MINUS_ONE


@given(st.binary(), st.binary(), seeds)
def test_continues_where_it_stopped(first, second, seed):
    assert crc32c(first + second, seed) == crc32c(second, crc32c(first, seed))


@given(st.binary(), buffer_types)
def test_standard_form_is_the_inverted_one(data, buffer_type):
    assert standard_crc32c(buffer_type(data)) ^ MINUS_ONE == crc32c(data, MINUS_ONE)
