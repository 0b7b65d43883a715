"""The set of invariants as a whole."""

from toolkit.checks.history import History
from toolkit.checks.invariants import INVARIANTS, check


def test_nine_invariants_by_name():
    assert list(INVARIANTS) == [f"INV-{number}" for number in range(1, 10)]


def test_an_empty_history_breaks_nothing():
    assert all(result.ok for result in check(History()))


def test_a_clean_run_breaks_nothing(story):
    story.process("a", "start")
    story.process("b", "start")
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1, 2)
    story.mark_down("b")
    story.event("a", "remote_reset")
    story.state("a", client_cookie=7, server_cookie=8, global_seq=2)
    story.event("a", "connect")
    story.open("b", "stateful_server", session=2, cookies={"client_cookie": 7, "server_cookie": 8}, global_seq=2)
    story.send("a", 3)
    story.deliver("b", 3, session=2, seq=1)
    story.rest()
    results = check(story.history)
    assert [(result.id, result.violations, result.note) for result in results] == [
        (f"INV-{number}", [], "") for number in range(1, 10)
    ]


def test_violations_stand_in_the_order_of_the_history(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.deliver("b", 3, 2, 1)
    story.rest()
    places = [violation.record for violation in story.judge("INV-1").violations]
    assert places == sorted(places)
    assert len(places) == 2
