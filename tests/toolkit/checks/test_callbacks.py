"""The check of event counts on hand-made histories."""

import pytest

from toolkit.checks.callbacks import count_events, expect_events


def test_exact_numbers(story):
    story.event("a", "connect")
    story.event("a", "remote_reset")
    story.event("a", "connect")
    expect_events(story.history, 1.0, "a", "b", connect=2, remote_reset=1, reset=0)
    assert (story.judge("callback_count").violations, story.judge("callback_count").note) == ([], "")
    assert count_events(story.history) == {("a", "b", "connect"): 2, ("a", "b", "remote_reset"): 1}


@pytest.mark.parametrize("events", [0, 2])
def test_more_or_less(story, events):
    for _ in range(events):
        story.event("a", "reset")
    expect_events(story.history, 1.0, "a", "b", reset=1)
    assert story.texts("callback_count") == [f"a heard reset of b {events} times, 1 are due"]


@pytest.mark.parametrize(("events", "ok"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_range(story, events, ok):
    expect_events(story.history, 0.0, "b", "a", accept=(1, 2))
    for _ in range(events):
        story.event("b", "accept")
    assert story.judge("callback_count").ok is ok


def test_events_of_others_do_not_count(story):
    story.event("a", "reset", peer="c")
    expect_events(story.history, 0.0, "a", "b", reset=0)
    assert story.judge("callback_count").ok


def test_no_numbers_no_verdict(story):
    assert story.judge("callback_count").note == "the scenario does not say how many events are due"


def test_no_such_event(story):
    with pytest.raises(ValueError, match="birthday"):
        expect_events(story.history, 0.0, "a", "b", birthday=1)
