"""Costs that a peer can cause before it has proven its identity, or after it has left."""

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from mmap import mmap

import pytest

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.messages.message import Message
from messenger.outputs import EventKind
from messenger.perf import prometheus
from messenger.session.policy import (
    LOSSLESS_PEER,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    PolicySet,
)
from messenger.session.session import SessionState
from messenger.v1.existing import protocol_version
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import AuthRequest, ServerIdent, SessionReset, Tag
from tests.support.both import V1, V2, Side, on_both
from tests.support.network import Pair
from tests.support.node import B_ADDR, Node, new_node, numbered
from tests.support.raw_peer import RawPeer, meet
from tests.support.raw_v1 import RawV1Peer
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.frames import RawFrame

OSD3 = EntityName(EntityType.OSD, 3)
WILDCARD = "v2:0.0.0.0:6801/1"


def osd3(side: Side, node: Node) -> object:
    """osd.3 at its own address."""
    return side.another(node, 3, name=OSD3, auth="cephx")


# ---- half-open links


def halves(node: Node, count: int, host: str = "10.0.7.7") -> list[int]:
    return [
        node.endpoint.link_accepted(EntityAddr.parse(f"v2:{host}:{40000 + number}/0"), node.now)
        for number in range(count)
    ]


@on_both
def test_the_oldest_half_open_link_makes_room_for_a_new_one(side: Side) -> None:
    node = side.new_node(max_half_open_links=3)
    ready = side.meet("acceptor", node).handshake()
    first, *others = halves(node, 4)
    node.pump()
    assert node.faults == [FaultReason.CROWDED_OUT]
    assert sorted(node.endpoint.link_ids) == sorted([ready.link, *others])
    assert first not in node.endpoint.link_ids
    assert node.endpoint.perf_dump()["msgr-now"]["half_open_links"] == 3
    node.run(11.0)  # none of them says anything
    assert node.endpoint.link_ids == [ready.link]
    assert node.endpoint.perf_dump()["msgr-now"]["half_open_links"] == 0


def test_hosts_have_a_limit_each() -> None:
    node = new_node(max_half_open_links_per_host=2)
    one, two = halves(node, 2, "10.0.7.7"), halves(node, 2, "10.0.7.8")
    (new,) = halves(node, 1, "10.0.7.7")
    assert node.endpoint.link_ids == [one[1], *two, new]


def test_limits_of_zero_are_no_limits() -> None:
    node = new_node(max_half_open_links=0, max_half_open_links_per_host=0)
    assert len(halves(node, 3000)) == len(node.endpoint.link_ids)


@on_both
def test_honest_peer_connects_among_many_silent_ones(side: Side) -> None:
    node = side.new_node(max_half_open_links=50, max_half_open_links_per_host=20)
    halves(node, 25)
    peer = side.meet("acceptor", node)
    halves(node, 45, "10.0.7.9")
    peer.handshake()
    assert len(node.endpoint.sessions) == 1


def test_failed_accept_is_counted_and_closes_the_oldest_half_open_link() -> None:
    node = new_node()
    first, *others = halves(node, 3)
    node.endpoint.accept_failed("Too many open files", node.now)
    node.pump()
    assert node.endpoint.link_ids == others
    assert node.endpoint.perf_dump()["msgr"]["accept_failures"] == 1
    (record,) = [record.fields for record in node.trace if record.kind == "exhausted"]
    assert record == {"what": "accept", "detail": "Too many open files"}
    assert first not in others


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python's cyclic garbage collector does nothing: a busy server's may not come for minutes."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def messenger_bytes() -> int:
    """Return the bytes that the messenger's code has allocated and not freed."""
    only = tracemalloc.Filter(inclusive=True, filename_pattern="*/messenger/[!/]*")
    outside = tracemalloc.Filter(inclusive=False, filename_pattern="*/tests/*")
    statistics = tracemalloc.take_snapshot().filter_traces([only, outside]).statistics("filename")
    return sum(statistic.size for statistic in statistics)


@pytest.mark.usefixtures("no_collector")
@on_both
def test_memory_of_a_stranger_is_freed_with_its_link(side: Side) -> None:
    count, frame_bytes = 60, 100 << 10
    node = side.new_node()
    peers = [side.meet("acceptor", node) for _ in range(count)]
    for peer in peers:
        peer.banner()
        if side is V2:
            peer.hello()
            peer.send(AuthRequest(77, [], bytes(frame_bytes)))  # is kept for the signature
            frame = RawFrame(Tag.AUTH_REQUEST, (bytes(frame_bytes),)).encode()
        else:
            peer.identify()
            frame = peer.connect_message(authorizer=bytes(frame_bytes)).encode()
        peer.write(frame[:-1])
    assert messenger_bytes() > (count * frame_bytes if side is V2 else 0)
    buffers = [weakref.ref(node.endpoint.receive_buffer(peer.link).obj) for peer in peers]
    # mappings go back to the kernel; what malloc gets back may stay with the process
    assert all(isinstance(buffer(), mmap) for buffer in buffers)
    for peer in peers:
        peer.hang_up()
    node.pump()
    assert messenger_bytes() < 2 << 20
    assert not any(buffer() for buffer in buffers)


# ---- own addresses


def test_hello_alone_does_not_decide_the_own_address() -> None:
    node = new_node(WILDCARD, auth="cephx")
    liar = RawPeer(node, auth="cephx").dial()
    liar.banner()
    liar.hello(peer_addr=EntityAddr.parse("v2:6.6.6.6:6801/0"))
    assert str(node.endpoint.addrs) == WILDCARD
    honest = RawPeer(node, auth="cephx", addr="v2:10.0.0.3:6803/3")
    assert str(ident_at(honest, "v2:10.0.0.1:6801/1").addrs) == "v2:10.0.0.1:6801/1"
    assert str(node.endpoint.addrs) == "v2:10.0.0.1:6801/1"


def ident_at(peer: RawPeer, target: str) -> ServerIdent:
    """Return the node's answer to a peer that has dialled it at ``target``."""
    addr = EntityAddr.parse(target)
    peer.dial().banner()
    peer.hello(peer_addr=addr.with_nonce(0))
    for step in peer.steps[2 : peer.steps.index(peer.ident)]:
        step()
    peer.send(peer.client_ident(target_addr=addr))
    return peer.expect(ServerIdent)


def test_connector_learns_no_address_from_a_refused_peer() -> None:
    node = new_node("any:0.0.0.0:0/77")
    peer = meet("connector", node)
    peer.banner()
    peer.hello(entity_type=EntityType.MON, peer_addr=EntityAddr.parse("any:6.6.6.6:0/0"))
    assert node.faults == [FaultReason.PEER_TYPE]
    assert str(node.endpoint.addrs) == "0.0.0.0:0/77"


def test_host_with_two_networks_can_be_dialled_on_both() -> None:
    node = new_node(WILDCARD)
    for number, own in ((3, "v2:10.0.0.1:6801/1"), (4, "v2:192.168.7.1:6801/1")):
        peer = RawPeer(node, addr=f"v2:10.0.0.{number}:680{number}/{number}")
        assert str(ident_at(peer, own).addrs) == own
    assert len(node.endpoint.sessions) == 2
    wrong = RawPeer(node, addr="v2:10.0.0.5:6805/5").dial()
    wrong.handshake(until=wrong.ident)
    wrong.send(wrong.client_ident(target_addr=EntityAddr.parse("v2:10.0.0.1:6801/2")))
    assert node.faults[-1] is FaultReason.WRONG_TARGET


# ---- names and addresses


@pytest.mark.parametrize("squatter", [V1, V2], ids=lambda side: side.name)
@pytest.mark.parametrize("owner", [V1, V2], ids=lambda side: side.name)
def test_earlier_user_of_an_address_keeps_it_only_while_connected(squatter: Side, owner: Side) -> None:
    node = new_node("[v2:10.0.0.1:6801/1,v1:10.0.0.1:6803/1]", auth="cephx", policy=LOSSLESS_PEER)
    first = squatter.another(node, 3, auth="cephx")  # osd.2 at the address of osd.3
    first.handshake()
    refused = owner.another(node, 3, name=OSD3, auth="cephx")
    with pytest.raises(ScenarioFailed):
        refused.handshake()
    assert node.faults[-1] is FaultReason.PEER_IDENTITY
    first.hang_up()
    node.pump()
    osd3(owner, node).handshake()  # type: ignore[attr-defined]
    session = node.endpoint.sessions[-1]
    assert str(session.peer_auth_name) == "osd.3"
    assert len(node.endpoint.sessions) == 1
    assert node.kinds == [EventKind.ACCEPT, EventKind.RESET, EventKind.ACCEPT]


def test_second_address_of_another_peer_cannot_be_claimed() -> None:
    node = new_node(auth="cephx")
    osd3(V2, node).handshake()  # type: ignore[attr-defined]
    liar = RawPeer(node, auth="cephx").dial()
    liar.handshake(until=liar.ident)
    liar.send(liar.client_ident(addrs=AddrVec.parse(f"{B_ADDR},v2:10.0.0.3:6803/3")))
    assert node.faults == [FaultReason.PEER_IDENTITY]
    assert len(node.endpoint.sessions) == 1


@pytest.mark.parametrize(
    ("proven", "claimed", "accepted"),
    [
        (EntityType.CLIENT, EntityType.CLIENT, True),
        (EntityType.CLIENT, EntityType.OSD, False),
        (EntityType.OSD, EntityType.OSD, True),
        (EntityType.OSD, EntityType.MON, False),
        (EntityType.MGR, EntityType.CLIENT, True),  # a module of a manager
    ],
)
@on_both
def test_a_ticket_proves_a_type_too(
    side: Side, proven: EntityType, claimed: EntityType, *, accepted: bool
) -> None:
    """The type decides the policy."""
    node = side.new_node(auth="cephx")
    node.endpoint.policies = PolicySet(STATELESS_SERVER, {EntityType.OSD: LOSSLESS_PEER})
    peer = side.another(node, 9, name=EntityName(proven, 4), auth="cephx")
    if side is V2:
        peer.banner()
        peer.hello(entity_type=claimed)
        peer.auth_request()
        if accepted:
            peer.auth_more()
            peer.signature()
            peer.ident()
        else:
            with pytest.raises(ScenarioFailed, match="AuthBadMethod"):
                peer.auth_more()
    else:
        peer.banner()
        peer.identify()
        version = protocol_version(node.endpoint.name.type, claimed, connecting=False)
        reply = peer.converse(host_type=claimed, protocol_version=version)
        assert (reply.tag.name == "BADAUTHORIZER") is not accepted
        if accepted:
            peer.stream.read()
    assert len(node.endpoint.sessions) == accepted
    assert (FaultReason.AUTH_DENIED in node.faults) is not accepted


@pytest.mark.parametrize("full", [True, False])
def test_a_proven_name_is_forgotten_with_the_session_that_it_proved(*, full: bool) -> None:
    node = new_node(auth="cephx", policy=LOSSLESS_PEER)
    first = meet("acceptor", node, auth="cephx").handshake()
    (session,) = node.endpoint.sessions
    assert str(session.peer_auth_name) == "osd.2"
    first.hang_up()
    node.send(session, 1)
    other = RawPeer(node, auth="cephx", name=OSD3).accept()  # now osd.3 lives there
    other.handshake(until=other.ident)
    other.next()
    other.send(SessionReset(full=full))
    other.client_cookie = other.next().client_cookie
    other.send(other.server_ident())
    assert (str(session.peer_name), session.peer_auth_name) == ("osd.3", None)
    other.hang_up()
    node.pump()
    RawPeer(node, auth="cephx", name=OSD3).dial().handshake()
    assert session.state is SessionState.READY


def test_the_number_of_a_peer_is_forgotten_with_the_session_too() -> None:
    """Otherwise the peer that now has its address could not dial while this side dials in vain."""
    node = new_node("v2:10.0.0.3:6801/9", policy=LOSSLESS_PEER)  # the higher address loses races
    first = RawPeer(node, name=OSD3).dial().handshake()
    (session,) = node.endpoint.sessions
    first.hang_up()
    node.send(session, 1)
    owner = RawPeer(node).accept()
    owner.handshake(until=owner.ident)
    owner.next()
    owner.send(SessionReset(full=True))
    owner.next()
    RawPeer(node).dial().handshake()
    assert (str(session.peer_name), session.state) == ("osd.2", SessionState.READY)
    assert node.faults == [FaultReason.EOF]


def test_v1_proven_name_is_forgotten_with_a_half_open_session() -> None:
    node = V1.new_node(auth="cephx", policy=LOSSLESS_PEER)
    first = V1.another(node, 2, auth="cephx")
    first.banner()
    first.identify()
    first.converse()
    (session,) = node.endpoint.sessions
    assert str(session.peer_auth_name) == "osd.2"
    first.hang_up()
    node.send(session, 1)
    other = RawV1Peer(node, name=OSD3, addr=str(first.addr), auth="cephx").accept()  # now osd.3 lives there
    other.banner()
    other.identify()
    connect, _ = other.authenticated()
    other.send(other.reply_to(connect, V1Tag.RESETSESSION))
    assert session.peer_auth_name is None


# ---- sessions whose peer does not return


@on_both
def test_a_session_in_standby_ends_after_its_timeout(side: Side) -> None:
    node, peer = side.ready(policy=STATEFUL_SERVER, standby_timeout=600.0)
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    peer.hang_up()
    node.run(599.0)
    assert session.state is SessionState.STANDBY
    node.run(2.0)
    assert (session.state, node.kinds[-1]) == (SessionState.CLOSED, EventKind.RESET)
    fault = node.events[-1].fault
    assert fault is not None
    assert fault.reason is FaultReason.STANDBY_TIMEOUT
    assert node.endpoint.snapshot()["queued"] == 0


def test_a_session_that_comes_back_in_time_stays() -> None:
    pair = Pair(LOSSLESS_PEER, standby_timeout=10.0)
    mine, theirs = pair.established()
    pair.wire.cut()
    pair.pass_time(9.0)
    pair.a.send(mine, 1)
    pair.pass_time(100.0)
    assert (mine.state, theirs.state, pair.b.tids) == (SessionState.READY, SessionState.READY, [1])


def test_without_the_option_a_session_stays_for_ever() -> None:
    pair = Pair(LOSSLESS_PEER)
    mine, theirs = pair.established()
    pair.wire.cut()
    pair.pass_time(1e6)
    assert (mine.state, theirs.state) == (SessionState.STANDBY, SessionState.STANDBY)


@pytest.mark.parametrize("connected", [True, False], ids=["unacknowledged", "waiting"])
def test_a_session_with_too_much_queued_ends(*, connected: bool) -> None:
    limit_bytes, size_bytes = 100_000, 1000
    pair = Pair(LOSSLESS_PEER, max_queued_bytes=limit_bytes)
    mine, _ = pair.established()
    if connected:
        pair.wire.hold()
    else:
        pair.answer = lambda _node, _addr: pytest.fail("nobody dials at once")  # type: ignore[assignment,return-value]
        pair.wire.cut()
        pair.a.pump()
    sent = 0
    while pair.a.endpoint.send(mine, numbered(sent, size_bytes), pair.clock.now):
        sent += 1
        pair.a.pump()
        assert sent < 1000
    assert limit_bytes <= sent * size_bytes <= limit_bytes * 17 / 16 + size_bytes
    pair.a.pump()
    fault = pair.a.events[-1].fault
    assert pair.a.kinds[-1] is EventKind.RESET
    assert fault is not None
    assert fault.reason is FaultReason.QUEUE_LIMIT
    assert pair.a.endpoint.sessions == []
    assert pair.a.faults.count(FaultReason.QUEUE_LIMIT) == 1, "the link that it closes has a fault"


def test_acknowledged_messages_do_not_count_as_queued() -> None:
    pair = Pair(LOSSLESS_PEER, max_queued_bytes=10_000)
    mine, _ = pair.established()
    for number in range(200):
        pair.a.send(mine, number, size_bytes=1000)
        pair.drive()
    assert pair.b.tids == list(range(200))


def test_gauges_report_the_queued_bytes_of_sessions() -> None:
    pair = Pair(LOSSLESS_PEER)
    mine, _ = pair.established()
    pair.wire.hold()
    pair.a.send(mine, 1, size_bytes=100)
    pair.drive()
    pair.a.endpoint.send(mine, Message(2, data=bytes(10)), 0.0)
    assert pair.a.endpoint.perf_dump()["msgr-now"] == {
        "sessions_ready": 1,
        "half_open_links": 0,
        "queued_bytes": 10,
        "unwritten_bytes": 100 + 32 + 41 + 4 + 13,
        "unacknowledged_bytes": 100,
    }
    assert 'ceph_msgr_now_sessions_ready{ceph_daemon="osd.1"} 1' in prometheus_of(pair.a)
    assert "# TYPE ceph_msgr_now_queued_bytes gauge" in prometheus_of(pair.a)


def prometheus_of(node: Node) -> str:
    return prometheus(node.endpoint.perf_dump(), str(node.endpoint.name))
