"""The zygote that the clusters of a process share: one import for all, and nothing else in common."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters import ROOT, environment, parent_of, peers, processes_of, state
from tests.support.waiting import eventually
from toolkit.cluster import up
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.teardown import end_by_force
from toolkit.machine.leases import Lease

__all__ = ["state"]

SESSION = """
import sys, time
from tests.support.clusters import peers
from toolkit.cluster import up
with up(peers()) as cluster:
    cluster.nodes["b"].freeze(True)
    print(cluster.lease.label, *(node.pid for node in cluster.nodes.values()), flush=True)
    time.sleep(60)
"""


def zygote_of(cluster: Cluster) -> int:
    (parent,) = {parent_of(node.pid) for node in cluster.nodes.values()}
    return parent


def open_files_limit(pid: int) -> str:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max open files")).split()[3]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.usefixtures("state")
def test_clusters_share_the_program_but_no_process() -> None:
    with up(peers("one")) as one, up(peers("two")) as two:
        assert zygote_of(one) == zygote_of(two) != os.getpid()
        for cluster in (one, two):
            pids = {node.pid for node in cluster.nodes.values()}
            assert set(processes_of(str(cluster.lease.label))) == pids
        zygote = zygote_of(one)
    assert is_running(zygote)
    with up(peers("three")) as three:
        assert zygote_of(three) == zygote


@pytest.mark.usefixtures("state")
def test_limit_of_one_messenger_is_not_that_of_the_next() -> None:
    with up(peers("one")) as cluster:
        usual = open_files_limit(cluster.nodes["a"].pid)
        cluster.nodes["a"].command("limit_descriptors", limited=True)
        assert open_files_limit(cluster.nodes["a"].pid) != usual
        cluster.nodes["a"].restart()
        assert open_files_limit(cluster.nodes["a"].pid) == usual


@pytest.mark.usefixtures("state")
def test_killed_zygote_is_replaced_and_its_messengers_go_on() -> None:
    with up(peers("one")) as one:
        first = zygote_of(one)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: not is_running(first))
        one.nodes["a"].command("send", peer="b")
        eventually(lambda: any(record.node == "b" for record in one.history.so_far().of("deliver")))
        with up(peers("two")) as two:
            assert zygote_of(two) != first
        os.kill(one.nodes["b"].pid, signal.SIGKILL)
        eventually(lambda: one.nodes["b"].state == "dead")
        one.nodes["b"].restart()
        assert one.nodes["b"].state == "up"


@pytest.mark.usefixtures("state")
def test_other_imports_need_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with up(peers("one")) as one:
        monkeypatch.setenv("MSGRLAB_PURE", "1")
        with up(peers("two")) as two:
            assert zygote_of(one) != zygote_of(two)


@pytest.mark.usefixtures("state")
def test_killed_session_leaves_only_what_its_label_finds() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SESSION], env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdout is not None
        label, running, frozen = session.stdout.readline().split()
        zygote = parent_of(int(running))
        session.kill()
    eventually(lambda: not is_running(zygote) and not is_running(int(running)))
    assert processes_of(label) == [int(frozen)]
    assert end_by_force(Lease.find("pair")) == []
    assert processes_of(label) == []
