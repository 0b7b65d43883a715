"""The grid of measurements as lists on the command line."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.bench.cell import CORES, KIB, MIB, MODES, Cell, Grid, Pattern

MAX_SIZE = 256 * MIB
MAX_IN_FLIGHT = 65536
_DIGITS = re.compile("[0-9]{1,9}")
_UNITS = {"": 1, "K": KIB, "M": MIB}

T = TypeVar("T")


def parse_grid(
    patterns: str | None,
    sizes: str | None,
    in_flight: str | None,
    modes: str | None,
    cores: str | None,
    proto: str = "v2",
) -> Grid:
    """The grid that the options ask for, each a list with commas, or None for the default.

    Raises:
        LocalError: a word that is none of those that are accepted; says which option, and what is.
    """
    protocol = Protocol(_name("--proto", tuple(Protocol), proto))
    if protocol is Protocol.V1 and modes not in {None, "crc"}:
        raise LocalError(f"--modes {modes}: msgr v1 has crcs only")
    return Grid(
        protocol=protocol,
        patterns=_each(patterns, lambda word: Pattern(_name("--patterns", tuple(Pattern), word))),
        sizes=_each(sizes, partial(parse_size, "--sizes")),
        in_flight=_each(in_flight, _in_flight),
        modes=_each(modes, partial(_name, "--modes", MODES)),
        cores=_each(cores, lambda word: int(_name("--cores", tuple(map(str, CORES)), word))),
    )


def choose_cells(cells: Sequence[Cell], text: str) -> list[Cell]:
    """The cells that a list with commas names, each by some of its words: ``crc 4K x32 1core``.

    Raises:
        LocalError: a word that no cell has, or a name without a cell; says what there is.
    """
    chosen = set()
    for name in text.split(","):
        words = set(name.split())
        known = dict.fromkeys(word for cell in cells for word in cell.name.split())
        for word in sorted(words - known.keys()):
            raise LocalError(f"--cells: unknown {word!r}; known: {', '.join(known)}")
        found = [cell for cell in cells if words <= set(cell.name.split())]
        if not words or not found:
            raise LocalError(f"--cells: no cell is named {name.strip()!r}; one is {cells[0].name!r}")
        chosen.update(found)
    return [cell for cell in cells if cell in chosen]


def parse_names(option: str, known: Sequence[str], text: str) -> list[str]:
    """The names in a list with commas, each once.

    Raises:
        LocalError: one that is not among ``known``; names the option.
    """
    return [_name(option, known, word) for word in dict.fromkeys(word.strip() for word in text.split(","))]


def _each(text: str | None, parse: Callable[[str], T]) -> list[T] | None:
    return None if text is None else [parse(word.strip()) for word in text.split(",")]


def _name(option: str, known: Sequence[str], word: str) -> str:
    if word not in known:
        raise LocalError(f"{option}: unknown {word!r}; known: {', '.join(known)}")
    return word


def parse_size(option: str, word: str) -> int:
    """A number of bytes, such as 4K.

    Raises:
        LocalError: it is none; names the option.
    """
    digits = word.rstrip("KMkm")
    unit = _UNITS.get(word[len(digits) :].upper(), 0)
    size = _number(digits) * unit
    if not 1 <= size <= MAX_SIZE:
        raise LocalError(f"{option}: {word!r} is not a size from 1 to {MAX_SIZE // MIB}M, such as 64, 4K or 1M")
    return size


def _in_flight(word: str) -> int:
    number = _number(word)
    if not 1 <= number <= MAX_IN_FLIGHT:
        raise LocalError(f"--in-flight: {word!r} is not a number from 1 to {MAX_IN_FLIGHT}")
    return number


def _number(digits: str) -> int:
    """What the digits say; 0 if they are none, or too many for any option."""
    return int(digits) if _DIGITS.fullmatch(digits) else 0
