"""Limits on what is held at a time (protocol.md §3.10)."""

from collections.abc import Iterator

from messenger.errors import LocalError
from messenger.session.policy import ThrottleLimit


class Throttle:
    """Counts units taken and given back.

    Args:
        limit: units; 0 = without limit.
        name: what perf counters and histories call it.
    """

    __slots__ = ("gets", "limit", "name", "put_sum", "puts", "refusals", "value", "waited_s", "waits")

    def __init__(self, limit: int, name: str = "dispatch_bytes") -> None:
        self.limit = limit
        self.name = name
        self.value = 0
        # For the perf counters.
        self.gets = 0
        self.refusals = 0
        self.puts = 0
        self.put_sum = 0
        self.waits = 0
        self.waited_s = 0.0

    @property
    def full(self) -> bool:
        """Whether no more should be taken for now."""
        return 0 < self.limit <= self.value

    def admits(self, amount: int) -> bool:
        """Whether ``amount`` more may be taken, by Ceph's rule.

        What is larger than the whole throttle passes as long as the limit is not exceeded already.
        """
        if not self.limit:
            return True
        return self.value + amount <= self.limit if amount <= self.limit else self.value <= self.limit

    def try_take(self, amount: int) -> bool:
        """Hold ``amount`` more, if that is admitted."""
        if not self.admits(amount):
            self.refusals += 1
            return False
        self.value += amount
        self.gets += 1
        return True

    def take(self, amount: int) -> None:
        """Hold ``amount`` more, whatever the limit; the caller counts it."""
        self.value += amount

    def put(self, amount: int) -> None:
        """Give ``amount`` back; the caller counts it.

        Raises:
            LocalError: more than is held; something was released twice.
        """
        if amount > self.value:
            raise LocalError(f"{amount} bytes released where {self.value} are held: was a message released twice?")
        self.value -= amount

    def count_put(self, amount: int, puts: int = 1) -> None:
        """``amount`` units were given back, in so many steps."""
        self.puts += puts
        self.put_sum += amount


class PolicyThrottles:
    """The throttles of one policy on one host; other policies may share them."""

    __slots__ = ("messages", "size_bytes")

    def __init__(self, messages: Throttle | None, size_bytes: Throttle | None) -> None:
        self.messages = messages
        self.size_bytes = size_bytes

    def put(self, messages: int, size_bytes: int) -> None:
        """So many messages of that size together are done with.

        Raises:
            LocalError: more than is held.
        """
        for throttle, amount in (self.messages, messages), (self.size_bytes, size_bytes):
            if throttle is not None:
                throttle.put(amount)
                throttle.count_put(amount, messages)


class Throttles:
    """A host's throttles by name, made when a policy first asks for them.

    Args:
        shares: how many hosts share the limits; each gets an equal part, rounded up.
    """

    def __init__(self, shares: int = 1) -> None:
        self._shares = shares
        self._by_name: dict[str, Throttle] = {}
        self._by_limits: dict[tuple[ThrottleLimit | None, ThrottleLimit | None], PolicyThrottles] = {}

    def __iter__(self) -> Iterator[Throttle]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Throttle:
        """The throttle of that name, which a policy has asked for."""
        return self._by_name[name]

    def of(self, messages: ThrottleLimit | None, size_bytes: ThrottleLimit | None) -> PolicyThrottles:
        """The throttles a policy names."""
        limits = messages, size_bytes
        found = self._by_limits.get(limits)
        if found is None:
            found = self._by_limits[limits] = PolicyThrottles(self._throttle(messages), self._throttle(size_bytes))
        return found

    def _throttle(self, limit: ThrottleLimit | None) -> Throttle | None:
        if limit is None:
            return None
        throttle = self._by_name.get(limit.name)
        if throttle is None:
            throttle = self._by_name[limit.name] = Throttle(-(-limit.limit // self._shares), limit.name)
        return throttle
