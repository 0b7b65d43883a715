"""The owner of a messenger: the process, the thread and the event loop that made it. No other may call it."""

import asyncio
import os
from threading import get_ident
from typing import NoReturn
from weakref import WeakSet

from messenger.errors import LocalError

_NO_THREAD = 0
"""Id of no thread: a forked child has it for the messengers that live in its parent."""
_OTHER_LOOP = "called on another event loop than the messenger's: use run_coroutine_threadsafe"


class Owner:
    """The process, the thread and the event loop of one messenger.

    Args:
        loop: the event loop, which runs in the thread that calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.thread_id = get_ident()
        """Of the messenger's thread; the only callers that are right have this id."""
        _all.add(self)

    def refuse_thread(self) -> NoReturn:
        """Raise the error for a caller in another thread or process."""
        if self.thread_id == _NO_THREAD:
            raise LocalError("called from a forked child: the messenger lives in its parent; make a new one here")
        raise LocalError("called from another thread than the messenger's: use loop.call_soon_threadsafe")

    def check_loop(self) -> None:
        """Check that the loop will carry out what a caller in the messenger's thread asks for.

        Code between two runs of the loop may call, too.

        Raises:
            LocalError: the loop is closed, or the thread runs another one.
        """
        if self._loop.is_closed():
            raise LocalError("the messenger's event loop is closed: a messenger lives as long as its loop")
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is not self._loop:
            raise LocalError(_OTHER_LOOP)

    def check_coroutine(self) -> None:
        """Check that the calling coroutine runs on the messenger's loop.

        Raises:
            LocalError: it runs on another loop, or in a forked child.
        """
        if self.thread_id == _NO_THREAD:
            self.refuse_thread()
        if asyncio.get_running_loop() is not self._loop:
            raise LocalError(_OTHER_LOOP)


_all: WeakSet[Owner] = WeakSet()


def _leave_to_parent() -> None:
    for owner in list(_all):
        owner.thread_id = _NO_THREAD


os.register_at_fork(after_in_child=_leave_to_parent)
