"""A throttle: what it counts, and in which order it admits those that wait for it (docs/protocol.md §3.10)."""

import pytest

from messenger.errors import LocalError
from messenger.session.throttle import Throttle


class Line:
    """Waiters of one throttle; each asks for its amount again when the throttle wakes it."""

    class Waiter:
        def __init__(self, line: "Line", key: int, amount: int, times: int) -> None:
            self.line = line
            self.key = key
            self.amount = amount
            self.times = times

        def retry(self, _now: float) -> None:
            if self.line.throttle.request(self, self.amount):
                self.line.admitted.append(self.key)
                self.times -= 1
                if self.times:
                    self.retry(_now)

    def __init__(self, limit: int) -> None:
        self.throttle = Throttle(limit)
        self.admitted: list[int] = []

    def ask(self, key: int, amount: int, times: int = 1) -> None:
        self.Waiter(self, key, amount, times).retry(0.0)

    def put(self, amount: int) -> None:
        self.throttle.put(amount)
        self.throttle.wake(0.0)


def test_put_returns_the_amount_taken() -> None:
    throttle = Throttle(100)
    throttle.take(99)
    throttle.take(1)
    assert not throttle.admits(1)
    throttle.put(100)
    assert throttle.value == 0
    assert (throttle.gets, throttle.puts, throttle.put_sum) == (2, 1, 100)


def test_without_a_limit_everything_is_admitted() -> None:
    throttle = Throttle(0)
    throttle.take(1 << 40)
    assert throttle.admits(1 << 40)


def test_giving_back_more_than_was_taken_is_a_mistake() -> None:
    throttle = Throttle(10, "some_bytes")
    throttle.take(5)
    with pytest.raises(
        LocalError, match="6 of some_bytes released where 5 are held: was a message released twice"
    ):
        throttle.put(6)
    assert throttle.value == 5


def test_the_longest_waiting_is_admitted_first() -> None:
    line = Line(10)
    line.ask(0, 10)
    for key in 1, 2, 3:
        line.ask(key, 10)
    for _ in range(3):
        line.put(10)
    assert line.admitted == [0, 1, 2, 3]
    assert line.throttle.waiting == 0


def test_a_waiter_that_comes_back_stands_behind_the_others() -> None:
    line = Line(10)
    for key in 1, 2, 3:
        line.ask(key, 10, times=3)
    for _ in range(8):
        line.put(10)
    assert line.admitted == [1, 1, 2, 3, 1, 2, 3, 2, 3]


def test_a_small_amount_does_not_overtake_a_large_one_that_waits() -> None:
    line = Line(10)
    line.ask(0, 6)
    line.ask(1, 8)
    line.ask(2, 2)
    assert line.admitted == [0]
    line.put(6)
    assert line.admitted == [0, 1, 2]


def test_amount_of_zero_is_admitted_at_once() -> None:
    line = Line(10)
    line.ask(0, 10)
    line.ask(1, 10)
    line.ask(2, 0)
    assert line.admitted == [0, 2]


def test_leaving_waiter_makes_room_for_the_next() -> None:
    line = Line(10)
    line.ask(0, 6)
    waiter = Line.Waiter(line, 1, 8, 1)
    waiter.retry(0.0)
    line.ask(2, 2)
    line.throttle.leave(waiter)
    line.throttle.wake(0.0)
    assert line.admitted == [0, 2]


def test_many_are_woken_without_going_deep() -> None:
    """Each gives back at once what it is given, which wakes the next one."""
    line = Line(1)
    throttle = line.throttle

    class Brief(Line.Waiter):
        def retry(self, now: float) -> None:
            if throttle.request(self, 1):
                line.admitted.append(self.key)
                throttle.put(1)
                throttle.wake(now)

    throttle.take(1)
    for key in range(5000):
        Brief(line, key, 1, 1).retry(0.0)
    line.put(1)
    assert line.admitted == list(range(5000))


def test_ceiling_is_the_limit_or_negative_while_one_waits() -> None:
    line = Line(10)
    assert line.throttle.ceiling == 10
    line.ask(0, 10)
    line.ask(1, 1)
    assert line.throttle.ceiling < 0, "even an empty message has to ask while another waits"
    line.put(10)
    assert line.throttle.ceiling == 10
    line.throttle.limit = 0
    assert line.throttle.ceiling > 1 << 40
