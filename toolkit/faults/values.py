"""Parse values of fields, as users write them in rules."""

from enum import IntEnum
from typing import Any

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import LocalError, MsgrError

_WORDS = {"true": True, "false": False}


def parse_value(name: str, text: str, old: object) -> Any:  # noqa: ANN401 - of the type of any field
    """Parse a value for a field, by the type of its present value.

    Numbers are decimal or 0x…, booleans ``true`` and ``false``, bytes hex (``-`` for none), lists of numbers
    ``1,2``, addresses as Ceph prints them, entity types and enumerations by name.

    Args:
        name: name of the field, for errors.
        text: the value.
        old: present value of the field, whose type decides.

    Raises:
        LocalError: the text is not such a value; the message says what is accepted.
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
"""Types, their parsers, and what errors say is accepted; bool comes first, because it is a subclass of int."""
