"""What a node does again and again by itself."""

import contextlib
from collections.abc import Callable

from messenger.errors import MsgrError

Later = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds."""


class Rhythm:
    """Does something now, and again every so many seconds.

    A beat that is impossible at its moment, because the peer cannot be dialled, is skipped.

    Args:
        beat: what is done.
        every_s: how often.
        count: so many times; 0: until :meth:`end`.
        later: the timer of the host.
    """

    def __init__(self, beat: Callable[[], None], every_s: float, count: int, later: Later) -> None:
        self._beat = beat
        self._every_s = every_s
        self._left = count or None
        self._later = later
        self._on()

    def end(self) -> None:
        """No more."""
        self._left = 0

    def _on(self) -> None:
        if self._left == 0:
            return
        if self._left is not None:
            self._left -= 1
        with contextlib.suppress(MsgrError):
            self._beat()
        self._later(self._every_s, self._on)
