"""The set of invariants as a whole."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.invariants import GROUPS, INVARIANTS, check, find
from toolkit.checks.result import Outcome, words

NAMES = [
    *("order", "exactly_once_lossless", "at_most_once_lossy", "no_stale_session", "no_silent_gap", "payload"),
    *("seq_accounting", "connect_monotonic", "one_winner", "cookies", "table_total", "acknowledged"),
    *("received_once", "link_lifecycle", "one_event_per_link", "session_identity", "decided_answer"),
    *("race_verdict", "redial_pause", "link_timeouts"),
    *("nonce_unique", "no_plaintext", "no_downgrade", "reject_forged", "ticket_time"),
    *("bounded_memory", "throttle_balanced", "liveness_after_heal", "keepalive", "quiescence"),
    *("decode_total", "agreement"),
]
DOCS = Path(__file__).parents[3] / "docs"


def test_twelve_invariants_have_numbers_and_all_have_names():
    assert list(INVARIANTS)[:12] == [f"INV-{number}" for number in range(1, 13)]
    assert len(NAMES) == 32
    assert [find(name).name for name in NAMES] == NAMES


def test_find_returns_the_same_invariant_for_its_id_and_name():
    assert find("INV-8") is find("seq_accounting")
    for invariant in INVARIANTS.values():
        assert find(invariant.id) is find(invariant.name) is invariant
        assert invariant.group in GROUPS
        assert invariant.judges


def test_unknown_names_are_an_error_with_the_known_names():
    with pytest.raises(LocalError, match="no invariant 'INV-0'; known: INV-1, exactly_once_lossless, "):
        check(History(), only=["INV-0"])


def test_check_judges_only_the_requested_invariants(story):
    story.pair()
    story.send("a", 1)
    story.rest()
    results = check(story.history, only=["no_silent_gap", "INV-1", "payload"])
    assert [(result.id, result.name, result.group, result.ok) for result in results] == [
        ("no_silent_gap", "no_silent_gap", "ordering", False),
        ("INV-1", "exactly_once_lossless", "ordering", False),
        ("payload", "payload", "ordering", True),
    ]


def test_shared_rule_has_the_same_text_in_both(story):
    story.authenticate()
    story.usage("a", tx_nonces=0)
    by_name, by_number = check(story.history, only=["nonce_unique", "INV-10"])
    assert by_name.violations
    assert by_number.violations == by_name.violations


def test_empty_history_violates_no_invariant():
    assert all(result.ok for result in check(History()))


def test_clean_run_violates_no_invariant(story):
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
    story.rest(timers=1, receive_bytes=0, unwritten_bytes=0)
    results = check(story.history)
    assert [(result.id, result.violations) for result in results] == [(name, []) for name in INVARIANTS]
    by_records = {result.id: result.note for result in results[:9]}
    assert set(by_records.values()) == {""}, "what has no frames is judged by its other records"


def test_violations_are_in_the_order_of_the_history(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.deliver("b", 3, 2, 1)
    story.rest()
    places = [violation.record for violation in story.judge("INV-1").violations]
    assert places == sorted(places)
    assert len(places) == 2


def test_frames_alone_list_rules_without_verdict(story):
    """As a capture records them: no application, no links, no states."""
    for index, tag in enumerate(("BANNER", "HELLO", "AUTH_REQUEST")):
        story.frame("a", "a/1", "tx", tag, index)
        story.frame("b", "b/1", "rx", tag, index)
    for index, tag in enumerate(("BANNER", "HELLO", "AUTH_DONE")):
        story.frame("b", "b/1", "tx", tag, index, con_mode=2)
        story.frame("a", "a/1", "rx", tag, index, con_mode=2)
    story.frame("a", "a/1", "tx", "MESSAGE", 3, seq=1)
    results = {result.id: result for result in check(story.history)}
    assert all(result.ok for result in results.values())
    silent = {
        *(f"INV-{number}" for number in range(1, 12)),
        *("order", "no_silent_gap", "payload", "one_winner", "nonce_unique", "no_plaintext"),
        *("no_downgrade", "ticket_time", "bounded_memory", "liveness_after_heal", "keepalive", "quiescence"),
        *("received_once", "link_lifecycle", "one_event_per_link", "decided_answer"),
        *("race_verdict", "redial_pause", "link_timeouts", "throttle_turns", "wire_rules", "linearizable"),
    }
    assert {name for name, result in results.items() if result.note} == silent


def test_the_page_of_checks_is_up_to_date():
    spec = spec_from_file_location("checks_page", DOCS / "checks.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "checks.md").read_text(encoding="utf-8") == module.page(), "run python docs/checks.py"


def test_the_readme_counts_them():
    assert f"[{len(INVARIANTS)} invariants](docs/checks.md)" in (DOCS.parent / "README.md").read_text(
        encoding="utf-8"
    )


def test_a_history_without_any_messenger_is_not_judged(story):
    assert words(check(story.history)) == f"{len(INVARIANTS)} not judged"
    story.add_record("a", "process", action="start", incarnation=1, addrs="v2:10.0.0.1:6800/1")
    story.add_record("scenario", "step", verb="connect", args="a, b")
    assert words(check(story.history)) == f"{len(INVARIANTS)} not judged"


def test_invariants_about_rest_are_not_judged_before_rest(story):
    story.open("a", "lossless_peer")
    outcomes = {result.id: result.outcome for result in check(story.history)}
    assert outcomes["INV-6"] is Outcome.NOT_JUDGED
    assert outcomes["INV-2"] is Outcome.HOLDS
