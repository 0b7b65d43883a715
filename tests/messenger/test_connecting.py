"""connect(): which session an application gets, and what it learns of one that cannot be opened."""

import pytest

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason, LocalError
from messenger.link import Protocol
from messenger.outputs import EventKind, OpenLink
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, POLICIES, STATEFUL_SERVER
from messenger.session.session import Session, SessionState
from tests.support.both import Side, on_both
from tests.support.network import Pair
from tests.support.node import A_ADDR, B_ADDR, Node, new_node
from tests.support.raw_peer import RawPeer, meet

BOTH = f"[{B_ADDR},v1:10.0.0.2:6789/2]"
EACH = (B_ADDR, "v1:10.0.0.2:6789/2", BOTH)


def dials(node: Node) -> int:
    node.pump()
    return sum(isinstance(output, OpenLink) for output in node.outbox)


# ---- one peer is one session


@pytest.mark.parametrize("first", EACH)
@pytest.mark.parametrize("again", EACH)
def test_any_address_of_a_peer_that_is_known_gives_its_session(first: str, again: str) -> None:
    node = new_node(policy=LOSSLESS_PEER)
    session = node.connect(first)
    if first == B_ADDR:  # the peer says in its ident which addresses it has
        peer = RawPeer(node).accept()
        peer.handshake(until=peer.ident)
        peer.next()
        peer.send(peer.server_ident(addrs=AddrVec.parse(BOTH)))
        assert session.state is SessionState.READY
        assert node.connect(again) is session
    elif first == BOTH:
        assert node.connect(again) is session
    assert len(node.endpoint.sessions) == 1


@pytest.mark.parametrize("num", [2, 3])
def test_session_by_another_address_ends_when_the_peer_announces_that_address(num: int) -> None:
    """Unless it is known to be another peer: anybody can say anything."""
    node = new_node(policy=LOSSLESS_PEER)
    by_v2 = node.connect(B_ADDR)
    peer = RawPeer(node).accept()
    by_v1 = node.connect(EACH[1])
    assert by_v1 is not by_v2
    by_v1.peer_name = EntityName(EntityType.OSD, num)
    peer.handshake(until=peer.ident)
    peer.next()
    peer.send(peer.server_ident(addrs=AddrVec.parse(BOTH)))
    assert by_v2.state is SessionState.READY
    if num == by_v2.peer_name.num:
        assert by_v1.state is SessionState.CLOSED
        assert [event.kind for event in node.events] == [EventKind.RESET, EventKind.CONNECT]
        assert node.endpoint.registry.find(AddrVec.parse(EACH[1])) is by_v2
    else:
        assert by_v1.state is SessionState.CONNECTING


def test_a_peer_that_dials_with_more_addresses_than_were_dialled_takes_over_the_same_session() -> None:
    node = new_node(policy=LOSSLESS_PEER)
    first = meet("connector", node).handshake()
    (session,) = node.endpoint.sessions
    peer = RawPeer(node)
    peer.global_seq = first.global_seq + 1
    peer.dial().handshake(until=peer.ident)
    peer.send(peer.client_ident(addrs=AddrVec.parse(BOTH)))
    assert node.endpoint.sessions == [session]
    assert str(session.peer_addrs) == BOTH


def test_connecting_twice_by_one_address_leaves_the_session_alone() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    assert pair.a.connect(pair.b_addr) is mine
    pair.pass_time(10.0)
    assert (pair.a.kinds, pair.b.tids, len(pair.wires)) == ([EventKind.CONNECT], [1], 1)


def test_another_type_at_the_addresses_of_an_open_session_is_the_callers_mistake() -> None:
    pair = Pair()
    pair.established()
    with pytest.raises(LocalError, match=r"v2:10.0.0.2:6802/2: session 1 is with osd.2, not with a mon"):
        pair.a.connect(pair.b_addr, EntityType.MON)


def test_a_session_without_a_link_yields_to_a_dial_to_another_type() -> None:
    node = new_node(policy=LOSSLESS_PEER)
    meet("acceptor", node).handshake().hang_up()
    node.pump()
    session = node.connect(B_ADDR, EntityType.MON)
    node.pump()
    assert session.peer_type is EntityType.MON
    assert node.kinds == [EventKind.ACCEPT, EventKind.RESET]
    assert node.endpoint.sessions == [session]


def test_own_address_gives_the_loopback_session_and_peers_cannot_claim_it() -> None:
    node = new_node()
    peer = RawPeer(node, addr=A_ADDR)
    peer.dial().handshake(until=peer.ident)
    peer.send(peer.client_ident())
    assert peer.closed
    assert node.faults == [FaultReason.PEER_IDENTITY]
    assert node.fault_texts == [
        f"peer is not that of the session in SESSION_ACCEPTING: {A_ADDR} is an address of this messenger"
    ]
    session = node.connect(A_ADDR)
    node.send(session, 42)
    node.pump()
    assert (session.local, node.tids) == (True, [42])


def test_the_own_address_is_refused_on_v1_too() -> None:
    from tests.support.raw_v1 import A_V1_ADDR, RawV1Peer, new_v1_node

    node = new_v1_node()
    peer = RawV1Peer(node, addr=A_V1_ADDR).dial()
    peer.banner()
    peer.identify()
    assert node.faults == [FaultReason.PEER_IDENTITY]


# ---- policies


@pytest.mark.parametrize(
    "policy", [policy for policy in POLICIES.values() if policy.server], ids=lambda policy: policy.name
)
def test_a_servers_policy_does_not_dial(policy: object) -> None:
    node = new_node(policy=policy)
    with pytest.raises(LocalError, match="towards a osd is a server's, which never dials"):
        node.connect(B_ADDR)
    assert node.endpoint.sessions == []
    assert node.connect(B_ADDR, policy=LOSSY_CLIENT).state is SessionState.CONNECTING


def test_a_server_finds_the_session_of_a_client_by_its_address() -> None:
    node = new_node(policy=STATEFUL_SERVER)
    meet("acceptor", node).handshake()
    assert [node.connect(B_ADDR)] == node.endpoint.sessions


@pytest.mark.parametrize("queued", [True, False])
@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSLESS_PEER], ids=lambda policy: policy.name)
def test_a_client_without_a_port_is_never_dialled(policy: object, *, queued: bool) -> None:
    node = new_node(policy=policy)
    peer = RawPeer(node, addr="any:10.0.0.9:0/9").dial().handshake()
    (session,) = node.endpoint.sessions
    peer.hang_up()
    if queued:
        node.send(session, 1)
    node.run(100.0)
    assert (session.state, dials(node)) == (SessionState.STANDBY, 0)
    node.endpoint.wake_session(session, node.now)
    assert dials(node) == 0
    again = RawPeer(node, addr="any:10.0.0.9:0/9")
    again.client_cookie = peer.client_cookie
    again.global_seq = peer.global_seq + 1
    again.dial().handshake()
    assert session.state is SessionState.READY


@on_both
def test_an_application_that_wants_a_session_in_standby_wakes_it(side: Side) -> None:
    node, peer = side.ready("acceptor", policy=LOSSLESS_PEER)
    (session,) = node.endpoint.sessions
    peer.hang_up()
    node.pump()
    assert session.state is SessionState.STANDBY
    node.endpoint.wake_session(session, node.now)
    assert (session.state, dials(node)) == (SessionState.CONNECTING, 1)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("when", ["before it is open", "once it is open"])
def test_disposable_session_ends_with_its_link_on_a_lossless_server(protocol: Protocol, when: str) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, protocol=protocol)
    mine = pair.connect()
    if when == "before it is open":
        pair.a.endpoint.mark_disposable(mine)
    pair.drive()
    assert mine.state is SessionState.READY
    pair.a.endpoint.mark_disposable(mine)
    pair.wire.cut()
    pair.a.pump()
    assert (mine.state, pair.a.kinds) == (SessionState.CLOSED, [EventKind.CONNECT, EventKind.RESET])


# ---- a session that closes


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("link", ["whole", "cut"])
def test_connecting_while_the_session_closes_gives_the_next_one(protocol: Protocol, link: str) -> None:
    """The peer gets all of the first session before the second one begins."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, protocol=protocol)
    mine, _ = pair.established()
    pair.a.send(mine, 1, 2)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    if link == "cut":
        pair.wire.cut()
    nxt = pair.a.connect(pair.b_addr)
    assert nxt is not mine
    assert pair.a.connect(pair.b_addr) is nxt
    pair.a.send(nxt, 3)
    pair.pass_time(2.0)
    assert pair.b.tids == [1, 2, 3]
    assert (mine.state, nxt.state) == (SessionState.CLOSED, SessionState.READY)
    assert pair.a.endpoint.sessions == [nxt]


def test_the_next_session_can_be_given_up_before_it_begins() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.wire.hold()
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.a.mark_down(pair.a.connect(pair.b_addr))
    pair.wire.release()
    pair.pass_time(2.0)
    assert (pair.b.tids, len(pair.wires)) == ([1], 1)
    assert pair.a.endpoint.sessions == []


def test_shutting_down_begins_no_next_session() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    nxt = pair.a.connect(pair.b_addr)
    pair.a.endpoint.shutdown(pair.clock.now)
    pair.drive()
    assert (mine.state, nxt.state) == (SessionState.CLOSED, SessionState.CLOSED)
    assert len(pair.wires) == 1


# ---- peers that cannot be reached


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", FaultReason.NOT_MSGR),
        (b"ceph v027" + bytes(272), FaultReason.V1_PEER),
        (b"ceph v2\n\1\0x", FaultReason.BANNER),
    ],
)
def test_a_peer_of_another_protocol_is_an_event_each_time(greeting: bytes, reason: FaultReason) -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    session = node.connect(B_ADDR)
    for tries in (1, 2):
        peer = RawPeer(node).accept()
        peer.write(greeting)
        assert node.kinds == [EventKind.REFUSED] * tries
        assert last_reason(session) is reason
        node.run(1.0)
    RawPeer(node).accept().handshake()
    assert (session.state, session.last_fault) == (SessionState.READY, None)


@on_both
def test_a_peer_that_hangs_up_on_two_dials_at_the_same_place_is_an_event(side: Side) -> None:
    """It may look for another nonce; once may be chance."""
    node = side.new_node(policy=LOSSLESS_CLIENT)
    peer = side.meet("connector", node)
    for tries in range(3):
        if tries:
            peer = side.peer(node).accept()
        peer.banner()
        peer.hang_up()
        node.pump()
        assert node.kinds == [EventKind.REFUSED] * tries
        node.run(2.0)
    (session,) = node.endpoint.sessions
    assert last_reason(session) is FaultReason.EOF


def test_wrong_nonce_is_an_event_at_the_connector() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    wrong = str(EntityAddr.parse(pair.b_addr).with_nonce(99))
    mine = pair.a.connect(wrong)
    pair.pass_time(3.0)
    assert set(pair.b.faults) == {FaultReason.WRONG_TARGET}
    assert set(pair.a.kinds) == {EventKind.REFUSED}
    assert last_reason(mine) is FaultReason.EOF


def last_reason(session: Session) -> FaultReason:
    assert session.last_fault is not None
    return session.last_fault.reason
