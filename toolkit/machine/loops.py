"""An event loop in a thread, for synchronous code."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_TIMEOUT_S = 20.0

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in its own thread until it is closed.

    Args:
        name: name of the thread.
        begin: called first in the thread, for example to enter a network namespace.
    """

    def __init__(self, name: str, begin: Callable[[], None] = lambda: None) -> None:
        self.loop = asyncio.new_event_loop()

        def run() -> None:
            begin()
            self.loop.run_forever()

        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result.

        Raises:
            TimeoutError: it takes longer than 20 s.
        """
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(_TIMEOUT_S)

    def close(self) -> None:
        """Stop the loop; its tasks must have ended."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
