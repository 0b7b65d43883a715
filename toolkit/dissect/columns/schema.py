"""The columns of decoded frames: the record of ``DecodedFrame.as_json``, flattened.

While a batch is built, a frame is a row of :data:`ROW`, whose texts are numbers in a :class:`Vocabulary`; Arrow
stores them as dictionaries. ``packet`` and ``run`` are sort keys and no columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from toolkit.capture.formats.packets import Integers, Marks

Rows = npt.NDArray[Any]
"""Structured arrays of one dtype."""
NULL = -1
"""The number that stands for no text."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
# Name, type in Arrow, type in rows, and True if only messages have the column.
_COLUMNS: tuple[tuple[str, pa.DataType, str, bool], ...] = (
    ("frame", pa.int64(), "", False),
    ("time", pa.timestamp("ns", "UTC"), "i8", False),
    ("stream", pa.int32(), "i4", False),
    ("src", _TEXT, "i4", False),
    ("dst", _TEXT, "i4", False),
    ("protocol", _TEXT, "i4", False),
    ("mode", _TEXT, "i4", False),
    ("tag", _TEXT, "i4", False),
    ("offset", pa.int64(), "i8", False),
    ("length", pa.int64(), "i8", False),
    ("crc", _TEXT, "i4", False),
    ("auth", _TEXT, "i4", False),
    ("error", _TEXT, "i4", False),
    ("type", pa.uint16(), "u2", True),
    ("name", _TEXT, "i4", True),
    ("seq", pa.uint64(), "u8", True),
    ("tid", pa.uint64(), "u8", True),
    ("message_src", _TEXT, "i4", True),
    ("version", pa.uint16(), "u2", True),
    ("compat_version", pa.uint16(), "u2", True),
    ("priority", pa.uint16(), "u2", True),
    ("front", pa.uint32(), "u4", True),
    ("middle", pa.uint32(), "u4", True),
    ("data", pa.uint32(), "u4", True),
    ("ack_seq", pa.uint64(), "u8", True),
)
SCHEMA = pa.schema([(name, kind) for name, kind, _, _ in _COLUMNS])
ROW = np.dtype(
    [("packet", "i8"), ("run", "i8"), ("message", "?"), *((name, kind) for name, _, kind, _ in _COLUMNS if kind)],
    align=True,
)
_NUMPY_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8"}


def dtype_of(layout: Struct, names: Iterable[str]) -> np.dtype[Any]:
    """Return a codec's structure as a NumPy dtype; ``names`` are those of its fields, in order."""
    return np.dtype([(name, _NUMPY_CODES[code]) for name, code in zip(names, layout.format[1:], strict=True)])


class Vocabulary:
    """The texts of one or several columns, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._array = _strings([])

    def number(self, text: str | None) -> int:
        """Return the number of a text, known or new; :data:`NULL` for None."""
        if text is None:
            return NULL
        return self._numbers.setdefault(text, len(self._numbers))

    def text(self, number: int) -> str:
        """Return the text with a number."""
        return self.array()[number].as_py()  # type: ignore[no-any-return]

    def array(self) -> pa.Array:
        """Return all texts in the order of their numbers."""
        if len(self._array) < len(self._numbers):
            self._array = _strings([text.encode(errors="backslashreplace") for text in self._numbers])
        return self._array


def new_vocabularies() -> Mapping[str, Vocabulary]:
    """Return a vocabulary for each text column; both address columns share one."""
    vocabularies = {name: Vocabulary() for name, kind, _, _ in _COLUMNS if kind == _TEXT}
    vocabularies["dst"] = vocabularies["src"]
    return vocabularies


def record_batch(
    rows: Rows, order: Integers, first_frame: int, vocabularies: Mapping[str, Vocabulary]
) -> pa.RecordBatch:
    """Convert rows of :data:`ROW` to an Arrow batch.

    Args:
        rows: the rows, in any order.
        order: indexes of the rows, in the order of the frames.
        first_frame: number of the first frame.
        vocabularies: texts by column.
    """
    present = rows["message"][order]
    messages = None if present.all() else present
    numbers = np.arange(first_frame, first_frame + len(order))
    arrays = [_array(numbers, pa.int64(), None)]
    for name, kind, _, of_messages in _COLUMNS[1:]:
        values = rows[name][order]
        valid = messages if of_messages else None
        if kind == _TEXT:
            if valid is None and (values == NULL).any():
                valid = values != NULL
            indices = _array(values, pa.int32(), valid)
            arrays.append(pa.DictionaryArray.from_arrays(indices, vocabularies[name].array(), safe=False))
        else:
            arrays.append(_array(values, kind, valid))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(values: Rows, kind: pa.DataType, valid: Marks | None) -> pa.Array:
    """An array on the memory of ``values``; :func:`pyarrow.array` would import pandas."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def _strings(texts: Sequence[bytes]) -> pa.Array:
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
