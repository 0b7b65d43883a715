"""Rows of numbers: the last ones in memory, the others in a temporary file, as a capture may have millions."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from toolkit.dissect.analysis.spool import Spool

if TYPE_CHECKING:
    Column = np.ndarray[tuple[int], np.dtype[np.uint64]]

Row = tuple[int, ...]
_NUMBER_BYTES = 8
_MOST_NUMBERS = 1 << 22
"""Numbers of all tables that are in memory, about."""
_LONGEST_BLOCK = 1 << 12
_SHORTEST_BLOCK = 96
"""Shorter blocks would cost more in :attr:`Table._blocks` than they save."""
_MOST_RECENT = 64
_SIGN = 1 << 63
_ALL = (1 << 64) - 1


def unsigned(number: int) -> int:
    """Return a signed number of 64 bits as a number of a row: times before 1970 are negative."""
    return number & _ALL


def signed(number: int) -> int:
    """Return the number that :func:`unsigned` was given."""
    return number - (_ALL + 1) if number & _SIGN else number


class RowStore:
    """The tables of one analysis, with their file."""

    def __init__(self) -> None:
        self.block_numbers = _LONGEST_BLOCK
        """Numbers of a table that are in memory before they are written as a block. The more tables, the fewer."""
        self.names: list[str] = []
        """Texts that rows name by their place."""
        self._places: dict[str, int] = {}
        self._tables = 0
        self._spool = Spool()
        self._recent: dict[int, array[int]] = {}
        """Blocks by position that were read last."""

    def table(self, width: int) -> "Table":
        """Return a new table, whose rows have ``width`` numbers."""
        self._tables += 1
        self.block_numbers = max(_SHORTEST_BLOCK, min(_LONGEST_BLOCK, _MOST_NUMBERS // self._tables))
        return Table(self, width)

    def place(self, name: str) -> int:
        """Return the place of a text in :attr:`names`."""
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.names)
            self.names.append(name)
        return found

    def put(self, block: "array[int]") -> int:
        """Write a block; returns its position.

        Raises:
            LocalError: the file cannot be written.
        """
        return self._spool.append(block.tobytes())[0]

    def get(self, position: int, count: int) -> "array[int]":
        """Return the block at a position, which has ``count`` numbers.

        Raises:
            LocalError: the file cannot be read.
        """
        found = self._recent.get(position)
        if found is None:
            if len(self._recent) >= _MOST_RECENT:
                del self._recent[next(iter(self._recent))]
            found = self._recent[position] = array("Q")
            found.frombytes(self._spool.read(position, count * _NUMBER_BYTES))
        return found


class Table:
    """Rows of numbers of 64 bits without sign. Its methods raise LocalError if the store's file fails."""

    __slots__ = ("_blocks", "_last", "_store", "_stored", "_width")

    def __init__(self, store: RowStore, width: int) -> None:
        self._store = store
        self._width = width
        self._last = array("Q")
        """The rows in memory."""
        self._stored = 0
        """Number of rows in the file."""
        self._blocks: list[tuple[int, int, int]] | None = None
        """Position of each block in the file, its number of numbers, and its first number."""

    def add(self, row: Row) -> None:
        """Add a row."""
        last = self._last
        last.extend(row)
        if len(last) >= self._store.block_numbers:
            if self._blocks is None:
                self._blocks = []
            self._blocks.append((self._store.put(last), len(last), last[0]))
            self._stored += len(last) // self._width
            self._last = array("Q")

    def __len__(self) -> int:
        return self._stored + len(self._last) // self._width

    def __iter__(self) -> Iterator[Row]:
        for block in self.blocks():
            numbers = iter(block)
            yield from zip(*[numbers] * self._width, strict=True)

    def blocks(self) -> "Iterator[array[int]]":
        """Yield the numbers of all rows, in blocks of whole rows."""
        for position, count, _ in self._blocks or ():
            yield self._store.get(position, count)
        yield self._last

    def column(self, place: int) -> "Column":
        """Return the number at a place of every row."""
        found = np.empty(len(self), np.uint64)
        end = 0
        for block in self.blocks():
            numbers = np.frombuffer(block, np.uint64)[place :: self._width]
            found[end : end + len(numbers)] = numbers
            end += len(numbers)
        return found

    def at_least(self, value: int) -> Row | None:
        """Return the first row whose first number is at least ``value``; None if there is none.

        The rows must be in ascending order of their first numbers.
        """
        blocks = self._blocks or []
        place = bisect_left(blocks, value, key=lambda block: block[2])
        for position, count, _ in blocks[max(place - 1, 0) : place + 1]:
            if (row := self._first_of(self._store.get(position, count), value)) is not None:
                return row
        return self._first_of(self._last, value)

    def _first_of(self, block: "array[int]", value: int) -> Row | None:
        starts = range(0, len(block), self._width)
        place = bisect_left(starts, value, key=block.__getitem__)
        return tuple(block[starts[place] : starts[place] + self._width]) if place < len(starts) else None
