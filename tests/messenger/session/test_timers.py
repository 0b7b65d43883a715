"""Deadlines of the core."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from messenger.session.timers import Callback, Timer, Timers


class Recorder:
    """Makes callbacks that write down their name and when they were called."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, float]] = []

    def __call__(self, name: str) -> Callback:
        return lambda now: self.fired.append((name, now))


def timers_in_memory() -> int:
    gc.collect()
    return sum(isinstance(found, Timer) for found in gc.get_objects())


def test_without_timers_there_is_no_deadline() -> None:
    assert Timers().next_deadline() is None


def test_timers_fire_in_the_order_of_their_deadlines_and_once() -> None:
    timers, record = Timers(), Recorder()
    for name, deadline_s in ("c", 3.0), ("a", 1.0), ("b", 2.0):
        timers.at(deadline_s, record(name))
    assert timers.next_deadline() == 1.0
    timers.fire(0.9)
    assert record.fired == []
    timers.fire(2.5)
    assert record.fired == [("a", 2.5), ("b", 2.5)]
    timers.fire(10.0)
    timers.fire(11.0)
    assert record.fired[2:] == [("c", 10.0)]
    assert timers.next_deadline() is None


def test_equal_deadlines_fire_in_the_order_they_were_set() -> None:
    timers, record = Timers(), Recorder()
    for name in "abcde":
        timers.at(1.0, record(name))
    timers.fire(1.0)
    assert [name for name, _ in record.fired] == list("abcde")


def test_a_cancelled_timer_neither_fires_nor_counts() -> None:
    timers, record = Timers(), Recorder()
    first = timers.at(1.0, record("first"))
    timers.at(2.0, record("second"))
    first.cancel()
    first.cancel()
    assert timers.next_deadline() == 2.0
    timers.fire(5.0)
    assert record.fired == [("second", 5.0)]


def test_cancelled_timers_do_not_pile_up() -> None:
    """Links that come and go cancel timers that are due in a quarter of an hour."""
    timers, record = Timers(), Recorder()
    before = timers_in_memory()
    timers.at(900.0, record("kept"))
    for number in range(5000):
        timers.at(900.0 + number, record("cancelled")).cancel()
    assert timers_in_memory() - before < 500
    timers.fire(10_000.0)
    assert record.fired == [("kept", 10_000.0)]


def test_a_timer_may_cancel_another_that_is_due_at_the_same_time() -> None:
    timers, record = Timers(), Recorder()
    timers.at(1.0, lambda _now: second.cancel())
    second = timers.at(1.0, record("second"))
    timers.fire(1.0)
    assert record.fired == []


def test_a_timer_set_while_firing_waits_for_the_next_call() -> None:
    timers, record = Timers(), Recorder()

    def again(now: float) -> None:
        timers.at(now, record("again"))

    timers.at(1.0, again)
    timers.fire(1.0)
    assert record.fired == []
    assert timers.next_deadline() == 1.0
    timers.fire(1.0)
    assert record.fired == [("again", 1.0)]


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=30), st.floats(0, 100))
def test_fire_runs_only_due_timers_in_order(plan: list[tuple[float, bool]], now: float) -> None:
    timers, fired = Timers(), list[int]()
    for index, (deadline_s, cancelled) in enumerate(plan):
        timer = timers.at(deadline_s, lambda _now, index=index: fired.append(index))  # type: ignore[misc]
        if cancelled:
            timer.cancel()
    live = [(deadline_s, index) for index, (deadline_s, cancelled) in enumerate(plan) if not cancelled]
    timers.fire(now)
    assert fired == [index for deadline_s, index in sorted(live) if deadline_s <= now]
    assert timers.next_deadline() == min((deadline_s for deadline_s, _ in live if deadline_s > now), default=None)
