"""Virtual machines on the network of a running cluster, by the command line."""

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from tests.support.clusters import answer_of, command_line, done, environment, msgrlab
from tests.support.clusters import state as state  # noqa: PLC0414 - a fixture
from tests.support.guests import CLUSTERS, at_either
from tests.support.waiting import eventually
from toolkit.machine.leases import STATE_VARIABLE, Lease

CONNECT = """\
import socket, sys
with socket.create_connection((sys.argv[1], 6800), timeout=30) as link:
    print(link.recv(8), link.getsockname()[0])
"""

ATTACHED = """\
import time
from toolkit.cluster.guest_network import named_network

with named_network("pair", lambda line: print(line, flush=True)).attached():
    time.sleep(600)
"""

AGAIN = """\
import socket, sys, time
while True:
    began_s = time.monotonic()
    try:
        with socket.create_connection((sys.argv[1], 6800), timeout=float(sys.argv[2])) as link:
            link.recv(1)
    except OSError:
        print("inf")
    else:
        print(time.monotonic() - began_s)
    time.sleep(0.05)
"""
DELAY_S, TIMEOUT_S = 1.0, 3.0


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lease]:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    done("up", "two-peers", "--backend", "netns", "--name", "pair")
    yield Lease.find("pair")
    done("down", "--all")
    machines = tmp_path / ".vm"
    assert not machines.exists() or [path.name for path in machines.iterdir()] == [".registry"]


def ports(lease: Lease) -> list[str]:
    """Ports of guests at the cluster's switch."""
    listed = subprocess.run(
        ["ip", "-n", lease.label.namespace("net-switch"), "-br", "link"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split()[0] for line in listed.stdout.splitlines() if line.startswith("guest")]


@contextmanager
def attached() -> Iterator["subprocess.Popen[str]"]:
    """A process that has attached a guest, and is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", ATTACHED], env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "guest0 of cluster 'pair', 10.77.0.254 on public\n"
            yield process
        finally:
            process.kill()


def traces(lease: Lease) -> list[object]:
    """Return the guests and faults that the cluster and the kernel have."""
    (status,) = answer_of("status", "--json")["clusters"]
    listed = subprocess.run(
        ["ip", "netns", "exec", lease.label.namespace("net-switch"), "nft", "list", "tables"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [*status["guests"], *status["faults"], *status["links"], *listed.stdout.splitlines()]


@pytest.mark.needs("netns", "nft", "iproute2")
def test_faults_of_a_guest_end_when_its_process_is_killed(cluster: Lease) -> None:
    with attached():
        for fault in ("partition a guest0", "link guest0 b delay-ms=10"):
            done("fault", *fault.split())
        assert traces(cluster)[:3] == ["guest0", "partition a guest0", "link guest0 b delay-ms=10"]
        assert "guest guest0: 10.77.0.254 on public\n" in done("status")
    eventually(lambda: traces(cluster) == [])
    assert ports(cluster) == []
    refused = msgrlab("fault", "partition", "a", "guest0")
    assert (refused.returncode, refused.stderr) == (2, "msgrlab: no node 'guest0'; known: a, b\n")


@pytest.mark.needs("netns", "nft", "iproute2")
def test_a_new_guest_has_the_name_of_one_that_was_killed(cluster: Lease) -> None:
    with attached():
        done("fault", "partition", "a", "guest0")
    with attached():
        assert traces(cluster) == ["guest0"]


@at_either("netns", "iproute2", group=CLUSTERS)
def test_a_guest_reaches_nodes_and_leaves_nothing_when_it_is_killed(kernel: str, cluster: Lease) -> None:
    run = command_line("vm", "run", "--kernel", kernel, "--network", "pair", "--")
    with subprocess.Popen(
        [*run, "python3", "-c", CONNECT + "import time; time.sleep(600)", "10.77.0.1"],
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "b'ceph v2\\n' 10.77.0.254\n"
            assert ports(cluster) == ["guest0"]
        finally:
            process.kill()
    eventually(lambda: ports(cluster) == [])
    missing = msgrlab("vm", "run", "--network", "pair/cluster", "--", "true")
    assert missing.stderr == "msgrlab: cluster 'pair': no network 'cluster'; there is public\n"
    assert missing.returncode != 0


def line_between(lines: IO[str], least: float, most: float) -> bool:
    """True if the number on the next line is in that range."""
    return least <= float(lines.readline()) <= most


@at_either("netns", "nft", group=CLUSTERS)
def test_faults_act_on_the_connections_of_a_guest(kernel: str, cluster: Lease) -> None:
    run = command_line("vm", "run", "--kernel", kernel, "--network", "pair", "--")
    with subprocess.Popen(
        [*run, "python3", "-c", AGAIN, "10.77.0.1", str(TIMEOUT_S)],
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            assert process.stderr.readline().startswith("msgrlab: booting ")
            assert process.stderr.readline() == "msgrlab: guest0 of cluster 'pair', 10.77.0.254 on public\n"
            # each fault, and the seconds that connections take from then on
            for fault, least_s, most_s in (
                ("mend", 0.0, DELAY_S),
                ("link guest0 a delay-ms=1000", DELAY_S, TIMEOUT_S),
                ("partition a guest0", math.inf, math.inf),
                ("undo partition a guest0", DELAY_S, TIMEOUT_S),
                ("heal", 0.0, DELAY_S),
            ):
                done("fault", *fault.split())
                eventually(partial(line_between, process.stdout, least_s, most_s))
        finally:
            process.kill()


@pytest.mark.needs("vm")
def test_a_cluster_without_networks_of_its_own_is_refused(state: Path) -> None:
    unknown = msgrlab("vm", "run", "--network", "nowhere", "--", "true")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)
    done("up", "two-peers", "--backend", "process", "--name", "pair")
    try:
        refused = msgrlab("vm", "run", "--network", "pair", "--", "true")
    finally:
        done("down", "pair")
    assert refused.returncode == 3
    assert refused.stderr == (
        "msgrlab: cluster 'pair': virtual machines can be attached to clusters with --backend netns, not process\n"
    )
