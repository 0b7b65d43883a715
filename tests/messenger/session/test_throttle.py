"""The dispatch throttle (protocol.md §3.10)."""

import pytest

from messenger.errors import LocalError
from messenger.session.throttle import Throttle


def test_a_throttle_is_full_at_its_limit() -> None:
    throttle = Throttle(100)
    throttle.take(99)
    assert not throttle.full
    throttle.take(1)
    assert throttle.full
    throttle.put(1)
    assert not throttle.full
    throttle.put(99)
    assert throttle.value == 0


def test_one_message_may_exceed_the_limit() -> None:
    throttle = Throttle(100)
    throttle.take(10_000)
    assert throttle.full
    throttle.put(10_000)
    assert not throttle.full


def test_without_a_limit_it_is_never_full() -> None:
    throttle = Throttle(0)
    throttle.take(1 << 40)
    assert not throttle.full


def test_giving_back_more_than_was_taken_is_a_mistake() -> None:
    throttle = Throttle(10)
    throttle.take(5)
    with pytest.raises(LocalError, match="6 bytes released where 5 are held"):
        throttle.put(6)
    assert throttle.value == 5
