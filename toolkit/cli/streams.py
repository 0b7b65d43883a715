"""The standard streams of the command: closed ones, encodings without all characters, and outputs that fail."""

import contextlib
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from messenger.compat import override

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD = (0, 1, 2)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STALL_S = 2.0
"""Seconds from a signal that ends a view until output that nobody reads is discarded."""


class OutputError(Exception):
    """Standard output cannot be written, for example because a disk is full."""


class _Output(io.FileIO):
    """Writes everything to a standard stream, even if another program made the stream non-blocking."""

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        with memoryview(data).cast("B") as rest:
            at = 0
            while at < len(rest):
                count = super().write(rest[at:])
                if count is None:  # its reader is slow
                    select.select([], [self], [])
                else:
                    at += count
            return at


class _Results(_Output):
    """Standard output: an error ends the command."""

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            discard(self.fileno())  # the interpreter writes what is left once more when it ends
            raise OutputError(f"standard output: {error.strerror}") from None


class _Remarks(_Output):
    """Standard error: where it cannot be written, nothing can be reported either."""

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def discard(descriptor: int) -> None:
    """Make a descriptor discard what is written to it."""
    null = os.open(os.devnull, os.O_RDWR)
    if null == descriptor:
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(null, descriptor)
        os.close(null)


def discard_stalled() -> bool:
    """Discard standard output and standard error where a write would have to wait; True if any would.

    A write that waits already returns: it is repeated after the signal in whose handler this is called.
    """
    _, ready, _ = select.select([], _STANDARD[1:], [], 0)
    stalled = set(_STANDARD[1:]) - set(ready)
    for descriptor in stalled:
        discard(descriptor)
    return bool(stalled)


@contextlib.contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block, SIGINT, SIGTERM and SIGHUP call ``stop`` instead of ending the program.

    Nothing waits longer than two seconds for a reader that has stopped, such as a terminal after Ctrl-S.

    Raises:
        OutputError: output was discarded for that reason.
    """
    stalled = False

    def end(*_: object) -> None:
        stop()
        signal.setitimer(signal.ITIMER_REAL, _STALL_S, _STALL_S)

    def look(*_: object) -> None:
        nonlocal stalled
        stalled |= discard_stalled()

    handlers = {**dict.fromkeys(_ENDING, end), signal.SIGALRM: look}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    if stalled:
        raise OutputError("standard output: it is not read")


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Within the block, SIGTERM interrupts as Ctrl-C does, so that the results so far are shown.

    ``timeout`` sends it twice, to the program and to its group; the second one has no effect. Threads other than
    the main one cannot handle signals, and change nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def prepare() -> None:
    """Make the standard streams of this process fit for every command.

    A stream that the caller has closed discards what is written and is empty when it is read, so that no file or
    socket of the command takes its number. Characters that an encoding lacks are written as Python escapes.
    """
    for descriptor in _STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            discard(descriptor)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    sys.stdout = _text(_Results(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Remarks(2, "w", closefd=False), sys.stderr)


def _text(raw: _Output, before: object) -> io.TextIOWrapper:
    """The text stream on a standard stream, with the properties of the one that Python has made, if any."""
    if not isinstance(before, io.TextIOWrapper):
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
    with contextlib.suppress(OSError):
        before.flush()
    unbuffered = isinstance(before.buffer, io.RawIOBase)
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        before.encoding,
        "backslashreplace",
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
