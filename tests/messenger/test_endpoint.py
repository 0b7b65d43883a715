"""The endpoint's contract with an application and a driver (docs/core.md; family SH, SQ-10, SQ-14)."""

from random import Random

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.endpoint import Endpoint
from messenger.errors import FaultReason, LocalError
from messenger.messages.message import PRIORITY_HIGH, PRIORITY_LOW, Message
from messenger.messages.mon import MMonSubscribe
from messenger.messages.types import MessageType
from messenger.outputs import CloseLink, EventKind, OpenLink
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSY_CLIENT,
    POLICIES,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from messenger.v2.wire import Hello
from tests.support.network import SEEN_HOST, SOCKET_HOST, Pair
from tests.support.node import A_ADDR, B_ADDR, CLIENT_ADDR, Node, auth_pair, new_endpoint, new_node, numbered
from tests.support.raw_peer import RawPeer, meet

NAME = EntityName(EntityType.OSD, 1)


# ---- connecting


@pytest.mark.parametrize(
    ("addrs", "words"),
    [
        ("v1:10.0.0.2:0/0", "no address to dial in v1:10.0.0.2:0/0"),
        ("[]", "no address to dial"),
        ("v2:10.0.0.2", "give one as v2:HOST:PORT/NONCE"),
    ],
)
def test_an_address_that_cannot_be_dialled_is_the_callers_mistake(addrs: str, words: str) -> None:
    node = new_node()
    with pytest.raises(LocalError, match=words.replace("[", r"\[")):
        node.connect(addrs)
    assert node.endpoint.sessions == []


def test_dialling_without_credentials_is_the_callers_mistake() -> None:
    endpoint = Endpoint(NAME, AddrVec.parse(A_ADDR), rng=Random(1))
    with pytest.raises(LocalError, match="credentials"):
        endpoint.connect(AddrVec.parse(B_ADDR), EntityType.OSD, 0.0)
    with pytest.raises(LocalError, match="authentication server"):
        endpoint.link_accepted(RawPeer.SOCKET_ADDR, 0.0)


def test_connecting_twice_gives_the_same_session() -> None:
    node = new_node()
    assert node.connect(B_ADDR) is node.connect(B_ADDR)
    node.pump()
    assert sum(isinstance(output, OpenLink) for output in node.outbox) == 1


def test_connecting_to_a_peer_that_dialled_gives_its_session() -> None:
    pair = Pair()
    _, theirs = pair.established()
    assert pair.b.connect(A_ADDR) is theirs


def test_the_policy_of_one_session_may_differ() -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    assert node.connect(B_ADDR, policy=LOSSY_CLIENT).policy is LOSSY_CLIENT
    assert node.connect("v2:10.0.0.3:6803/3").policy is LOSSLESS_CLIENT


def test_accept_only_endpoint_survives_the_loss_of_its_peer() -> None:
    """It has no credentials to dial back with, whatever its policy says."""
    _, server = auth_pair("none", NAME)
    node = Node(Endpoint(NAME, AddrVec.parse(A_ADDR), rng=Random(1), auth_server=server, tracing=True))
    peer = meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    peer.hang_up()
    again = RawPeer(node).accept()
    again.banner()
    again.hello()
    assert node.faults == [FaultReason.EOF, FaultReason.AUTH_DENIED]
    meet("acceptor", node).handshake(until=again.ident)
    assert session.state is not SessionState.CLOSED


# ---- sending


def test_the_same_message_object_may_be_sent_twice_and_to_two_peers() -> None:
    pair = Pair()
    other = pair.add(Node(new_endpoint(EntityName(EntityType.OSD, 3), "v2:10.0.0.3:6803/3")))
    to_b, to_other = pair.connect(), pair.a.connect("v2:10.0.0.3:6803/3")
    message = numbered(7, 100)
    for session in to_b, to_b, to_other:
        assert pair.a.endpoint.send(session, message, pair.clock.now)
    pair.drive()
    assert [(m.seq, bytes(m.data)) for _, m in pair.b.delivered] == [(1, message.data), (2, message.data)]
    assert [(m.seq, bytes(m.data)) for _, m in other.delivered] == [(1, message.data)]
    assert message.seq == 0


def test_the_same_object_resent_after_a_fault_is_the_same_message() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.wire.hold()
    message = numbered(7)
    for _ in range(2):
        pair.a.endpoint.send(mine, message, pair.clock.now)
    pair.drive()
    pair.wire.cut()
    pair.drive()
    assert [(m.tid, m.seq) for _, m in pair.b.delivered] == [(7, 1), (7, 2)]


def test_urgent_messages_overtake_before_they_have_a_seq() -> None:
    pair = Pair()
    mine, _ = pair.established()
    for number, priority in (1, PRIORITY_LOW), (2, PRIORITY_LOW), (3, PRIORITY_HIGH):
        pair.a.endpoint.send(mine, numbered(number, priority=priority), pair.clock.now)
    pair.drive()
    assert [(m.tid, m.seq) for _, m in pair.b.delivered] == [(3, 1), (1, 2), (2, 3)]


def test_urgent_messages_do_not_overtake_messages_with_a_seq() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.wire.hold()
    pair.a.send(mine, 1, 2)
    pair.drive()
    pair.a.endpoint.send(mine, numbered(3, priority=PRIORITY_HIGH), pair.clock.now)
    pair.wire.cut()
    pair.drive()
    assert pair.b.tids == [1, 2, 3]


def test_a_payload_is_encoded_for_the_peers_features_when_it_leaves() -> None:
    pair = Pair()
    mine, _ = pair.established()
    pair.a.endpoint.send(mine, Message.of(MMonSubscribe({}, "host"), tid=5), pair.clock.now)
    pair.drive()
    ((_, message),) = pair.b.delivered
    assert message.type == MessageType.MON_SUBSCRIBE
    assert message.payload == MMonSubscribe({}, "host")
    assert message.tid == 5


def test_all_parts_and_fields_of_a_message_arrive() -> None:
    pair = Pair()
    mine, theirs = pair.established()
    sent = Message(
        999, b"front", b"middle", b"data", tid=2**64 - 1, priority=63, version=8, compat_version=3, data_off=77
    )
    pair.a.endpoint.send(mine, sent, pair.clock.now)
    pair.drive()
    ((session, message),) = pair.b.delivered
    assert session is theirs
    assert (bytes(message.front), bytes(message.middle), bytes(message.data)) == (b"front", b"middle", b"data")
    fields = ("type", "tid", "priority", "version", "compat_version", "data_off", "size_bytes")
    assert [getattr(message, name) for name in fields] == [getattr(sent, name) for name in fields]
    assert (message.seq, message.flags) == (1, 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", 1 << 16),
        ("type", -1),
        ("priority", 1 << 16),
        ("version", 1 << 16),
        ("compat_version", -2),
        ("data_off", 1 << 16),
        ("tid", 1 << 64),
        ("tid", -1),
    ],
)
def test_a_number_that_does_not_fit_is_refused_where_it_is_sent(field: str, value: int) -> None:
    """It must not surface later, among the messages of others."""
    pair = Pair()
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    message = numbered(2)
    setattr(message, field, value)
    with pytest.raises(LocalError, match=rf"Message\.{field} = {value}: give a number of (16|64) bits"):
        pair.a.endpoint.send(mine, message, pair.clock.now)
    pair.a.send(mine, 3)
    pair.drive()
    assert pair.b.tids == [1, 3]
    assert mine.out_seq == 2


def test_releasing_twice_is_the_callers_mistake() -> None:
    node = new_node()
    node.hoarding = True
    peer = meet("acceptor", node).handshake()
    peer.write(peer.message(1, data=b"12345678"))
    node.endpoint.release(8, node.now)
    with pytest.raises(LocalError, match="released twice"):
        node.endpoint.release(8, node.now)
    assert node.endpoint.snapshot()["dispatch_bytes"] == 0


# ---- ending


@pytest.mark.parametrize("steps", [0, 1, 3, 5, 8, 1000])
@pytest.mark.parametrize(
    "policy", [policy for policy in POLICIES.values() if not policy.server], ids=lambda policy: policy.name
)
def test_marking_down_is_immediate_and_silent_at_any_time(policy: Policy, steps: int) -> None:
    pair = Pair(policy, STATELESS_SERVER if policy.lossy else STATEFUL_SERVER)
    mine = pair.connect()
    pair.a.send(mine, 1, 2)
    pair.drive_bounded(steps)
    pair.a.pump()
    pair.a.events.clear()
    pair.a.delivered.clear()
    pair.a.mark_down(mine)
    assert mine.state is SessionState.CLOSED
    assert not mine.queue
    assert not mine.queue.sent
    assert pair.a.endpoint.sessions == []
    assert not pair.a.endpoint.send(mine, numbered(3), pair.clock.now)
    pair.a.mark_down(mine)
    pair.a.endpoint.send_keepalive(mine, pair.clock.now)
    pair.drive()
    assert (pair.a.events, pair.a.delivered) == ([], [])
    assert pair.a.endpoint.link_count == 0
    assert pair.a.endpoint.next_deadline() is None
    assert set(pair.a.endpoint.snapshot().values()) == {0}


@pytest.mark.parametrize("steps", [0, 1, 3, 5, 8, 1000])
def test_after_marking_down_a_new_session_can_be_had_at_once(steps: int) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    old = pair.connect()
    pair.drive_bounded(steps)
    pair.a.mark_down(old)
    new = pair.connect()
    pair.a.send(new, 5)
    assert pair.run_until(lambda: pair.b.tids == [5], 60.0)
    assert new is not old
    assert len(pair.b.endpoint.sessions) == 1


def test_the_other_side_of_a_marked_down_session() -> None:
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER)
    mine, theirs = pair.established()
    pair.a.mark_down(mine)
    pair.drive()
    assert pair.b.kinds == [EventKind.ACCEPT, EventKind.RESET]
    assert pair.b.events[-1].fault is not None
    assert pair.b.events[-1].fault.reason is FaultReason.EOF
    assert theirs.state is SessionState.CLOSED


@pytest.mark.parametrize(("auth", "mode"), [("none", ConMode.CRC), ("cephx", ConMode.SECURE)])
@pytest.mark.parametrize("steps", [0, 2, 4, 6, 8, 10, 12, 15, 1000])
def test_shutting_down_leaves_nothing_at_any_time(auth: str, mode: ConMode, steps: int) -> None:
    pair = Pair(auth=auth, mode=mode)
    mine = pair.connect()
    theirs = pair.b.connect(A_ADDR)
    pair.a.send(mine, 1)
    pair.b.send(theirs, 2)
    pair.drive_bounded(steps)
    for node in pair.nodes:
        node.endpoint.shutdown(pair.clock.now)
    pair.drive()
    for node in pair.nodes:
        assert node.endpoint.link_count == 0
        assert node.endpoint.next_deadline() is None
        assert node.endpoint.sessions == []
        assert node.endpoint.held_bytes == {}
        assert set(node.endpoint.snapshot().values()) == {0}
        assert EventKind.RESET not in node.kinds
    assert not pair.a.endpoint.send(mine, numbered(9), pair.clock.now)


def test_shutting_down_closes_every_link() -> None:
    node = new_node()
    peers = [meet("acceptor", node) for _ in range(3)]
    node.connect(B_ADDR)
    node.pump()
    dialled = [output.link_id for output in node.outbox if isinstance(output, OpenLink)]
    node.endpoint.shutdown(node.now)
    node.pump()
    closed = {output.link_id for output in node.outbox if isinstance(output, CloseLink)}
    assert closed == {peer.link for peer in peers} | set(dialled)


# ---- several peers


def test_anonymous_clients_do_not_know_of_each_other() -> None:
    """Two clients at one address are two sessions of a stateless server; one leaves, the other stays (LY-06)."""
    node = new_node(policy=STATELESS_SERVER)
    first = meet("acceptor", node, addr=CLIENT_ADDR).handshake()
    second = meet("acceptor", node, addr=CLIENT_ADDR).handshake()
    assert len(node.endpoint.sessions) == 2
    first.hang_up()
    assert node.kinds == [EventKind.ACCEPT, EventKind.ACCEPT, EventKind.RESET]
    second.send_messages(1)
    assert node.tids == [1]
    assert node.endpoint.registry.lookup(second.addrs) is None


def test_stateless_server_distinguishes_dialled_and_dialling_peers() -> None:
    """Its clients are not looked up by address, so its own session with that peer does not change.

    See docs/protocol.md §4.9.
    """
    node = new_node(policy=STATELESS_SERVER)
    own = node.connect(B_ADDR, policy=LOSSLESS_CLIENT)
    meet("acceptor", node).handshake()
    assert len(node.endpoint.sessions) == 2
    assert own.state is SessionState.CONNECTING
    assert node.endpoint.registry.lookup(AddrVec.parse(B_ADDR)) is own
    assert node.kinds == [EventKind.ACCEPT]


def test_many_peers_keep_their_own_sequence() -> None:
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER)
    names = [EntityName(EntityType.CLIENT, number) for number in range(10, 20)]
    nodes = [
        pair.add(Node(new_endpoint(name, f"any:0.0.0.0:0/{name.num}", policy=LOSSY_CLIENT))) for name in names
    ]
    for node in nodes:
        node.send(node.connect(B_ADDR), 1, 2, 3)
    pair.drive()
    assert sorted(m.seq for _, m in pair.b.delivered) == sorted([1, 2, 3] * 10)
    assert {str(session.peer_name) for session, _ in pair.b.delivered} == {str(name) for name in names}


# ---- addresses


@pytest.mark.parametrize(("learn", "host"), [(True, SEEN_HOST), (False, SOCKET_HOST)])
def test_unknown_address_is_learned_from_the_peer_or_the_socket(host: str, *, learn: bool) -> None:
    pair = Pair(addr="any:0.0.0.0:0/77", ms_learn_addr_from_peer=learn)
    pair.established()
    assert str(pair.a.endpoint.addrs) == f"{host}:0/77"


@pytest.mark.parametrize("seen", ["any:0.0.0.0:0/0", "v2:[::]:3300/0", "-"])
def test_blank_address_in_hello_is_not_learned(seen: str) -> None:
    client, server = auth_pair("none", NAME)
    addrs = AddrVec.parse("any:0.0.0.0:0/77")
    node = Node(Endpoint(NAME, addrs, rng=Random(1), auth_client=client, auth_server=server))
    peer = meet("connector", node)
    peer.banner()
    peer.send(Hello(EntityType.OSD, EntityAddr.parse(seen)))
    assert node.endpoint.addrs == addrs


def test_peers_know_the_number_that_an_entity_has_learned_since_it_was_made() -> None:
    """OSDs identify clients and their repeated requests by it."""
    pair = Pair()
    pair.a.endpoint.name = EntityName(pair.a.endpoint.name.type, 4711)
    pair.established()
    (theirs,) = pair.b.endpoint.sessions
    assert theirs.peer_name == pair.a.endpoint.name


def test_known_address_is_not_changed_by_a_peer() -> None:
    pair = Pair()
    pair.established()
    assert str(pair.a.endpoint.addrs) == A_ADDR


def test_messenger_opens_no_session_after_shutdown() -> None:
    node = new_node()
    node.connect(B_ADDR)
    node.endpoint.shutdown(node.now)
    with pytest.raises(LocalError, match="this messenger has been shut down"):
        node.connect(B_ADDR)
    assert node.endpoint.sessions == []


def test_an_idle_endpoint_is_one_that_has_nothing_to_drain() -> None:
    node = new_node()
    endpoint = node.endpoint
    assert endpoint.idle
    peer = meet("connector", node)
    assert endpoint.idle
    peer.handshake()
    (session,) = endpoint.sessions
    assert endpoint.idle
    node.send(session, 1)
    assert not endpoint.idle
    node.pump()
    assert endpoint.idle
    assert endpoint.drain(node.now) == []
