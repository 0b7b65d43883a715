"""A node's process, controlled by JSON lines over pipes (:mod:`toolkit.cluster.node`)."""

import contextlib
import json
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from typing import Any

from messenger.compat import override
from messenger.errors import LocalError
from messenger.files import amount
from toolkit.cluster.backends.base import Program
from toolkit.node.control import MOST_LINE_BYTES
from toolkit.node.program import ProgramSpec

_REPLY_TIMEOUT_S = 20.0
_START_TIMEOUT_S = 120.0  # an emulated processor that shares a busy core takes a minute to import the modules
_STOP_TIMEOUT_S = 2.0
_AT_ONCE = 100
"""Most commands that a node has not answered: fewer bytes than its pipe holds."""


class NodeLife(ABC):
    """One run of a node's program, from its start to its end."""

    name: str
    pid: int
    """Process id; 0 if it has no process of its own."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Wait until it listens; raises LocalError if it does not start."""

    @abstractmethod
    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Run a command and return its answer; from any thread.

        Raises:
            LocalError: the node rejected it, or has exited.
        """

    def commands(self, commands: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Run several commands, verbs with their arguments, in their order; all, even if one fails.

        Raises:
            LocalError: the node rejected one, or has exited.
        """
        failures: list[LocalError] = []
        for verb, args in commands:
            try:
                self.command(verb, **args)
            except LocalError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    @abstractmethod
    def freeze(self, *, frozen: bool) -> None:
        """Stop it (SIGSTOP), or continue it; raises Unsupported if it is not a process."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it (SIGKILL)."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it cleanly: it closes its connections."""

    @abstractmethod
    def last_words(self) -> str:
        """Return the last line of its standard error; empty if there is none."""


class NodeProcess(NodeLife):
    """A node's program and the lines to and from it.

    Args:
        spec: options of the node, sent as the first line.
        record: called with its history records, in the thread that reads its lines.
        program: the program, started with pipes.
        ended: called in that thread when the output ends, unless :meth:`kill` or :meth:`stop` ended it.

    Raises:
        LocalError: it exited at once; with the last line of its standard error.
    """

    def __init__(
        self,
        spec: ProgramSpec,
        record: Callable[[float, str, dict[str, Any]], None],
        program: Program,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = spec.name
        self._record = record
        self._ended = ended
        self._is_ending = False
        self._replies: Queue[dict[str, Any]] = Queue()
        self._asking = threading.Lock()
        self._last_id = 0
        self._program = program
        self._reader = threading.Thread(target=self._read, name=f"node {spec.name}", daemon=True)
        self._reader.start()
        self._write(json.dumps(spec.as_json()).encode())

    @property
    @override
    def pid(self) -> int:  # type: ignore[override]
        return self._program.pid

    @override
    def wait_ready(self) -> None:
        if "ready" not in (line := self._next_line("start", timeout_s=_START_TIMEOUT_S)):
            raise LocalError(f"node {self.name} sent {line} instead of becoming ready")

    @override
    def command(self, verb: str, **args: Any) -> dict[str, Any]:
        with self._asking:
            number = self._send(verb, args)
            return self._answer(verb, number, _REPLY_TIMEOUT_S + float(args.get("wait_s", 0)))

    @override
    def commands(self, commands: Sequence[tuple[str, dict[str, Any]]]) -> None:
        failures: list[LocalError] = []
        with self._asking:
            for first in range(0, len(commands), _AT_ONCE):
                sent: list[tuple[str, int]] = []
                for verb, args in commands[first : first + _AT_ONCE]:
                    try:
                        sent.append((verb, self._send(verb, args)))
                    except LocalError as error:
                        failures.append(error)
                for verb, number in sent:
                    try:
                        self._answer(verb, number, _REPLY_TIMEOUT_S)
                    except LocalError as error:
                        failures.append(error)
        if failures:
            raise failures[0]

    def _send(self, verb: str, args: dict[str, Any]) -> int:
        """Send a command; returns its number.

        Raises:
            LocalError: its arguments cannot be sent, or the node has exited.
        """
        number = self._last_id + 1
        try:
            line = json.dumps({"id": number, "verb": verb, "args": args}).encode()
        except (TypeError, ValueError) as error:
            raise LocalError(f"node {self.name}: {verb}: {error}") from None
        if len(line) >= MOST_LINE_BYTES:
            limit = f"give less than {amount(MOST_LINE_BYTES)} of arguments"
            raise LocalError(f"node {self.name}: {verb}: {len(line)} bytes: {limit}")
        self._last_id = number
        self._write(line)
        return number

    def _answer(self, verb: str, number: int, timeout_s: float) -> dict[str, Any]:
        """Wait for the answer to a command and return it; raises LocalError as :meth:`command`."""
        line = self._next_line(verb, number, timeout_s=timeout_s)
        if "error" in line:
            raise LocalError(f"node {self.name}: {verb}: {line['error']}")
        answer: dict[str, Any] = line["answer"]
        return answer

    @override
    def freeze(self, *, frozen: bool) -> None:
        self._program.signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    @override
    def kill(self) -> None:
        self._is_ending = True
        self._program.signal(signal.SIGKILL)
        self._collect()

    @override
    def stop(self) -> None:
        self._is_ending = True
        if self._program.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._program.stdin.close()
        try:
            self.freeze(frozen=False)
            self._collect()
        finally:  # the machine may be lost
            self._close_pipes()

    @override
    def last_words(self) -> str:
        lines = self._program.errors().strip().splitlines()
        return lines[-1] if lines else ""

    def _collect(self) -> None:
        try:
            self._program.wait(_STOP_TIMEOUT_S)
        except TimeoutError:
            self._program.signal(signal.SIGKILL)
            self._program.wait(_STOP_TIMEOUT_S)
        self._reader.join()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._program.stdin, self._program.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _write(self, line: bytes) -> None:
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(line + b"\n")
            self._program.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._fail("it exited") from None

    def _read(self) -> None:
        """Dispatch its lines: records to the history, replies to the callers."""
        assert self._program.stdout is not None
        for line in self._program.stdout:
            if not line.endswith(b"\n"):
                break  # the node was killed while it wrote the line
            values = json.loads(line)
            if "record" in values:
                self._record(*values["record"])
            else:
                self._replies.put(values)
        self._replies.put({"gone": True})
        if not self._is_ending:
            self._ended()

    def _next_line(self, verb: str, number: int | None = None, *, timeout_s: float) -> dict[str, Any]:
        """Return the reply to a command, skipping replies to commands that timed out.

        Args:
            verb: verb of the command.
            number: id of the command; None for any line.
            timeout_s: seconds to wait.
        """
        while True:
            try:
                line = self._replies.get(timeout=timeout_s)
            except Empty:
                raise LocalError(f"node {self.name}: no answer to {verb} within {timeout_s:g} s") from None
            if "gone" in line:
                raise self._fail(f"it exited before it answered {verb}")
            if number is None or line.get("reply") == number:
                return line

    def _fail(self, what: str) -> LocalError:
        self._replies.put({"gone": True})  # for the next request
        self._program.signal(signal.SIGKILL)
        self._collect()
        return LocalError(f"node {self.name}: {what}: {self.last_words() or 'nothing on its standard error'}")
