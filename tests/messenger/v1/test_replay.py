"""Exactly once and in order on v1, wherever a link breaks (INV-1; V1-12 to V1-14)."""

import pytest

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER, Policy
from messenger.session.session import SessionState
from messenger.v1.wire import Ack, Tag
from tests.messenger.test_endpoint_replay import (
    HEAL_WITHIN_S,
    POLICY_PAIRS,
    SENT,
    Conversation,
    by_direction,
    by_policies,
    clean_lengths,
    cut_first_wire,
)
from tests.messenger.v1.test_sessions import dial, replaced
from tests.support.network import Pair, Wire
from tests.support.node import numbered
from tests.support.raw_v1 import new_v1_node

V1 = {"protocol": Protocol.V1}
CEPHX = {"protocol": Protocol.V1, "auth": "cephx"}


@by_direction
@by_policies
def test_a_cut_at_every_byte(policy: Policy, peer_policy: Policy, direction: int) -> None:
    for position in range(clean_lengths(policy, peer_policy, **V1)[direction] + 1):
        pair = Conversation(policy, peer_policy, **V1)
        cut_first_wire(pair, direction, position)
        pair.start()
        pair.check()
        assert len(pair.wires) <= 4


@by_direction
@by_policies
def test_a_cut_at_every_few_bytes_with_cephx(policy: Policy, peer_policy: Policy, direction: int) -> None:
    for position in range(0, clean_lengths(policy, peer_policy, **CEPHX)[direction] + 1, 5):
        pair = Conversation(policy, peer_policy, **CEPHX)
        cut_first_wire(pair, direction, position)
        pair.start()
        pair.check()


@by_direction
@by_policies
def test_a_cut_that_one_side_notices_much_later(policy: Policy, peer_policy: Policy, direction: int) -> None:
    length = clean_lengths(policy, peer_policy, **V1)[direction]
    for position in range(0, length + 1, 7):
        pair = Conversation(policy, peer_policy, **V1)

        def tap(wire: Wire, pair: Conversation = pair, position: int = position) -> None:
            if len(pair.wires) == 1:
                wire.pipes[direction].limit = position

        pair.opened = tap
        pair.start()
        pair.drive()
        pair.wire.cut(pair.a)
        pair.pass_time(5.0)
        pair.wires[0].cut(pair.b)
        pair.check()


@by_policies
def test_cuts_of_the_first_two_wires(policy: Policy, peer_policy: Policy) -> None:
    """The reconnect is interrupted as well, before and after the session is taken over."""
    first_length = clean_lengths(policy, peer_policy, **V1)[1]
    for first in range(0, first_length + 1, 23):
        for second in range(0, 700, 47):
            pair = Conversation(policy, peer_policy, **V1)

            def tap(wire: Wire, pair: Conversation = pair, first: int = first, second: int = second) -> None:
                if len(pair.wires) == 1:
                    wire.to_connector.cut_at = first
                elif len(pair.wires) == 2:
                    wire.pipes[second % 2].cut_at = second

            pair.opened = tap
            pair.start()
            pair.check()


def test_delivered_but_not_acknowledged_is_not_delivered_again() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, **V1)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1, 2, 3)
    pair.drive()
    assert pair.a.endpoint.snapshot()["sent"] == 3
    pair.wire.cut()
    pair.a.send(mine, 4)
    pair.drive()
    assert pair.b.tids == [1, 2, 3, 4]
    assert [message.seq for _, message in pair.b.delivered] == [1, 2, 3, 4]
    assert pair.a.endpoint.snapshot()["sent"] == 0


def test_a_large_message_that_was_half_on_the_wire_is_sent_again_whole() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, tracing=False, **V1)
    mine, _ = pair.established()
    size = 8 << 20
    pair.wire.to_acceptor.limit = len(pair.wire.to_acceptor.log) + size // 2
    pair.wire.to_acceptor.piece_bytes = 1 << 20
    pair.a.send(mine, 1, size_bytes=size)
    pair.drive()
    pair.wire.cut()
    pair.drive()
    ((_, message),) = pair.b.delivered
    assert message.data == numbered(1, size).data
    assert sum(pair.b.endpoint.held_bytes.values()) == 0


@pytest.mark.parametrize("cut_at", range(0, 500, 23))
def test_a_first_dial_that_breaks_is_no_reset(cut_at: int) -> None:
    """Nothing was lost, so there is no event of a loss."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, **V1)
    cut_first_wire(pair, 1, cut_at)
    mine = pair.connect()
    pair.a.send(mine, 1)
    assert pair.run_until(lambda: pair.b.tids == [1], HEAL_WITHIN_S)
    assert EventKind.REMOTE_RESET not in pair.a.kinds + pair.b.kinds


@pytest.mark.parametrize(("policy", "peer_policy"), POLICY_PAIRS)
def test_a_restarted_server_is_noticed(policy: Policy, peer_policy: Policy) -> None:
    """V1-10: its client drops what was for the lost session, where the policy checks for that."""
    pair = Pair(policy, peer_policy, **CEPHX)
    mine, _ = pair.established()
    pair.a.send(mine, *SENT)
    pair.drive()
    pair.restart_b()
    pair.a.send(mine, 4)
    assert pair.run_until(lambda: mine.state is SessionState.READY, HEAL_WITHIN_S)
    pair.a.send(mine, 5)
    assert pair.run_until(lambda: 5 in pair.b.tids, HEAL_WITHIN_S)
    # RESETSESSION is the acceptor's word: a connector does not ask its own policy (docs/protocol.md §3.5).
    assert pair.a.kinds.count(EventKind.REMOTE_RESET) == 1
    assert pair.b.tids == [5]


@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)
def test_a_restarted_peer_that_dials_first(policy: Policy) -> None:
    pair = Pair(policy, **CEPHX)
    mine, _ = pair.established()
    pair.a.send(mine, *SENT)
    pair.drive()
    born = pair.restart_b()
    born.send(born.connect(pair.a_addr), 21)
    assert pair.run_until(lambda: pair.a.tids == [21], HEAL_WITHIN_S)
    assert (EventKind.REMOTE_RESET in pair.a.kinds) == policy.resetcheck
    pair.a.send(mine, 4)
    pair.drive()
    assert born.tids == [4]


# ---- without RECONNECT_SEQ


def test_without_reconnect_seq_both_sides_continue_counting_and_drop_duplicates() -> None:
    node = new_v1_node(ms_die_on_old_message=True)
    features = CLIENT_FEATURES & ~Feature.RECONNECT_SEQ
    peer = dial(node, features=features)
    peer.connect()
    peer.send_messages(1, 2, 3)
    (session,) = node.endpoint.sessions
    node.send(session, 11, 12)
    assert [message.tid for message in peer.messages()] == [11, 12]
    peer.send(Ack(1))
    peer.hang_up()
    again = dial(node, features=features)
    assert replaced(again, 3).tag is Tag.READY
    assert [(message.seq, message.tid) for message in again.messages()] == [(2, 12)]
    again.send_messages(3, 4)
    assert (node.tids, session.old_messages) == ([1, 2, 3, 4], 1)
    node.send(session, 13)
    assert [(message.seq, message.tid) for message in again.messages()] == [(3, 13)]


def test_messengers_without_reconnect_seq_lose_nothing_and_deliver_nothing_twice() -> None:
    pair = Pair(protocol=Protocol.V1, features_supported=CLIENT_FEATURES & ~Feature.RECONNECT_SEQ)
    mine, theirs = pair.established()
    for turn in range(3):
        pair.wire.hold()
        pair.a.send(mine, 10 * turn + 1, 10 * turn + 2)
        pair.b.send(theirs, 10 * turn + 3)
        pair.wire.to_acceptor.held = False
        pair.drive()
        pair.wire.cut()
        pair.pass_time(1.0)
    assert pair.b.tids == [1, 2, 11, 12, 21, 22]
    assert pair.a.tids == [3, 13, 23]
