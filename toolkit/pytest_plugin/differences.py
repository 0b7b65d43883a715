"""Explains to pytest why histories, records or messages are not equal: the first difference, then a diff."""

from collections.abc import Sequence
from difflib import unified_diff
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from messenger.messages.message import Message
    from toolkit.checks.records import Record

_MOST_LINES = 40
_ROW_BYTES = 16
_HEADS = ("--- ", "+++ ", "@@ ")
"""Beginnings of a diff's header lines, which are omitted because pytest shows few lines."""
_MESSAGE_FIELDS = ("type", "version", "compat_version", "seq", "tid", "priority", "flags")
_PARTS = ("front", "middle", "data")


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: Any, right: Any) -> list[str] | None:  # noqa: ANN401 - pytest passes any object
    """Explain why ``left == right`` fails for histories, records and messages; None for other types."""
    if op != "==" or not _ours(left) or not _ours(right):
        return None
    from messenger.messages.message import Message  # noqa: PLC0415 - only failures pay for it

    if isinstance(left, Message) and isinstance(right, Message):
        return [f"{left!r} == {right!r}", *_diff(_message(left), _message(right))]
    before, after = _records(left), _records(right)
    if before is None or after is None:
        return None
    head = f"{len(before)} records == {len(after)} records"
    most = None if config.getoption("verbose") > 1 else _MOST_LINES
    return [head, *_first(before, after), *_diff(_texts(before), _texts(after), most)]


def _ours(value: object) -> bool:
    """True if a value, or the first element of a list, is an object of msgrlab's classes."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    return type(first).__module__.partition(".")[0] in {"messenger", "toolkit"}


def _records(value: object) -> "Sequence[Record] | None":
    from toolkit.checks.history import History  # noqa: PLC0415 - as above
    from toolkit.checks.records import Record  # noqa: PLC0415

    if isinstance(value, History):
        return value.records
    if isinstance(value, Record):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(each, Record) for each in value):
        return value
    return None


def _texts(records: "Sequence[Record]") -> list[str]:
    from toolkit.checks.describe import describe  # noqa: PLC0415 - as above

    return [f"{record.time_s:.6f} {record.node} {record.kind} {describe(record)}" for record in records]


def _first(before: "Sequence[Record]", after: "Sequence[Record]") -> list[str]:
    """Return lines about the first record that differs, and its differing fields."""
    pairs = enumerate(zip_longest(before, after))
    found = next(((place, *pair) for place, pair in pairs if pair[0] != pair[1]), None)
    if found is None:
        return ["they are equal"]
    place, one, other = found
    if one is None or other is None:
        rest = other if one is None else one
        assert rest is not None
        return [f"record {place} is missing on the {'right' if other is None else 'left'}: {_texts([rest])[0]}"]
    left, right = (
        {"time": each.time_s, "node": each.node, "kind": each.kind, **each.fields} for each in (one, other)
    )
    names = [name for name in dict.fromkeys((*left, *right)) if left.get(name) != right.get(name)]
    fields = (f"  {name}: {left.get(name)!r} != {right.get(name)!r}" for name in names)
    return [f"record {place} is the first that differs: {_texts([one])[0]}", *fields]


def _message(message: "Message") -> list[str]:
    """Return a message as lines: its fields, its payload if it decodes, and its bytes."""
    lines = [f"{name} {getattr(message, name)}" for name in _MESSAGE_FIELDS]
    lines += [f"payload {message.payload}"] if message.payload is not None else []
    for name in _PARTS:
        whole = bytes(getattr(message, name))
        rows = range(0, len(whole), _ROW_BYTES)
        lines += [f"{name} {len(whole)} bytes", *(_row(name, at, whole[at : at + _ROW_BYTES]) for at in rows)]
    return lines


def _row(name: str, at: int, row: bytes) -> str:
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
    return f"{name} {at:06x}  {row.hex(' '):<{3 * _ROW_BYTES}}{text}"


def _diff(before: Sequence[str], after: Sequence[str], most: int | None = _MOST_LINES) -> list[str]:
    lines = [line for line in unified_diff(before, after, n=0, lineterm="") if not line.startswith(_HEADS)]
    if most is None or len(lines) <= most:
        return lines
    return [*lines[:most], f"... {len(lines) - most} more lines, -vv shows them"]
