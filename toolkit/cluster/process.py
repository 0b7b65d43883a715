"""A node as a program of its own, and the lines to and from it."""

import contextlib
import json
import signal
import threading
from collections.abc import Callable
from queue import Empty, Queue
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.backends.base import Program
from toolkit.cluster.programs import LocalProgram
from toolkit.interpreters import PYTHON, environment
from toolkit.scenarios.nodes.program import ProgramSpec

_REPLY_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 2.0


class NodeProcess:
    """A running node and the lines to and from it.

    Args:
        spec: what it is to be.
        record: takes its history records, in a thread of this object.
        program: what runs it, started with pipes; one of this machine unless given.
        ended: called in that thread when its lines end, if nobody had it end.

    Raises:
        LocalError: it did not come up; with what it said on its standard error.
    """

    def __init__(
        self,
        spec: ProgramSpec,
        record: Callable[[float, str, dict[str, Any]], None],
        program: Program | None = None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = spec.name
        self._record = record
        self._ended = ended
        self._is_ending = False
        self._replies: Queue[dict[str, Any]] = Queue()
        self._asking = threading.Lock()
        self._last_id = 0
        self._program: Program = program or LocalProgram(
            [*PYTHON, "-m", "toolkit.cluster.node"], environment=environment(), piped=True
        )
        self._reader = threading.Thread(target=self._read, name=f"node {spec.name}", daemon=True)
        self._reader.start()
        self._write(spec.as_json())

    @property
    def pid(self) -> int:
        """Process id."""
        return self._program.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._program.poll() is None

    def wait_ready(self) -> None:
        """Wait until it listens; raises LocalError if it does not come up."""
        if "ready" not in (line := self._next_line("start")):
            raise LocalError(f"node {self.name} said {line} instead of being ready")

    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Have it do something; returns its answer. From any thread.

        Raises:
            LocalError: it refused, or has ended.
        """
        with self._asking:
            self._last_id += 1
            self._write({"id": self._last_id, "verb": verb, "args": args})
            line = self._next_line(verb, self._last_id, patience_s=float(args.get("wait_s", 0)))
        if "error" in line:
            raise LocalError(f"node {self.name}: {verb}: {line['error']}")
        answer: dict[str, Any] = line["answer"]
        return answer

    def freeze(self, *, frozen: bool) -> None:
        """Stop it (SIGSTOP), or let it go on."""
        self._program.signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def kill(self) -> None:
        """End it without warning."""
        self._is_ending = True
        self._program.signal(signal.SIGKILL)
        self._collect()

    def stop(self) -> None:
        """End it in order: it closes its connections."""
        self._is_ending = True
        if self._program.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._program.stdin.close()
        self.freeze(frozen=False)
        self._collect()

    def last_words(self) -> str:
        """What it has said last on its standard error; empty if nothing."""
        lines = self._program.errors().strip().splitlines()
        return lines[-1] if lines else ""

    def _collect(self) -> None:
        try:
            self._program.wait(_STOP_TIMEOUT_S)
        except TimeoutError:
            self._program.signal(signal.SIGKILL)
            self._program.wait(_STOP_TIMEOUT_S)
        self._reader.join()
        for pipe in (self._program.stdin, self._program.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _write(self, values: dict[str, Any]) -> None:
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(json.dumps(values).encode() + b"\n")
            self._program.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._gone("it ended") from None

    def _read(self) -> None:
        """Sort its lines: records to the history, answers to whoever asked."""
        assert self._program.stdout is not None
        for line in self._program.stdout:
            if not line.endswith(b"\n"):
                break  # it was killed in the middle of it
            values = json.loads(line)
            if "record" in values:
                self._record(*values["record"])
            else:
                self._replies.put(values)
        self._replies.put({"gone": True})
        if not self._is_ending:
            self._ended()

    def _next_line(self, verb: str, number: int | None = None, patience_s: float = 0.0) -> dict[str, Any]:
        """The answer to a command of that number, or whatever comes; answers that came too late are left out.

        Args:
            verb: the command.
            number: of it; None for any.
            patience_s: how long it may take by itself.
        """
        timeout_s = _REPLY_TIMEOUT_S + patience_s
        while True:
            try:
                line = self._replies.get(timeout=timeout_s)
            except Empty:
                raise LocalError(f"node {self.name}: no answer to {verb} within {timeout_s:g} s") from None
            if "gone" in line:
                raise self._gone(f"it ended instead of answering to {verb}")
            if number is None or line.get("reply") == number:
                return line

    def _gone(self, what: str) -> LocalError:
        self._replies.put({"gone": True})  # for whoever asks next
        self._program.signal(signal.SIGKILL)
        self._collect()
        return LocalError(f"node {self.name}: {what}: {self.last_words() or 'nothing on its standard error'}")
