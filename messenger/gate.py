"""Admission of one link's messages to the throttles (docs/protocol.md §3.10).

As in Ceph, a message takes its share of each throttle when its header has been read, for the size that the header
declares: first the message and byte throttles of the session's policy, then the dispatch throttles. It keeps what
it has taken while it waits for the next throttle. Nothing polls: when something is returned to a throttle, the
throttle wakes the links that wait for it, the longest waiting first.

A message in arrival may have to return the bytes that have not arrived yet: see messenger/arrivals.py.
"""

from typing import TYPE_CHECKING

from messenger.session.throttle import Throttle

if TYPE_CHECKING:
    from messenger.link import Link


_SMALLEST_BYTES = 64
"""A lower bound of a message's size on the wire, in either protocol."""


class Gate:
    """What an open link has taken from its throttles for messages that are not delivered yet.

    Args:
        link: the link that receives the messages.
        policy: throttles of the session's policy.
        dispatch: the host's dispatch throttles, of messages and of bytes.
    """

    __slots__ = (
        "_admitted",
        "_arrived_bytes",
        "_dispatch",
        "_has_exceeded",
        "_held_bytes",
        "_in_arrival",
        "_link",
        "_passed_bytes",
        "_paused_s",
        "_recalled",
        "_since_s",
        "_taken",
        "_throttles",
        "_wanted_bytes",
        "_watched",
        "is_open",
        "is_watched",
        "passed",
    )

    def __init__(self, link: "Link", policy: tuple[Throttle, ...], dispatch: tuple[Throttle, Throttle]) -> None:
        self._link = link
        self._dispatch = dispatch
        self._throttles: tuple[Throttle, ...] = (*policy, *dispatch) if policy else dispatch
        # A decompressed message may be larger than the batch of bytes that contains it.
        self._watched = bool(policy) or link.is_compressed
        self.is_watched = self._watched
        """True if messages must be admitted one by one, however much room the dispatch throttles have."""
        self.is_open = False
        """True if the message at the head of the stream has taken all it needs for the bytes that have arrived."""
        self._admitted = False
        """True if the message is counted in the message throttles, and by its held bytes in the byte throttles."""
        self._held_bytes = 0
        """Bytes that the admitted message holds of each byte throttle: the declared size, unless it was
        recalled."""
        self._wanted_bytes = 0
        """Bytes that it requests of each byte throttle now."""
        self._taken = 0
        """Number of throttles that have granted the current request."""
        self._since_s: float | None = None
        """Time since which it waits for a throttle; None if it does not."""
        self._paused_s = 0.0
        self._arrived_bytes = 0
        self._in_arrival = False
        """True if the host's arrivals include the admitted message."""
        self._recalled = False
        """True if the message takes its bytes as they arrive."""
        self._has_exceeded = False
        """True if a message that could exceed the limits is complete, but the waiting links are not woken yet."""
        self.passed = 0
        """Number of messages that were admitted one by one since the last delivery."""
        self._passed_bytes = 0

    @property
    def key(self) -> int:
        """Key of this gate among the waiters of a throttle."""
        return self._link.id

    def held_of(self, throttle: Throttle) -> int:
        """Units of a throttle that the message in arrival holds; 0 if none is in arrival."""
        return throttle.units(1, self._held_bytes) if self._in_arrival and throttle in self._throttles else 0

    def watches(self, batch_bytes: int) -> bool:
        """True if the messages in a batch of received bytes must be admitted one by one.

        Otherwise any messages of that many bytes fit into the dispatch throttles, and are counted on delivery.
        """
        messages, size_bytes = self._dispatch
        return (
            self.is_watched
            or size_bytes.value + batch_bytes > size_bytes.ceiling
            or messages.value + batch_bytes // _SMALLEST_BYTES > messages.ceiling
        )

    def admit(self, size_bytes: int, arrived_bytes: int, now: float) -> bool:
        """Take what the message at the head of the stream needs; pause the link while a throttle lacks it.

        Args:
            size_bytes: the size that its header declares.
            arrived_bytes: received bytes from its start on.
            now: the time.

        Returns:
            True if the message is admitted; False if the link is paused.
        """
        if self.is_open:
            return True
        if not self._taken:
            self._wanted_bytes = size_bytes
            if self._admitted:
                self._wanted_bytes = max(0, min(size_bytes, arrived_bytes) - self._held_bytes)
        self._arrived_bytes = arrived_bytes
        self.is_watched = True
        self.is_open = self._advance(now)
        if not self.is_open:
            self._paused_s = now
            self._link.pause()
        return self.is_open

    def retry(self, now: float) -> None:
        """Continue the request after units were returned to a throttle; resume reading if it is granted."""
        self.is_open = self._advance(now)
        if self.is_open:
            self._link.resume(now, now - self._paused_s)

    def await_rest(self, arrived_bytes: int, now: float) -> None:
        """Register an admitted but incomplete message as one in arrival: its missing bytes may be recalled."""
        if not self.is_open:
            return
        self._arrived_bytes = arrived_bytes
        if self._recalled:
            self.is_open = False  # the next bytes must be admitted first
        if not self._in_arrival:
            self._in_arrival = True
            host = self._link.host
            host.arrivals.add(self)
            host.wake(now)  # waiting links may recall the missing bytes

    def give_back_rest(self, now: float) -> bool:
        """Return the bytes that have not arrived, and take them as they arrive; False if there are none."""
        rest_bytes = self._held_bytes - self._arrived_bytes
        if rest_bytes <= 0:
            return False
        self._take_as_it_arrives()
        self.is_open = False
        self._held_bytes -= rest_bytes
        for throttle in self._throttles:
            if not throttle.counts_messages:
                throttle.value -= rest_bytes
        self._trace(now)
        return True

    def pass_one(self, size_bytes: int) -> None:
        """Count the admitted message as read completely.

        A compressed message has another size than its header declares; the difference is taken even beyond the
        limit.
        """
        held_bytes, self._held_bytes = self._held_bytes, 0
        self.is_open = self._admitted = False
        self.passed += 1
        self.is_watched = self._watched
        self._passed_bytes += size_bytes
        if self._in_arrival or self._recalled:
            self._has_arrived()
        if size_bytes != held_bytes:
            for throttle in self._throttles:
                if not throttle.counts_messages:
                    throttle.value += size_bytes - held_bytes

    def settle(self, messages: int, size_bytes: int, now: float) -> None:
        """Account for ``messages`` delivered messages of ``size_bytes`` in total.

        Admitted messages beyond that were duplicates or invalid: what they hold is returned to the throttles.
        """
        over, over_bytes = self.passed - messages, self._passed_bytes - size_bytes
        self.passed = self._passed_bytes = 0
        if over or over_bytes:
            self._put([(throttle, over, over_bytes) for throttle in self._throttles], now)
        self._allow_another_to_exceed(now)

    def close(self, now: float) -> None:
        """Return what the link's unread message holds, because the link is closed."""
        taken, self._taken = self._taken, 0
        if self._since_s is not None:
            self._waited(self._throttles[taken], now)
            self._trace_wait(self._throttles[taken], "leave", now)
        self._has_arrived()
        held = int(self._admitted), self._held_bytes
        wanted = int(not self._admitted), self._wanted_bytes
        self.is_open = self._admitted = False
        self._held_bytes = 0
        returned = []
        for index, throttle in enumerate(self._throttles):
            throttle.leave(self)
            messages, size_bytes = held
            if index < taken:
                messages, size_bytes = messages + wanted[0], size_bytes + wanted[1]
            if messages:
                returned.append((throttle, messages, size_bytes))
        if returned:
            self._put(returned, now)
        for throttle in self._throttles:
            throttle.wake(now)  # this link may have been the first in the queue
        self._allow_another_to_exceed(now)

    def _take_as_it_arrives(self) -> None:
        self._recalled = True
        self._link.receive_buffer.read_slowly()

    def _has_arrived(self) -> None:
        self._has_exceeded |= self._link.host.arrivals.remove(self)
        self._in_arrival = False
        if self._recalled:
            self._recalled = False
            self._link.receive_buffer.read_slowly(slowly=False)

    def _allow_another_to_exceed(self, now: float) -> None:
        if self._has_exceeded:
            self._has_exceeded = False
            self._link.host.wake(now)

    def _put(self, returned: list[tuple[Throttle, int, int]], now: float) -> None:
        """Return messages and bytes to throttles."""
        for throttle, messages, size_bytes in returned:
            throttle.put(throttle.units(messages, size_bytes), messages)
        self._trace(now)
        for throttle, _, _ in returned:
            throttle.wake(now)

    def _trace(self, now: float) -> None:
        host = self._link.host
        host.trace_held(self._link.session, now)
        host.trace_throttle(now)

    def _trace_wait(self, throttle: Throttle, action: str, now: float) -> None:
        self._link.host.trace("wait", now, link=self._link.id, name=throttle.name, action=action)

    def _advance(self, now: float) -> bool:
        """Take from the throttles in order until one is full; True if all have granted the request."""
        for throttle in self._throttles[self._taken :]:
            if not self._take(throttle, throttle.units(int(not self._admitted), self._wanted_bytes), now):
                if self._since_s is None:
                    self._since_s = now
                    self._trace_wait(throttle, "begin", now)
                return False
            if self._since_s is not None:
                self._waited(throttle, now)
                exceeds = self._link.host.arrivals.exceeds(self)
                self._trace_wait(throttle, "exceed" if exceeds else "admit", now)
            self._taken += 1
        self._held_bytes += self._wanted_bytes
        self._admitted = True
        self._wanted_bytes = self._taken = 0
        return True

    def _take(self, throttle: Throttle, units: int, now: float) -> bool:
        if throttle.request(self, units):
            return True
        if throttle.counts_messages:
            return False
        arrivals = self._link.host.arrivals
        if arrivals.recall(now) and throttle.request(self, units):
            return True
        if not arrivals.exceeds(self):
            if not (throttle.is_first(self) and arrivals.fill(throttle)):
                return False
            # Messages in arrival hold all of the throttle, so no release will make room.
            if not self._admitted:
                self._ask_for_what_is_here()
                units = self._wanted_bytes
                if throttle.request(self, units):
                    return True
            if not arrivals.may_exceed(self):
                return False
        throttle.leave(self)
        throttle.take(units)
        return True

    def _ask_for_what_is_here(self) -> None:
        """Reduce the request to the bytes that have arrived; the rest is requested as it arrives."""
        self._take_as_it_arrives()
        rest_bytes = max(0, self._wanted_bytes - self._arrived_bytes)
        self._wanted_bytes -= rest_bytes
        for taken in self._throttles[: self._taken]:
            if not taken.counts_messages:
                taken.value -= rest_bytes

    def _waited(self, throttle: Throttle, now: float) -> None:
        assert self._since_s is not None
        throttle.waits += 1
        throttle.waited_s += now - self._since_s
        self._since_s = None
