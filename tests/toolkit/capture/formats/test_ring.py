"""Several files as one capture."""

from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.packets import pcap
from toolkit.capture.formats import open_capture
from toolkit.capture.formats.reader import CaptureReader

PACKETS = [bytes([number]) * (40 + number) for number in range(20)]
SECOND_NS = 1_000_000_000


@pytest.fixture
def ring(tmp_path: Path) -> list[Path]:
    """Four files of five packets; the first in time has the last name."""
    whole = pcap(PACKETS, step_ns=SECOND_NS)
    head, at, files = whole[:24], 24, []
    for number, packets in enumerate(PACKETS[start : start + 5] for start in range(0, 20, 5)):
        size = sum(16 + len(packet) for packet in packets)
        files.append(tmp_path / f"{9 - number}.pcap")
        files[-1].write_bytes(head + whole[at : at + size])
        at += size
    return files


def read(reader: CaptureReader) -> tuple[list[int], list[bytes], list[int]]:
    rows = [(row[0], bytes(row[3]), row[1]) for batch in reader for row in batch.packets()]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def test_files_of_a_ring_are_read_in_order_of_time(ring: list[Path]) -> None:
    for files in (ring, ring[::-1]):
        with open_capture(files) as reader:
            numbers, packets, times_ns = read(reader)
            assert (numbers, packets) == (list(range(20)), PACKETS)
            assert times_ns == sorted(times_ns)
            assert (reader.packets, reader.began_ns, reader.ended_ns) == (20, times_ns[0], times_ns[-1])
            assert reader.position_bytes == reader.size_bytes == sum(file.stat().st_size for file in ring)
            assert reader.problem is reader.unfinished is None


def test_the_last_file_may_be_unfinished(ring: list[Path]) -> None:
    ring[-1].write_bytes(ring[-1].read_bytes()[:-7])
    with open_capture(ring) as reader:
        assert read(reader)[1] == PACKETS[:-1]
        assert str(reader.unfinished).startswith(f"{ring[-1]}: the file ends ")


def test_files_that_overlap_in_time_are_reported(ring: list[Path]) -> None:
    ring[1].write_bytes(pcap(PACKETS, step_ns=SECOND_NS // 2))
    with open_capture(ring[:2]) as reader:
        read(reader)
        assert "begins before the file before it ends" in str(reader.problem)


def test_a_file_that_is_no_capture_is_named(ring: list[Path]) -> None:
    ring[2].write_bytes(b"something else")
    with pytest.raises(LocalError, match=f"{ring[2].name}: is neither pcap nor pcapng"):
        open_capture(ring)
