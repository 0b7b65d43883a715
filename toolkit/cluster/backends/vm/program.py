"""A program in the guest of a cluster."""

import contextlib
import io
import os
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from messenger.compat import override

SLOWNESS = 10.0
"""Factor of time limits: an emulated processor is ten to twenty times slower."""
_LOST = -9
"""Exit code of programs whose guest has ended."""


class _Input(io.RawIOBase):
    """Standard input of a program in the guest."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        super().__init__()
        self._feed = feed

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, content: Any, /) -> int:
        if len(content):
            self._feed(bytes(content))
        return len(content)

    @override
    def close(self) -> None:
        if not self.closed:
            super().close()
            self._feed(b"")


class GuestProgram:
    """A program in the guest, as :class:`~toolkit.cluster.backends.base.Program`.

    Args:
        feed: sends bytes to its standard input; none is the end.
        call: calls the agent about it.
        piped: True if its input and output are connected to pipes.
    """

    pid = 0

    def __init__(self, feed: Callable[[bytes], None], call: Callable[..., Any], *, piped: bool) -> None:
        self._call = call
        self._code: int | None = None
        self._errors = ""
        self._ended = threading.Event()
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        self._output: int | None = None
        if piped:
            self.stdin = cast("BinaryIO", _Input(feed))
            reading, self._output = os.pipe()
            self.stdout = os.fdopen(reading, "rb")

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._code

    def wait(self, timeout_s: float) -> int:
        """Wait until it exits and return its exit code, ten times as long; raises TimeoutError."""
        if not self._ended.wait(timeout_s * SLOWNESS):
            raise TimeoutError("a program in the virtual machine still runs")
        assert self._code is not None
        return self._code

    def signal(self, number: int) -> None:
        """Send a signal to it and to its children in the same session."""
        if self._code is None:
            self._call("signal", number=number)

    def errors(self) -> str:
        """Return the last lines of its standard error."""
        words = self._errors if self._ended.is_set() else str(self._call("errors"))
        return words or self._errors  # it may have ended meanwhile

    # ---- what the agent reports

    def put(self, output: bytes) -> None:
        """Take a piece of its standard output; none is the end."""
        if self._output is None:
            return
        if not output:
            os.close(self._output)
            self._output = None
            return
        unsent = memoryview(output)
        with contextlib.suppress(BrokenPipeError):  # nothing reads it any more
            while unsent:
                unsent = unsent[os.write(self._output, unsent) :]

    def exit(self, code: int = _LOST, errors: str = "") -> None:
        """Record its exit code, by default that of a program whose guest has ended, and its last errors."""
        self.put(b"")
        self._errors = errors
        self._code = code
        self._ended.set()
