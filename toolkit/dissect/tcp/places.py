"""Where packets, or what they carry, are in the data of a batch: columns of the same length."""

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
    """Where headers of one kind begin."""

    rows: Integers
    """Which packets of the batch they are in."""
    at: Integers
    """Offset in the data."""
    captured_ends: Integers
    """Where the captured bytes end."""
    wire_ends: Integers
    """Where they would end if everything had been captured."""

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, marks: Any) -> Self:  # noqa: ANN401 - a mask, or indices
        """Those that are marked."""
        return type(self)(*(getattr(self, column.name)[marks] for column in fields(self)))

    def beyond(self, sizes: Integers | int) -> "Places":
        """What begins so many bytes later."""
        return Places(self.rows, self.at + sizes, self.captured_ends, self.wire_ends)

    def holding(self, size_bytes: int, skipped: Counter[str] | None = None) -> Self:
        """Those of which so many bytes were captured.

        Args:
            size_bytes: how many.
            skipped: the others are counted there; None: nowhere.
        """
        whole = self.at + size_bytes <= self.captured_ends
        if whole.all():
            return self
        if skipped is not None:
            skipped[CUT_SHORT] += int(np.count_nonzero(~whole))
        return self.where(whole)


@dataclass(slots=True, eq=False)
class Layer(Places):
    """Where contents of various kinds begin."""

    types: npt.NDArray[Any]
    """The ethertype of each."""

    @classmethod
    def of(cls, types: npt.NDArray[Any], places: Places) -> Self:
        """Contents of these types at these places."""
        return cls(places.rows, places.at, places.captured_ends, places.wire_ends, types)


def in_line(layers: Sequence[Layer]) -> tuple[npt.NDArray[Any], Places]:
    """Types and places of all layers, one layer after the other."""
    columns = [np.concatenate([getattr(layer, column.name) for layer in layers]) for column in fields(Layer)]
    return columns[-1], Places(*columns[:-1])


def joined(parts: Sequence[Places]) -> Places:
    """All of them, in the order of the capture."""
    if len(parts) == 1:
        return parts[0]
    names = [column.name for column in fields(Places)]
    columns = [np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names]
    order = np.argsort(columns[0], kind="stable")
    return Places(*(column[order] for column in columns))
