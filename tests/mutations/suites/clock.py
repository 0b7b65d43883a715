"""Time limits for what a mutant may keep from ending."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooLong(Exception):
    """It has used more processor time than it may."""


@contextmanager
def at_most_s(seconds: float) -> Iterator[None]:
    """Raise TooLong once so many seconds of processor time are used, and again each second after that."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
