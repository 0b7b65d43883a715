"""Parses the command-line lists that define the grid of measurements."""

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
    """Return the grid that the options define; each is a comma-separated list, or None for the default.

    Raises:
        LocalError: a word is not accepted; the text names the option and the accepted words.
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
    """Return the cells that a comma-separated list names, each by some of its words: ``crc 4K x32 1core``.

    Raises:
        LocalError: no cell has a word, or all the words of a name; the text lists those known.
    """
    chosen = set()
    for name in text.split(","):
        words = set(name.split())
        known = dict.fromkeys(word for cell in cells for word in cell.name.split())
        for word in sorted(words - known.keys()):
            raise LocalError(f"--cells: unknown {word!r}; known: {', '.join(known)}")
        found = [cell for cell in cells if words <= set(cell.name.split())]
        if not words or not found:
            raise LocalError(f"--cells: no cell is named {name.strip()!r}; an example is {cells[0].name!r}")
        chosen.update(found)
    return [cell for cell in cells if cell in chosen]


def parse_names(option: str, known: Sequence[str], text: str) -> list[str]:
    """Return the names in a comma-separated list, without duplicates.

    Raises:
        LocalError: a name is not among ``known``; the text names the option.
    """
    return [_name(option, known, word) for word in dict.fromkeys(word.strip() for word in text.split(","))]


def _each(text: str | None, parse: Callable[[str], T]) -> list[T] | None:
    return None if text is None else [parse(word.strip()) for word in text.split(",")]


def _name(option: str, known: Sequence[str], word: str) -> str:
    if word not in known:
        raise LocalError(f"{option}: unknown {word!r}; known: {', '.join(known)}")
    return word


def parse_size(option: str, word: str) -> int:
    """Parse a number of bytes such as ``4K``, which gives 4096.

    Raises:
        LocalError: it is not a size from 1 byte to MAX_SIZE; the text names the option.
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
    """Return the number; 0 if the text is not 1 to 9 digits, which no option accepts."""
    return int(digits) if _DIGITS.fullmatch(digits) else 0
