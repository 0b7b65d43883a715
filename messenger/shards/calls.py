"""The queue that restores the order of calls between shards."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from messenger.calls import StintCall, ToHome, ToShard

__all__ = ["InOrder", "ToHome", "ToShard"]

Call = TypeVar("Call", bound=StintCall)


class InOrder(Generic[Call]):
    """Applies the calls of one stint and direction in the order of their numbers."""

    __slots__ = ("_next_seq", "_waiting")

    def __init__(self) -> None:
        self._next_seq = 1
        self._waiting: dict[int, Call] = {}

    def arrive(self, call: Call) -> Iterator[Call]:
        """Store a call that arrived; yield every call that is now next in order."""
        self._waiting[call.seq] = call
        while (due := self._waiting.pop(self._next_seq, None)) is not None:
            self._next_seq += 1
            yield due
