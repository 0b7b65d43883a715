"""Offsets of packets, or of their contents, in the data of a batch: columns of equal length."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from toolkit.capture.formats.packets import Integers

CUT_SHORT = "cut short within its headers"


@dataclass(slots=True, eq=False)
class Places:
    """Offsets of headers of one kind."""

    rows: Integers
    """Indexes of their packets in the batch."""
    at: Integers
    """Offset in the data."""
    captured_ends: Integers
    """Offset where the captured bytes end."""
    wire_ends: Integers
    """Offset where they would end if the packet had been captured in full."""

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, marks: Any) -> Self:  # noqa: ANN401 - a mask, or indices
        """Return the marked ones."""
        return type(self)(*(getattr(self, column.name)[marks] for column in fields(self)))

    def beyond(self, sizes: Integers | int) -> "Places":
        """Return the places so many bytes later."""
        return Places(self.rows, self.at + sizes, self.captured_ends, self.wire_ends)

    def holding(self, size_bytes: int, skipped: Counter[str] | None = None) -> Self:
        """Return those of which at least so many bytes were captured.

        Args:
            size_bytes: number of bytes.
            skipped: counts the others; None: they are not counted.
        """
        whole = self.at + size_bytes <= self.captured_ends
        if whole.all():
            return self
        if skipped is not None:
            skipped[CUT_SHORT] += int(np.count_nonzero(~whole))
        return self.where(whole)


@dataclass(slots=True, eq=False)
class Layer(Places):
    """Offsets of contents of various kinds."""

    types: npt.NDArray[Any]
    """The ethertype of each content."""

    @classmethod
    def of(cls, types: npt.NDArray[Any], places: Places) -> Self:
        """Return contents of these types at these places."""
        return cls(places.rows, places.at, places.captured_ends, places.wire_ends, types)


def in_line(layers: Sequence[Layer]) -> tuple[npt.NDArray[Any], Places]:
    """Return types and places of all layers, one layer after the other."""
    columns = [np.concatenate([getattr(layer, column.name) for layer in layers]) for column in fields(Layer)]
    return columns[-1], Places(*columns[:-1])


def joined(parts: Sequence[Places]) -> Places:
    """Return all places, in the order of the capture."""
    if len(parts) == 1:
        return parts[0]
    names = [column.name for column in fields(Places)]
    columns = [np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names]
    order = np.argsort(columns[0], kind="stable")
    return Places(*(column[order] for column in columns))
