"""The memory of an analysis: what one of many short links costs."""

import gc
import tracemalloc
from pathlib import Path

from tests.support.crafted import Connection, Peers, Tape, exchange
from toolkit.dissect.capture import Capture

LINKS = 300
MOST_BYTES = 26_000
"""Of a link with ten frames of a handshake and four messages, with its records in the history."""


def test_memory_of_a_link(tmp_path: Path) -> None:
    tape = Tape()
    for number in range(LINKS):
        peers = Peers(client=f"10.0.0.1:0/{number + 1}", gid=4100 + number)
        link = Connection(tape, f"10.0.0.1:{40_000 + number}").open()
        link.play([*peers.begin(number + 1), *exchange(2)]).close()
    path = tape.write(tmp_path / "many.pcap")
    Capture(path).history()  # what is loaded once does not count
    capture = Capture(path)
    tracemalloc.start()
    try:
        history = capture.history()
        gc.collect()
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(capture.analysis.sessions) == LINKS
    assert len(history) == LINKS * 32
    assert used_bytes < LINKS * MOST_BYTES
