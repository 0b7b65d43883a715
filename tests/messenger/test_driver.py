"""The common part of all drivers: outputs are carried out in order, in spite of the application (INV-3)."""

import pytest

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault, LocalError
from messenger.messages.message import Message
from messenger.messages.ping import MPing
from messenger.session.policy import LOSSY_CLIENT, STATELESS_SERVER
from tests.support.driver import NodeDriver
from tests.support.node import B_ADDR, new_node, numbered
from tests.support.raw_peer import RawPeer, meet


class Recorder(Dispatcher):
    """Writes down what happens, and marks down or raises at one of those things."""

    def __init__(self, mark_down_at: str = "", raise_at: str = "") -> None:
        self.log: list[str] = []
        self._mark_down_at = mark_down_at
        self._raise_at = raise_at

    def _note(self, what: str, connection: Connection) -> None:
        self.log.append(what)
        if what == self._mark_down_at:
            connection.mark_down()
        if what == self._raise_at:
            raise ValueError(what)

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        self._note(f"message {message.tid}", connection)

    def ms_handle_accept(self, connection: Connection) -> None:
        self._note("accept", connection)

    def ms_handle_connect(self, connection: Connection) -> None:
        self._note("connect", connection)

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        self._note("reset", connection)


def at_once(recorder: Recorder) -> tuple[NodeDriver, RawPeer]:
    """A peer identifies itself, sends three messages and hangs up before the driver looks."""
    node = new_node(policy=STATELESS_SERVER)
    driver = NodeDriver(node, recorder)
    peer = meet("acceptor", node)
    peer.handshake(until=peer.ident)
    ident = peer.client_ident()
    raw = peer.writer.control(ident.TAG, ident.encode()) + b"".join(peer.message(seq) for seq in (1, 2, 3))
    node.endpoint.link_data(peer.link, raw, node.now)
    node.endpoint.link_eof(peer.link, node.now)
    driver.pump()
    return driver, peer


def test_events_and_messages_arrive_in_their_order() -> None:
    recorder = Recorder()
    driver, _ = at_once(recorder)
    assert recorder.log == ["accept", "message 1", "message 2", "message 3", "reset"]
    assert driver.connections == {}


@pytest.mark.parametrize("position", range(5))
def test_no_callback_after_mark_down(position: int) -> None:
    everything = ["accept", "message 1", "message 2", "message 3", "reset"]
    recorder = Recorder(mark_down_at=everything[position])
    driver, _ = at_once(recorder)
    assert recorder.log == everything[: position + 1]
    assert driver.connections == {}
    assert driver.endpoint.snapshot()["dispatch_bytes"] == 0


@pytest.mark.parametrize("at", ["accept", "message 2"])
def test_driver_raises_exceptions_of_dispatchers_by_default(at: str) -> None:
    with pytest.raises(ValueError, match=at):
        at_once(Recorder(raise_at=at))


def test_a_connection_is_one_object_for_all_links_of_a_session() -> None:
    recorder = Recorder()
    node = new_node()
    driver = NodeDriver(node, recorder)
    connection = driver.connect(B_ADDR, EntityType.OSD)
    connection.user = "mine"
    peer = RawPeer(node).accept().handshake()
    assert connection.send(MPing())
    assert connection.send(numbered(5))
    peer.pump()
    assert peer.expect_seqs() == [1, 2]
    assert driver.connect(AddrVec.parse(B_ADDR), EntityType.OSD) is connection
    assert driver.connect(EntityAddr.parse(B_ADDR), EntityType.OSD) is connection
    assert driver.connections == {connection.session.id: connection}
    assert connection.user == "mine"


def test_inputs_ask_for_a_pump_and_a_pump_sets_the_timer() -> None:
    driver = NodeDriver(new_node(policy=LOSSY_CLIENT), Recorder())
    connection = driver.connect(B_ADDR, EntityType.OSD)
    assert driver.asked_to_pump == 1
    connection.send(numbered(1))
    connection.keepalive()
    assert driver.asked_to_pump == 3
    driver.pump()
    assert driver.deadline_s == pytest.approx(10.0)
    connection.mark_down()
    driver.pump()
    assert driver.deadline_s is None


def test_everything_within_a_pump_has_one_time() -> None:
    """A clock that moves while messages are dispatched does not make the history go back in time."""
    node = new_node(policy=STATELESS_SERVER)
    peer = meet("acceptor", node).handshake()

    class Busy(Dispatcher):
        def ms_dispatch(self, connection: Connection, message: Message) -> None:
            node.clock.now += 1.0
            connection.send(message)

    NodeDriver(node, Busy())
    del node.trace[:]
    peer.write(peer.message(1) + peer.message(2))
    times_s = [record.time_s for record in node.trace]
    assert node.clock.now == 2.0
    assert times_s == sorted(times_s)
    assert len(set(times_s)) == 1


@pytest.mark.parametrize("addr", ["", "10.0.0.2", "nonsense", "v2:10.0.0.2:99999/0", "v1:10.0.0.2:0/0"])
def test_connect_to_a_malformed_address_raises_local_error(addr: str) -> None:
    driver = NodeDriver(new_node(), Recorder())
    with pytest.raises(LocalError):
        driver.connect(addr, EntityType.OSD)
    assert driver.connections == {}
