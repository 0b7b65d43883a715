"""Control characters in a terminal's input are shown, not obeyed."""

import pytest

from toolkit.report.terminal import shown, shown_line, shown_values

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp\udcff\r"


@pytest.mark.parametrize(("text", "expected"), [("plain Käse", "plain Käse"), ("a\x1b[2J", r"a\x1b[2J")])
def test_only_control_characters_are_escaped(text: str, expected: str) -> None:
    assert shown(text) == shown_line(text) == expected


def test_shown_keeps_line_breaks_and_shown_line_escapes_them() -> None:
    assert shown("a\n\tb\r") == "a\n\tb\\r"
    assert shown_line("a\n\tb\r") == "a\\n\\tb\\r"


def test_shown_text_is_printable() -> None:
    assert shown(HOSTILE).isprintable()
    assert shown_line(HOSTILE + "\n").isprintable()


def test_values_are_escaped_wherever_they_are() -> None:
    values = {"a\x1b": ["\x1b", 1, None, {"b": "\x07"}], "c": True}
    assert shown_values(values) == {r"a\x1b": [r"\x1b", 1, None, {"b": r"\x07"}], "c": True}
