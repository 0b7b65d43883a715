"""INV-7 on hand-made histories."""

import pytest


def test_reconnects_count_up(story):
    story.pair()
    story.state("a", state="CONNECTING", connect_seq=1, global_seq=1)
    story.state("a", connect_seq=1, global_seq=2)
    story.state("a", state="CONNECTING", connect_seq=2, global_seq=2)
    story.state("a", connect_seq=2, global_seq=4)
    assert story.judge("INV-7").ok


def test_connect_seq_falls(story):
    story.pair()
    story.state("a", connect_seq=2, global_seq=2)
    wrong = story.state("a", connect_seq=1, global_seq=3)
    result = story.judge("INV-7")
    assert [(v.record, v.text) for v in result.violations] == [
        (wrong, "a session 1: connect_seq falls from 2 to 1 in one session")
    ]


def test_connect_seq_starts_again_after_a_reset(story):
    story.pair()
    story.state("a", connect_seq=3, global_seq=2)
    story.event("a", "remote_reset")
    story.state("a", connect_seq=0, global_seq=2, client_cookie=1, server_cookie=2)
    story.state("a", connect_seq=0, global_seq=3, client_cookie=1, server_cookie=0x77)
    assert story.judge("INV-7").ok


def test_connect_seq_grows_before_the_session_was_ready(story):
    story.policies["a", 1] = "lossless_client"
    story.cookies["a", 1] = {"client_cookie": 5, "server_cookie": 0}
    story.state("a", state="CONNECTING")
    story.state("a", state="CONNECTING", connect_seq=1, global_seq=2)
    assert story.texts("INV-7") == [
        "a session 1: connect_seq grows from 0 to 1, but the session has never been READY"
    ]


def test_connect_seq_grows_after_a_reset_before_ready(story):
    story.pair()
    story.event("a", "remote_reset")
    story.state("a", state="CONNECTING", client_cookie=9, server_cookie=0)
    story.state("a", state="CONNECTING", client_cookie=9, server_cookie=0, connect_seq=1)
    assert story.texts("INV-7") == [
        "a session 1: connect_seq grows from 0 to 1, but the session has never been READY"
    ]


def test_connect_seq_counts_a_grant_that_never_left(story):
    """An acceptor broke before its SERVER_IDENT was written, and dials itself now."""
    story.policies["a", 1] = "lossless_peer"
    story.state("a", state="WAIT", server_cookie=0)
    story.state("a", state="CONNECTING", server_cookie=7, connect_seq=1)
    assert story.judge("INV-7").ok


def test_v1_counts_the_first_open(story):
    story.policies["a", 1] = "lossless_client"
    story.cookies["a", 1] = {"client_cookie": 0, "server_cookie": 0}
    story.state("a", state="CONNECTING")
    story.state("a", connect_seq=1)
    assert story.judge("INV-7").ok


@pytest.mark.parametrize(("verdict", "right"), [("REPLACE", True), ("RETRY_SESSION", False)])
def test_v1_counts_a_takeover_that_broke(story, verdict, right):
    story.policies["a", 1] = "lossless_peer"
    story.cookies["a", 1] = {"client_cookie": 0, "server_cookie": 0}
    story.state("a", state="CONNECTING")
    story.link("a", "a/2", "accept", "b")
    story.add_record("a", "decision", link="a/2", session=1, verdict=verdict, why="connect_seq 2 is ahead of 0")
    story.state("a", state="CONNECTING", connect_seq=1)
    assert story.judge("INV-7").ok is right


def test_a_v1_peer_begins_again_before_anything_was_exchanged(story):
    """It never saw the last reply; there is no event, since nothing was lost (docs/protocol.md §3.4)."""
    story.policies["a", 1] = "lossless_peer_reuse"
    story.cookies["a", 1] = {"client_cookie": 0, "server_cookie": 0}
    story.state("a", connect_seq=1)
    story.state("a", state="CONNECTING", connect_seq=2)
    story.link("a", "a/1", "accept", "b")
    story.frame("a", "a/1", "rx", "CONNECT", 0, connect_seq=0)
    story.state("a", connect_seq=1)
    assert story.judge("INV-7").ok
    wrong = story.state("a", connect_seq=0, in_seq=3)
    assert [violation.record for violation in story.judge("INV-7").violations] == [wrong]


def test_concurrent_dials_record_global_seqs_in_any_order(story):
    """Each drew its number when it was dialled, not when its first record was written."""
    story.state("a", session=1, state="CONNECTING", global_seq=0)
    story.state("a", session=2, state="CONNECTING", global_seq=0)
    story.state("a", session=2, global_seq=2)
    story.state("a", session=1, global_seq=1)
    assert story.judge("INV-7").ok
    story.state("a", session=1, state="CONNECTING", global_seq=1)
    story.state("a", session=1, global_seq=2)
    assert story.judge("INV-7").ok
    story.state("a", session=3, state="CONNECTING", global_seq=0)
    story.state("a", session=3, global_seq=1)
    assert story.texts("INV-7") == ["a session 3: new global_seq 1 towards b is below 2, used before"]


def test_global_seq_falls(story):
    story.pair()
    story.state("a", global_seq=5)
    story.state("a", global_seq=4)
    assert story.texts("INV-7") == ["a session 1: global_seq falls from 5 to 4"]


def test_new_attempt_towards_a_peer_reuses_an_old_global_seq(story):
    story.pair()
    story.state("a", global_seq=5)
    story.open("a", "lossless_client", session=2, global_seq=3)
    assert story.texts("INV-7") == ["a session 2: new global_seq 3 towards b is below 5, used before"]


def test_a_restarted_process_counts_from_the_start(story):
    story.process("a", "start")
    story.pair()
    story.state("a", connect_seq=4, global_seq=9)
    story.process("a", "kill")
    story.process("a", "start", 2)
    story.open("a", "lossless_client")
    assert story.judge("INV-7").ok


def test_a_session_may_take_over_a_global_seq(story):
    story.pair()
    story.state("a", global_seq=5)
    story.open("a", "lossless_client", session=2, global_seq=5)
    assert story.judge("INV-7").ok


def test_connect_seq_of_a_custom_policy_is_checked(story):
    story.open("a", "no_preset", cookies={"client_cookie": 0, "server_cookie": 0})
    story.state("a", connect_seq=2)
    story.state("a", connect_seq=1)
    assert story.texts("INV-7") == ["a session 1: connect_seq falls from 2 to 1 in one session"]


def test_other_connect_replies_need_no_new_global_seq(story):
    story.wire()
    story.pass_frame("a", "CONNECT", global_seq=3)
    story.pass_frame("b", "CONNECT_REPLY", tag="CHALLENGE_AUTHORIZER")
    story.pass_frame("a", "CONNECT", global_seq=3)
    assert story.judge("INV-7").ok
