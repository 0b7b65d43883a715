"""Actions that a node repeats by itself."""

import contextlib
from collections.abc import Callable

from messenger.errors import MsgrError

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after a number of seconds."""


class Rhythm:
    """Runs an action now, and then at regular intervals.

    An action that fails, because the peer cannot be dialled, is skipped.

    Args:
        beat: the action.
        every_s: seconds between actions.
        count: number of actions; 0 until :meth:`end`.
        later: the timer of the host.
    """

    def __init__(self, beat: Callable[[], None], every_s: float, count: int, later: Later) -> None:
        self._beat = beat
        self._every_s = every_s
        self._left = count or None
        self._later = later
        self._on()

    def end(self) -> None:
        """Run no more actions."""
        self._left = 0

    def _on(self) -> None:
        if self._left == 0:
            return
        if self._left is not None:
            self._left -= 1
        with contextlib.suppress(MsgrError):
            self._beat()
        self._later(self._every_s, self._on)
