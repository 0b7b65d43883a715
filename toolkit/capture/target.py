"""Capture targets: an interface here, in the network namespace of a name, container or process, or elsewhere."""

import shutil
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.network.namespaces import join

ANY = "any"
"""Name of all interfaces together."""
EXAMPLES = "eth0, any, netns:NAME[/IFACE], docker:CONTAINER[/IFACE], pid:N[/IFACE] or ssh:HOST[/IFACE]"
NAMED_NAMESPACES = Path("/run/netns")

_DOCKER_TIMEOUT_S = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """An interface to capture from."""

    text: str
    """The target as the user wrote it."""
    interface: str
    """Name of the interface, or ``any``."""
    namespace: Path | None = None
    """File of its network namespace; None for that of this process."""
    host: str = ""
    """The machine, as for ssh; empty for this one."""
    loopback: bool = True
    """False to leave out the loopback interface, if it is one of several."""

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Parse a target; a container is looked up in Docker.

        Raises:
            LocalError: the text is malformed, or there is no such namespace, container or process.
            Unsupported: this machine has no Docker.
        """
        kind, colon, rest = text.partition(":")
        if not colon:
            if not text or "/" in text:
                raise LocalError(f"no target {text!r}; give {EXAMPLES}")
            return cls(text, text)
        name, slash, interface = rest.partition("/")
        find = {"netns": _of_name, "docker": _of_container, "pid": _of_process}.get(kind)
        if (find is None and kind != "ssh") or not name or (slash and not interface):
            raise LocalError(f"no target {text!r}; give {EXAMPLES}")
        if find is not None:
            return cls(text, interface or ANY, find(name))
        if name.startswith("-") or interface.startswith("-"):
            raise LocalError(f"no target {text!r}: '-' in front of a host or interface makes it an option")
        return cls(text, interface or ANY, host=name)

    def inside(self, what: Callable[[], T]) -> T:
        """Call ``what`` in the namespace. Its result, such as a socket, stays in the namespace.

        Raises:
            Unsupported: the privilege to enter the namespace is missing.
            LocalError: the namespace is gone.
        """
        if self.namespace is None:
            return what()
        # Its own thread: a namespace is a property of a thread, and this thread ends after the call.
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(self._enter_and, what).result()

    def _enter_and(self, what: Callable[[], T]) -> T:
        assert self.namespace is not None
        try:
            join(self.namespace)
        except PermissionError:
            raise Unsupported(
                f"{self.text}: entering another network namespace needs root; run it with sudo"
            ) from None
        except OSError as error:
            raise LocalError(f"{self.text}: cannot enter {self.namespace}: {error.strerror}") from None
        return what()


def interfaces() -> str:
    """Return the names of the interfaces in the current namespace, for messages."""
    return ", ".join([name for _, name in socket.if_nameindex()] + [ANY])


def _of_name(name: str) -> Path:
    path = NAMED_NAMESPACES / name
    if "/" in name or name in (".", "..") or not path.exists():
        known = sorted(each.name for each in NAMED_NAMESPACES.iterdir()) if NAMED_NAMESPACES.is_dir() else ()
        there = f"there are {', '.join(known)}" if known else "there is none with a name"
        raise LocalError(f"no network namespace {name!r}; {there}")
    return path


def _of_process(number: str) -> Path:
    if not number.isascii() or not number.isdecimal():
        raise LocalError(f"pid:{number}: not a process id")
    if not Path(f"/proc/{number}").exists():
        raise LocalError(f"pid:{number}: there is no such process")
    return Path(f"/proc/{number}/ns/net")


def _of_container(name: str) -> Path:
    if shutil.which("docker") is None:
        raise Unsupported(f"docker:{name}: there is no docker in PATH; pid:N captures any container's process")
    command = ("docker", "inspect", "--type", "container", "--format", "{{.State.Pid}}", "--", name)
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DOCKER_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unsupported(f"docker:{name}: docker does not answer within {_DOCKER_TIMEOUT_S:g} s") from None
    if answer.returncode:
        complaint = " ".join(answer.stderr.split()) or "docker inspect failed"
        unreachable = "docker daemon" in complaint.lower()  # not running, or not accessible
        raise (Unsupported if unreachable else LocalError)(f"docker:{name}: {complaint}")
    number = answer.stdout.strip()
    if not number.isdecimal() or number == "0":
        raise LocalError(f"docker:{name}: the container is not running")
    return _of_process(number)
