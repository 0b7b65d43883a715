"""Level-triggered callbacks for streams that no descriptor of the kernel watches for."""

import asyncio
from collections.abc import Callable

from messenger.transport.base import Callback


class Watch:
    """Calls back in each turn of the loop in which a condition holds.

    Args:
        loop: where the calls are made; may change while nothing is watched.
        holds: the condition. After it may have changed for the better, :meth:`check` is due.
    """

    __slots__ = ("_callback", "_handle", "_holds", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: Callable[[], bool]) -> None:
        self.loop = loop
        self._holds = holds
        self._callback: Callback | None = None
        self._handle: asyncio.Handle | None = None

    @property
    def is_set(self) -> bool:
        """True while there is a callback."""
        return self._callback is not None

    def set(self, callback: Callback | None) -> None:
        """Call ``callback``, or stop with None."""
        self._callback = callback
        if callback is None and self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.check()

    def check(self) -> None:
        """Look at the condition, which may hold now."""
        if self._callback is not None and self._handle is None and self._holds():
            self._handle = self.loop.call_soon(self._call)

    def _call(self) -> None:
        self._handle = None
        if self._callback is not None and self._holds():
            try:
                self._callback()
            finally:
                self.check()
