"""Holds a link's messages back while a throttle of its session's policy is full (protocol.md §3.10).

For each message a link takes one from the message throttle and its bytes from the byte throttle, then waits for
the dispatch throttle, in this order; what it has it keeps while it waits for the next. Nobody polls: who gives
back wakes those who wait.
"""

from typing import TYPE_CHECKING

from messenger.session.throttle import PolicyThrottles, Throttle

if TYPE_CHECKING:
    from messenger.link import Link

_MESSAGES, _BYTES, _DISPATCH, _GRANTED = range(4)


class Gate:
    """What one open link has taken from the throttles of its session's policy and not handed on yet."""

    __slots__ = ("_link", "_messages", "_since_s", "_size_bytes", "_stage", "_throttles", "_total_bytes")

    def __init__(self, link: "Link", throttles: PolicyThrottles) -> None:
        self._link = link
        self._throttles = throttles
        self._stage = _MESSAGES
        self._size_bytes = 0  # of the message that is at the gate
        self._since_s: float | None = None  # it waits since then
        self._messages = 0  # let through, but not delivered yet
        self._total_bytes = 0

    def admit(self, size_bytes: int, now: float) -> bool:
        """Whether the next message may be handed on; if not, the link has stopped reading until it may."""
        self._size_bytes = size_bytes
        if self._stage is not _GRANTED and not self._advance():
            if self._since_s is None:
                self._since_s = now
                self._link.host.waiting[self._link.id] = self
            self._link.pause()
            return False
        self._stage = _MESSAGES
        self._messages += 1
        self._total_bytes += size_bytes
        return True

    def retry(self, now: float) -> None:
        """Somebody gave something back: read on if that was enough."""
        if not self._advance():
            return
        self._stage = _GRANTED
        self._stop_waiting(now)
        self._link.resume(now)

    def settle(self, messages: int, size_bytes: int, now: float) -> None:
        """So many messages were delivered; others that were let through came twice or were bad, and are over."""
        over, over_bytes = self._messages - messages, self._total_bytes - size_bytes
        self._messages = self._total_bytes = 0
        if over:
            self._throttles.put(over, over_bytes)
            self._link.host.trace_held(self._link.session, now)
            self._link.host.wake_waiting(now)

    def close(self, now: float) -> None:
        """The link is closed: give back what a message has that is not let through yet."""
        self._stop_waiting(now)
        messages, size_bytes = self._throttles.messages, self._throttles.size_bytes
        if self._stage > _MESSAGES and messages is not None:
            messages.put(1)
            messages.count_put(1)
        if self._stage > _BYTES and size_bytes is not None:
            size_bytes.put(self._size_bytes)
            size_bytes.count_put(self._size_bytes)
        self._stage = _MESSAGES
        self._link.host.trace_held(self._link.session, now)
        self._link.host.wake_waiting(now)

    def _advance(self) -> bool:
        """Take what is to be had; True if that was all that is needed."""
        size_bytes = self._size_bytes
        if self._stage == _MESSAGES:
            if not _take(self._throttles.messages, 1):
                return False
            self._stage = _BYTES
        if self._stage == _BYTES:
            if not _take(self._throttles.size_bytes, size_bytes):
                return False
            self._stage = _DISPATCH
        # Taken by whoever delivers, an instant later.
        return not size_bytes or self._link.host.dispatch_throttle.admits(size_bytes)

    def _stop_waiting(self, now: float) -> None:
        if self._since_s is None:
            return
        del self._link.host.waiting[self._link.id]
        waited_s, self._since_s = now - self._since_s, None
        for throttle in self._throttles.messages, self._throttles.size_bytes:
            if throttle is not None:
                throttle.waits += 1
                throttle.waited_s += waited_s


def _take(throttle: Throttle | None, amount: int) -> bool:
    """Empty messages need no bytes, even of a full throttle."""
    return throttle is None or not amount or throttle.try_take(amount)
