"""A process that brings a cluster up and takes it down, again and again, and tells what it cost.

``python -m tests.support.cycles BACKEND COUNT`` prints JSON: seconds, what has changed in the machine, and what
the process itself holds, before and after.
"""

import ctypes
import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.clusters import peers
from tests.support.machine_state import changes, machine_state
from toolkit.cluster.images import node
from toolkit.cluster.running import up
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease

_FIRST = 3
"""Cycles before anything is counted: libraries are loaded, and arenas of memory filled, in them."""
_PATIENCE_S = 20.0
_libc = ctypes.CDLL(None)


def cycle(backend: str, number: int) -> Lease:
    """Two peers: up, a message, down."""
    with up(peers(), backend=backend, name=f"cycle-{number}") as cluster:
        cluster.nodes["a"].command("send", peer="b", count=1)
        _eventually(lambda: bool(cluster.history.so_far().of("deliver")))
        # who sent it may be told a moment later
        _eventually(lambda: all(result.ok for result in cluster.check()))
    return cluster.lease


def held() -> dict[str, int]:
    """What this process holds, without what its allocator keeps for later."""
    gc.collect()
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    memory = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "memory_kib": int(memory),
    }


def cycles(backend: str, count: int) -> dict[str, Any]:
    """So many, and what came of it."""
    if backend == "docker":
        node.build(say=lambda _: None)
    for number in range(_FIRST):
        cycle(backend, number)
    _settled()
    before, machine = held(), machine_state(everything=False)
    began_s = time.monotonic()
    docker_url = "" if backend == "docker" else None
    left = [line for n in range(count) for line in leftovers(cycle(backend, n), docker_url=docker_url)]
    seconds = time.monotonic() - began_s
    _settled()
    return {
        "seconds": round(seconds, 1),
        "changes": changes(machine, machine_state(everything=False)),
        "left": left,
        "before": before,
        "after": held(),
    }


def _settled() -> None:
    """Threads that have nothing more to do have ended."""
    _eventually(lambda: threading.active_count() == 1)


def _eventually(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, [thread.name for thread in threading.enumerate()]
        time.sleep(0.005)


if __name__ == "__main__":
    json.dump(cycles(sys.argv[1], int(sys.argv[2])), sys.stdout)
