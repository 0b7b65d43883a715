"""Readers of anything: what they do not refuse they have read, and what they refuse they say."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def read_or_refused(read: Callable[[], T], *refusals: type[Exception]) -> T | None:
    """What was read; None if it was refused by one of these errors, which must say why."""
    try:
        return read()
    except refusals as error:
        assert str(error), f"{type(error).__name__} without a word"  # noqa: PT017 - what is read may also be fine
        return None
