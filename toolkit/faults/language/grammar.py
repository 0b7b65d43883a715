"""Syntax of faults: a word, its arguments in order, and options, defined by the fields of a dataclass.

A field made by :func:`argument` is a positional argument, one made by :func:`option` is ``--name VALUE``, one made
by :func:`flag` is ``--name``. Arguments with blanks are quoted as in a shell.
"""

import math
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from toolkit.scanner import Scanner, Word, did_you_mean, plain, shell_words

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_NODE = re.compile("[a-z][a-z0-9]{0,7}")
_PART = "part"


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of an argument or option value."""

    shown: str
    """Placeholder in the usage, such as NODE."""
    read: Callable[[str], Any]
    """Parses a value; raises ValueError with a text that says what is accepted."""
    write: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True)
class _Part:
    kind: Kind | None
    """Type of the value; None for a flag."""
    is_option: bool
    shown: str
    takes_rest: bool = False


def argument(kind: Kind, shown: str = "", *, default: Any = MISSING) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Define a positional argument; it is optional if it has a default."""
    return field(default=default, metadata={_PART: _Part(kind, is_option=False, shown=shown or kind.shown)})


def option(kind: Kind, default: Any) -> Any:  # noqa: ANN401 - as above
    """Define an option with a value."""
    return field(default=default, metadata={_PART: _Part(kind, is_option=True, shown=kind.shown)})


def flag() -> Any:  # noqa: ANN401 - as above
    """Define an option without a value."""
    return field(default=False, metadata={_PART: _Part(None, is_option=True, shown="")})


def rest(kind: Kind) -> Any:  # noqa: ANN401 - as above
    """Define the last argument, which takes all remaining words; ``--name VALUE`` is read as ``name=VALUE``."""
    return field(metadata={_PART: _Part(kind, is_option=False, shown=f"{kind.shown}…", takes_rest=True)})


# ---- kinds


def _read_node(text: str) -> str:
    if not _NODE.fullmatch(text):
        raise ValueError("must be the name of a node: a lower-case letter, then up to 7 of a-z 0-9")
    return text


def number(shown: str, least: float = -math.inf, *, above: float = -math.inf, most: float = math.inf) -> Kind:
    """Return the type of numbers within bounds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("must be a number") from None
        if not math.isfinite(value) or value < least or value <= above or value > most:
            raise ValueError(f"must be a number{_bounds(least, above, most)}")
        return value

    return Kind(shown, read, plain)


def count(shown: str, least: int = 0, most: int = 1 << 31) -> Kind:
    """Return the type of whole numbers within bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return Kind(shown, read)


def _bounds(least: float, above: float, most: float) -> str:
    words = [f"of at least {least:g}"] if least > -math.inf else []
    words += [f"above {above:g}"] if above > -math.inf else []
    words += [f"of at most {most:g}"] if most < math.inf else []
    return "".join(f"{' ' if not at else ' and '}{word}" for at, word in enumerate(words))


NODE = Kind("NODE", _read_node)
TEXT = Kind("TEXT", str)


# ---- reading and writing


def parts(cls: "type[DataclassInstance]") -> Iterator[tuple[Field[Any], _Part]]:
    """Yield the fields that are in the text, in order."""
    for one in fields(cls):
        if _PART in one.metadata:
            yield one, one.metadata[_PART]


def usage(word: str, cls: "type[DataclassInstance]") -> str:
    """Return the syntax of a fault."""
    shown = [word]
    for one, part in parts(cls):
        if part.is_option:
            shown.append(f"[{_dashed(one.name)} {part.shown}]" if part.kind else f"[{_dashed(one.name)}]")
        else:
            shown.append(part.shown if one.default is MISSING else f"[{part.shown}]")
    return " ".join(shown)


def read(word: str, cls: "type[DataclassInstance]", words: Scanner) -> dict[str, Any]:
    """Parse the arguments of a fault to the values of its fields.

    Raises:
        TextError: an argument is wrong; the message has the syntax.
    """
    words.hint = f"; the syntax is {usage(word, cls)}"
    known = {_dashed(one.name): (one, part) for one, part in parts(cls) if part.is_option}
    places = [(one, part) for one, part in parts(cls) if not part.is_option]
    takes_rest = bool(places) and places[-1][1].takes_rest
    values: dict[str, Any] = {}
    arguments: list[Word] = []
    while words.more:
        given = words.take("a word")
        name, equals, value = given.text.partition("=")
        if name in known:
            one, part = known[name]
            if one.name in values:
                raise words.error(f"{name} is given twice", given.column)
            values[one.name] = _read_option(words, part, given)
        elif not name.startswith("--"):
            arguments.append(given)
        elif takes_rest and (equals or words.more):
            arguments.append(Word(f"{name[2:]}={value if equals else words.take('a value').text}", given.column))
        else:
            raise words.error(f"no option {name}{did_you_mean(name, known)}", given.column)
    if takes_rest and arguments[len(places) :]:
        last = arguments[len(places) - 1 :]
        arguments[len(places) - 1 :] = [Word(" ".join(each.text for each in last), last[0].column)]
    if len(arguments) > len(places):
        extra = arguments[len(places)]
        raise words.error(f"{extra.text!r} is one argument too many", extra.column)
    for (one, part), given in zip(places, arguments, strict=False):
        values[one.name] = _value(words, part, given, part.shown)
    for one, part in places[len(arguments) :]:
        if one.default is MISSING:
            raise words.error(f"{part.shown} is missing")
    return values


def _read_option(words: Scanner, part: _Part, given: Word) -> Any:  # noqa: ANN401 - by kind
    name, equals, value = given.text.partition("=")
    if part.kind is None:
        if equals:
            raise words.error(f"{name} takes no value", given.column)
        return True
    return _value(
        words, part, Word(value, given.column) if equals else words.take(f"{part.shown} of {name}"), name
    )


def _value(words: Scanner, part: _Part, given: Word, name: str) -> Any:  # noqa: ANN401 - by kind
    assert part.kind is not None
    try:
        return part.kind.read(given.text)
    except ValueError as error:
        raise words.error(f"{name} {given.text!r} {error}", given.column) from None


def write(word: str, fault: "DataclassInstance") -> str:
    """Return the text of a fault; defaults are left out unless a later argument is not a default."""
    words, pending = [word], []
    options: list[str] = []
    for one, part in parts(type(fault)):
        value = getattr(fault, one.name)
        if part.kind is None:
            options += [_dashed(one.name)] if value else []
        elif part.is_option:
            options += [_dashed(one.name), _quoted(part.kind.write(value))] if value != one.default else []
        elif part.takes_rest:
            words.append(part.kind.write(value))
        else:
            pending.append(_quoted(part.kind.write(value)))
            if one.default is MISSING or value != one.default:
                words += pending
                pending = []
    return " ".join(words + options)


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


def scan(text: str) -> Scanner:
    """Return the scanner of a fault.

    Raises:
        TextError: a quote is not closed.
    """
    return Scanner("fault", shell_words("fault", text), len(text) + 1)
