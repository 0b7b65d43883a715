"""Values of fields, as people write them in a rule."""

from enum import IntEnum
from typing import Any

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import LocalError, MsgrError

_WORDS = {"true": True, "false": False}


def parse_value(name: str, text: str, old: object) -> Any:  # noqa: ANN401 - of the type of any field
    """A value for a field that has another now.

    Numbers are decimal or 0x…, truths ``true`` and ``false``, bytes hex (``-`` for none), lists of numbers
    ``1,2``, addresses as Ceph prints them, entity types and other named numbers by name.

    Args:
        name: of the field, for errors.
        text: the value.
        old: what decides of which type it is.

    Raises:
        LocalError: no such value; says what would be accepted.
    """
    for types, parse, wanted in _KINDS:
        if isinstance(old, types):
            try:
                return parse(text, old)
            except (MsgrError, ValueError, KeyError):
                raise LocalError(f"{name}={text}: {wanted}") from None
    raise LocalError(f"{name}: values of this kind ({type(old).__name__}) cannot be given")


def _number(text: str, _old: object) -> int:
    return int(text, 0)


def _named(text: str, old: Any) -> object:  # noqa: ANN401 - an enumeration
    kind = type(old)
    if kind is EntityType and not text.isdigit():
        return EntityType.from_label(text)
    return kind[text.upper()] if text.upper() in kind.__members__ else kind(int(text, 0))


def _hex(text: str, _old: object) -> bytes:
    return bytes.fromhex("" if text == "-" else text)


def _numbers(text: str, _old: object) -> list[int]:
    return [int(part, 0) for part in text.strip("[]").split(",") if part]


_KINDS: tuple[tuple[type | tuple[type, ...], Any, str], ...] = (
    (bool, lambda text, _old: _WORDS[text], "true or false"),
    (IntEnum, _named, "a name or a number of its enumeration"),
    (int, _number, "a number, decimal or 0x…"),
    (float, lambda text, _old: float(text), "a number"),
    ((bytes, bytearray, memoryview), _hex, "bytes as hex, - for none"),
    (str, lambda text, _old: text, "a text"),
    (AddrVec, lambda text, _old: AddrVec.parse(text), "addresses like [v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]"),
    (EntityAddr, lambda text, _old: EntityAddr.parse(text), "an address like v2:10.0.0.1:3300/0"),
    (list, _numbers, "numbers with commas between, like 2,1"),
)
"""Types, what reads a text for them, and what to say to others; a truth is a number, too, so it comes first."""
