"""Deadlines of the core: a heap of callbacks that time passes through as an argument."""

from collections.abc import Callable
from heapq import heappop, heappush

Callback = Callable[[float], None]


class Timer:
    """A scheduled callback; ``cancel`` makes it never fire."""

    __slots__ = ("_order", "callback", "deadline_s")

    def __init__(self, deadline_s: float, order: int, callback: Callback) -> None:
        self.deadline_s = deadline_s
        self._order = order
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Forget the callback."""
        self.callback = None

    def __lt__(self, other: "Timer") -> bool:
        return (self.deadline_s, self._order) < (other.deadline_s, other._order)


class Timers:
    """Pending timers; equal deadlines fire in the order they were set."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._count = 0

    def __len__(self) -> int:
        """How many are pending."""
        return sum(timer.callback is not None for timer in self._heap)

    def at(self, deadline_s: float, callback: Callback) -> Timer:
        """Call ``callback(now)`` once ``deadline_s`` has come."""
        self._count += 1
        timer = Timer(deadline_s, self._count, callback)
        heappush(self._heap, timer)
        return timer

    def next_deadline(self) -> float | None:
        """When the next timer is due; None without any."""
        heap = self._heap
        while heap and heap[0].callback is None:
            heappop(heap)
        return heap[0].deadline_s if heap else None

    def fire(self, now: float) -> None:
        """Run every timer that is due at ``now``; those set meanwhile wait for the next call."""
        due: list[Timer] = []
        heap = self._heap
        while heap and heap[0].deadline_s <= now:
            due.append(heappop(heap))
        for timer in due:
            callback = timer.callback
            if callback is not None:
                timer.callback = None
                callback(now)
