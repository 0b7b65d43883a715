"""Scanner of the small languages: faults, rules of the proxy, breakpoints and filters.

All of them report a mistake as a :class:`TextError`: the language, the column, what is wrong, what is accepted.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from typing import TypeVar

from messenger.errors import LocalError

T = TypeVar("T")

LONGEST = 4096
"""Limit of a rule or a filter in characters; Python's parser may fail in other ways on longer ones."""

_MOST_LISTED = 50
_WORD = re.compile(r"\S+")
_FIELD = re.compile(r"(?:^|(?<=:))[^:]*")
_NO_SHELL_BLANK = re.compile(r"[^ \t\r\n]|\Z")


class TextError(LocalError):
    """A text that is not in its language.

    Args:
        language: name of the language.
        column: column of the mistake, counted from 1.
        what: what is wrong there, and what is accepted.
    """

    def __init__(self, language: str, column: int, what: str) -> None:
        super().__init__(f"{language}, column {column}: {what}")
        self.column = column
        self.what = what


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text."""

    text: str
    column: int
    """Column of its first character, counted from 1."""


def blank_separated(text: str, start: int = 0, stop: int | None = None) -> Iterator[Word]:
    """Yield the words between blanks in a part of a text."""
    for found in _WORD.finditer(text, start, len(text) if stop is None else stop):
        yield Word(found.group(), found.start() + 1)


def colon_separated(text: str) -> Iterator[Word]:
    """Yield the words between colons; they may be empty."""
    for found in _FIELD.finditer(text):
        yield Word(found.group(), found.start() + 1)


def shell_words(language: str, text: str) -> Iterator[Word]:
    """Yield the words of a text that is quoted as in a shell.

    Raises:
        TextError: a quote is not closed, or nothing follows the last backslash.
    """
    stream = StringIO(text)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    while True:
        start = _NO_SHELL_BLANK.search(text, stream.tell())
        column = (start.start() if start else len(text)) + 1
        try:
            word = lexer.get_token()
        except ValueError as error:
            raise TextError(language, column, str(error).lower()) from None
        if word is None:
            return
        yield Word(word, column)


def require_printable(language: str, text: str) -> None:
    """Check that a text is not too long and has no control characters.

    Raises:
        TextError: it is, or has.
    """
    if len(text) > LONGEST:
        raise TextError(language, LONGEST + 1, f"{len(text)} characters are more than {LONGEST}")
    for column, character in enumerate(text, 1):
        if not character.isprintable():
            raise TextError(language, column, f"a control character, {character!r}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown word: the closest known word, or all of them if they are few."""
    names = sorted(known)
    near = get_close_matches(word, names, 1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else ""


class Scanner:
    """Reads words one after the other.

    Args:
        language: name of the language, for errors.
        words: the words.
        end: column after the last one, for errors.
    """

    def __init__(self, language: str, words: Iterable[Word], end: int) -> None:
        self._language = language
        self._words = list(words)
        self._at = 0
        self._end = end
        self.hint = ""
        """Appended to every error."""

    @property
    def more(self) -> bool:
        """True if there is another word."""
        return self._at < len(self._words)

    @property
    def column(self) -> int:
        """Column of the next word, or of the end."""
        return self._words[self._at].column if self.more else self._end

    def error(self, what: str, column: int | None = None) -> TextError:
        """Return an error at the next word, or at ``column``."""
        return TextError(self._language, column or self.column, what + self.hint)

    def peek(self) -> str:
        """Return the next word without reading it; empty at the end."""
        return self._words[self._at].text if self.more else ""

    def take(self, wanted: str) -> Word:
        """Read the next word.

        Raises:
            TextError: there is none; the message has ``wanted``.
        """
        if not self.more:
            raise self.error(f"it ends too early; expected here: {wanted}")
        self._at += 1
        return self._words[self._at - 1]

    def has(self, *texts: str) -> bool:
        """Read these words if they are next; returns True if they were."""
        if [word.text for word in self._words[self._at : self._at + len(texts)]] != list(texts):
            return False
        self._at += len(texts)
        return True

    def choose(self, kind: str, known: Iterable[str]) -> str:
        """Read the next word, which is one of those known.

        Raises:
            TextError: there is none, or it is another one.
        """
        names = list(known)
        word = self.take(f"a {kind}: one of {', '.join(names)}")
        if word.text not in names:
            raise self.error(f"no {kind} {word.text!r}{did_you_mean(word.text, names)}", word.column)
        return word.text

    def rest(self) -> str:
        """Read all remaining words; returns them joined by single blanks."""
        left = " ".join(word.text for word in self._words[self._at :])
        self._at = len(self._words)
        return left

    def finish(self, accepted: str) -> None:
        """Check that no words remain.

        Raises:
            TextError: there is another word.
        """
        if self.more:
            raise self.error(f"{self.peek()!r} does not belong here; {accepted}")

    def read(self, wanted: str, parse: Callable[[str], T]) -> T:
        """Read the next word and convert it.

        Raises:
            TextError: it cannot be converted; the message has ``wanted``.
        """
        word = self.take(wanted)
        try:
            return parse(word.text)
        except (ValueError, KeyError, OverflowError):
            raise self.error(f"{word.text!r} is not {wanted}", word.column) from None


def plain(value: float) -> str:
    """Return the shortest text of a number that parses to the same number."""
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(value)
