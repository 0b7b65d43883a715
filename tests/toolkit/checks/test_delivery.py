"""INV-1 and INV-2 on hand-made histories: what passes, and each way to fail."""

import pytest

LOSSY = ("lossy_client", "stateless_server")


def test_clean_lossless_exchange(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.send("b", 7)
    story.deliver("b", 1, 2, 3)
    story.deliver("a", 7, seq=1)
    story.rest()
    result = story.judge("INV-1")
    assert result.ok
    assert result.note == ""


def test_undelivered_tail_is_allowed_before_rest(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.deliver("b", 1)
    result = story.judge("INV-1")
    assert result.ok
    assert result.note == "the run did not come to rest, so arrival was not judged"


def test_lost_message_at_rest(story):
    story.pair()
    story.send("a", 1)
    lost = story.send("a", 2)
    story.deliver("b", 1)
    story.rest()
    result = story.judge("INV-1")
    assert [(v.record, v.text) for v in result.violations] == [
        (lost, "a session 1: tid 2 to b never arrived, and no event explains it")
    ]


def test_skipped_message(story):
    story.pair()
    story.send("a", 1, 2, 3)
    overtaking = story.deliver("b", 1, 3)
    story.rest()
    result = story.judge("INV-1")
    assert [(v.record, v.text) for v in result.violations] == [
        (overtaking, "a session 1: tid 2 never arrived, but tid 3, sent later, did")
    ]


def test_swapped_messages(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.deliver("b", 1, 3, 2)
    story.rest()
    assert story.texts("INV-1") == ["b session 1: tid 2 comes after tid 3, which was sent later"]


def test_message_delivered_twice(story):
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1, 1, 2)
    story.rest()
    assert story.texts("INV-1") == ["b session 1: tid 1 from a session 1 is delivered again"]


def test_one_object_sent_twice_arrives_twice(story):
    story.pair()
    story.send("a", 1, 1)
    story.deliver("b", 1, 1)
    story.rest()
    assert story.judge("INV-1").ok


def test_changed_bytes(story):
    story.pair()
    story.send("a", 1)
    story.deliver("b", 1, digest="beef")
    assert story.texts("INV-1") == ["b session 1: tid 1 arrives with other bytes than were sent"]


def test_delivery_of_a_message_never_sent_is_reported(story):
    story.pair()
    story.deliver("b", 9)
    assert story.texts("INV-1") == ["b session 1: tid 9 was never sent by a"]


def test_higher_priority_may_overtake(story):
    story.pair()
    story.send("a", 1, 2)
    story.send("a", 3, priority=200)
    story.deliver("b", 1, 3, 2)
    story.rest()
    assert story.judge("INV-1").ok


def test_lower_priority_may_not_overtake(story):
    story.pair()
    story.send("a", 1)
    story.send("a", 2, priority=63)
    story.deliver("b", 2, 1)
    story.rest()
    assert story.texts("INV-1") == ["b session 1: tid 1 comes after tid 2, which was sent later"]


def test_remote_reset_explains_what_was_sent_before_it(story):
    story.pair()
    story.send("a", 1, 2, 3)
    story.deliver("b", 1)
    story.mark_down("b")
    story.event("a", "remote_reset")
    story.open("b", "stateful_server", session=2)
    story.event("a", "connect")
    story.send("a", 4)
    story.deliver("b", 4, session=2)
    story.rest()
    assert story.judge("INV-1").ok


def test_remote_reset_explains_no_message_sent_after_it(story):
    story.pair()
    story.send("a", 1)
    story.mark_down("b")
    story.event("a", "remote_reset")
    story.open("b", "stateful_server", session=2)
    story.event("a", "connect")
    story.send("a", 2, 3)
    story.deliver("b", 3, session=2)
    story.rest()
    assert story.texts("INV-1") == ["a session 1: tid 2 never arrived, but tid 3, sent later, did"]


def test_peer_that_lost_its_session_needs_an_event(story):
    """A sender with resetcheck that talks to the new session has noticed; what it drops then is a loss."""
    story.pair()
    story.send("a", 1)
    story.mark_down("b")
    story.open("b", "stateful_server", session=2)
    story.state("a")
    story.rest()
    assert story.texts("INV-1") == ["a session 1: tid 1 to b never arrived, and no event explains it"]


@pytest.mark.parametrize("action", ["stop", "kill", "exit"])
def test_end_of_the_sender_explains_its_queued_messages(story, action):
    story.process("a", "start")
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1)
    story.process("a", action)
    story.rest("b")
    assert story.judge("INV-1").ok


def test_restarted_sender_counts_anew(story):
    """Session numbers start again; the first incarnation's losses are explained, the second's are not."""
    story.process("a", "start")
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1)
    story.process("a", "kill")
    story.process("a", "start", 2)
    story.event("b", "remote_reset")
    story.event("b", "accept")
    story.open("a", "lossless_client")
    story.send("a", 3, 4)
    story.deliver("b", 3)
    story.rest()
    assert story.texts("INV-1") == [
        "a (incarnation 2) session 1: tid 4 to b never arrived, and no event explains it"
    ]


@pytest.mark.parametrize(
    ("policy", "texts"),
    [
        ("lossless_peer_reuse", ["b session 1: tid 2 begins a new session of a session 2 without an event"]),
        ("lossless_peer", []),
    ],
)
def test_new_session_of_the_sender_without_an_event(story, policy, texts):
    """With resetcheck a restarted peer is announced; only lossless_peer lets it pass in silence."""
    story.pair(policy, policy)
    story.send("a", 1)
    story.deliver("b", 1)
    story.mark_down("a")
    story.open("a", policy, session=2)
    story.send("a", 2, session=2)
    story.deliver("b", 2)
    story.rest()
    assert story.texts("INV-1") == texts


def test_silent_new_session_repeats_what_was_not_acknowledged(story):
    """CF40: the receiver gave up its session; the sender, without resetcheck, goes on in the next one."""
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2, 3, 4)
    story.deliver("b", 1, 2, 3)
    story.mark_down("b")
    story.open("b", "lossless_peer", session=2)
    story.deliver("b", 2, 3, 4, session=2)
    story.rest()
    assert story.judge("INV-1").ok


def test_silent_new_session_skips_what_the_receiver_dropped(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2, 3)
    story.deliver("b", 1)
    story.mark_down("b")
    story.open("b", "lossless_peer", session=2)
    story.send("a", 4, 5)
    story.deliver("b", 4, 5, session=2)
    story.rest()
    assert story.judge("INV-1").ok


def test_silent_new_session_repeats_in_order(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2, 3, 4)
    story.deliver("b", 1, 2, 3)
    story.mark_down("b")
    story.open("b", "lossless_peer", session=2)
    story.deliver("b", 3, 2, 4, session=2)
    story.rest()
    assert story.texts("INV-1") == ["b session 2: tid 2 from a session 1 is delivered again"]


def test_repetition_after_a_reconnect_of_the_same_session(story):
    """The receiver still has its session, so it knows what it delivered."""
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2)
    story.deliver("b", 1, 2)
    story.state("b")
    story.deliver("b", 2)
    story.rest()
    assert story.texts("INV-1") == ["b session 1: tid 2 from a session 1 is delivered again"]


def test_back_to_a_replaced_session(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2)
    story.deliver("b", 1)
    story.mark_down("a")
    story.open("a", "lossless_peer", session=2)
    story.send("a", 3, session=2)
    story.deliver("b", 3, 2)
    story.rest()
    assert story.texts("INV-1") == ["b session 1: tid 2 belongs to a session that a newer one has replaced"]


def test_dead_receiver_explains(story):
    story.process("b", "start")
    story.pair()
    story.send("a", 1)
    story.process("b", "kill")
    story.rest("a", queued=1)
    assert story.judge("INV-1").ok


def test_server_whose_client_left_cannot_deliver(story):
    story.pair()
    story.mark_down("a")
    story.state("b", state="STANDBY")
    story.send("b", 1)
    story.rest("a", "b", queued=1)
    assert story.judge("INV-1").ok


def test_queued_messages_are_not_lost(story):
    """Keeping a message is no loss, whatever INV-6 says about it."""
    story.pair("lossless_peer", "lossless_peer")
    story.state("a", state="CONNECTING", queued=0)
    story.send("a", 1)
    story.rest("a", queued=1)
    story.rest("b")
    assert story.judge("INV-1").ok


def test_queue_that_shrinks_is_a_loss(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2)
    story.state("a", state="CONNECTING", queued=1)
    story.rest("a", queued=1)
    story.rest("b")
    assert story.texts("INV-1") == ["a session 1: tid 1 to b never arrived, and no event explains it"]


def test_peer_without_a_history_is_noted(story):
    story.open("a", "lossless_client", peer="osd.0")
    story.send("a", 1, peer="osd.0")
    story.deliver("a", 8, peer="osd.0")
    story.rest("a")
    result = story.judge("INV-1")
    assert result.ok
    assert result.note == (
        "a session 1 receives from a peer without a history, which was not compared; "
        "a session 1 sends to a peer without a history, whose receiving was not judged"
    )


def test_message_to_oneself(story):
    story.open("a", "lossless_client", peer="a")
    story.send("a", 1, 2, peer="a")
    story.deliver("a", 1, 2, peer="a")
    story.rest("a")
    assert story.judge("INV-1").ok


def test_clean_lossy_exchange_with_a_reset(story):
    story.pair(*LOSSY)
    story.send("a", 1, 2, 3)
    story.deliver("b", 1)
    story.reset("a")
    story.reset("b")
    story.rest(registry=0)
    assert story.judge("INV-2").ok


def test_lossy_loss_without_a_reset(story):
    story.pair(*LOSSY)
    story.send("a", 1, 2)
    story.deliver("b", 1)
    story.rest()
    assert story.texts("INV-2") == ["a session 1: tid 2 to b never arrived, and no event explains it"]
    assert story.judge("INV-1").ok


def test_lossy_gap_is_not_explained_by_a_later_reset(story):
    story.pair(*LOSSY)
    story.send("a", 1, 2)
    story.deliver("b", 2)
    story.reset("a")
    story.rest(registry=0)
    assert story.texts("INV-2") == ["a session 1: tid 1 never arrived, but tid 2, sent later, did"]


def test_lossy_repetition_in_a_new_session(story):
    story.pair(*LOSSY)
    story.send("a", 1)
    story.deliver("b", 1)
    story.reset("b")
    story.open("b", "stateless_server", session=2)
    story.deliver("b", 1, session=2)
    assert story.texts("INV-2") == ["b session 2: tid 1 from a session 1 is delivered again"]


def test_lossy_message_sent_on_an_ended_session_is_dropped(story):
    story.pair(*LOSSY)
    story.reset("a")
    story.send("a", 1)
    story.rest()
    assert story.judge("INV-2").ok


def test_the_server_decides_that_a_session_is_lossy(story):
    """The client's own policy is lossless; what counts is the server's (docs/protocol.md §3.8)."""
    story.open("b", "stateless_server")
    story.open("a", "lossless_client", cookies={"client_cookie": 0, "server_cookie": 0})
    story.link("a", "a/1", "dial", "v2:10.0.0.2:6800/1")
    story.link("b", "b/1", "accept", "v2:10.0.0.1:40112/0")
    story.frame("b", "b/1", "tx", "SERVER_IDENT", 0, flags=1)
    story.frame("a", "a/1", "rx", "SERVER_IDENT", 0, flags=1)
    story.send("a", 1)
    story.rest()
    assert story.judge("INV-1").ok
    assert story.texts("INV-2") == ["a session 1: tid 1 to b never arrived, and no event explains it"]


def test_silent_new_session_excuses_no_later_message(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1)
    story.deliver("b", 1)
    story.mark_down("b")
    story.open("b", "lossless_peer", session=2)
    story.send("a", 2, 3)
    story.deliver("b", 3, session=2)
    story.rest()
    assert story.texts("INV-1") == ["a session 1: tid 2 never arrived, but tid 3, sent later, did"]


def test_later_mark_down_of_the_receiver_excuses_no_gap(story):
    story.pair("lossless_peer", "lossless_peer")
    story.send("a", 1, 2)
    story.deliver("b", 2)
    story.mark_down("b")
    story.rest()
    assert story.texts("INV-1") == ["a session 1: tid 1 never arrived, but tid 2, sent later, did"]


def test_receiver_that_left_while_the_sender_was_idle(story):
    """In STANDBY with everything acknowledged the sender learns of it only when it dials again."""
    story.pair("lossless_peer_reuse", "lossless_peer_reuse")
    story.send("a", 1)
    story.mark_down("b")
    story.state("a", state="STANDBY")
    story.rest("a", "b")
    assert story.judge("INV-1").ok


def test_mark_down_of_a_lossy_receiver_needs_an_event_at_the_sender(story):
    story.pair(*LOSSY)
    story.send("a", 1)
    story.mark_down("b")
    story.rest()
    assert story.texts("INV-2") == ["a session 1: tid 1 to b never arrived, and no event explains it"]


@pytest.mark.parametrize(("writes_again", "is_reported"), [(False, False), (True, True)])
def test_lossy_sender_learns_of_a_lost_link_when_it_writes(story, writes_again, is_reported):
    """Until then TCP could not report that its last bytes were lost with the peer's end."""
    story.pair(*LOSSY)
    linked(story, 1, 1, port=1)
    story.send("b", 1)
    story.frame("b", "b/1", "tx", "MESSAGE", 2, seq=1)
    story.link("a", "a/1", "close", "v2:10.0.0.2:6800/1")
    story.reset("a")
    if writes_again:
        story.frame("b", "b/1", "tx", "KEEPALIVE2", 3)
    story.rest()
    lost = ["b session 1: tid 1 to a never arrived, and no event explains it"]
    assert story.texts("INV-2") == (lost if is_reported else [])


def test_killed_node_explains_messages_queued_for_it(story):
    """b has come to rest and a is dead by then: what b, READY, did not get across before is explained."""
    story.process("a", "start")
    story.pair()
    story.send("b", 1)
    story.process("a", "kill")
    story.rest("b", queued=1)
    assert story.judge("INV-1").ok


def linked(story, number, session, port):
    """A link of its own under a session of both nodes."""
    story.link("a", f"a/{number}", "dial", "v2:10.0.0.2:6800/1", session)
    story.link("b", f"b/{number}", "accept", "v2:10.0.0.1:40000/0", session)
    for index in range(2):
        story.frame("a", f"a/{number}", "tx", "HELLO", index, session=session, port=port)
        story.frame("b", f"b/{number}", "rx", "HELLO", index, session=session, port=port)


def test_equal_messages_of_parallel_sessions_are_distinguished(story):
    """Both sessions send tid 1; on the second it arrives twice, on the first never."""
    for session in (1, 2):
        linked(story, session, session, port=session)
        story.open("b", "stateless_server", session=session)
        story.open("a", "lossy_client", session=session)
        story.send("a", 1, session=session)
    story.deliver("b", 1, session=2)
    story.deliver("b", 1, session=2)
    story.rest()
    assert story.texts("INV-2") == [
        "a session 1: tid 1 to b never arrived, and no event explains it",
        "b session 2: tid 1 from a session 2 is delivered again",
    ]


def test_message_for_another_node(story):
    story.open("a", "lossless_client", session=1, peer="b")
    story.open("a", "lossless_client", session=2, peer="c")
    story.open("b", "stateful_server", peer="a")
    story.open("c", "stateful_server", peer="a")
    story.send("a", 1, session=1, peer="b")
    story.send("a", 2, session=2, peer="c")
    story.deliver("c", 2, peer="a")
    story.deliver("c", 1, peer="a")
    assert story.texts("INV-1") == ["c session 1: tid 1 was never sent by a"]


def test_a_lossy_session_never_writes_again(story):
    story.pair(*LOSSY)
    for number in (1, 2):
        story.wire(number)
        story.send_frame("a", "MESSAGE", number=number, seq=1, tid=1)
    assert story.texts("INV-2") == ["a session 1: seq 1 is written again, by a lossy session"]


def test_a_lossless_session_does(story):
    story.pair()
    for number in (1, 2):
        story.wire(number)
        story.send_frame("a", "MESSAGE", number=number, seq=1, tid=1)
    assert story.judge("INV-2").ok


def test_equal_messages_of_two_lives_are_distinguished_by_their_links(story):
    """a dies before it has a link; what arrives is what it sends in its next life."""
    story.process("a", "start")
    story.send("a", 1)
    story.process("a", "kill")
    story.process("a", "start", 2)
    story.authenticate()
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1, 2)
    story.rest()
    assert story.judge("INV-1").ok
    assert story.judge("no_silent_gap").ok
