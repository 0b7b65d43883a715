"""Changes of the machine, as stored in a journal: plain values that can undo themselves.

Undoing is idempotent: it does nothing for a change that was never made, or is undone already.
"""

import contextlib
import errno
import json
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.extras import require
from toolkit.machine.labels import DOCKER_LABEL, PROCESS_VARIABLE
from toolkit.machine.mounts import mounts_below
from toolkit.machine.nft import nft, tables
from toolkit.machine.rdma import remove_rxe
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.machine.trees import remove_tree

_END_TIMEOUT_S = 20.0
_POLL_S = 0.005
_EXECVE_LOOKS, _EXECVE_PAUSE_S = 20, 0.0005


@dataclass(frozen=True, slots=True)
class Change(ABC):
    """A change of the machine."""

    KINDS: ClassVar[dict[str, type["Change"]]] = {}

    def __init_subclass__(cls) -> None:
        Change.KINDS[cls.__name__] = cls

    @abstractmethod
    def undo(self) -> None:
        """Undo the change, if it exists.

        Raises:
            LocalError: it could not be undone; the message says why.
        """

    def as_json(self) -> dict[str, Any]:
        """The JSON object."""
        return {"change": type(self).__name__, **asdict(self)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Change":
        """Return the change in a JSON object.

        Raises:
            LocalError: the object is not a change.
        """
        if not all(isinstance(value, str) for value in values.values()):
            raise LocalError("journal: a value is not a string")
        kind = values.pop("change", "")
        if kind not in Change.KINDS:
            raise LocalError(f"journal: unknown change {kind!r}")
        try:
            return Change.KINDS[kind](**values)
        except TypeError as error:
            raise LocalError(f"journal: {kind}: {error}") from None


@dataclass(frozen=True, slots=True)
class Processes(Change):
    """All processes with a label in their environment, which their children inherit."""

    label: str

    def undo(self) -> None:
        """Kill them, except this process and its ancestors, and wait until they have ended."""
        deadline_s = time.monotonic() + _END_TIMEOUT_S
        spared = _own_line()
        while found := [pid for pid in labelled_processes(self.label) if pid not in spared]:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline_s:
                raise LocalError(f"processes do not end: {', '.join(map(str, found))}")
            time.sleep(_POLL_S)


def labelled_processes(label: str) -> Iterator[int]:
    """Yield the processes with a cluster's label in their environment; only root sees those of other users."""
    wanted = f"{PROCESS_VARIABLE}={label}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if wanted in _environment(entry):
                    yield int(entry.name)


def _environment(process: Path) -> list[bytes]:
    """Return the environment of a process, given its folder in /proc; a process in execve has none for a moment.

    Raises:
        OSError: it has ended, is a thread of the kernel, or belongs to another user.
    """
    content = b""
    for _ in range(_EXECVE_LOOKS):
        if content := (process / "environ").read_bytes():
            break
        (process / "exe").readlink()  # fails for threads of the kernel and ended processes, which never have one
        time.sleep(_EXECVE_PAUSE_S)
    return content.split(b"\0")


def _own_line() -> set[int]:
    """Return the ids of this process and its ancestors."""
    line, pid = set(), os.getpid()
    while pid > 1 and pid not in line:
        line.add(pid)
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(status[1])
    return line


@dataclass(frozen=True, slots=True)
class Namespace(Change):
    """A named network namespace; its interfaces, rules and routes are removed with it."""

    name: str

    def undo(self) -> None:
        """Remove the name; the namespace is destroyed with the last process in it."""
        require("pyroute2")
        from pyroute2 import netns

        try:
            netns.remove(self.name)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise LocalError(f"namespace {self.name}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Interface(Change):
    """An interface in the machine's own namespace; those in other namespaces are removed with them."""

    name: str

    def undo(self) -> None:
        """Remove the interface."""
        from pyroute2 import NetlinkError

        with rtnetlink() as network:
            for index in network.link_lookup(ifname=self.name):
                try:
                    network.link("del", index=index)
                except NetlinkError as error:
                    if error.code != errno.ENODEV:
                        raise LocalError(f"interface {self.name}: {error}") from None


@dataclass(frozen=True, slots=True)
class NftTable(Change):
    """A table of nftables in the machine's own namespace; those in other namespaces are removed with them."""

    family: str
    name: str

    def undo(self) -> None:
        """Remove the table with its rules; without nft, no table was made."""
        with contextlib.suppress(Unsupported):
            if self.name in tables(self.family):
                nft("delete", "table", self.family, self.name)


@dataclass(frozen=True, slots=True)
class RdmaLink(Change):
    """A soft-RoCE device; the kernel also removes it with its network interface."""

    name: str

    def undo(self) -> None:
        """Remove the device."""
        remove_rxe(self.name)


@dataclass(frozen=True, slots=True)
class Mount(Change):
    """A mount, and all mounts below it."""

    path: str

    def undo(self) -> None:
        """Unmount them lazily, the last one first; a mount in use vanishes with its last user."""
        why = ""
        for where in reversed(mounts_below(self.path)):
            try:
                done = subprocess.run(
                    ["umount", "--lazy", "--", where],
                    check=False,
                    capture_output=True,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                raise LocalError(f"mount {where}: umount: {error.strerror}") from None
            why = " ".join(done.stderr.split()) or why
        if left := mounts_below(self.path):
            raise LocalError(f"mount {left[0]} cannot be undone: {why or 'it is still there'}")


@dataclass(frozen=True, slots=True)
class Tree(Change):
    """A directory of the cluster, with its content."""

    path: str

    def undo(self) -> None:
        """Unmount everything in it and remove it; if a mount remains, remove nothing."""
        Mount(self.path).undo()
        remove_tree(Path(self.path))


@dataclass(frozen=True, slots=True)
class DockerObjects(Change):
    """All containers, services, networks and volumes with a cluster's label, on one Docker engine."""

    label: str
    base_url: str = ""
    """The engine's place, as in :mod:`toolkit.machine.docker_engine`; empty for the current one."""

    def undo(self) -> None:
        """Remove them, services first and networks last."""
        from toolkit.machine.docker_objects import remove_labelled

        remove_labelled(f"{DOCKER_LABEL}={self.label}", self.base_url)


def dump(change: Change) -> bytes:
    """Return the change as a line of a journal."""
    return json.dumps(change.as_json(), separators=(",", ":")).encode() + b"\n"
