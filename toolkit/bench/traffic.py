"""The application of a benchmark, the same over the messenger and over a plain socket.

The sender keeps a fixed number of messages without an answer; the receiver answers. Both count messages, so that a
run has exactly the number that it was started with.
"""

from collections.abc import Callable
from typing import Protocol

Send = Callable[[int], None]
"""Sends the given number of messages."""
Done = Callable[[], None]


class Traffic(Protocol):
    """One side of the application."""

    def start(self, count: int, done: Done) -> None:
        """Begin a run of ``count`` messages; ``done`` is called after the last one."""

    def seen(self, count: int) -> None:
        """Record that ``count`` messages of the other side have arrived."""


class Sender:
    """Sends messages, with at most ``in_flight`` of them unanswered."""

    def __init__(self, in_flight: int, per_reply: int, send: Send) -> None:
        self._in_flight = in_flight
        self._per_reply = per_reply
        self._send = send
        self._unsent = 0
        self._unanswered = 0
        self._done: Done | None = None

    def start(self, count: int, done: Done) -> None:
        """Begin a run of ``count`` messages; ``done`` is called after the last one."""
        self._unsent = self._unanswered = count
        self._done = done
        self._send_more(self._in_flight)

    def seen(self, count: int) -> None:
        """Record that ``count`` messages of the other side have arrived."""
        answered = count * self._per_reply
        self._unanswered -= answered
        if self._unsent:
            self._send_more(answered)
        elif not self._unanswered and self._done is not None:
            self._done()

    def _send_more(self, count: int) -> None:
        burst = min(count, self._unsent)
        self._unsent -= burst
        self._send(burst)


class Receiver:
    """Sends one reply for every ``per_reply`` messages."""

    def __init__(self, per_reply: int, reply: Send) -> None:
        self._per_reply = per_reply
        self._reply = reply
        self._missing = 0
        self._unanswered = 0
        self._done: Done | None = None

    def start(self, count: int, done: Done) -> None:
        """Begin a run of ``count`` messages; ``done`` is called after the last one."""
        self._missing = count
        self._done = done

    def seen(self, count: int) -> None:
        """Record that ``count`` messages of the other side have arrived."""
        replies, self._unanswered = divmod(self._unanswered + count, self._per_reply)
        if replies:
            self._reply(replies)
        self._missing -= count
        if not self._missing and self._done is not None:
            self._done()
