"""The omap of an object: immutable, in the order of OSDs, and quick to change however many keys it has."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping

from messenger.compat import override

CHUNK = 256
"""Keys that a change of one key copies; a chunk has up to twice as many."""
OVERHEAD_BYTES = 64
"""Overhead of an attribute or an omap key in bytes, added to its content."""

_Chunk = dict[str, bytes]
"""Some keys that follow each other, in order, with their values."""


def as_bytes(key: str) -> bytes:
    """Return the bytes of a key, by which OSDs sort."""
    return key.encode("utf-8", "surrogateescape")


def in_order(keys: Iterable[str]) -> list[str]:
    """Sort keys as OSDs do: by their bytes."""
    return sorted(keys, key=as_bytes)


class Omap(Mapping[str, bytes]):
    """Values by key. A change makes another omap, which shares most of its chunks with this one.

    Args:
        values: the first values.
    """

    __slots__ = ("_chunks", "_count", "_firsts", "held_bytes")

    def __init__(self, values: Mapping[str, bytes] | None = None) -> None:
        known = values or {}
        self._chunks = _split({key: known[key] for key in in_order(known)})
        self._firsts = [_first(chunk) for chunk in self._chunks]
        self._count = len(known)
        self.held_bytes = sum(map(_size, self._chunks))
        """Bytes that count against the capacity of an OSD."""

    @override
    def __getitem__(self, key: str) -> bytes:
        if not self._chunks:
            raise KeyError(key)
        return self._chunks[self._place(key)][key]

    @override
    def __iter__(self) -> Iterator[str]:
        return (key for chunk in self._chunks for key in chunk)

    @override
    def __len__(self) -> int:
        return self._count

    def _place(self, key: str) -> int:
        """Return the position of the chunk in which a key is, or would be."""
        return max(0, bisect_right(self._firsts, as_bytes(key)) - 1)

    def changed(self, values: Mapping[str, bytes], removed: Collection[str] = ()) -> "Omap":
        """Return an omap in which some keys have other values, and some are gone."""
        changes: dict[int, tuple[_Chunk, set[str]]] = {}
        for key, value in values.items():
            changes.setdefault(self._place(key), ({}, set()))[0][key] = value
        for key in removed:
            changes.setdefault(self._place(key), ({}, set()))[1].add(key)
        made = Omap()
        made._chunks, made._firsts = list(self._chunks), list(self._firsts)
        made._count, made.held_bytes = self._count, self.held_bytes
        for place in sorted(changes, reverse=True):  # positions of earlier chunks stay
            old = self._chunks[place] if self._chunks else {}
            new, gone = changes[place]
            pieces = _split(_merged(old, new, gone))
            made._count += sum(map(len, pieces)) - len(old)
            made.held_bytes += sum(map(_size, pieces)) - _size(old)
            made._chunks[place : place + 1] = pieces
            made._firsts[place : place + 1] = [_first(piece) for piece in pieces]
        return made

    def page(self, after: str, prefix: str, most: int) -> tuple[list[str], bool]:
        """Return the next keys with a prefix, and True if there are more.

        Args:
            after: the keys follow this one.
            prefix: how the keys begin.
            most: number of keys at most.
        """
        found: list[str] = []
        start, wanted = as_bytes(after), as_bytes(prefix)
        for chunk in self._chunks[self._place(max(after, prefix, key=as_bytes)) :]:
            for key in chunk:
                text = as_bytes(key)
                if text.startswith(wanted) and text > start:
                    if len(found) == most:
                        return found, True
                    found.append(key)
                elif text > wanted and not text.startswith(wanted):
                    return found, False
        return found, False

    def between(self, begin: str, end: str) -> list[str]:
        """Return the keys from the first given one up to, but not including, the second."""
        first, last = as_bytes(begin), as_bytes(end)
        found: list[str] = []
        for chunk in self._chunks[self._place(begin) :]:
            if _first(chunk) >= last:
                break
            found += [key for key in chunk if first <= as_bytes(key) < last]
        return found


def _merged(old: _Chunk, new: _Chunk, gone: set[str]) -> _Chunk:
    merged = {key: value for key, value in {**old, **new}.items() if key not in gone}
    return merged if new.keys() <= old.keys() else {key: merged[key] for key in in_order(merged)}


def _split(chunk: _Chunk) -> list[_Chunk]:
    if len(chunk) <= 2 * CHUNK:
        return [chunk] if chunk else []
    pairs = list(chunk.items())
    return [dict(pairs[start : start + CHUNK]) for start in range(0, len(pairs), CHUNK)]


def _first(chunk: _Chunk) -> bytes:
    return as_bytes(next(iter(chunk)))


def _size(chunk: _Chunk) -> int:
    return sum(len(key) + len(value) + OVERHEAD_BYTES for key, value in chunk.items())


NO_OMAP = Omap()
