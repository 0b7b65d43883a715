"""Admission of one link's messages to the throttles (protocol.md §3.10).

As in Ceph a message takes what it needs when its head has been read, for the size that the head declares: one
of the message throttle and its bytes of the byte throttle that the session's policy names, then the same of the
dispatch throttles. What it has taken it keeps while it waits for the next one. Nothing polls: a throttle that gets
something back wakes the links that wait for it, the longest waiting first.
"""

from typing import TYPE_CHECKING

from messenger.session.throttle import Throttle

if TYPE_CHECKING:
    from messenger.link import Link


_SMALLEST_BYTES = 64
"""A message takes more than this on the wire, in either protocol."""


class Gate:
    """What one open link has taken from its throttles and not delivered yet.

    Args:
        link: whose messages are admitted.
        policy: the throttles of its session's policy.
        dispatch: those of the host, of messages and of bytes.
    """

    __slots__ = (
        "_dispatch",
        "_link",
        "_passed_bytes",
        "_since_s",
        "_size_bytes",
        "_taken",
        "_throttles",
        "_watched",
        "is_open",
        "is_watched",
        "passed",
    )

    def __init__(self, link: "Link", policy: tuple[Throttle, ...], dispatch: tuple[Throttle, Throttle]) -> None:
        self._link = link
        self._dispatch = dispatch
        self._throttles = (*policy, *dispatch)
        # Restored messages may be larger than all the bytes that they came in.
        self._watched = bool(policy) or link.is_compressed
        self.is_watched = self._watched
        """Messages must be admitted one by one, whatever the dispatch throttles hold."""
        self.is_open = False
        """The message at the head of the stream has all that it needs."""
        self._taken = 0
        """Of the throttles, so many have given this message what it needs."""
        self._size_bytes = 0
        """Its declared size."""
        self._since_s: float | None = None
        """It waits since then."""
        self.passed = 0
        """Messages that were admitted one by one since the last delivery."""
        self._passed_bytes = 0

    @property
    def key(self) -> int:
        """See :class:`messenger.session.throttle.Waiter`."""
        return self._link.id

    @property
    def reserved_bytes(self) -> int:
        """Bytes taken for a message that is not complete yet."""
        return self._size_bytes if self.is_open else 0

    def watches(self, batch_bytes: int) -> bool:
        """True if the messages of a batch of received bytes must be admitted one by one.

        Otherwise all of them fit into the dispatch throttles whatever they are, and are counted when they are
        delivered.
        """
        messages, size_bytes = self._dispatch
        return (
            self.is_watched
            or size_bytes.value + batch_bytes > size_bytes.ceiling
            or messages.value + batch_bytes // _SMALLEST_BYTES > messages.ceiling
        )

    def admit(self, size_bytes: int, now: float) -> bool:
        """Take what the next message needs; if that is not to be had now, the link stops reading until it is."""
        if self.is_open:
            return True
        self._size_bytes = size_bytes
        self.is_watched = True
        self.is_open = self._advance(now)
        if not self.is_open:
            self._link.pause()
        return self.is_open

    def retry(self, now: float) -> None:
        """Something was given back: read on if that was enough."""
        self.is_open = self._advance(now)
        if self.is_open:
            self._link.resume(now)

    def pass_one(self, size_bytes: int) -> None:
        """The admitted message was read whole.

        One that was compressed has another size than its head declared: the difference is taken in any case.
        """
        self.is_open = False
        self._taken = 0
        self.passed += 1
        self.is_watched = self._watched
        self._passed_bytes += size_bytes
        if size_bytes != self._size_bytes:
            for throttle in self._throttles:
                if not throttle.counts_messages:
                    throttle.value += size_bytes - self._size_bytes

    def settle(self, messages: int, size_bytes: int, now: float) -> None:
        """So many messages of that size are delivered.

        The others that had been admitted came twice or were bad: what they had is given back.
        """
        over, over_bytes = self.passed - messages, self._passed_bytes - size_bytes
        self.passed = self._passed_bytes = 0
        if over or over_bytes:
            self._put(self._throttles, over, over_bytes, now)

    def close(self, now: float) -> None:
        """The link is closed: give back what a message has that was not read."""
        taken, self._taken, self.is_open = self._taken, 0, False
        if self._since_s is not None:
            self._waited(self._throttles[taken], now)
        for throttle in self._throttles:
            throttle.leave(self)
        if taken:
            self._put(self._throttles[:taken], 1, self._size_bytes, now)
        for throttle in self._throttles[taken:]:
            throttle.wake(now)  # this link may have been the first in the line

    def _put(self, throttles: tuple[Throttle, ...], messages: int, size_bytes: int, now: float) -> None:
        for throttle in throttles:
            throttle.put(throttle.units(messages, size_bytes), messages)
        host = self._link.host
        host.trace_held(self._link.session, now)
        host.trace_throttle(now)
        for throttle in throttles:
            throttle.wake(now)

    def _advance(self, now: float) -> bool:
        """Take what is to be had; True if that was all that is needed."""
        for throttle in self._throttles[self._taken :]:
            if not throttle.request(self, throttle.units(1, self._size_bytes)):
                if self._since_s is None:
                    self._since_s = now
                return False
            if self._since_s is not None:
                self._waited(throttle, now)
            self._taken += 1
        return True

    def _waited(self, throttle: Throttle, now: float) -> None:
        assert self._since_s is not None
        throttle.waits += 1
        throttle.waited_s += now - self._since_s
        self._since_s = None
