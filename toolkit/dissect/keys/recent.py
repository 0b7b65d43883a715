"""A mapping that forgets: what a capture teaches must not fill the memory, however long it is."""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The ``most`` entries that were put last."""

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
        """Know ``value`` by ``key``, and forget the oldest entry if there are too many."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._most:
            del self._entries[next(iter(self._entries))]

    def get(self, key: K) -> V | None:
        """What is known by ``key``."""
        return self._entries.get(key)
