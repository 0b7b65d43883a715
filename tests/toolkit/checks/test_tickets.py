"""The check of tickets on hand-made histories."""

import pytest

LATE = "authentication refused: ticket expired 5 s ago"


def test_a_ticket_in_its_time(story):
    story.greet()
    story.auth("a", ticket_left_s=0.5)
    story.auth("b", ticket_left_s=None)
    assert story.judge("ticket_time").ok


def test_a_late_ticket_that_is_taken(story):
    story.greet()
    story.auth("b", ticket_left_s=-3.5)
    assert story.texts("ticket_time") == ["b/1: authenticated by a ticket that expired 3.5 s ago"]


@pytest.mark.parametrize(("left_s", "is_late"), [(-0.0005, False), (-0.5, True)])
def test_a_ticket_may_expire_while_its_node_is_frozen_in_the_handshake(story, left_s, is_late):
    story.process("b", "start")
    story.greet()
    story.process("b", "freeze")
    story.process("b", "thaw")  # a millisecond later
    story.auth("b", ticket_left_s=left_s)
    assert bool(story.texts("ticket_time")) == is_late


def test_a_late_ticket_that_is_shown(story):
    story.fault("b", reason="AUTH_DENIED", detail=LATE, session=None)
    assert story.texts("ticket_time") == [f"b: b/1: {LATE}, which was not renewed"]


def test_a_service_that_was_frozen_in_the_handshake_may_refuse_a_ticket(story):
    story.process("b", "start")
    story.greet()
    story.process("b", "freeze")
    story.process("b", "thaw")
    story.fault("b", reason="AUTH_DENIED", detail="authentication refused: ticket expired 0 s ago", session=None)
    assert story.judge("ticket_time").ok


def test_client_may_refuse_to_use_its_expired_ticket(story):
    story.fault("a", reason="AUTH_DENIED", detail="own ticket expired 5 s ago")
    assert story.judge("ticket_time").ok


def test_clock_step_explains_an_expired_ticket(story):
    story.add_record("b", "clock", step_s=3600)
    story.fault("b", reason="AUTH_DENIED", detail=LATE, session=None)
    assert story.judge("ticket_time").ok


def locked_out(story, *, again):
    story.add_record("b", "clock", step_s=3600)
    story.wire()
    story.state("a", state="CONNECTING", queued=1)
    story.fault("b", reason="AUTH_DENIED", detail=LATE, session=None)
    story.fault("a", reason="AUTH_DENIED", detail="authentication refused: refused by the peer")
    if again:
        story.wire(2)
        story.auth("a", 2, session=1)
    story.rest()


def test_session_without_a_valid_ticket_is_reported(story):
    locked_out(story, again=False)
    assert story.texts("ticket_time") == ["a session 1 is locked out: authentication refused: refused by the peer"]


def test_session_taken_over_by_the_peers_dial_is_not_locked_out(story):
    locked_out(story, again=False)
    story.state("a", state="READY")
    assert story.judge("ticket_time").ok


def test_a_clock_that_was_moved_before_the_handshake_explains_no_late_ticket(story):
    story.add_record("b", "clock", step_s=3600)
    story.greet()
    story.auth("b", ticket_left_s=-3.5)
    assert story.texts("ticket_time") == ["b/1: authenticated by a ticket that expired 3.5 s ago"]


def test_a_clock_that_is_moved_in_a_handshake_explains_one(story):
    story.greet()
    story.add_record("b", "clock", step_s=3600)
    story.auth("b", ticket_left_s=-3.5)
    assert story.judge("ticket_time").ok


def test_session_authenticated_again_is_allowed(story):
    locked_out(story, again=True)
    assert story.judge("ticket_time").ok
