"""Buffers that are joined for the transport, and those that are passed on without a copy."""

from messenger.batch import JOIN_BELOW_BYTES, joined


def test_runs_of_small_buffers_are_joined_and_large_ones_are_not_copied() -> None:
    large = bytes(JOIN_BELOW_BYTES)
    first, second, third = joined([b"a", b"b", large, b"c"])
    assert (first, third) == (b"ab", b"c")
    assert second is large
    assert joined([b"a", large[1:], b"b"]) == [b"a" + large[1:] + b"b"]
    assert joined([]) == []
