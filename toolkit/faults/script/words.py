"""Reader of a rule's words, with their columns for errors."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from messenger.errors import LocalError

T = TypeVar("T")

_LONGEST_S = 86_400.0
_TIME = re.compile(r"([0-9.e+-]+)(ms|s)")
_RATE = re.compile(r"([0-9.e+-]+)(|K|M|G)B/s")
_THOUSANDS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a rule."""

    text: str
    column: int
    """Column of its first character, counted from 1."""


def split(text: str, column: int = 1) -> list[Word]:
    """Split a text that begins at a column into words."""
    return [Word(found.group(), column + found.start()) for found in re.finditer(r"\S+", text)]


class Words:
    """Reads words one after the other.

    Args:
        words: the words.
        end: column after the last one, for errors.
    """

    def __init__(self, words: Sequence[Word], end: int) -> None:
        self._words = list(words)
        self._at = 0
        self._end = end

    @property
    def column(self) -> int:
        """Column of the next word, or of the end."""
        return self._words[self._at].column if self._at < len(self._words) else self._end

    def error(self, what: str, column: int | None = None) -> LocalError:
        """Return an error at the next word, or at ``column``."""
        return LocalError(f"rule, column {column or self.column}: {what}")

    def peek(self) -> str:
        """Return the next word without reading it; empty at the end."""
        return self._words[self._at].text if self._at < len(self._words) else ""

    def take(self, wanted: str) -> Word:
        """Read the next word.

        Raises:
            LocalError: there is none; the message has ``wanted``.
        """
        if self._at >= len(self._words):
            raise self.error(f"it ends too early; expected here: {wanted}")
        self._at += 1
        return self._words[self._at - 1]

    def has(self, *texts: str) -> bool:
        """Read these words if they are next; returns True if they were."""
        if [word.text for word in self._words[self._at : self._at + len(texts)]] != list(texts):
            return False
        self._at += len(texts)
        return True

    def rest(self) -> str:
        """Read all remaining words; returns them joined by single blanks."""
        left = " ".join(word.text for word in self._words[self._at :])
        self._at = len(self._words)
        return left

    def finish(self, accepted: str) -> None:
        """Check that no words remain.

        Raises:
            LocalError: there is another word.
        """
        if self.peek():
            raise self.error(f"{self.peek()!r} does not belong here; {accepted}")

    def read(self, wanted: str, parse: Callable[[str], T]) -> T:
        """Read the next word and convert it.

        Raises:
            LocalError: it cannot be converted; the message has ``wanted``.
        """
        word = self.take(wanted)
        try:
            return parse(word.text)
        except (ValueError, KeyError, OverflowError):
            raise self.error(f"{word.text!r} is not {wanted}", word.column) from None


def number(text: str) -> int:
    """Parse a whole number, decimal or 0x…; raises ValueError."""
    if len(text) > 20:
        raise ValueError(text)
    return int(text, 0)


def count(text: str) -> int:
    """Parse a whole number of at least 1; raises ValueError."""
    value = number(text)
    if value < 1:
        raise ValueError(text)
    return value


def seconds(text: str) -> float:
    """Parse a time such as 200ms or 1.5s; raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    value = float(found[1]) / (1000 if found[2] == "ms" else 1)
    if not 0 <= value <= _LONGEST_S:
        raise ValueError(text)
    return value


def rate(text: str) -> float:
    """Parse a rate such as 500B/s or 10KB/s, in bytes per second; raises ValueError."""
    found = _RATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    value = float(found[1]) * _THOUSANDS[found[2]]
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(text)
    return value


def name(text: str) -> str:
    """Check a name given by the user; raises ValueError."""
    if _NAME.fullmatch(text) is None:
        raise ValueError(text)
    return text


def hex_bytes(text: str) -> bytes:
    """Parse bytes in hex, ``-`` for none; raises ValueError."""
    return b"" if text == "-" else bytes.fromhex(text)


def assignment(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE; raises ValueError."""
    left, sign, right = text.partition("=")
    if not sign or not right or not re.fullmatch(r"[a-z_][a-z0-9_.]*", left):
        raise ValueError(text)
    return left, right


def plain(value: float) -> str:
    """Return the shortest exact text of a number."""
    text = repr(value)
    return text.removesuffix(".0")


TIME = "a time like 200ms or 1.5s"
RATE = "a rate like 500B/s, 10KB/s or 1MB/s"
BYTE = "a number of a byte (negative: from the end)"
HEX = "bytes as hex, - for none"
NAME = "a name of letters, digits, _ . and -"
ASSIGNMENT = "FIELD=VALUE, without blanks"
