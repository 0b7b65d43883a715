"""Progress of long work on standard error: a live line on a terminal, elsewhere a log line now and then."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from toolkit.report.terminal import shown_line

_PATIENCE_S = 10.0
"""Without a terminal, work that takes less time than this logs nothing."""
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
_WIDTH = 100


class Steps(Protocol):
    """Receives the progress of long work."""

    def advance(self, count: int = 1) -> None:
        """Count ``count`` more units as done."""

    def show(self, words: str) -> None:
        """Show the step that is running now."""


@contextmanager
def progress(name: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Steps]:
    """Show the progress of work while the block lasts.

    Args:
        name: the work, such as ``running``.
        total: number of units, from which the time left is estimated; None if it is unknown.
        quiet: True to show nothing.
    """
    if quiet:
        yield _Silence()
    elif sys.stderr.isatty():
        with _line(name, total) as steps:
            yield steps
    else:
        yield _Log(name, total)


class _Silence:
    def advance(self, count: int = 1) -> None:
        """Show nothing."""

    def show(self, words: str) -> None:
        """Show nothing."""


@contextmanager
def _line(name: str, total: int | None) -> Iterator[Steps]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    words = TextColumn("{task.description}", markup=False)
    columns: list[ProgressColumn] = [SpinnerColumn(), words]
    columns += (
        [TimeElapsedColumn()] if total is None else [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(name, total=total)

        class Line:
            def advance(self, count: int = 1) -> None:
                bars.advance(task, count)

            def show(self, words: str) -> None:
                bars.update(task, description=f"{name}: {shown_line(words)[:_WIDTH]}")

        yield Line()


class _Log:
    """Log lines with growing pauses between them, so that the log of a long run stays short."""

    def __init__(self, name: str, total: int | None) -> None:
        self._name = name
        self._total = total
        self._done = 0
        self._words = ""
        self._began_s = time.monotonic()
        self._due_s = self._began_s + _PATIENCE_S
        self._pause_s = _FIRST_PAUSE_S

    def advance(self, count: int = 1) -> None:
        self._done += count
        if self._done != self._total:
            self._print()

    def show(self, words: str) -> None:
        self._words = shown_line(words)[:_WIDTH]
        self._print()

    def _print(self) -> None:
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        parts = [self._name]
        if self._total is not None:
            parts.append(f"{self._done:,} of {self._total:,}")
        if self._words:
            parts.append(self._words)
        if self._total is not None and self._done:
            left_s = (now_s - self._began_s) / self._done * (self._total - self._done)
            parts.append(f"about {left_s:.0f} s left")
        else:
            parts.append(f"{now_s - self._began_s:.0f} s so far")
        print(f"msgrlab: {', '.join(parts)}", file=sys.stderr, flush=True)
