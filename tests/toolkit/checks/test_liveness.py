"""INV-6 on hand-made histories."""

import pytest


def test_quiet_and_drained(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1)
    story.deliver("b", 1)
    story.state("b", state="STANDBY")
    story.rest()
    assert story.judge("INV-6").ok


def test_not_judged_before_the_run_comes_to_rest(story):
    story.pair()
    story.rest("a")
    result = story.judge("INV-6")
    assert result.ok
    assert result.note == "the run did not come to rest, so liveness was not judged"


def test_queued_messages_at_rest(story):
    story.pair()
    story.state("a", sent=1, queued=1, out_seq=1)
    end = story.rest("a", queued=1, sent=1)
    story.rest("b")
    result = story.judge("INV-6")
    assert [(v.record, v.text) for v in result.violations] == [
        (end, "a: 2 messages are queued or unacknowledged at rest; candidates: session 1 (READY)")
    ]


@pytest.mark.parametrize("state", ["CONNECTING", "WAIT"])
def test_session_that_never_gets_ready(story, state):
    story.pair()
    story.state("a", state=state)
    story.rest()
    assert story.texts("INV-6") == [f"a session 1 with b is still {state} at rest"]


def test_standby_with_data(story):
    story.pair("lossless_peer", "lossless_peer")
    story.state("a", state="STANDBY")
    story.send("a", 1)
    story.rest("a", queued=1)
    story.rest("b")
    assert story.texts("INV-6") == [
        "a: 1 messages are queued or unacknowledged at rest; candidates: session 1 (STANDBY)"
    ]


def test_dead_peer_is_no_failure(story):
    story.process("b", "start")
    story.pair()
    story.process("b", "kill")
    story.state("a", state="CONNECTING")
    story.send("a", 1)
    story.rest("a", queued=1)
    result = story.judge("INV-6")
    assert result.ok
    assert result.note == "a session 1 was not judged: b is gone"


def test_queue_to_a_dead_peer_does_not_hide_other_queues(story):
    story.process("b", "start")
    story.pair()
    story.process("b", "kill")
    story.state("a", state="CONNECTING", queued=1)
    story.open("a", "lossless_client", session=2, peer="c")
    story.send("a", 5, session=2, peer="c")
    story.rest("a", queued=2)
    assert story.texts("INV-6") == [
        "a: 1 messages are queued or unacknowledged at rest; candidates: session 2 (READY)"
    ]


def test_peer_that_refuses_is_no_failure(story):
    story.policies["a", 1] = "lossless_client"
    story.state("a", state="CONNECTING", peer="osd.0", queued=1)
    story.add_record("a", "fault", session=1, link="a/1", reason="AUTH_DENIED", detail="")
    story.rest("a", queued=1)
    result = story.judge("INV-6")
    assert result.ok
    assert result.note == "a session 1 was not judged: the peer refuses it (AUTH_DENIED)"


def test_connecting_to_an_unknown_address_violates_no_liveness(story):
    story.state("a", state="CONNECTING", peer="v2:10.0.0.9:1/0")
    story.add_record("a", "fault", session=1, link="a/1", reason="REFUSED", detail="")
    story.rest("a")
    assert story.judge("INV-6").ok


def test_server_waits_for_a_client_that_left(story):
    story.pair()
    story.mark_down("a")
    story.state("b", state="STANDBY", queued=3)
    story.rest("a", registry=0)
    story.rest("b", queued=3)
    result = story.judge("INV-6")
    assert result.ok
    assert result.note == ("b session 1 was not judged: only the peer may dial, and it has no session")


def test_server_with_a_present_client_must_drain_its_queue(story):
    story.pair()
    story.state("b", state="STANDBY", queued=3)
    story.rest("a")
    story.rest("b", queued=3)
    assert story.texts("INV-6") == [
        "b: 3 messages are queued or unacknowledged at rest; candidates: session 1 (STANDBY)"
    ]


def test_session_whose_peer_is_known_by_its_address_only(story):
    story.state("a", state="WAIT", peer="v2:10.0.0.9:1/0")
    story.rest("a")
    assert story.texts("INV-6") == ["a session 1 with v2:10.0.0.9:1/0 is still WAIT at rest"]


def test_session_without_a_recorded_state(story):
    story.add_record("a", "send", session=1, peer="", tid=1, digest="", size=1)
    story.rest("a", queued=1)
    assert story.texts("INV-6") == [
        "a session 1 with its peer is still CONNECTING at rest",
        "a: 1 messages are queued or unacknowledged at rest; candidates: session 1 (CONNECTING)",
    ]
