"""Fewer collections while objects accumulate."""

import gc
import weakref

import pytest

from toolkit.machine.garbage import rarely_collecting


class Cycle:
    """An object that refers to itself, which only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_young_cycles_are_collected_while_collections_are_rare() -> None:
    with rarely_collecting():
        first = weakref.ref(Cycle())
        kept = [Cycle() for _ in range(60_000)]
    assert first() is None
    assert len(kept) == 60_000


def test_thresholds_are_restored_after_an_error() -> None:
    usual = gc.get_threshold()
    with rarely_collecting():
        assert gc.get_threshold() != usual
    with pytest.raises(KeyError), rarely_collecting():
        raise KeyError
    assert gc.get_threshold() == usual
