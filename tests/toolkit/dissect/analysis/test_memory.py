"""The memory of an analysis: what one of many short links costs."""

import gc
import tracemalloc
from pathlib import Path

import pytest

from tests.support.crafted import Connection, Peers, Tape, exchange
from toolkit.dissect.analysis import seen, spool
from toolkit.dissect.capture import Capture

ROOT = Path(__file__).parents[4]
LINKS = 300
MOST_BYTES = 21_500
"""Of a link with ten frames of a handshake and four messages, with its records in the history."""
MOST_BYTES_OF_ANALYSIS = 8_300
"""Of such a link without these records, and without its requests one by one."""


def own_bytes() -> int:
    """Return the bytes that msgrlab's code has allocated since the trace began, in any thread."""
    gc.collect()
    ours = [tracemalloc.Filter(True, f"{ROOT}/{package}/*") for package in ("messenger", "toolkit")]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)


def many_links(path: Path) -> Path:
    tape = Tape()
    for number in range(LINKS):
        peers = Peers(client=f"10.0.0.1:0/{number + 1}", gid=4100 + number)
        link = Connection(tape, f"10.0.0.1:{40_000 + number}").open()
        link.play([*peers.begin(number + 1), *exchange(2)]).close()
    return tape.write(path)


def test_memory_of_a_link_in_the_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "_BLOCK_FRAMES", 64)
    monkeypatch.setattr(spool, "_MOST_BYTES_IN_MEMORY", 1000)
    path = many_links(tmp_path / "many.pcap")
    Capture(path).history()  # what is loaded once does not count
    capture = Capture(path, each_request=False)
    tracemalloc.start()
    try:
        assert len(capture.analysis.sessions) == LINKS
        used_bytes = own_bytes()
    finally:
        tracemalloc.stop()
    assert used_bytes < LINKS * MOST_BYTES_OF_ANALYSIS


def test_memory_of_a_link(tmp_path: Path) -> None:
    path = many_links(tmp_path / "many.pcap")
    Capture(path).history()  # what is loaded once does not count
    capture = Capture(path)
    tracemalloc.start()
    try:
        history = capture.history()
        used_bytes = own_bytes()
    finally:
        tracemalloc.stop()
    assert len(capture.analysis.sessions) == LINKS
    assert len(history) == LINKS * 32
    assert used_bytes < LINKS * MOST_BYTES
