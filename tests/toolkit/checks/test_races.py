"""The check of races on hand-made histories: a has the lower address."""

import pytest

ADDRS = {"a": "v2:10.0.0.1:6800/11", "b": "v2:10.0.0.2:6800/12"}


def race(story, node, verdict, *, addrs=True):
    """``node`` decides on the dial of the other, which is its link 1."""
    peer = "b" if node == "a" else "a"
    if addrs:
        for name in ("a", "b"):
            story.process(name, "start", addrs=ADDRS[name])
    story.link(node, f"{node}/1", "accept", peer)
    why = "connection race: this side's address is the lower one"
    return story.add_record(node, "decision", link=f"{node}/1", session=1, verdict=verdict, why=why)


def test_the_lower_address_lets_the_other_wait(story):
    race(story, "a", "WAIT")
    assert (story.judge("one_winner").violations, story.judge("one_winner").note) == ([], "")


def test_the_higher_address_must_not(story):
    race(story, "b", "WAIT")
    assert story.texts("one_winner") == [
        "b/1 receives WAIT, but v2:10.0.0.1:6800/11 is lower than v2:10.0.0.2:6800/12 and must win the race"
    ]


def test_unrecorded_addresses(story):
    race(story, "b", "WAIT", addrs=False)
    result = story.judge("one_winner")
    assert result.ok
    assert result.note == "the addresses on b/1 are not known, so the winner was not judged"


@pytest.mark.parametrize("event", ["reset", "remote_reset"])
def test_a_lost_race_is_no_event(story, event):
    story.add_record("a", "event", session=1, peer="b", event=event, detail="lost a connection race: told to wait")
    assert story.texts("one_winner") == [f"a: session 1 with b raises {event} for a lost race"]


def test_other_ends_are_events(story):
    story.add_record("a", "event", session=1, peer="b", event="reset", detail="peer closed the connection")
    assert story.judge("one_winner").ok


def test_two_links_of_one_session_at_rest(story):
    story.pair()
    for number in (1, 2):
        story.link("a", f"a/{number}", "dial", "b")
    assert story.judge("one_winner").ok, "the run goes on"
    story.rest()
    assert story.texts("one_winner") == ["a session 1 has 2 links at rest: a/1, a/2"]


def test_the_loser_is_closed(story):
    story.pair()
    story.link("a", "a/1", "dial", "b")
    story.link("a", "a/2", "dial", "b")
    story.link("a", "a/1", "close", "b")
    story.rest()
    assert story.judge("one_winner").ok


def test_a_node_may_have_another_address_in_its_next_life(story):
    """b was the higher one when it let a wait; in the life before it was not."""
    story.process("a", "start", addrs=ADDRS["a"])
    story.process("b", "start", addrs="v2:10.0.0.0:6800/12")
    story.process("b", "kill")
    story.process("b", "start", 2, addrs=ADDRS["b"])
    story.process("b", "kill", 2)
    story.link("a", "a/1", "accept", "b")
    why = "connection race: this side's address is the lower one"
    story.add_record("a", "decision", link="a/1", session=1, verdict="WAIT", why=why)
    assert story.judge("one_winner").ok


def test_each_protocol_has_its_own_addresses(story):
    """By v2 a is the lower one, by v1 b is."""
    story.process("a", "start", addrs="[v2:10.0.0.1:3300/0,v1:10.0.0.2:6789/0]")
    story.process("b", "start", addrs="[v2:10.0.0.2:3300/0,v1:10.0.0.1:6789/0]")
    story.link("b", "b/1", "accept", "a")
    for index, tag in enumerate(("BANNER", "IDENTIFY")):
        story.frame("b", "b/1", "rx", tag, index)
    why = "connection race: this side's address is the lower one"
    story.add_record("b", "decision", link="b/1", session=1, verdict="WAIT", why=why)
    assert story.judge("one_winner").ok
