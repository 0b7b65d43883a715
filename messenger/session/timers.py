"""Timers of the core: a heap of callbacks that get the time as an argument."""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

Callback = Callable[[float], None]


def _run(callback: Callback, now: float) -> None:
    callback(now)


_LEAST_CANCELLED = 64
"""Fewer cancelled timers than this are not removed from the heap."""


class Timer:
    """A scheduled callback; after ``cancel`` it never fires."""

    __slots__ = ("_order", "_timers", "callback", "deadline_s", "in_heap")

    def __init__(self, timers: "Timers", deadline_s: float, order: int, callback: Callback) -> None:
        self._timers = timers
        self._order = order
        self.deadline_s = deadline_s
        self.callback: Callback | None = callback
        """None once the timer has fired or was cancelled."""
        self.in_heap = True

    def cancel(self) -> None:
        """Prevent the timer from firing."""
        if self.callback is not None:
            self.callback = None
            if self.in_heap:
                self._timers.cancelled()

    def __lt__(self, other: "Timer") -> bool:
        return (self.deadline_s, self._order) < (other.deadline_s, other._order)


class Timers:
    """Pending timers; equal deadlines fire in the order in which they were set."""

    __slots__ = ("_cancelled", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._count = 0
        self._cancelled = 0
        """Number of cancelled timers in the heap."""

    def __len__(self) -> int:
        """Number of pending timers."""
        return len(self._heap) - self._cancelled

    def at(self, deadline_s: float, callback: Callback) -> Timer:
        """Call ``callback(now)`` at ``deadline_s``, or as soon as possible after it."""
        self._count += 1
        timer = Timer(self, deadline_s, self._count, callback)
        heappush(self._heap, timer)
        return timer

    def cancelled(self) -> None:
        """Count a cancelled timer; clean the heap if most of its timers are cancelled."""
        self._cancelled += 1
        if self._cancelled > max(len(self._heap) // 2, _LEAST_CANCELLED):
            self._heap = [timer for timer in self._heap if timer.callback is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_deadline(self) -> float | None:
        """Time of the next pending timer; None if there is none."""
        heap = self._heap
        while heap and heap[0].callback is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0].deadline_s if heap else None

    def fire(self, now: float, run: Callable[[Callback, float], None] = _run) -> None:
        """Call ``run(callback, now)`` for every timer that is due; timers set meanwhile wait for the next call.

        If ``run`` raises, the timers after that one stay pending.
        """
        due: deque[Timer] = deque()
        while self._heap and self._heap[0].deadline_s <= now:
            timer = heappop(self._heap)
            if timer.callback is None:
                self._cancelled -= 1
            else:
                timer.in_heap = False
                due.append(timer)
        try:
            while due:
                timer = due.popleft()
                callback, timer.callback = timer.callback, None
                if callback is not None:  # an earlier callback may have cancelled it
                    run(callback, now)
        finally:
            for timer in due:
                timer.in_heap = True
                heappush(self._heap, timer)
                self._cancelled += timer.callback is None
