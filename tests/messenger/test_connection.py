"""Connections under Ceph's names: to oneself, without a name, disposable, closed in order."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityType
from messenger.denc.features import Feature
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault, FaultReason, LocalError
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messages.ping import MPing
from messenger.outputs import CloseLink, EventKind, OpenLink
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
)
from messenger.session.session import SessionState
from messenger.v2.wire import KeepAlive2, KeepAlive2Ack
from tests.support.driver import NodeDriver
from tests.support.network import Pair
from tests.support.node import A_ADDR, B_ADDR, WALL_OFFSET_S, Node, new_node, numbered
from tests.support.raw_peer import RawPeer, meet


class Recorder(Dispatcher):
    """Records messages and events."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.messages: list[tuple[Connection, Message]] = []

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        self.log.append(f"message {message.tid}")
        self.messages.append((connection, message))

    def ms_handle_fast_connect(self, connection: Connection) -> None:
        self.log.append("fast connect")

    def ms_handle_connect(self, connection: Connection) -> None:
        self.log.append("connect")

    def ms_handle_accept(self, connection: Connection) -> None:
        self.log.append("accept")

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        self.log.append(f"reset: {fault}")


# ---- to oneself


def alone() -> tuple[NodeDriver, Recorder]:
    recorder = Recorder()
    return NodeDriver(new_node(), recorder), recorder


def test_the_own_address_gives_the_connection_to_oneself() -> None:
    driver, recorder = alone()
    loopback = driver.connect(A_ADDR, EntityType.OSD)
    assert loopback is driver.loopback
    assert loopback is driver.connect(AddrVec.parse(f"[{A_ADDR},v1:10.0.0.1:6789/1]"), EntityType.OSD)
    assert loopback.is_loopback
    assert loopback.is_connected
    assert (loopback.peer_addrs, loopback.peer_type) == (driver.addrs, EntityType.OSD)
    assert loopback.has_feature(Feature.SERVER_TENTACLE)
    assert loopback.connection_mode is None
    assert recorder.log == ["fast connect"]
    assert driver.node.outbox == driver.node.outbox.__class__()
    assert driver.endpoint.sessions == []


def test_loopback_messages_are_dispatched_in_order() -> None:
    """SH-08."""
    driver, recorder = alone()
    sent = [numbered(number, priority=priority) for number, priority in ((1, 127), (2, 255), (3, 64))]
    for message in sent:
        assert driver.loopback.send(message)
    assert driver.loopback.send(MPing())
    assert recorder.messages == []  # not from inside send
    driver.pump()
    assert [message.tid for _, message in recorder.messages] == [1, 2, 3, 0]
    assert [message.seq for _, message in recorder.messages] == [1, 2, 3, 4]
    assert {connection for connection, _ in recorder.messages} == {driver.loopback}
    assert [message.seq for message in sent] == [0, 0, 0]
    assert isinstance(recorder.messages[-1][1].payload, MPing)
    assert driver.endpoint.dispatch_throttle.value == 0
    assert driver.node.outbox == driver.node.outbox.__class__()
    assert driver.perf_dump()["AsyncMessenger::Worker-0"]["msgr_recv_messages"] == 0  # as in Ceph


def test_loopback_connection_ends_only_with_the_messenger() -> None:
    driver, recorder = alone()
    loopback = driver.loopback
    loopback.mark_down()
    loopback.keepalive()
    loopback.keep_alive(1.0)
    loopback.begin_shutdown()
    driver.mark_down_all()
    assert loopback.send(numbered(1))
    driver.pump()
    assert recorder.log == ["fast connect", "message 1"]
    driver.endpoint.shutdown(driver.now())
    assert not loopback.send(numbered(2))


def test_loopback_messages_take_the_dispatch_throttle_without_waiting() -> None:
    class Keeper(Recorder):
        def ms_dispatch(self, connection: Connection, message: Message) -> bool:
            super().ms_dispatch(connection, message)
            return True

    keeper = Keeper()
    driver = NodeDriver(new_node(ms_dispatch_throttle_bytes=10), keeper)
    for number in range(3):
        driver.loopback.send(numbered(number, 8))
    driver.pump()
    assert driver.endpoint.dispatch_throttle.value == 24
    for connection, message in keeper.messages:
        connection.release(message)
    assert driver.endpoint.dispatch_throttle.value == 0


def test_a_message_that_fits_into_no_frame_is_refused_here_as_well() -> None:
    driver, _ = alone()
    with pytest.raises(LocalError, match="a number of 16 bits"):
        driver.loopback.send(Message(1 << 16))


# ---- anonymous


def test_anonymous_connections_are_distinct_and_not_registered() -> None:
    """LY-06, TM15."""
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER)
    endpoint = pair.a.endpoint
    addrs = AddrVec.parse(B_ADDR)
    first, second = (endpoint.connect(addrs, EntityType.OSD, 0.0, anonymous=True) for _ in range(2))
    known = pair.connect()
    pair.drive()
    assert len({first.id, second.id, known.id}) == 3
    assert {first.state, second.state, known.state} == {SessionState.READY}
    assert endpoint.registry.lookup(addrs) is known
    assert endpoint.snapshot()["registry"] == 1
    pair.a.send(first, 1)
    pair.a.send(second, 2)
    pair.a.mark_down(first)
    pair.a.send(second, 3)
    pair.drive()
    assert sorted(pair.b.tids) == [1, 2, 3] or sorted(pair.b.tids) == [2, 3]
    assert second.state is SessionState.READY


def test_anonymous_lossless_session_continues_after_a_fault() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    session = pair.a.endpoint.connect(AddrVec.parse(B_ADDR), EntityType.OSD, 0.0, anonymous=True)
    pair.drive()
    pair.wire.cut()
    pair.a.send(session, 1)
    pair.drive()
    assert pair.b.tids == [1]
    assert pair.a.endpoint.snapshot()["registry"] == 0


# ---- properties


def test_connection_describes_its_peer() -> None:
    node = new_node()
    driver = NodeDriver(node, Recorder())
    connection = driver.connect(B_ADDR, EntityType.OSD)
    assert not connection.is_connected
    assert connection.get_con_mode() is None
    peer = RawPeer(node).accept().handshake()
    assert connection.is_connected
    assert connection.auth_result is not None
    assert not connection.is_loopback
    assert connection.get_con_mode() is ConMode.CRC
    assert connection.peer_type is EntityType.OSD
    assert str(connection.peer_addrs) == B_ADDR
    assert connection.has_feature(Feature.MSG_ADDR2)
    assert not connection.has_feature(Feature.SERVER_TENTACLE)
    assert (connection.last_keepalive, connection.last_keepalive_ack) == (0.0, 0.0)
    node.clock.now = 5.0
    peer.send(KeepAlive2(123, 0), KeepAlive2Ack(1_600_000_000, 500_000_000))
    assert connection.last_keepalive == WALL_OFFSET_S + 5.0
    assert connection.last_keepalive_ack == 1_600_000_000.5
    peer.hang_up()
    assert (connection.state, connection.auth_result) == (SessionState.STANDBY, None)


# ---- mark_disposable, mark_down_all


@pytest.mark.parametrize("disposable", [False, True])
def test_a_fault_ends_a_disposable_connection(*, disposable: bool) -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    recorder = Recorder()
    driver = NodeDriver(node, recorder)
    connection = driver.connect(B_ADDR, EntityType.OSD)
    peer = RawPeer(node).accept().handshake()
    if disposable:
        connection.mark_disposable()
    peer.send_messages(1)
    assert recorder.log[-1] == "message 1"
    peer.hang_up()
    if disposable:
        assert connection.state is SessionState.CLOSED
        assert recorder.log[-1].startswith("reset: peer closed the connection")
        assert driver.connections == {}
    else:
        assert connection.state is SessionState.CONNECTING


def test_a_mark_set_before_the_connection_opens_stays() -> None:
    driver = NodeDriver(new_node(policy=LOSSLESS_CLIENT), Recorder())
    connection = driver.connect(B_ADDR, EntityType.OSD)
    connection.mark_disposable()
    RawPeer(driver.node).accept().handshake().hang_up()
    assert connection.state is SessionState.CLOSED


def test_marking_all_down_resets_every_session_and_drops_what_has_none() -> None:
    recorder = Recorder()
    driver = NodeDriver(new_node(policy=LOSSLESS_PEER_REUSE), recorder)
    open_ = meet("acceptor", driver.node).handshake()
    half = RawPeer(driver.node, addr="v2:10.0.0.3:6803/3").dial()
    half.banner()
    driver.connect("v2:10.0.0.4:6804/4", EntityType.OSD)
    driver.mark_down_all()
    driver.pump()
    assert open_.closed
    assert half.closed
    assert sorted(recorder.log) == ["accept", "reset: marked down", "reset: marked down"]
    assert driver.endpoint.snapshot()["registry"] == driver.endpoint.link_count == 0
    assert driver.connections == {}


# ---- ending in order


@pytest.mark.parametrize("protocol", Protocol)
def test_a_lossless_session_ends_when_all_is_acknowledged(protocol: Protocol) -> None:
    """SH-01, TM19, TM22."""
    pair = Pair(LOSSLESS_PEER_REUSE, protocol=protocol)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1, 2)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    assert not pair.a.endpoint.send(mine, numbered(3), pair.clock.now)
    pair.pass_time(0.5)
    assert mine.state is SessionState.READY
    assert pair.b.tids == [1, 2]
    pair.wire.to_connector.held = False
    pair.drive()
    assert mine.state is SessionState.CLOSED
    assert EventKind.RESET not in pair.a.kinds
    assert pair.a.endpoint.closing == {}
    assert pair.a.endpoint.next_deadline() is None


@pytest.mark.parametrize("protocol", Protocol)
def test_a_lossy_session_ends_without_waiting_for_the_peer(protocol: Protocol) -> None:
    """SH-02, TM20, TM23: what was queued has left."""
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER, protocol=protocol)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.drive()
    assert mine.state is SessionState.CLOSED
    assert pair.b.tids == [1]


@pytest.mark.parametrize("protocol", Protocol)
def test_a_peer_that_never_acknowledges_is_waited_for_so_long(protocol: Protocol) -> None:
    """SH-03, TM21, TM24."""
    pair = Pair(LOSSLESS_PEER_REUSE, protocol=protocol, ms_shutdown_timeout=0.2)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.pass_time(0.19)
    assert mine.state is SessionState.READY
    pair.pass_time(0.02)
    assert mine.state is SessionState.CLOSED


def test_a_fault_on_the_way_to_the_end_is_survived() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.wire.hold()
    pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.drive()
    pair.wire.cut()
    pair.drive()
    assert pair.b.tids == [1]
    assert mine.state is SessionState.CLOSED


@pytest.mark.parametrize("queued", [False, True])
def test_a_session_that_was_never_open_ends_at_once_or_when_it_was(*, queued: bool) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine = pair.connect()
    if queued:
        pair.a.send(mine, 1)
    pair.a.endpoint.close_gracefully(mine, pair.clock.now)
    pair.drive()
    assert mine.state is SessionState.CLOSED
    assert pair.b.tids == [1] * queued


def test_the_driver_forgets_connections_that_have_ended() -> None:
    node = new_node(policy=STATELESS_SERVER)
    driver = NodeDriver(node, Recorder())
    meet("acceptor", node).handshake()
    (connection,) = driver.connections.values()
    connection.begin_shutdown()
    driver.pump()
    assert connection.state is SessionState.CLOSED
    assert connection.last_fault is not None
    assert connection.last_fault.reason is FaultReason.SHUTDOWN
    assert driver.connections == {}


# ---- which address to dial


def targets(node: Node) -> list[str]:
    node.pump()
    return [str(output.addr) for output in node.outbox if isinstance(output, OpenLink)]


def test_v2_is_dialled_rather_than_v1_wherever_it_stands() -> None:
    node = new_node()
    node.connect("[v1:10.0.0.2:6789/0,v2:10.0.0.2:3300/0]")
    assert targets(node) == ["v2:10.0.0.2:3300/0"]


def test_v1_only_messenger_ignores_v2_addresses_of_peers() -> None:
    """docs/protocol.md §9 item 29."""
    node = new_node()
    node.endpoint.addrs = AddrVec.parse("v1:10.0.0.1:6789/1")
    session = node.connect("[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0]")
    assert str(session.peer_addrs) == "v1:10.0.0.2:6789/0"
    assert targets(node) == ["v1:10.0.0.2:6789/0"]
    with pytest.raises(LocalError, match="no address to dial"):
        node.connect("v2:10.0.0.2:3300/0")


def test_links_that_are_closed_are_closed_once() -> None:
    driver = NodeDriver(new_node(policy=STATELESS_SERVER), Recorder())
    meet("acceptor", driver.node).handshake()
    driver.mark_down_all()
    driver.mark_down_all()
    driver.pump()
    assert len([output for output in driver.node.outbox if isinstance(output, CloseLink)]) == 1
