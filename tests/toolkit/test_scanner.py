"""The scanner of faults, rules, breakpoints and filters."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from toolkit.dissect.filters import compile_filter
from toolkit.faults.language import parse
from toolkit.faults.script import Rule
from toolkit.faults.tap import Breakpoint
from toolkit.scanner import (
    Scanner,
    TextError,
    blank_separated,
    colon_separated,
    did_you_mean,
    require_printable,
    shell_words,
)

_SHELL = st.text(alphabet="ab '\"\\#\t=", max_size=20) | st.text(max_size=20)


@pytest.mark.parametrize(
    ("parse", "text", "complaint"),
    [
        (parse, "partition a", "fault, column 12: B is missing"),
        (Rule.parse, "-> HELLO: cut at", "rule, column 17: it ends too early"),
        (Breakpoint.parse, "a:HELLO:x", "breakpoint, column 9: 'x' is not NTH"),
        (compile_filter, "tag ==", "filter, column 7: it ends too early"),
    ],
)
def test_all_languages_report_their_name_and_the_column(parse, text: str, complaint: str) -> None:
    with pytest.raises(TextError, match=f"^{complaint}") as caught:
        parse(text)
    assert str(caught.value).endswith(f"column {caught.value.column}: {caught.value.what}")


@given(_SHELL)
def test_shell_words_are_those_of_a_shell(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(TextError):
            list(shell_words("fault", text))
        return
    assert [word.text for word in shell_words("fault", text)] == expected


@given(st.lists(st.text(alphabet="ab '\"\\é", min_size=1), max_size=5), st.text(alphabet=" \t", min_size=1))
def test_column_of_a_shell_word_is_that_of_its_quote(words: list[str], blanks: str) -> None:
    quoted = [shlex.quote(word) for word in words]
    found = list(shell_words("fault", blanks + blanks.join(quoted)))
    assert [word.text for word in found] == words
    begins = [sum(map(len, quoted[:at])) + len(blanks) * (at + 1) for at in range(len(words))]
    assert [word.column for word in found] == [begin + 1 for begin in begins]


@given(st.text(alphabet="ab:é \t", max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_words_are_at_their_columns(text: str, start: int, stop: int) -> None:
    found = list(blank_separated(text, start, stop))
    assert [word.text for word in found] == text[start:stop].split()
    fields = list(colon_separated(text))
    assert [word.text for word in fields] == text.split(":")
    for word in (*found, *fields):
        assert text.startswith(word.text, word.column - 1)


def test_scanner_reads_words_in_order() -> None:
    scanner = Scanner("rule", blank_separated("a per link 7 seven x y"), 23)
    assert scanner.choose("tag", ["a", "b"]) == "a"
    assert not scanner.has("per", "host")
    assert scanner.has("per", "link")
    assert scanner.read("a number", int) == 7
    with pytest.raises(TextError, match="rule, column 14: 'seven' is not a number"):
        scanner.read("a number", int)
    assert scanner.peek() == "x"
    with pytest.raises(TextError, match="rule, column 20: 'x' does not belong here; no more words"):
        scanner.finish("no more words")
    assert scanner.rest() == "x y"
    scanner.finish("no more words")
    with pytest.raises(TextError, match="rule, column 23: it ends too early; expected here: a tag: one of a, b"):
        scanner.choose("tag", ["a", "b"])


def test_errors_end_with_the_hint() -> None:
    scanner = Scanner("rule", blank_separated("c"), 2)
    scanner.hint = "; help"
    with pytest.raises(LocalError, match=r"rule, column 1: no tag 'c'; known: a, b; help$"):
        scanner.choose("tag", ["b", "a"])


def test_hint_is_the_nearest_word_or_a_short_list() -> None:
    assert did_you_mean("partion", ["kill", "partition"]) == "; did you mean partition?"
    assert did_you_mean("x", ["kill", "heal"]) == "; known: heal, kill"
    assert did_you_mean("x", []) == ""
    assert did_you_mean("x", (f"node{number}" for number in range(99))) == ""


def test_text_is_short_and_printable() -> None:
    require_printable("rule", "é" * 4096)
    with pytest.raises(TextError, match="rule, column 4097: 4097 characters are more than 4096"):
        require_printable("rule", "é" * 4097)
    with pytest.raises(TextError, match=r"rule, column 3: a control character, '\\x1b'"):
        require_printable("rule", "ab\x1b")
