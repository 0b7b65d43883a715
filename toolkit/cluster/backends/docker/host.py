"""A host that is a container."""

import io
import json
import os
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.cluster.backends.base import CaptureWish, Host
from toolkit.cluster.backends.docker.program import ContainerProgram
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import refused
from toolkit.machine.interpreters import PYTHON
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.network.namespaces import inside

if TYPE_CHECKING:
    from docker import DockerClient

    from toolkit.capture.recorder import Taken

T = TypeVar("T")

_END_TIMEOUT_S = 5.0
_BIRTH_TIMEOUT_S = 1.0
_POLL_S = 0.005
_ASK = """\
import json, socket, struct, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(20)
connection.connect(sys.argv[1])
connection.sendall(sys.argv[2].encode() + bytes(1))
stream = connection.makefile("rb")
print(stream.read(struct.unpack(">I", stream.read(4))[0]).decode())
"""
DIRECTORY = PurePosixPath("/var/lib/msgrlab")


class ContainerHost(Host):
    """A running container.

    Args:
        name: name of its node.
        engine: engine of the container.
        place: place of the engine (:mod:`toolkit.machine.docker_engine`).
        container: id of the container.
        addresses: addresses by network.
        logs: directory of this machine for its programs' output.
        label: label of the cluster.
    """

    messenger = ("msgrlab", "node")
    is_container = True

    def __init__(
        self,
        name: str,
        engine: "DockerClient",
        place: str,
        container: str,
        addresses: Mapping[str, str],
        logs: Path,
        label: str,
    ) -> None:
        self.name = name
        self.addresses = addresses
        self.directory = Path(DIRECTORY)
        self._api = engine.api
        self.place = place
        """Place of the engine."""
        self._container = container
        self._logs = logs
        self._logs.mkdir(exist_ok=True)
        pid = int(self._api.inspect_container(container)["State"]["Pid"])
        self.namespace = Path(f"/proc/{pid}/ns/net") if _is_here(pid, label) else None

    @refused()
    def overlay(self, address: str) -> Path | None:
        """Return the network namespace of the overlay on which the container has an address; None without one.

        Docker has the bridge and the VXLAN of each overlay in a namespace beside those of its containers, under a
        number and the first ten characters of the network's id.
        """
        settings = self._api.inspect_container(self._container)["NetworkSettings"]
        for network in settings["Networks"].values():
            if address in (network["IPAMConfig"] or {}).values():
                namespaces = Path(settings["SandboxKey"]).parent
                return next(namespaces.glob(f"[0-9]*-{network['NetworkID'][:10]}"), None)
        return None

    def named(self, name: str) -> "ContainerHost":
        """Return the same container as the host of another node."""
        other = copy(self)
        other.name = name
        return other

    @refused()
    @override
    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> ContainerProgram:
        return ContainerProgram(
            self._api,
            self._container,
            argv,
            environment=self.variables,
            piped=piped,
            log=self._logs / log if log else None,
            seen=self.namespace is not None,
            place=self.place,
        )

    @override
    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        program = self.start(argv, piped=True)
        assert program.stdin is not None
        assert program.stdout is not None
        output: list[bytes] = []
        # Write and read at the same time: a program may write output before it has read all input.
        writer = threading.Thread(target=_feed, args=(program.stdin, stdin.encode()), daemon=True)
        reader = threading.Thread(
            target=lambda out: output.append(out.read()), args=(program.stdout,), daemon=True
        )
        writer.start()
        reader.start()
        try:
            code = program.wait(timeout_s)
        except TimeoutError:
            program.signal(signal.SIGKILL)
            raise LocalError(f"{self.name}: {argv[0]} did not end within {timeout_s:g} s") from None
        finally:
            reader.join(_END_TIMEOUT_S)
            writer.join(_END_TIMEOUT_S)
            program.stdout.close()
        text = output[0].decode(errors="replace")
        if code:
            words = program.errors().strip() or text.strip()
            raise LocalError(f"{self.name}: {argv[0]} ended with exit code {code}: {words}")
        return text

    @override
    def interactive(self, argv: Sequence[str]) -> int:
        from toolkit.cluster.backends.docker.terminal import run

        return run(self._api, self._container, self.with_variables(argv))

    @override
    def entering(self, argv: Sequence[str]) -> list[str]:
        module = "toolkit.cluster.backends.docker.terminal"
        return [*PYTHON, "-m", module, self.place, self._container, *self.with_variables(argv)]

    @refused()
    @override
    def write(self, name: str, content: bytes) -> Path:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(content))
        self._api.put_archive(self._container, str(DIRECTORY), packed.getvalue())
        return self.directory / name

    @override
    def read(self, name: str) -> bytes:
        log = self._logs / name
        return log.read_bytes() if log.is_file() else self._packed(name)

    @refused()
    def _packed(self, name: str) -> bytes:
        """Return the content of a file in the container."""
        import docker.errors

        try:
            chunks, _ = self._api.get_archive(self._container, str(DIRECTORY / name))
        except docker.errors.NotFound:
            raise LocalError(f"{self.name}: no file {DIRECTORY / name} in its container") from None
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
            file = tar.extractfile(tar.getmembers()[0])
            if file is None:
                raise LocalError(f"{self.name}: {DIRECTORY / name} in its container is no file")
            return file.read()

    @override
    def fetch(self, name: str) -> None:
        (self._logs / name).write_bytes(self._packed(name))

    @override
    def ask(self, daemon: str, command: Mapping[str, Any]) -> Any:
        path, asked = self.directory / f"{daemon}.asok", json.dumps({**command, "format": "json"})
        reply = self.run("python3", "-I", "-c", _ASK, str(path), asked)
        try:
            return json.loads(reply)
        except ValueError:
            raise LocalError(f"{daemon} on {command['prefix']!r}: {reply.strip() or 'no answer'}") from None

    @override
    def inside(self, what: Callable[[], T]) -> T:
        if self.namespace is None:
            where = "needs root" if self.place.startswith("unix://") else f"is on another machine ({self.place})"
            raise Unsupported(f"node {self.name}: the network namespace of its container {where}")
        return inside(self.namespace, what)

    @override
    def capturing(self, file: Path | BinaryIO, wish: CaptureWish) -> "AbstractContextManager[Taken]":
        if self.namespace is None:
            raise Unsupported(
                f"capture {self.name}: its packets are not on this machine, or this process may not capture them"
            )
        return super().capturing(file, wish)


def _is_here(pid: int, label: str) -> bool:
    """True if a container's process runs on this machine, and this user is root."""
    if os.geteuid() != 0:
        return False
    deadline_s = time.monotonic() + _BIRTH_TIMEOUT_S
    while True:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        if f"{PROCESS_VARIABLE}={label}".encode() in environment.split(b"\0"):
            return True
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)  # the engine reports it as running before the process is the program itself


def _feed(into: io.BufferedIOBase, content: bytes) -> None:
    try:
        into.write(content)
        into.close()
    except BrokenPipeError:
        return
