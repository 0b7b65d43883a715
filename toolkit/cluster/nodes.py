"""Nodes of a running cluster: the base class of all kinds, and messengers of msgrlab."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from toolkit.cluster.backends.base import Host
from toolkit.cluster.process import NodeLife, NodeProcess
from toolkit.node import NodeApp, NodeSpec
from toolkit.node.arguments import Program, check_arguments, from_words
from toolkit.node.program import ProgramSpec

START_TIMEOUT_S = 30.0
_RENEWED_NONCE = 1000
"""With ``new_nonce`` the nonce grows by this much, times the number of the process in the node's life."""

Take = Callable[[float, str, str, dict[str, Any]], None]
"""Callback for history records: time in seconds since the cluster began, node, kind, fields."""


class RunningNode(ABC):
    """A node: one program or several, on its own host.

    Args:
        name: name of the node, as in the cluster's spec.
        host: host that the node runs on.
    """

    kind: str
    """``messenger`` for messengers of msgrlab; ``mon``, ``osd``, ``mgr`` or ``mds`` for Ceph daemons."""
    keeps_devices: ClassVar[bool] = False
    """True if its programs keep the RDMA devices of all nodes open until they end."""
    poll_s: ClassVar[float] = 0.005
    """Seconds between two looks at a node that starts, on a processor that is not emulated."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host

    @property
    @abstractmethod
    def state(self) -> str:
        """State: ``new``, ``starting``, ``up``, ``frozen``, ``down`` (stopped) or ``dead`` (exited by itself)."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Process id of its program in this machine's namespace; 0 if none runs."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Addresses that it listens on, as Ceph prints them: ``v2:127.0.0.1:6800/1001``."""

    @property
    def alive(self) -> bool:
        """True if its program exists, running or frozen."""
        return self.state in {"starting", "up", "frozen"}

    @abstractmethod
    def start(self) -> None:
        """Start its program without waiting; :meth:`ready` is True once it accepts commands.

        Raises:
            LocalError: it cannot be started.
        """

    @abstractmethod
    def ready(self) -> bool:
        """True if it accepts commands."""

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until it accepts commands.

        Raises:
            LocalError: it exited instead, or the timeout passed; with the last line of its output.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self.ready():
            if not self.alive:
                raise LocalError(
                    f"node {self.name} exited instead of starting: {self.last_words() or 'no output'}"
                )
            if time.monotonic() > deadline_s:
                raise LocalError(f"node {self.name} is not ready after {timeout_s:g} s: {self.last_words()}")
            time.sleep(self.poll_s * self.host.slowness)

    @abstractmethod
    def kill(self) -> None:
        """Kill its program (SIGKILL), if it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stop its program cleanly, if it runs."""

    def finish(self) -> None:
        """Stop it for the last time, because the cluster goes down."""
        self.stop()

    @abstractmethod
    def freeze(self, frozen: bool) -> None:  # noqa: FBT001 - an on and off
        """Stop its program with SIGSTOP, or with ``frozen=False`` continue it.

        Raises:
            LocalError: it does not run.
        """

    @abstractmethod
    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:
        """Restart it, after killing it if it runs, and wait until it is ready.

        Args:
            new_nonce: True to give it a new nonce: another identity at the same port.
            wiped: True to delete its stored data first.

        Raises:
            LocalError: it does not start.
        """

    @abstractmethod
    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Run a command on the node and return its answer: a verb of NodeApp, or an admin socket command.

        Raises:
            LocalError: the node rejects the command, or does not run.
        """

    def commands(self, commands: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Run several commands, verbs with their arguments, in their order; raises as :meth:`command`."""
        for verb, args in commands:
            self.command(verb, **args)

    def status(self) -> dict[str, Any]:
        """Return the state of the node as JSON."""
        return {
            "kind": self.kind,
            "state": self.state,
            "pid": self.pid,
            "address": self.address,
            "host": dict(self.host.addresses),
            "last_words": "" if self.alive else self.last_words(),
        }

    @abstractmethod
    def log(self, lines: int = 20) -> str:
        """Return the last lines of its output."""

    def gather(self) -> None:  # noqa: B027 - most nodes log to this machine
        """Copy its logs to this machine if they are elsewhere, as in a container; raises LocalError."""

    def last_words(self) -> str:
        """Return the last line of its output."""
        return (self.log(1).strip().splitlines() or [""])[-1]


class ProgramNode(RunningNode):
    """A program of msgrlab that is controlled over pipes (:mod:`toolkit.cluster.node`).

    Args:
        host: host that the program runs on.
        spec: options of the program.
        take: called with its history records and those about its process, from any thread.
        now: returns the seconds since the cluster began.
    """

    app: ClassVar[type[Program]]
    """Class of the program that runs on the node."""

    def __init__(self, host: Host, spec: ProgramSpec, take: Take, now: Callable[[], float]) -> None:
        super().__init__(spec.name, host)
        self._spec = spec
        self._take = take
        self._now = now
        self._process: NodeLife | None = None
        self._state = "new"
        self._words = ""

    @property
    @override
    def state(self) -> str:
        return self._state

    @property
    @override
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @override
    def start(self) -> None:
        """Start the program; a restart increments its incarnation."""
        if self.alive:
            raise LocalError(f"node {self.name} is {self._state} already")
        if self._state != "new":
            self._spec.incarnation += 1
        about = {"addrs": self.address} if self.address else {}
        self._about_process("start", **about, options=self._spec.options)
        self._process = self._launch()

    def _launch(self) -> NodeLife:
        program = self.host.start(self.host.messenger, piped=True, log=self._log_name)
        self._state = "starting"
        spec = replace(self._spec, start_s=self._spec.start_s + self.host.clock_ahead_s)
        return NodeProcess(spec, self._record, program, self._ended)

    @override
    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        assert self._process is not None
        self._process.wait_ready()
        self._state = "up"

    @override
    def ready(self) -> bool:
        return self._state in {"up", "frozen"}

    @override
    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._take_down("kill")

    @override
    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._take_down("stop")

    @override
    def freeze(self, frozen: bool) -> None:
        process = self._running()
        if frozen == (self._state == "frozen"):
            return
        if not frozen:
            self._about_process("thaw")
        process.freeze(frozen=frozen)
        if frozen:
            self._about_process("freeze")
        self._state = "frozen" if frozen else "up"

    @override
    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:
        """Restart the node. It stores nothing, so ``wiped`` makes no difference."""
        self.kill()
        self.start()
        self.wait_ready()

    @override
    def command(self, verb: str, **args: Any) -> dict[str, Any]:
        return self._listening((verb, args)).command(verb, **args)

    @override
    def commands(self, commands: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self._listening(*commands).commands(commands)

    def from_words(self, verb: str, words: Sequence[str], args: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of a command, as typed on a command line, all by name; raises LocalError."""
        with self._named_in_errors():
            return from_words(self.app, verb, words, args)

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except LocalError as error:
            raise LocalError(f"node {self.name}: {error}") from None

    def _listening(self, *commands: tuple[str, dict[str, Any]]) -> NodeLife:
        """Return the process, if it accepts these commands now; raises LocalError."""
        with self._named_in_errors():
            for verb, args in commands:
                check_arguments(self.app, verb, args)
        process = self._running()
        if self._state == "frozen":
            raise LocalError(f"node {self.name} is frozen: msgrlab fault thaw {self.name}")
        return process

    @override
    def status(self) -> dict[str, Any]:
        """The status, with the sessions if the node answers."""
        return super().status() | {"incarnation": self._spec.incarnation, "sessions": self._sessions()}

    @override
    def log(self, lines: int = 20) -> str:
        try:
            text = self.host.read(self._log_name).decode(errors="replace")
        except LocalError:
            return self._words
        return "\n".join(text.splitlines()[-lines:])

    @override
    def gather(self) -> None:
        if not self.host.keeps_logs_here:
            self.host.fetch(self._log_name)

    @override
    def last_words(self) -> str:
        return self._process.last_words() if self._process is not None else self._words

    # ---- inside

    @property
    def _log_name(self) -> str:
        return f"{self.name}.log"

    def _sessions(self) -> list[dict[str, Any]]:
        if self._state != "up":
            return []
        try:
            return list(self.command("sessions")["sessions"])
        except LocalError:
            return []  # it has just ended

    def _running(self) -> NodeLife:
        if self._process is None or self._state not in {"up", "frozen"}:
            raise LocalError(f"node {self.name} is {self._state}: msgrlab fault restart {self.name}")
        return self._process

    def _take_down(self, action: str) -> None:
        assert self._process is not None
        self._words = self._process.last_words()
        self._process = None
        if self._state != "dead":
            self._about_process(action)
        self._state = "down"

    def _ended(self) -> None:
        """Record that the process exited by itself; called in the thread that reads its lines.

        One that exits before it is ready has failed to start, which :meth:`wait_ready` reports.
        """
        was_up, self._state = self.ready(), "dead"
        if was_up:
            self._about_process("exit")

    def _record(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        self._take(time_s, self.name, kind, fields)

    def _about_process(self, action: str, **more: Any) -> None:  # noqa: ANN401 - as JSON
        fields = {"action": action, "incarnation": self._spec.incarnation, **more}
        self._take(self._now(), self.name, "process", fields)


class MessengerNode(ProgramNode):
    """A messenger of msgrlab with the scenario application on it.

    Args:
        host: host that the program runs on.
        spec: options of the messenger.
        take: called with its history records and those about its process, from any thread.
        now: returns the seconds since the cluster began.
        others: returns all messengers of the cluster, which are informed when this one's address changes.
    """

    kind = "messenger"
    app = NodeApp

    def __init__(
        self,
        host: Host,
        spec: NodeSpec,
        take: Take,
        now: Callable[[], float],
        others: Callable[[], Iterable["MessengerNode"]],
    ) -> None:
        super().__init__(host, spec, take, now)
        self.spec = spec
        self._others = others

    @property
    @override
    def address(self) -> str:
        return self.spec.addr

    @override
    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:
        """Restart the node. It stores nothing, so ``wiped`` makes no difference."""
        self.kill()
        if new_nonce:
            nonce = self.spec.addrs.front.nonce + _RENEWED_NONCE * (self.spec.incarnation + 1)
            self.spec.addr = str(AddrVec(tuple(addr.with_nonce(nonce) for addr in self.spec.addrs)))
        for other in self._others():
            other.spec.peers[self.name] = self.spec.addr
            if new_nonce and other is not self and other.state == "up":
                other.command("moved", peer=self.name, addr=self.spec.addr)
        self.start()
        self.wait_ready()

    @override
    def command(self, verb: str, **args: Any) -> dict[str, Any]:
        """Run a command on the node; the verbs are those of :class:`NodeApp`."""
        if verb == "jump_clock" and self._state == "up":
            self._take(self._now(), self.name, "clock", {"step_s": args.get("seconds", 0)})
        return super().command(verb, **args)

    @override
    def status(self) -> dict[str, Any]:
        return super().status() | {"entity": self.spec.entity}
