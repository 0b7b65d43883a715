"""Virtual time: events run in the order of their times, those of one time in the order in which they were set."""

from collections.abc import Callable
from heapq import heappop, heappush

MAX_EVENTS = 5_000_000
"""A run with more events than this is stuck in a loop."""


class Clock:
    """The simulator's event queue."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events = 0
        """Number of callbacks that have run."""
        self._order = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Run ``action`` in ``delay_s`` seconds."""
        self.at(self.now_s + delay_s, action)

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Run ``action`` at ``time_s``, now if that is past."""
        self._order += 1
        heappush(self._heap, (max(time_s, self.now_s), self._order, action))

    def run_until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Run events until ``condition`` holds; False, with the time at ``deadline_s``, if it does not by then."""
        while not condition():
            if not self._heap or self._heap[0][0] > deadline_s:
                self.now_s = deadline_s
                return condition()
            self.now_s, _, action = heappop(self._heap)
            self.events += 1
            assert self.events < MAX_EVENTS, f"more than {MAX_EVENTS} events"
            action()
        return True
