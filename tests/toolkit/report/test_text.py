"""Text that has to fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.report.text import duration, fit, fit_parts, printable, width


@given(st.text(max_size=40), st.floats(0, 400))
def test_fit_limits_text_to_the_width(text, room):
    fitted = fit(text, 11, room)
    assert width(fitted, 11) <= room or fitted == text == ""
    assert fitted in {text, ""} or text.startswith(fitted.removesuffix("…"))


@given(st.text(max_size=40))
def test_fit_keeps_text_that_fits(text):
    assert fit(text, 11, width(text, 11)) == text


def test_wide_characters_take_more_room():
    assert width("漢字", 10) > width("WW", 10) - 1 > width("AA", 10) > width("aa", 10) > width("ii", 10)


def test_fit_parts_drops_whole_parts():
    text = "global_seq 1 · client_cookie 12345678"
    assert fit_parts(text, 11, 1000) == text
    assert fit_parts(text, 11, 120) == "global_seq 1"
    assert fit_parts(text, 11, 60) == "global_s…"
    assert fit_parts(text, 11, 3) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1234.5, "1,234 s"),
        (99.96, "100 s"),
        (12.345, "12.3 s"),
        (0.9996, "1 s"),
        (0.25, "250 ms"),
        (0.00099999, "1 ms"),
        (0.0000254, "25.4 µs"),
        (0, "0 µs"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_printable_replaces_control_characters():
    assert printable("a\tö\n€😀") == "a\tö\n€😀"
    assert printable("\x00\x1b\x7f\x9b\udcff\ufffe") == "\ufffd" * 6


@given(st.text(st.characters()))
def test_printable_text_encodes_as_utf8_with_the_same_length(text):
    assert len(printable(text).encode().decode()) == len(text)
