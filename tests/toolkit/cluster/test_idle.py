"""Costs of an open mesh: descriptors, memory, and no work while nothing happens."""

import re
from pathlib import Path

import pytest

from tests.support.clusters import state
from tests.support.waiting import eventually
from tests.toolkit.cluster.test_beginnings import delivered, mesh
from toolkit.cluster import up
from toolkit.cluster.cluster import Cluster

__all__ = ["state"]

NODES = 8
WAYS = NODES * (NODES - 1)
OF_A_NODE = 8
"""Most descriptors of the supervisor for a node: pipes, log, process, its port twice."""
MOST_MB = 10.5
"""A node has 8.7 MB, and would have 11.2 MB if the zygote had not rehearsed."""
WATCHED_S = 3.0


def is_quiet(cluster: Cluster) -> bool:
    count = cluster.history.count
    return not cluster.history.wait_beyond(count, WATCHED_S)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wakeups(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])


def own_mb(pid: int) -> float:
    """Memory that the process shares with no other one."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kib) for kib in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+)", rollup, re.MULTILINE)) / 1024


@pytest.mark.usefixtures("state")
def test_idle_mesh_writes_nothing_and_wakes_nobody() -> None:
    before = open_descriptors()
    with up(mesh(NODES), backend="process") as cluster:
        eventually(lambda: len(delivered(cluster)) == WAYS)
        eventually(lambda: is_quiet(cluster))
        cluster.history.flush()
        file = cluster.directory / "history.ndjson"
        pids = {name: node.pid for name, node in cluster.nodes.items()}
        woken, size = {name: wakeups(pid) for name, pid in pids.items()}, file.stat().st_size
        assert is_quiet(cluster)
        assert {name: wakeups(pid) for name, pid in pids.items()} == woken
        cluster.history.flush()
        assert file.stat().st_size == size
        assert open_descriptors() - before <= WAYS + OF_A_NODE * NODES + 20
        assert max(map(own_mb, pids.values())) < MOST_MB
