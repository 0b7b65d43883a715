"""A Docker engine of a test's own, which may be killed."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import eventually
from toolkit.machine.docker_engine import connected

_START_TIMEOUT_S = 30.0


class Engine:
    """An engine in a network namespace of its own, without rules in this machine's firewall.

    Args:
        directory: directory of its files.
        namespace: its network namespace; a new one without links unless given.
    """

    def __init__(self, directory: Path, namespace: Path | None = None) -> None:
        self._directory = directory
        self._inside = ("unshare", "--net") if namespace is None else ("nsenter", f"--net={namespace}")
        self.host = f"unix://{directory}/socket"
        """For DOCKER_HOST."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        where = self._directory
        roots = ("--data-root", where / "data", "--exec-root", where / "run", "--pidfile", where / "pid")
        quiet = ("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none")
        (where / "pid").unlink(missing_ok=True)
        self._end_containerd()
        with (where / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, "dockerd", *map(str, roots), "--host", self.host, *quiet],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        eventually(lambda: self.run("version", check=False).returncode == 0, _START_TIMEOUT_S)

    def kill(self) -> None:
        """Kill it, without its containers."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def lose_power(self) -> None:
        """Kill it with all of its containers, at once."""
        self.kill()
        while pids := self._with_children(set(self._left())):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    @staticmethod
    def _with_children(found: set[int]) -> set[int]:
        """Return the processes that run, and those below them."""
        parents = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return found & parents.keys()

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run a docker command on it."""
        return subprocess.run(["docker", "--host", self.host, *words], capture_output=True, check=check)

    def count(self, label: str) -> int:
        """Number of containers and networks with a label."""
        kinds = (["ps", "--all"], ["network", "ls"])
        return sum(len(self.run(*kind, "--quiet", "--filter", f"label={label}").stdout.split()) for kind in kinds)

    def load(self, tag: str) -> None:
        """Copy an image of the engine that is meant into this one."""
        packed = self._directory / "image.tar"
        with connected() as other, packed.open("wb") as out:
            out.writelines(other.images.get(tag).save(named=tag))
        self.run("load", "--input", str(packed))
        packed.unlink()

    def end(self) -> None:
        """End it, and all that it started."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        for pid in self._left():  # one that was killed leaves its containerd
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_containerd(self) -> None:
        """End that of an engine that was killed: it ends by itself, but a new engine would wait for it."""
        pid_file = self._directory / "run" / "containerd" / "containerd.pid"
        if pid_file.exists():
            process = Path("/proc", pid_file.read_text().strip())
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
            eventually(lambda: not process.exists() or "\nState:\tZ" in (process / "status").read_text())
            pid_file.unlink()

    def _left(self) -> Iterator[int]:
        """Processes that have its directory, which no other has, in their command lines."""
        own = f"{self._directory}/".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and own in (entry / "cmdline").read_bytes():
                    yield int(entry.name)


@contextmanager
def own_engine(namespace: Path | None = None, *, in_memory: bool = False) -> Iterator[Engine]:
    """An engine that runs, and of which nothing is left; its files may be in memory, which takes less time."""
    directory = Path(tempfile.mkdtemp(prefix="msgrlab-engine-", dir="/tmp"))
    engine = Engine(directory, namespace)
    try:
        if in_memory:
            subprocess.run(["mount", "-t", "tmpfs", "engine", directory], check=True)
        engine.start()
        yield engine
    finally:
        engine.end()
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((each for each in mounts if f"{each}/".startswith(f"{directory}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(directory, ignore_errors=True)
