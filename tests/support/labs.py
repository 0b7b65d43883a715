"""Labs with two nodes in them, to be hurt."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.lab.lab import Lab

L = TypeVar("L", bound=Lab)


@contextmanager
def clean_peers(lab: L) -> Iterator[L]:
    """Two lossless peers that are connected; whatever is done to them, they must come out of it clean."""
    try:
        lab.two()
        lab.connect("a", "b")
        lab.exchange(count=5)
        yield lab
        lab.settle()
        history = History(lab.history)
    finally:
        lab.close()
    assert not [violation.text for result in check(history) for violation in result.violations]
