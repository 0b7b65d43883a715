"""A dispatcher from which coroutines read messages."""

import asyncio
import contextlib
from collections import deque

from messenger.connection import Connection
from messenger.dispatch import Dispatcher
from messenger.errors import LocalError, check_seconds
from messenger.messages.message import Message


class Inbox(Dispatcher):
    """A dispatcher for coroutines: messages wait in a queue until a coroutine reads them with :meth:`get`.

    Queued messages count against the dispatch throttle, so a slow reader pauses the senders and memory stays
    bounded::

        connection, message = await inbox.get(timeout_s=5)
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Connection, Message]] = deque()
        self._readers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def ms_dispatch(self, connection: Connection, message: Message) -> bool:
        """Queue the message and wake one reader."""
        self._waiting.append((connection, message))
        self._wake()
        return True

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        while self._readers:
            reader = self._readers.popleft()
            if reader.get_loop() is not loop:
                _refuse(reader)
            elif not reader.done():
                reader.set_result(None)
                break

    async def get(self, timeout_s: float | None = None) -> tuple[Connection, Message]:
        """Wait for the next message. Returns the connection on which it arrived, and the message.

        Args:
            timeout_s: seconds to wait; None waits without limit.

        Raises:
            TimeoutError: no message arrived within ``timeout_s``.
            LocalError: ``timeout_s`` is no number, or the caller runs in another thread or on another event loop
                than the messenger; the message stays in the inbox.
        """
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        async with asyncio.timeout(timeout_s):
            while not self._waiting:
                await self._something()
        connection, message = self._waiting[0]
        if message.held_bytes is not None:  # None if another dispatcher has released it already
            connection.release(message)
        self._waiting.popleft()
        return connection, message

    async def _something(self) -> None:
        reader = asyncio.get_running_loop().create_future()
        self._readers.append(reader)
        try:
            await reader
        except asyncio.CancelledError:
            if reader in self._readers:
                self._readers.remove(reader)
            elif not reader.cancelled():
                self._wake()  # this reader was woken for a message: wake another one
            raise


def _refuse(reader: "asyncio.Future[None]") -> None:
    """Raise an error in a reader that waits on another loop than the messenger's."""

    def raise_error() -> None:
        if not reader.done():
            error = "an inbox is read on the event loop of its messenger: use run_coroutine_threadsafe"
            reader.set_exception(LocalError(error))

    with contextlib.suppress(RuntimeError):  # its loop is closed
        reader.get_loop().call_soon_threadsafe(raise_error)
