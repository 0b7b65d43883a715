"""A process that brings a cluster up and takes it down, again and again, and reports the cost.

``python -m tests.support.cycles BACKEND COUNT`` prints JSON: seconds, what has changed in the machine, and what
the process itself holds, before and after.
"""

import ctypes
import gc
import json
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.support.clusters import peers
from tests.support.machine_state import changes, machine_state
from tests.support.waiting import eventually
from toolkit.cluster.images import node
from toolkit.cluster.own import up
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease

_FIRST = 3
"""Cycles before anything is counted: libraries are loaded, and caches filled, in them."""
_KIB = 1024
_CACHED = type(lru_cache(lambda: None))
_libc = ctypes.CDLL(None)


_MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallInfo2(ctypes.Structure):
    """The result of glibc's mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO]


def cycle(backend: str, number: int) -> Lease:
    """Two peers: up, a message, down."""
    with up(peers(), backend=backend, name=f"cycle-{number}") as cluster:
        cluster.nodes["a"].command("send", peer="b", count=1)
        eventually(lambda: bool(cluster.history.so_far().of("deliver")))
        # its sender may become known a moment later
        eventually(lambda: all(result.ok for result in cluster.check()))
    return cluster.lease


def held() -> dict[str, int]:
    """Return what this process uses: memory without the reserves of its allocators and bounded caches."""
    gc.collect()
    for thing in gc.get_objects():
        if isinstance(thing, _CACHED) and thing.cache_parameters()["maxsize"] is not None:
            thing.cache_clear()
    _libc.mallinfo2.restype = _MallInfo2
    malloc = _libc.mallinfo2()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "python_blocks": sys.getallocatedblocks(),
        "malloc_kib": (malloc.uordblks + malloc.hblkhd) // _KIB,
    }


def cycles(backend: str, count: int) -> dict[str, Any]:
    """So many, and what came of it."""
    if backend == "docker":
        node.build(announce=lambda _: None)
    for number in range(_FIRST):
        cycle(backend, number)
    _settled()
    machine = machine_state(everything=False)
    before = held()  # what it takes to look at the machine is no cluster's
    began_s = time.monotonic()
    docker_url = "" if backend == "docker" else None
    left = [line for n in range(count) for line in leftovers(cycle(backend, n), docker_url=docker_url)]
    seconds = time.monotonic() - began_s
    _settled()
    after = held()
    return {
        "seconds": round(seconds, 1),
        "changes": changes(machine, machine_state(everything=False)),
        "left": left,
        "before": before,
        "after": after,
    }


def _settled() -> None:
    """Threads that have nothing more to do have ended."""
    eventually(
        lambda: threading.active_count() == 1, why=lambda: [thread.name for thread in threading.enumerate()]
    )


if __name__ == "__main__":
    json.dump(cycles(sys.argv[1], int(sys.argv[2])), sys.stdout)
