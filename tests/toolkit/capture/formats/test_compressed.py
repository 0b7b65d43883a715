"""Captures compressed by zstd and lz4."""

import io
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from tests.support.packets import pcap
from toolkit.capture.formats import open_capture

PACKETS = [bytes([number]) * (40 + number) for number in range(20)]
RAW = pcap(PACKETS)
PACKERS: dict[str, Callable[[bytes], bytes]] = {"zstd": zstandard.compress, "lz4": lz4.frame.compress}


@pytest.mark.parametrize("name", PACKERS)
def test_a_capture_inside_one_or_several_frames(name: str) -> None:
    pack = PACKERS[name]
    for raw in (pack(RAW), pack(RAW[:500]) + pack(RAW[500:])):
        reader = open_capture(io.BytesIO(raw), 256)
        assert [bytes(packet) for batch in reader for *_, packet in batch.packets()] == PACKETS
        assert reader.problem is None


@given(st.sampled_from(sorted(PACKERS)), st.integers(0, 400), st.integers(0, 255), st.integers(5, 400))
def test_damage_ends_the_capture_with_a_reason(name: str, place: int, value: int, size: int) -> None:
    raw = bytearray(PACKERS[name](RAW))
    raw[4 + place % (len(raw) - 4)] = value
    try:
        reader = open_capture(io.BytesIO(bytes(raw[:size])))
    except LocalError:
        return
    for batch in reader:
        assert len(batch) <= len(PACKETS) * 100


def test_a_file_that_ends_early_is_reported() -> None:
    raw = lz4.frame.compress(RAW + bytes(range(256)) * 4000, block_size=lz4.frame.BLOCKSIZE_MAX64KB)
    reader = open_capture(io.BytesIO(raw[:-2000]))
    list(reader)
    assert reader.problem is not None
