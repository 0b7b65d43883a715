"""Docker engines for tests, each in a network namespace of its own, like two machines on one network."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolkit.network import namespaces

_START_TIMEOUT_S = 30.0
_POLL_S = 0.05
_OPTIONS = (
    "--bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --userland-proxy=false"
)


class Engine:
    """An engine on a machine of its own, as far as the network is concerned.

    Args:
        number: 1 or 2; the machine's address is 10.213.77.NUMBER.
        home: directory of its files.
    """

    def __init__(self, number: int, home: Path) -> None:
        self.namespace = f"engine{os.getpid()}-{number}"
        self.address = f"10.213.77.{number}"
        self.home = home
        self.place = f"unix://{home}/socket"

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = f"--data-root {self.home}/data --exec-root {self.home}/run --pidfile {self.home}/pid {_OPTIONS}"
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                # not `ip netns exec`, which hides the control groups
                ["nsenter", f"--net=/run/netns/{self.namespace}", "dockerd", "--host", self.place, *words.split()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while subprocess.run(self.command("version"), capture_output=True, check=False).returncode:
            assert self._process.poll() is None, (self.home / "log").read_text()[-2000:]
            assert time.monotonic() < deadline_s, "the engine does not answer"
            time.sleep(_POLL_S)

    def docker(self, *words: str) -> str:
        """Run a command of docker; returns its output."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def command(self, *words: str) -> list[str]:
        """The command line of a docker command."""
        return ["docker", "--host", self.place, *words]

    def kill(self) -> None:
        """Kill the engine, containerd and all containers at once, as when the machine loses power."""
        while pids := self._processes():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(_POLL_S)
        self._process.wait()
        (self.home / "pid").unlink(missing_ok=True)

    def _processes(self) -> list[int]:
        """The engine's processes, and those below them."""
        found, parents = set(), {}
        for entry in Path("/proc").iterdir():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except (ValueError, OSError):
                continue
            if str(self.home).encode() in command and b"dockerd" in command.replace(b"containerd", b"dockerd"):
                found.add(int(entry.name))
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(pid for pid in found if self._runs(pid))

    @staticmethod
    def _runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def remove(self) -> None:
        """End it and remove its files."""
        self.kill()
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{self.home}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.home, ignore_errors=True)


@contextmanager
def two_engines(image: str, source: str) -> Iterator[tuple[Engine, Engine]]:
    """Two engines that are a swarm, the first one its manager.

    Args:
        image: image that both get.
        source: place of the engine that has it.
    """
    with ExitStack() as undo:
        engines = []
        for number in (1, 2):
            engine = Engine(number, Path(tempfile.mkdtemp(prefix="engine.")))
            namespaces.create(engine.namespace)
            undo.callback(subprocess.run, ["ip", "netns", "delete", engine.namespace], check=False)
            engines.append(engine)
        one, two = engines
        ip = ["ip", "-n", one.namespace, "link", "add", "between", "type", "veth", "peer", "name", "between"]
        subprocess.run([*ip, "netns", two.namespace], check=True)
        for engine in engines:
            own = ["ip", "-n", engine.namespace]
            subprocess.run([*own, "address", "add", f"{engine.address}/24", "dev", "between"], check=True)
            subprocess.run([*own, "link", "set", "between", "up"], check=True)
        for engine in engines:
            undo.callback(engine.remove)
            engine.start()
        packed = one.home / "image.tar"
        subprocess.run(["docker", "--host", source, "save", "--output", packed, image], check=True)
        loading = [
            subprocess.Popen(engine.command("load", "--input", str(packed)), stdout=subprocess.DEVNULL)
            for engine in engines
        ]
        assert [each.wait() for each in loading] == [0, 0]
        packed.unlink()
        one.docker("swarm", "init", "--advertise-addr", one.address, "--listen-addr", one.address)
        token = one.docker("swarm", "join-token", "--quiet", "worker")
        joining = ("--token", token, "--advertise-addr", two.address, "--listen-addr", two.address)
        two.docker("swarm", "join", *joining, f"{one.address}:2377")
        yield one, two
