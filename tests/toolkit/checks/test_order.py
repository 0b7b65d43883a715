"""The checks of order, content and gaps on hand-made histories."""

import pytest


def test_in_order_delivery_holds_without_notes(story):
    story.pair()
    story.send("a", 1, 2, priority=63, type=2, version=1)
    story.deliver("b", 1, 2, priority=63, type=2, version=1)
    story.rest()
    for name in ("order", "payload", "no_silent_gap"):
        result = story.judge(name)
        assert (result.violations, result.note) == ([], "")


def test_swapped_messages_of_one_priority(story):
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 2, 1, seq=1)
    assert story.texts("order") == ["b session 1: tid 1 comes after tid 2, which was sent later"]


def test_higher_priority_may_overtake(story):
    story.pair()
    story.send("a", 1, priority=63)
    story.send("a", 2, priority=200)
    story.deliver("b", 2, 1, seq=1)
    assert story.judge("order").ok


@pytest.mark.parametrize(
    ("seqs", "text"), [((1, 1), "seq 1 is delivered after seq 1"), ((1, 3), "seq 2 is missing")]
)
def test_seqs_that_do_not_grow_by_one(story, seqs, text):
    story.pair()
    story.send("a", 1, 2)
    for tid, seq in enumerate(seqs, 1):
        story.deliver("b", tid, seq=seq)
    (found,) = story.texts("order")
    assert text in found


def test_changed_bytes(story):
    story.pair()
    story.send("a", 1)
    at = story.deliver("b", 1, digest="beef")
    result = story.judge("payload")
    assert [(v.record, v.text) for v in result.violations] == [
        (at, "b session 1: tid 1 arrives with other bytes than were sent")
    ]


@pytest.mark.parametrize("name", ["type", "priority", "version"])
def test_a_changed_header(story, name):
    story.pair()
    story.send("a", 1, **{name: 7})
    story.deliver("b", 1, **{name: 8})
    assert story.texts("payload") == [f"b session 1: tid 1 arrives with {name} 8, sent with 7"]


def test_records_of_one_side_only_are_not_compared(story):
    story.pair()
    story.send("a", 1)
    story.deliver("b", 1, type=2)
    assert story.judge("payload").ok


def test_unreported_gap(story):
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 2)
    story.rest()
    assert story.texts("no_silent_gap") == ["a session 1: tid 1 never arrived, but tid 2, sent later, did"]


def test_gap_after_a_reset_is_reported(story):
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1)
    story.mark_down("b")
    story.event("a", "remote_reset")
    story.event("a", "connect")
    story.rest()
    assert story.judge("no_silent_gap").ok


def test_a_lossy_gap_without_a_reset(story):
    story.pair("lossy_client", "stateless_server")
    story.send("a", 1)
    story.rest()
    assert story.texts("no_silent_gap") == ["a session 1: tid 1 to b never arrived, and no event explains it"]
