"""INV-12 on hand-made histories."""

import pytest


def go_on(story):
    """Both nodes write a later record."""
    for node in ("a", "b"):
        story.add_record(node, "throttle", name="dispatch_bytes", value=0, limit=0)


def v1_greet(story):
    story.wire()
    story.pass_frame("a", "BANNER")
    story.pass_frame("b", "BANNER")
    story.pass_frame("b", "IDENTIFY", port=1)
    story.pass_frame("a", "IDENTIFY", port=1)


def test_a_handshake_by_the_tables(story):
    story.authenticate()
    story.pass_frame("a", "CLIENT_IDENT")
    story.pass_frame("b", "SERVER_IDENT")
    for tag in ("MESSAGE", "ACK", "KEEPALIVE2", "MESSAGE", "KEEPALIVE2_ACK"):
        story.pass_frame("a", tag)
        story.pass_frame("b", tag)
    assert (story.judge("INV-12").violations, story.judge("INV-12").note) == ([], "")


def test_a_handshake_of_v1_by_the_tables(story):
    v1_greet(story)
    story.pass_frame("a", "CONNECT")
    story.pass_frame("b", "CONNECT_REPLY", tag="CHALLENGE_AUTHORIZER")
    story.pass_frame("a", "CONNECT")
    story.pass_frame("b", "CONNECT_REPLY", tag="SEQ")
    story.pass_frame("b", "SEQ")
    story.pass_frame("a", "SEQ")
    story.pass_frame("a", "MSG")
    story.pass_frame("b", "ACK")
    assert story.judge("INV-12").ok


def test_an_unexpected_frame_and_its_fault(story):
    story.greet()
    at = story.take_frame("b", "MESSAGE")
    assert story.judge("INV-12").ok, "the fault may be about to come"
    go_on(story)
    assert story.texts("INV-12") == [
        "b/1: MESSAGE in AUTH_ACCEPTING or AUTH_ACCEPTING_MORE or AUTH_ACCEPTING_SIGN leads to no fault"
    ]
    story.fault("b", reason="UNEXPECTED_FRAME")
    assert at < len(story.history)
    assert story.judge("INV-12").ok


def test_frame_accepted_after_an_unexpected_one_is_reported(story):
    story.authenticate()
    story.pass_frame("a", "SERVER_IDENT")
    at = story.pass_frame("a", "CLIENT_IDENT")
    story.fault("b", reason="UNEXPECTED_FRAME")
    result = story.judge("INV-12")
    assert [v.record for v in result.violations] == [at]
    assert "CLIENT_IDENT is taken after SERVER_IDENT, which no table has in " in result.violations[0].text


def test_a_handshake_frame_on_an_open_link(story):
    v1_greet(story)
    story.pass_frame("a", "CONNECT")
    story.pass_frame("b", "CONNECT_REPLY", tag="READY")
    story.take_frame("a", "CONNECT_REPLY", tag="READY")
    go_on(story)
    assert story.texts("INV-12") == ["a/1: READY in OPENED leads to no fault"]


def test_a_link_whose_beginning_is_missing(story):
    story.frame("b", "b/1", "rx", "MESSAGE", 40)
    story.frame("b", "b/1", "rx", "MESSAGE", 41)
    result = story.judge("INV-12")
    assert result.ok
    assert result.note == "b/1 was not recorded from its beginning, so its handshake was not judged"


def test_a_fault_without_a_name(story):
    story.fault("a", reason="WHATEVER")
    assert story.texts("INV-12") == ["a: a/1 breaks for no known reason: WHATEVER"]


def test_an_exception(story):
    story.add_record("a", "exception", where="ms_dispatch", error="KeyError: 1")
    assert story.texts("INV-12") == ["a: KeyError: 1 escaped in ms_dispatch"]


@pytest.mark.parametrize(("action", "ok"), [("exit", False), ("kill", True), ("stop", True)])
def test_process_that_exits_by_itself_is_reported(story, action, ok):
    story.process("a", "start")
    story.process("a", action)
    assert story.judge("INV-12").ok is ok


def test_frame_accepted_in_place_of_hello_is_reported(story):
    story.wire()
    story.send_frame("b", "BANNER")
    story.take_frame("b", "BANNER")
    story.send_frame("b", "HELLO")
    story.take_frame("b", "AUTH_REQUEST")
    go_on(story)
    assert story.texts("INV-12") == ["b/1: AUTH_REQUEST in HELLO_ACCEPTING leads to no fault"]
    story.fault("b", reason="UNEXPECTED_FRAME", session=None)
    assert (story.judge("INV-12").violations, story.judge("INV-12").note) == ([], "")
