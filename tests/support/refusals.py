"""Reading of arbitrary bytes: it returns a value, or raises one documented error with a reason."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def read_or_refused(read: Callable[[], T], *refusals: type[Exception]) -> T | None:
    """Return the value that was read; None if it was refused by one of these errors, which must give a reason."""
    try:
        return read()
    except refusals as error:
        assert str(error), f"{type(error).__name__} without a word"  # noqa: PT017 - what is read may also be fine
        return None
