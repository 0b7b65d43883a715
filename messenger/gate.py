"""Admission of one link's messages to the throttles (docs/protocol.md §3.10).

As in Ceph a message takes what it needs when its head has been read, for the size that the head declares: one
of the message throttle and its bytes of the byte throttle that the session's policy names, then the same of the
dispatch throttles. What it has taken it keeps while it waits for the next one. Nothing polls: a throttle that gets
something back wakes the links that wait for it, the longest waiting first.

A message in arrival may have to return what has not arrived of it: see messenger/arrivals.py.
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
        link: the link that receives the messages.
        policy: the throttles of its session's policy.
        dispatch: those of the host, of messages and of bytes.
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
        # Restored messages may be larger than all the bytes that they came in.
        self._watched = bool(policy) or link.is_compressed
        self.is_watched = self._watched
        """Messages must be admitted one by one, whatever the dispatch throttles hold."""
        self.is_open = False
        """The message at the head of the stream has all that it needs for the bytes that are here."""
        self._admitted = False
        """The message has its place in the message throttles, and of the byte throttles what it holds."""
        self._held_bytes = 0
        """What the admitted message holds of each byte throttle: its declared size, unless that was recalled."""
        self._wanted_bytes = 0
        """What it asks of each byte throttle at present."""
        self._taken = 0
        """Of the throttles, so many have given what is asked at present."""
        self._since_s: float | None = None
        """It waits since then."""
        self._paused_s = 0.0
        self._arrived_bytes = 0
        self._in_arrival = False
        """The host knows the admitted message as one in arrival."""
        self._recalled = False
        """It takes its bytes as they arrive."""
        self._has_exceeded = False
        """A message was complete that might exceed the limits; others do not know yet."""
        self.passed = 0
        """Messages that were admitted one by one since the last delivery."""
        self._passed_bytes = 0

    @property
    def key(self) -> int:
        """The key of this waiter among those of one throttle."""
        return self._link.id

    def held_of(self, throttle: Throttle) -> int:
        """Units of a throttle that the message in arrival holds."""
        return throttle.units(1, self._held_bytes) if self._in_arrival and throttle in self._throttles else 0

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

    def admit(self, size_bytes: int, arrived_bytes: int, now: float) -> bool:
        """Take what the message at the head of the stream needs, or pause the link until it has been given that.

        Args:
            size_bytes: the size that its head declares.
            arrived_bytes: received bytes from its head on.
            now: the time.
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
        """Something was given back: read on if that was enough."""
        self.is_open = self._advance(now)
        if self.is_open:
            self._link.resume(now, now - self._paused_s)

    def await_rest(self, arrived_bytes: int, now: float) -> None:
        """If the message was admitted, it is incomplete: what has not arrived of it may be recalled."""
        if not self.is_open:
            return
        self._arrived_bytes = arrived_bytes
        if self._recalled:
            self.is_open = False  # what arrives next needs room first
        if not self._in_arrival:
            self._in_arrival = True
            host = self._link.host
            host.arrivals.add(self)
            host.wake(now)  # waiting links may recall the rest

    def give_back_rest(self, now: float) -> bool:
        """Return what has not arrived of the message, and take bytes as they arrive; True if that was anything."""
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
        """The admitted message was read whole.

        One that was compressed has another size than its head declared: the difference is taken in any case.
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
        """So many messages of that size are delivered.

        The others that had been admitted came twice or were bad: what they had is given back.
        """
        over, over_bytes = self.passed - messages, self._passed_bytes - size_bytes
        self.passed = self._passed_bytes = 0
        if over or over_bytes:
            self._put([(throttle, over, over_bytes) for throttle in self._throttles], now)
        self._let_another_exceed(now)

    def close(self, now: float) -> None:
        """The link is closed: give back what a message has that was not read."""
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
            throttle.wake(now)  # this link may have been the first in the line
        self._let_another_exceed(now)

    def _take_as_it_arrives(self) -> None:
        self._recalled = True
        self._link.receive_buffer.read_slowly()

    def _has_arrived(self) -> None:
        self._has_exceeded |= self._link.host.arrivals.remove(self)
        self._in_arrival = False
        if self._recalled:
            self._recalled = False
            self._link.receive_buffer.read_slowly(slowly=False)

    def _let_another_exceed(self, now: float) -> None:
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
        """Take what is to be had; True if that was all that is needed."""
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
            # No release will make room.
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
        """Ask for bytes that have arrived, and for the others when they arrive."""
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
