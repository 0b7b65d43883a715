"""After a kill of any process at any moment, ``down --all`` leaves nothing.

MSGRLAB_CRASHES is the number of kills on each backend; 50 and more take several minutes.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.clusters import (
    command_line,
    done,
    environment,
    kill_processes_of,
    msgrlab,
    processes_of,
    remains,
    state,
)
from tests.support.machine_state import Apart, changes
from tests.support.waiting import eventually
from toolkit.cluster.images import node
from toolkit.cluster.supervisor import client, wire
from toolkit.cluster.teardown import take_down
from toolkit.machine.journal import removed_name
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import STATE_VARIABLE, Lease, leases

__all__ = ["state"]

CRASHES = int(os.environ.get("MSGRLAB_CRASHES", "0"))
FEW = {"process": 6, "netns": 4, "docker": 2}
LATEST_S = {"process": 1.6, "netns": 2.0, "docker": 3.5}
"""After that a cluster is up, unless the machine is busy."""
NEEDS = {"process": [], "netns": ["netns", "nft"], "docker": ["docker", "netns"]}


def times(divisor: int = 1) -> list[Any]:
    """Backends, and how often; containers of all workers are made in one engine, one after another."""
    return [
        pytest.param(
            backend, seed, marks=[pytest.mark.needs(*needs), pytest.mark.xdist_group(f"crashes-{backend}")]
        )
        for backend, needs in NEEDS.items()
        for seed in range((CRASHES or FEW[backend]) // divisor)
    ]


def processes_in(state: Path) -> list[int]:
    """Processes with a state directory in their environment, of whatever cluster; but for this one."""
    wanted = f"{STATE_VARIABLE}={state}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in environ:
                found.append(int(entry.name))
    return found


class Torture:
    """One cluster of two peers that is killed on its way.

    Args:
        backend: where.
        state: its state directory.
        where: a machine with a network of its own, for exact accounts; Docker's is where its engine is.
    """

    def __init__(self, backend: str, state: Path, where: Apart | None) -> None:
        self.state = state
        self._where = where
        self._before = where.state() if where else {}
        self._known: dict[str, Lease] = {}
        if backend == "docker":
            node.build(announce=lambda _: None)
        arguments = ["up", "two-peers", "--backend", backend]
        self.running = subprocess.Popen(
            [*self._entering(), *command_line(*arguments)],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _entering(self) -> list[str]:
        return self._where.entering if self._where else []

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, or `up` has ended."""
        while not condition() and self.running.poll() is None:
            time.sleep(0.001)

    def down_with_all(self) -> None:
        """``down --all``, and everything is as it was."""
        known = leases()
        down = [*self._entering(), *command_line("down", "--all")]
        finished = subprocess.run(down, env=environment(), capture_output=True, text=True, check=False)
        assert (finished.returncode, finished.stderr) == (0, "")
        self.is_as_before(known)

    def is_as_before(self, known: list[Lease]) -> None:
        """Check that nothing of it is left."""
        # A supervisor that `up` has started ahead ends by itself, once it reads its input.
        eventually(lambda: not processes_in(self.state))
        assert (remains(self.state), processes_in(self.state)) == ([], [])
        if self._where:
            assert changes(self._before, self._where.state()) == []
        else:
            assert [line for lease in known for line in leftovers(lease, docker_url="", network=False)] == []


@pytest.fixture
def torture(state: Path, request: pytest.FixtureRequest) -> Callable[[str], Torture]:
    def begin(backend: str) -> Torture:
        where = None if backend == "docker" else request.getfixturevalue("apart")
        return Torture(backend, state, where)

    return begin


@pytest.fixture
def apart() -> Iterator[Apart | None]:
    """A machine's network of the test's own; without root, processes are all there is."""
    if os.geteuid():
        yield None
        return
    with Apart() as where:
        yield where


@pytest.mark.parametrize(("backend", "seed"), times())
def test_up_killed_at_any_moment(backend: str, seed: int, torture: Callable[[str], Torture]) -> None:
    moment_s = Random(f"crash {seed}").uniform(0.02, LATEST_S[backend])
    cluster = torture(backend)
    time.sleep(moment_s)
    cluster.running.kill()
    cluster.running.wait()
    cluster.down_with_all()


@pytest.mark.parametrize(("backend", "seed"), times(2))
def test_interrupted_up_leaves_nothing(backend: str, seed: int, torture: Callable[[str], Torture]) -> None:
    cluster = torture(backend)
    cluster.until(leases)
    known = leases()
    time.sleep(Random(f"interrupt {seed}").uniform(0, LATEST_S[backend] / 4))
    cluster.running.send_signal(signal.SIGINT)
    if cluster.running.wait() == 0:  # it was ready before
        cluster.down_with_all()
    cluster.is_as_before(known)


@pytest.mark.parametrize(("backend", "seed"), times(2))
def test_supervisor_killed_at_any_moment(backend: str, seed: int, torture: Callable[[str], Torture]) -> None:
    supervisors: list[int] = []

    def is_there() -> bool:
        supervisors[:] = [pid for lease in leases() for pid in processes_of(str(lease.label))]
        return bool(supervisors)

    cluster = torture(backend)
    cluster.until(is_there)
    time.sleep(Random(f"supervisor {seed}").uniform(0, LATEST_S[backend]))
    if supervisors:
        os.kill(supervisors[0], signal.SIGKILL)
    cluster.running.wait()
    cluster.down_with_all()


def test_down_completes_the_removal_of_a_stopped_supervisor(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is renamed first and its journal goes last, so that any other process can go on."""
    monkeypatch.setattr(client, "_SILENCE_S", 1.0)
    done("up", "two-peers")
    lease = leases()[0]
    with client._connected(lease, 5.0) as connection:
        supervisor = wire.check_peer(connection).pid
    many = lease.directory / "a" / "many"
    many.mkdir()
    (many / "0").write_text("")
    for number in range(1, 30_000):
        os.link(many / "0", many / str(number))

    def stop() -> None:
        while Path(f"/proc/{supervisor}").exists():
            if removed_name(lease.directory).exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(supervisor, signal.SIGSTOP)
                return
            time.sleep(0.001)

    stopping = threading.Thread(target=stop)
    stopping.start()
    assert take_down(lease) == []
    stopping.join()
    assert (remains(state), processes_of(str(lease.label))) == ([], [])


def test_interrupted_removal_is_shown_and_completed(state: Path) -> None:
    done("up", "two-peers")
    lease = leases()[0]
    kill_processes_of(str(lease.label))
    lease.directory.rename(removed_name(lease.directory))
    assert "is being removed, or its removal was interrupted" in done("status")
    done("up", "two-peers")  # its name is free
    assert done("down") == "two-peers: down\n"
    assert remains(state) == []


def test_a_supervisor_ends_when_its_directory_is_removed(state: Path) -> None:
    done("up", "two-peers")
    lease = leases()[0]
    shutil.rmtree(state)
    eventually(lambda: not processes_of(str(lease.label)))
    assert remains(state) == []


@pytest.mark.needs("netns")
def test_supervisor_removes_namespaces_when_its_directory_is_removed(state: Path, apart: Apart | None) -> None:
    assert apart is not None
    before = apart.state()
    up = [*apart.entering, *command_line("up", "two-peers", "--backend", "netns")]
    subprocess.run(up, env=environment(), check=True, capture_output=True)
    lease = leases()[0]
    shutil.rmtree(lease.directory)
    eventually(lambda: not processes_of(str(lease.label)))
    assert changes(before, apart.state()) == []
    assert remains(state) == []


def test_status_names_the_remains_of_a_killed_supervisor(state: Path) -> None:
    done("up", "two-peers")
    label = str(leases()[0].label)
    kill_processes_of(label)
    while leases()[0].is_held:
        time.sleep(0.005)
    assert "left behind" in done("status")
    refused = msgrlab("tell", "a", "snapshot")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "msgrlab down two-peers" in refused.stderr
    assert done("down") == "two-peers: down\n"
    assert remains(state) == []
