"""Faults of processes."""

import itertools
import resource
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.faults.language.fault import Area, Fault
from toolkit.faults.language.grammar import NODE, argument, count, flag, number
from toolkit.faults.language.scene import Scene
from toolkit.scanner import plain

_MIB = 1 << 20


class _OfProcess(Fault):
    """A fault of one node's process."""

    __slots__ = ()

    AREA = Area.PROCESSES
    node: str


class _Ends(_OfProcess):
    """A fault that leaves the node without a process."""

    __slots__ = ()

    LASTS = True

    def undo(self, scene: Scene) -> None:
        """Start the node again."""
        if not scene.node(self.node).alive:
            scene.restart(self.node)

    def undone_by(self, other: Fault) -> bool:
        """True for faults that start the node."""
        return isinstance(other, Start | Restart) and other.node == self.node


@dataclass(frozen=True, slots=True)
class Kill(_Ends):
    """Kill a node's process (SIGKILL)."""

    WORD = "kill"
    EXAMPLE = "kill b"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        scene.end(self.node)
        return ""


@dataclass(frozen=True, slots=True)
class Stop(_Ends):
    """Stop a node cleanly: it shuts its messenger down."""

    WORD = "stop"
    EXAMPLE = "stop b"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        if self.node in scene.frozen_nodes:
            raise LocalError(f"{self.node} is frozen, so it cannot stop cleanly: thaw {self.node}")
        scene.end(self.node, in_order=True)
        return ""


@dataclass(frozen=True, slots=True)
class Freeze(_OfProcess):
    """Stop a node's process with SIGSTOP; its kernel still accepts and acknowledges TCP data."""

    WORD = "freeze"
    EXAMPLE = "freeze b"
    LASTS = True

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        if self.node in scene.frozen_nodes:
            raise LocalError(f"{self.node} is frozen already")
        scene.freeze(self.node)
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.thaw(self.node)

    def undone_by(self, other: Fault) -> bool:
        """True for ``thaw``, and for faults that end the process."""
        return isinstance(other, Thaw | Kill | Restart) and other.node == self.node


@dataclass(frozen=True, slots=True)
class Thaw(_OfProcess):
    """Continue a frozen node (SIGCONT)."""

    WORD = "thaw"
    EXAMPLE = "thaw b"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        if self.node not in scene.frozen_nodes:
            raise LocalError(f"{self.node} is not frozen")
        scene.thaw(self.node)
        return ""


@dataclass(frozen=True, slots=True)
class Start(_OfProcess):
    """Start a node that does not run, with the same address and nonce; its sessions are lost."""

    WORD = "start"
    EXAMPLE = "start b"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        if scene.node(self.node).alive:
            raise LocalError(f"{self.node} runs already")
        scene.restart(self.node)
        return ""


@dataclass(frozen=True, slots=True)
class Restart(_OfProcess):
    """Kill a node and start it at once; --new-nonce gives it a new identity, --wiped deletes its stored data."""

    WORD = "restart"
    EXAMPLE = "restart b --new-nonce"

    node: str = argument(NODE)
    new_nonce: bool = flag()
    wiped: bool = flag()

    @override
    def do(self, scene: Scene) -> str:
        scene.restart(self.node, new_nonce=self.new_nonce, wiped=self.wiped)
        return ""


@dataclass(frozen=True, slots=True)
class Mend(Fault):
    """Revert all lasting faults, heal the network and start the nodes that do not run."""

    WORD = "mend"
    AREA = Area.PROCESSES
    EXAMPLE = "mend"

    @override
    def do(self, scene: Scene) -> str:
        if failed := scene.make_whole():
            raise LocalError("; ".join(failed))
        return ""


@dataclass(frozen=True, slots=True)
class Clock(_OfProcess):
    """Step the wall clock of a node by a number of seconds, forward or back."""

    WORD = "clock"
    EXAMPLE = "clock b +3600"
    LASTS = True

    node: str = argument(NODE)
    seconds: float = argument(number("SECONDS", -(10**9), most=10**9))

    @override
    def do(self, scene: Scene) -> str:
        self._jump(scene, self.seconds)
        return ""

    def undo(self, scene: Scene) -> None:
        """Step the clock back, unless the process has ended."""
        if scene.node(self.node).alive:
            self._jump(scene, -self.seconds)

    def undone_by(self, other: Fault) -> bool:
        """True for faults that end the process, since the clock belongs to it."""
        return _ends_process(other, self.node)

    def missing(self, scene: Scene) -> str:
        """Return why the node cannot have it: daemons use the machine's clock."""
        if not scene.not_ours(self.node):
            return ""
        return f"{self.node} is a real daemon with the clock of its machine; only nodes of ours have their own"

    def _jump(self, scene: Scene, seconds: float) -> None:
        if reason := self.missing(scene):
            raise Unsupported(f"clock: {reason}")
        scene.command(self.node, "jump_clock", seconds=seconds)

    def __str__(self) -> str:
        sign = "+" if self.seconds >= 0 else ""
        return f"{self.WORD} {self.node} {sign}{plain(self.seconds)}"


class _Limits(_OfProcess):
    """A fault that lowers a resource limit of the process (prlimit) until it is reverted."""

    __slots__ = ()

    LASTS = True
    LIMIT: ClassVar[int]

    @abstractmethod
    def most(self, pid: int) -> int:
        """Return the limit to set for the process."""

    @override
    def do(self, scene: Scene) -> str:
        pid = self._pid(scene)
        try:
            soft, hard = resource.prlimit(pid, self.LIMIT)
            most = self.most(pid)
            resource.prlimit(pid, self.LIMIT, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        except OSError as error:
            raise LocalError(f"{self}: process {pid}: {error.strerror}") from None
        scene.remember(self, soft)
        return ""

    def undo(self, scene: Scene) -> None:
        """Restore the limit, unless the process has ended."""
        soft = scene.recall(self)
        if not scene.node(self.node).alive:
            return
        pid = self._pid(scene)
        try:
            _, hard = resource.prlimit(pid, self.LIMIT)
            resource.prlimit(pid, self.LIMIT, (soft, hard))
        except OSError as error:
            raise LocalError(f"undo {self}: process {pid}: {error.strerror}") from None

    def undone_by(self, other: Fault) -> bool:
        """True for faults that end the process."""
        return _ends_process(other, self.node)

    def _pid(self, scene: Scene) -> int:
        pid = scene.running(self.node).pid
        if not pid:
            raise Unsupported(f"{self.WORD}: the process of {self.node} is on another machine")
        return pid


@dataclass(frozen=True, slots=True)
class Descriptors(_Limits):
    """Limit the file descriptors that a node can still open; then accept and connect fail with EMFILE."""

    WORD = "descriptors"
    EXAMPLE = "descriptors b 0"
    LIMIT = resource.RLIMIT_NOFILE

    node: str = argument(NODE)
    left: int = argument(count("LEFT", most=100_000))

    @override
    def most(self, pid: int) -> int:
        """Return the limit on descriptor numbers that leaves ``left`` unused ones."""
        used = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        free = (number for number in itertools.count() if number not in used)
        return next(itertools.islice(free, self.left, None))


@dataclass(frozen=True, slots=True)
class Memory(_Limits):
    """Limit the address space that a node can still allocate, in MiB; then allocations fail."""

    WORD = "memory"
    EXAMPLE = "memory b 16"
    LIMIT = resource.RLIMIT_AS

    node: str = argument(NODE)
    more_mib: int = argument(count("MIB", most=1 << 20))

    @override
    def most(self, pid: int) -> int:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0])
        return pages * resource.getpagesize() + self.more_mib * _MIB


def _ends_process(fault: Fault, name: str) -> bool:
    return isinstance(fault, Kill | Stop | Restart) and fault.node == name
