"""Marks among the bytes of a stream."""

import pytest

from toolkit.checks.canary import PAYLOAD_MARK, Canary


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_canary_finds_a_mark_across_chunks_of_any_size(size):
    text = b"x" * 50 + PAYLOAD_MARK + b"y" * 50
    canary = Canary()
    found = [canary.feed("a", text[at : at + size]) for at in range(0, len(text), size)]
    assert [mark for mark in found if mark is not None] == [PAYLOAD_MARK]


def test_streams_are_apart():
    canary = Canary([b"ab"])
    assert [canary.feed(stream, chunk) for stream, chunk in (("1", b"a"), ("2", b"b"), ("1", b"b"))] == [
        None,
        None,
        b"ab",
    ]


def test_a_mark_of_one_byte():
    canary = Canary([b"!"])
    assert canary.feed("a", b"!") == b"!"
    assert canary.feed("a", b"?") is None
