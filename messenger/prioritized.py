"""The order in which queued messages are dispatched: Ceph's weighted priority queue.

A priority of :data:`STRICT_PRIORITY` or more comes before all lower ones. The lower priorities share by tokens:
each dispatched message gives every waiting priority tokens in proportion to the priority, and the lowest priority
with enough tokens for its next message comes first; if none has enough, the highest priority does. Within a
priority, connections take turns.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from messenger.messages.message import PRIORITY_LOW

STRICT_PRIORITY = PRIORITY_LOW

Item = TypeVar("Item")


class _Turns(Generic[Item]):
    """The messages of one priority by class (connection); a class goes to the end after each message."""

    __slots__ = ("_by_class", "tokens")

    def __init__(self) -> None:
        self._by_class: dict[Hashable, deque[tuple[int, Item]]] = {}
        self.tokens = 0

    def __bool__(self) -> bool:
        return bool(self._by_class)

    def __len__(self) -> int:
        return sum(map(len, self._by_class.values()))

    def push(self, class_: Hashable, cost: int, item: Item) -> None:
        """Queue an item behind those of the same class."""
        queue = self._by_class.get(class_)
        if queue is None:
            queue = self._by_class[class_] = deque()
        queue.append((cost, item))

    @property
    def cost(self) -> int:
        """Cost of the next item."""
        return next(iter(self._by_class.values()))[0][0]

    def pop(self) -> Item:
        """Remove and return the next item."""
        class_, queue = next(iter(self._by_class.items()))
        _, item = queue.popleft()
        del self._by_class[class_]
        if queue:
            self._by_class[class_] = queue
        return item

    def pop_class(self, class_: Hashable) -> Iterator[Item]:
        """Remove and yield all items of a class, in order."""
        for _, item in self._by_class.pop(class_, ()):
            yield item


class PrioritizedQueue(Generic[Item]):
    """Messages that wait to be dispatched.

    Args:
        max_tokens: most tokens that a priority collects, and the highest cost of a message.
        min_cost: lowest cost of a message.
    """

    __slots__ = ("_max_tokens", "_min_cost", "_strict", "_weighted")

    def __init__(self, max_tokens: int, min_cost: int) -> None:
        self._max_tokens = max_tokens
        self._min_cost = min_cost
        self._strict: dict[int, _Turns[Item]] = {}
        self._weighted: dict[int, _Turns[Item]] = {}

    def __bool__(self) -> bool:
        return bool(self._strict or self._weighted)

    def __len__(self) -> int:
        return sum(len(turns) for queues in (self._strict, self._weighted) for turns in queues.values())

    def push(self, class_: Hashable, priority: int, cost: int, item: Item) -> None:
        """Queue an item of a class; its cost matters below :data:`STRICT_PRIORITY` only."""
        queues = self._strict if priority >= STRICT_PRIORITY else self._weighted
        turns = queues.get(priority)
        if turns is None:
            turns = queues[priority] = _Turns()
        turns.push(class_, min(max(cost, self._min_cost), self._max_tokens), item)

    def pop(self) -> Item:
        """Remove and return the next item.

        Raises:
            IndexError: the queue is empty.
        """
        if self._strict:
            return self._pop(self._strict, max(self._strict))
        if not self._weighted:
            raise IndexError("pop from an empty PrioritizedQueue")
        for priority in sorted(self._weighted):
            turns = self._weighted[priority]
            if turns.cost < turns.tokens:
                cost = turns.cost
                turns.tokens -= cost
                break
        else:
            priority = max(self._weighted)
            cost = self._weighted[priority].cost
        item = self._pop(self._weighted, priority)
        self._distribute(cost)
        return item

    def pop_class(self, class_: Hashable) -> list[Item]:
        """Remove and return all items of a class, highest priority first, each priority in order of queueing."""
        items: list[Item] = []
        for queues in self._strict, self._weighted:
            for priority in sorted(queues, reverse=True):
                items += queues[priority].pop_class(class_)
                if not queues[priority]:
                    del queues[priority]
        return items

    @staticmethod
    def _pop(queues: dict[int, _Turns[Item]], priority: int) -> Item:
        turns = queues[priority]
        item = turns.pop()
        if not turns:
            del queues[priority]
        return item

    def _distribute(self, cost: int) -> None:
        """Distribute a dispatched message's cost as tokens to the waiting priorities, in proportion to each."""
        total = sum(self._weighted)
        for priority, turns in self._weighted.items():
            share = priority * cost // total + 1 if total else 0
            turns.tokens = min(turns.tokens + share, self._max_tokens)
