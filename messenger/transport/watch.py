"""Level-triggered callbacks for streams whose readiness is not that of a kernel descriptor."""

import asyncio
from collections.abc import Callable

from messenger.transport.base import Callback


class Watch:
    """Calls back in each turn of the loop in which a condition holds.

    Args:
        loop: event loop of the calls; may change while no callback is set.
        holds: the condition. Whenever it may have become true, :meth:`check` must be called.
    """

    __slots__ = ("_callback", "_handle", "_holds", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: Callable[[], bool]) -> None:
        self.loop = loop
        self._holds = holds
        self._callback: Callback | None = None
        self._handle: asyncio.Handle | None = None

    @property
    def is_set(self) -> bool:
        """True while a callback is set."""
        return self._callback is not None

    def set(self, callback: Callback | None) -> None:
        """Set the callback; None removes it."""
        self._callback = callback
        if callback is None and self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self.check()

    def check(self) -> None:
        """Schedule the callback if the condition holds."""
        if self._callback is not None and self._handle is None and self._holds():
            self._handle = self.loop.call_soon(self._call)

    def _call(self) -> None:
        self._handle = None
        if self._callback is not None and self._holds():
            try:
                self._callback()
            finally:
                self.check()
