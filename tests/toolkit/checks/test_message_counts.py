"""INV-8 on hand-made histories."""

import pytest

A_ADDR = "v2:10.0.0.1:40112/0"
B_ADDR = "v2:10.0.0.2:6800/1"


def test_clean_counting_over_a_reconnect(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.deliver("b", 1, 2)
    story.state("a", state="CONNECTING", out_seq=1, acked_seq=1, queued=2)
    story.state("b", in_seq=2)
    story.state("a", out_seq=2, acked_seq=2, queued=1)
    story.deliver("b", 3)
    story.state("a", out_seq=3, acked_seq=2, sent=1)
    assert story.judge("INV-8").ok


def test_seq_delivered_again(story):
    story.pair()
    story.deliver("b", 1, 2)
    again = story.deliver("b", 9, seq=2)
    result = story.judge("INV-8")
    assert [(v.record, v.text) for v in result.violations] == [
        (again, "b session 1: seq 2 is delivered after seq 2")
    ]


def test_gap(story):
    story.pair()
    story.deliver("b", 1, 3)
    assert story.texts("INV-8") == ["b session 1: seq 3 is delivered after seq 1; seq 2 is missing"]


def test_first_message_has_seq_1(story):
    story.pair()
    story.deliver("b", 2)
    assert story.texts("INV-8") == ["b session 1: seq 2 is delivered after seq 0; seq 1 is missing"]


@pytest.mark.parametrize(("written", "texts"), [([1, 3], []), ([1, 2, 3], ["seq 2 is missing"])])
def test_gap_of_an_aborted_message_is_explained_by_written_frames(story, written, texts):
    """SQ-18: an aborted message uses up a number that never comes."""
    story.pair()
    story.link("a", "a/1", "dial", B_ADDR)
    story.link("b", "b/1", "accept", A_ADDR)
    for index, seq in enumerate(written):
        story.frame("a", "a/1", "tx", "MESSAGE", index, seq=seq)
        if seq != 2:
            story.frame("b", "b/1", "rx", "MESSAGE", index, seq=seq)
    story.deliver("b", 1, 3)
    story.state("a", out_seq=3, sent=3)
    assert [text.rpartition("; ")[2] for text in story.texts("INV-8")] == texts


def test_gap_of_a_peer_without_a_history_is_noted(story):
    story.open("a", "lossless_client", peer="osd.0")
    story.deliver("a", 1, 3, peer="osd.0")
    result = story.judge("INV-8")
    assert result.ok
    assert result.note == "a session 1 skips from seq 1 to 3; its peer has no history that explains it"


def test_count_starts_again_in_a_new_session(story):
    story.pair()
    story.deliver("b", 1, 2)
    story.event("b", "remote_reset")
    story.cookies["b", 1] = {"client_cookie": 8, "server_cookie": 9}
    story.state("b")
    story.event("b", "accept")
    story.deliver("b", 5, seq=1)
    assert story.judge("INV-8").ok


def test_count_starts_again_with_a_new_server_cookie(story):
    """A silent new session (CF40) has no event, but cookies of its own."""
    story.pair("lossless_peer", "lossless_peer")
    story.deliver("b", 1, 2)
    story.state("b", server_cookie=0x99)
    story.deliver("b", 5, seq=1)
    assert story.judge("INV-8").ok


def test_v1_starts_anywhere_after_a_reset(story):
    story.open("b", "stateful_server", cookies={"client_cookie": 0, "server_cookie": 0})
    story.deliver("b", 1)
    story.event("b", "remote_reset")
    story.event("b", "accept")
    story.deliver("b", 2, seq=77_000)
    story.state("b", in_seq=77_000, out_seq=12_345, acked_seq=12_345)
    assert story.judge("INV-8").ok


def test_in_seq_below_the_last_delivered_seq_is_reported(story):
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1, 2)
    story.state("b", in_seq=1)
    story.state("a", out_seq=2, sent=2)
    assert story.texts("INV-8") == ["b session 1: in_seq is 1, but seq 2 has been delivered"]


def test_acked_beyond_out_seq(story):
    story.pair()
    story.state("a", out_seq=3, acked_seq=1_000_000)
    assert story.texts("INV-8")[0] == "a session 1: acked_seq 1000000 is beyond out_seq 3"


def test_replay_list_other_than_the_unacknowledged_messages_is_reported(story):
    story.pair()
    story.deliver("b", 1, 2, 3, 4, 5)
    story.state("a", out_seq=5, acked_seq=2, sent=2)
    assert story.texts("INV-8") == ["a session 1: 2 messages are kept for replay, but seq 3..5 are unacknowledged"]


def test_replay_list_of_a_lossy_session_is_reported(story):
    story.pair("lossy_client", "stateless_server")
    story.state("a", out_seq=5, acked_seq=3)
    story.state("a", out_seq=5, acked_seq=3, sent=2)
    assert story.texts("INV-8") == ["a session 1: a lossy session keeps 2 messages for replay"]


def test_acknowledged_but_never_received(story):
    story.pair()
    story.deliver("b", 1)
    wrong = story.state("a", out_seq=4, acked_seq=3, sent=1)
    result = story.judge("INV-8")
    assert [(v.record, v.text) for v in result.violations] == [
        (wrong, "a session 1: acked_seq 3 is beyond in_seq 1 of b session 1")
    ]


def test_received_though_never_sent(story):
    story.pair()
    story.link("a", "a/1", "dial", B_ADDR)
    story.frame("a", "a/1", "tx", "MESSAGE", 0, seq=1)
    story.state("a", out_seq=1, sent=1)
    story.state("b", in_seq=4)
    assert story.texts("INV-8") == ["b session 1: in_seq 4 is beyond out_seq 1 of a session 1"]


def test_frames_count_as_received_before_they_are_delivered(story):
    story.pair()
    story.link("a", "a/1", "dial", B_ADDR)
    story.link("b", "b/1", "accept", A_ADDR)
    story.frame("a", "a/1", "tx", "MESSAGE", 0, seq=1)
    story.frame("b", "b/1", "rx", "MESSAGE", 0, seq=1)
    story.state("a", out_seq=1, acked_seq=1)
    assert story.judge("INV-8").ok


def test_the_seq_of_an_ack_is_no_message(story):
    story.pair()
    story.link("a", "a/1", "dial", B_ADDR)
    story.link("b", "b/1", "accept", A_ADDR)
    story.frame("a", "a/1", "tx", "ACK", 0, seq=9)
    story.frame("b", "b/1", "rx", "ACK", 0, seq=9)
    story.state("a", out_seq=3, acked_seq=3)
    assert story.texts("INV-8") == ["a session 1: acked_seq 3 is beyond in_seq 0 of b session 1"]


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_killed_process_with_shards_may_have_sent_unrecorded_messages(story, killed, sharded):
    story.process("b", "start")
    story.pair()
    if sharded:
        story.add_record("b", "io", session=1, link="b/1", shard=1, state="open")
    story.link("b", "b/1", "accept", A_ADDR)
    story.frame("b", "b/1", "tx", "MESSAGE", 0, seq=1)
    story.deliver("b", 1)
    story.state("b", in_seq=1, out_seq=1, sent=1)
    story.state("a", in_seq=2, out_seq=3, acked_seq=3)
    if killed:
        story.process("b", "kill")
    complaints = sorted(story.texts("INV-8"))
    assert complaints == (
        []
        if killed and sharded
        else [
            "a session 1: acked_seq 3 is beyond in_seq 1 of b session 1",
            "a session 1: in_seq 2 is beyond out_seq 1 of b session 1",
        ]
    )


def reconnected(story, in_seq, *, acked=0, resumed=True):
    """Record three messages of a; on the next link b sends its in_seq."""
    story.wire()
    story.pair()
    for seq in (1, 2, 3):
        story.send_frame("a", "MESSAGE", seq=seq, tid=seq)
    story.state("b", in_seq=3)
    story.state("a", state="CONNECTING", out_seq=acked, acked_seq=acked, queued=3 - acked)
    story.wire(2)
    story.pass_frame("a", "SESSION_RECONNECT", number=2, msg_seq=0)
    story.pass_frame("b", "SESSION_RECONNECT_OK" if resumed else "SESSION_RESET", number=2, msg_seq=in_seq)


@pytest.mark.parametrize("in_seq", [1, 2, 3])
def test_in_seq_of_the_peer(story, in_seq):
    reconnected(story, in_seq, acked=1)
    assert story.judge("INV-8").ok


def test_in_seq_beyond_what_was_sent(story):
    reconnected(story, 4)
    assert story.texts("INV-8") == ["a session 1: the peer reports in_seq 4, but 3 is the last sent"]


def test_in_seq_below_the_acknowledged_seq_is_reported(story):
    reconnected(story, 1, acked=2)
    assert story.texts("INV-8") == ["a session 1: the peer reports in_seq 1, but has acknowledged 2"]


def test_reports_of_another_session_do_not_count(story):
    reconnected(story, 9, resumed=False)
    assert story.judge("INV-8").ok
