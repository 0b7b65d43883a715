"""A cluster's surroundings fail: one clear line is printed, and in the end nothing is left."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.clusters import command_line, done, environment, msgrlab, processes_of, remains, state
from tests.support.engines import own_engine
from tests.support.waiting import eventually
from toolkit.cluster.images import node
from toolkit.cluster.supervisor import client, wire
from toolkit.machine.labels import DOCKER_LABEL
from toolkit.machine.leases import leases

__all__ = ["state"]


def test_down_removes_the_cluster_of_a_stopped_supervisor(state: Path) -> None:
    done("up", "two-peers")
    label = str(leases()[0].label)
    with client._connected(leases()[0], 5.0) as connection:
        supervisor = wire.check_peer(connection).pid
    os.kill(supervisor, signal.SIGSTOP)
    refused = msgrlab("tell", "a", "sessions")
    assert refused.returncode == 2
    assert refused.stderr == (
        f"msgrlab: cluster 'two-peers': its supervisor, process {supervisor}, is stopped:"
        f" kill -CONT {supervisor}, or msgrlab down two-peers\n"
    )
    assert f"kill -CONT {supervisor}" in done("status")
    assert done("down") == "two-peers: down\n"
    assert (processes_of(label), remains(state)) == ([], [])


def test_up_ends_if_its_supervisor_is_stopped(state: Path) -> None:
    with subprocess.Popen(command_line("up", "two-peers"), env=environment(), stderr=subprocess.PIPE) as up:
        eventually(lambda: [pid for lease in leases() for pid in processes_of(str(lease.label))])
        label = str(leases()[0].label)
        os.kill(processes_of(label)[0], signal.SIGSTOP)
        assert up.stderr is not None
        errors = up.stderr.read().decode()
    assert errors == "msgrlab: cluster 'two-peers' did not come up: its supervisor was stopped\n"
    assert up.returncode == 2
    assert (processes_of(label), remains(state)) == ([], [])


@pytest.mark.needs("netns")
def test_a_state_directory_that_is_read_only_is_named(state: Path) -> None:
    state.mkdir(mode=0o700)
    steps = 'mount --bind "$0" "$0"; mount -o remount,ro,bind "$0"; exec "$@"'
    readonly = ["unshare", "--mount", "sh", "-ec", steps, str(state)]
    for words in (["up", "two-peers"], ["down", "--all"]):
        refused = subprocess.run(
            [*readonly, *command_line(*words)], env=environment(), capture_output=True, text=True, check=False
        )
        assert refused.returncode == 2
        [line] = refused.stderr.splitlines()
        assert line == f"msgrlab: {state}/.lock: Read-only file system; MSGRLAB_STATE names another directory"


@pytest.mark.needs("netns")
@pytest.mark.parametrize("words", [["status"], ["tell", "a", "send", "b"], ["fault", "heal"], ["down"]])
def test_commands_work_with_another_clock_than_their_cluster(state: Path, words: list[str]) -> None:
    """A machine's clocks are set back to a minute after its start."""
    done("up", "two-peers")
    label = str(leases()[0].label)
    back_s = int(float(Path("/proc/uptime").read_text().split()[0])) - 60
    clocks = ["unshare", "--time", f"--monotonic={-back_s}", f"--boottime={-back_s}", "--fork"]
    finished = subprocess.run(
        [*clocks, *command_line(*words)], env=environment(), capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    if words != ["down"]:
        done("down")
    assert (processes_of(label), remains(state)) == ([], [])


@pytest.mark.needs("docker", "netns")
def test_down_removes_everything_after_the_engine_was_killed_during_up(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = node.build(announce=lambda _: None)
    with own_engine() as engine:
        engine.load(tag)
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        up = subprocess.Popen(
            command_line("up", "two-peers", "--backend", "docker"), env=environment(), stderr=subprocess.PIPE
        )
        eventually(lambda: engine.count(DOCKER_LABEL) >= 2)  # a network and a container
        engine.kill()
        _, errors = up.communicate()
        assert up.returncode in {2, 3}
        [line] = errors.decode().splitlines()
        assert "Docker" in line
        during_absence = msgrlab("down", "--all")
        assert (during_absence.returncode, during_absence.stderr) == (1, "")
        cluster, line = during_absence.stdout.splitlines()
        assert cluster == "two-peers: some parts could not be removed"
        assert f"Docker at {engine.host} does not run" in line
        engine.start()
        assert engine.count(DOCKER_LABEL) >= 2
        assert done("down", "--all") == "two-peers: down\n"
        assert engine.count(DOCKER_LABEL) == 0
    assert remains(state) == []
