"""Throttles: limits on what is held at a time (docs/protocol.md §3.10)."""

from collections.abc import Iterator
from typing import Protocol

from messenger.errors import LocalError
from messenger.session.policy import ThrottleLimit

_NO_LIMIT = (1 << 63) - 1


class Waiter(Protocol):
    """A waiter of a throttle, such as the gate of a link."""

    @property
    def key(self) -> int:
        """Key of this waiter among those of one throttle."""

    def retry(self, now: float) -> None:
        """Request again: the throttle may have room, and this waiter is the first in its queue."""


class Throttle:
    """Counts units that are taken and returned. Waiters are admitted in the order in which they began to wait.

    Args:
        limit: units; 0 = no limit.
        name: name in perf counters and histories.
        counts_messages: True if its units are messages, False if they are bytes.
    """

    __slots__ = (
        "_again",
        "_limit",
        "_line",
        "_waking",
        "ceiling",
        "counts_messages",
        "gets",
        "name",
        "put_sum",
        "puts",
        "refusals",
        "value",
        "waited_s",
        "waits",
    )

    def __init__(self, limit: int, name: str = "dispatch_bytes", *, counts_messages: bool = False) -> None:
        self.name = name
        self.counts_messages = counts_messages
        self.value = 0
        self._line: dict[int, Waiter] = {}
        self._waking = False
        self._again = False
        self.limit = limit
        # For the perf counters.
        self.gets = 0
        self.refusals = 0
        self.puts = 0
        self.put_sum = 0
        self.waits = 0
        self.waited_s = 0.0

    @property
    def limit(self) -> int:
        """Units; 0 = no limit."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._set_ceiling()

    def _set_ceiling(self) -> None:
        self.ceiling = -1 if self._line else self._limit or _NO_LIMIT
        """Up to this value units may be taken without a request; -1 while there are waiters."""

    def admits(self, amount: int) -> bool:
        """True if ``amount`` more may be taken, by Ceph's rule.

        An amount above the limit passes as long as the limit is not exceeded already.
        """
        limit = self._limit
        return not limit or (self.value + amount <= limit if amount <= limit else self.value <= limit)

    def units(self, messages: int, size_bytes: int) -> int:
        """The units that ``messages`` messages of ``size_bytes`` in total take."""
        return messages if self.counts_messages else size_bytes

    # ---- waiting

    @property
    def waiting(self) -> int:
        """Number of waiters."""
        return len(self._line)

    def is_first(self, waiter: Waiter) -> bool:
        """True if no other waiter has waited longer."""
        return next(iter(self._line), waiter.key) == waiter.key

    def request(self, waiter: Waiter, amount: int) -> bool:
        """Take ``amount`` for a waiter and return True; if there is no room, queue the waiter and return False.

        An amount of 0 passes always, even if the throttle is full.
        """
        if not amount:
            return True
        if self.is_first(waiter) and self.admits(amount):
            self.leave(waiter)
            self.value += amount
            self.gets += 1
            return True
        if waiter.key not in self._line:
            self._line[waiter.key] = waiter
            self.refusals += 1
            self._set_ceiling()
        return False

    def leave(self, waiter: Waiter) -> None:
        """Remove the waiter from the queue, if it is in it."""
        if self._line.pop(waiter.key, None) is not None:
            self._set_ceiling()

    def wake(self, now: float) -> None:
        """Let waiters try again, the longest waiting first, until one is refused."""
        self._again = True
        if self._waking:
            return  # called by a waiter that returned units: the loop below repeats, without recursion
        self._waking = True
        try:
            while self._again:
                self._again = False
                self._wake_line(now)
        finally:
            self._waking = False

    def _wake_line(self, now: float) -> None:
        # An admitted waiter may request again for its next message: it then is the last in the queue.
        for _ in range(len(self._line)):
            first = next(iter(self._line.values()), None)
            if first is None:
                return
            first.retry(now)
            if next(iter(self._line.values()), None) is first:
                return

    # ---- without waiting

    def take(self, amount: int, gets: int = 1) -> None:
        """Take ``amount`` regardless of the limit; ``gets`` is the number of messages, for the counters."""
        self.value += amount
        self.gets += gets

    def put(self, amount: int, puts: int = 1) -> None:
        """Return ``amount``; ``puts`` is the number of messages, for the counters.

        Raises:
            LocalError: it is more than is held, because a message was released twice.
        """
        if amount > self.value:
            what = f"{amount} of {self.name} released where {self.value} are held"
            raise LocalError(f"{what}: was a message released twice?")
        self.value -= amount
        self.puts += puts
        self.put_sum += amount


class Throttles:
    """A host's throttles by name, each created when a policy first needs it.

    Args:
        shares: number of hosts that share the limits; each gets an equal part, rounded up.
    """

    def __init__(self, shares: int = 1) -> None:
        self._shares = shares
        self._by_name: dict[str, Throttle] = {}
        self._by_limits: dict[tuple[ThrottleLimit | None, ThrottleLimit | None], tuple[Throttle, ...]] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Throttle]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Throttle:
        """The existing throttle of that name."""
        return self._by_name[name]

    def of(self, messages: ThrottleLimit | None, size_bytes: ThrottleLimit | None) -> tuple[Throttle, ...]:
        """The throttles that a policy names, messages before bytes; those it does not name are omitted."""
        limits = messages, size_bytes
        found = self._by_limits.get(limits)
        if found is None:
            named = (messages, True), (size_bytes, False)
            found = tuple(self._throttle(limit, counts) for limit, counts in named if limit is not None)
            self._by_limits[limits] = found
        return found

    def _throttle(self, limit: ThrottleLimit, counts_messages: bool) -> Throttle:  # noqa: FBT001 - private
        throttle = self._by_name.get(limit.name)
        if throttle is None:
            share = -(-limit.limit // self._shares)
            throttle = self._by_name[limit.name] = Throttle(share, limit.name, counts_messages=counts_messages)
        return throttle
