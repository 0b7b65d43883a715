"""A mapping of bounded size, for what is learnt from a capture of any length."""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that keeps the ``most`` entries that were put last."""

    __slots__ = ("_entries", "_most")

    def __init__(self, most: int) -> None:
        self._entries: dict[K, V] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def put(self, key: K, value: V) -> None:
        """Store ``value`` under ``key``, and drop the oldest entry if there are too many."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._most:
            del self._entries[next(iter(self._entries))]

    def get(self, key: K) -> V | None:
        """Return the value stored under ``key``; None if there is none."""
        return self._entries.get(key)
