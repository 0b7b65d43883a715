"""Receivers of a message: chains of dispatchers, fast dispatch, the queue by priority, and none."""

import pytest

from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import DieError, Fault
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.session.policy import LOSSLESS_PEER, STATELESS_SERVER, ThrottleLimit
from messenger.v2.wire import MESSAGE_HEADER
from tests.support.driver import NodeDriver
from tests.support.node import new_node
from tests.support.raw_peer import RawPeer, meet


class Taker(Dispatcher):
    """Records its calls in a log that several dispatchers may share.

    Args:
        name: how it signs.
        log: where it writes.
        takes: what it returns from ms_dispatch.
        fast: tids that it dispatches fast.
    """

    def __init__(
        self, name: str, log: list[str], *, takes: bool | None = False, fast: frozenset[int] = frozenset()
    ) -> None:
        self.name = name
        self.log = log
        self.takes = takes
        self.fast = fast
        self.messages: list[Message] = []

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        self.log.append(f"{self.name} {message.tid}")
        return self.takes

    def ms_handle_accept(self, connection: Connection) -> None:
        self.log.append(f"{self.name} accept")

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> bool | None:
        self.log.append(f"{self.name} reset")
        return self.takes


class FastTaker(Taker):
    """One that dispatches some messages fast."""

    def ms_can_fast_dispatch(self, message: Message) -> bool:
        return message.tid in self.fast

    def ms_fast_dispatch(self, connection: Connection, message: Message) -> bool | None:
        self.log.append(f"{self.name} fast {message.tid}")
        self.messages.append(message)
        return self.takes


def started(dispatcher: Dispatcher, **options: object) -> tuple[NodeDriver, RawPeer]:
    """A driven node and a peer that has opened a session with it."""
    node = new_node(**{"policy": STATELESS_SERVER} | options)
    driver = NodeDriver(node, dispatcher)
    return driver, meet("acceptor", node).handshake()


def prioritized(peer: RawPeer, seq: int, priority: int) -> bytes:
    """A message of some priority, whose tid is its seq."""
    pieces: list = []
    header = MESSAGE_HEADER.pack(seq, seq, MessageType.PING, priority, 1, 0, 0, 0, 3, 1, 0)
    peer.writer.message(pieces, header, b"", b"", b"data")
    return b"".join(pieces)


# ---- several dispatchers


def test_the_first_that_takes_a_message_is_the_last_asked() -> None:
    log: list[str] = []
    driver, peer = started(Taker("b", log))
    driver.add_dispatcher_head(Taker("a", log))
    driver.add_dispatcher_tail(Taker("c", log, takes=None))
    driver.add_dispatcher_tail(Taker("d", log))
    peer.send_messages(1)
    assert log == ["b accept", "a 1", "b 1", "c 1"]
    assert driver.perf_dump()["msgr"]["unhandled_messages"] == 0


def test_resets_are_passed_on_until_a_dispatcher_handles_them() -> None:
    log: list[str] = []
    driver, peer = started(Taker("a", log, takes=None))
    driver.add_dispatcher_tail(Taker("b", log, takes=True))
    driver.add_dispatcher_tail(Taker("c", log))
    peer.hang_up()
    assert log == ["a accept", "a reset", "b reset"]


@pytest.mark.parametrize("chained", [False, True])
def test_kept_message_holds_its_throttles_until_released(*, chained: bool) -> None:
    class Keeper(Dispatcher):
        def ms_dispatch(self, connection: Connection, message: Message) -> bool:
            self.kept = connection, message
            return True

    keeper = Keeper()
    policy = STATELESS_SERVER.throttled(messages=ThrottleLimit("messages", 10))
    driver, peer = started(keeper, policy=policy)
    if chained:
        driver.add_dispatcher_head(Taker("a", []))
    peer.write(peer.message(1, data=bytes(500)))
    (throttle,) = driver.endpoint.throttles
    assert (driver.endpoint.dispatch_throttle.value, throttle.value) == (500, 1)
    connection, message = keeper.kept
    connection.release(message)
    assert (driver.endpoint.dispatch_throttle.value, throttle.value) == (0, 0)


# ---- no dispatcher


def test_unhandled_message_is_counted_and_recorded() -> None:
    driver, peer = started(Dispatcher())
    driver.add_dispatcher_tail(Taker("a", []))
    peer.write(peer.message(1, data=bytes(500)) + peer.message(2))
    assert driver.perf_dump()["msgr"]["unhandled_messages"] == 2
    assert driver.endpoint.dispatch_throttle.value == 0
    seqs = [record.fields["seq"] for record in driver.node.trace if record.kind == "unhandled"]
    assert seqs == [1, 2]


@pytest.mark.parametrize("by_priority", [False, True])
def test_unhandled_message_can_be_fatal(*, by_priority: bool) -> None:
    _, peer = started(Dispatcher(), ms_die_on_unhandled_msg=True, dispatch_by_priority=by_priority)
    with pytest.raises(DieError, match="ms_die_on_unhandled_msg: <Message ping v1 seq 1") as caught:
        peer.send_messages(1)
    assert caught.value.option == "ms_die_on_unhandled_msg"


def test_a_dispatcher_that_raises_has_handled_the_message() -> None:
    class Clumsy(Dispatcher):
        def ms_dispatch(self, connection: Connection, message: Message) -> None:
            raise ValueError(message.tid)

    failures: list[Exception] = []
    driver, peer = started(Clumsy(), ms_die_on_unhandled_msg=True)
    driver.failed = failures.append  # type: ignore[method-assign]
    driver.add_dispatcher_tail(Taker("a", []))
    peer.send_messages(1)
    assert [str(error) for error in failures] == ["1"]


# ---- fast dispatch


def test_fast_messages_go_to_the_first_that_takes_them_fast() -> None:
    log: list[str] = []
    driver, peer = started(Taker("a", log, takes=None))
    driver.add_dispatcher_tail(FastTaker("b", log, takes=None, fast=frozenset({2})))
    driver.add_dispatcher_tail(FastTaker("c", log, takes=None, fast=frozenset({2, 3})))
    peer.send_messages(1, 2, 3, 4)
    assert log[1:] == ["a 1", "b fast 2", "c fast 3", "a 4"]


def test_fast_messages_are_kept_and_released_like_others() -> None:
    log: list[str] = []
    taker = FastTaker("a", log, takes=True, fast=frozenset({1}))
    driver, peer = started(taker)
    peer.write(peer.message(1, data=bytes(500)))
    assert driver.endpoint.dispatch_throttle.value == 500
    (connection,) = driver.connections.values()
    connection.release(taker.messages[0])
    assert driver.endpoint.dispatch_throttle.value == 0


# ---- by priority


def test_messages_of_one_read_are_dispatched_by_priority() -> None:
    log: list[str] = []
    _, peer = started(Taker("a", log, takes=None), dispatch_by_priority=True)
    priorities = [127, 10, 255, 127, 64, 63]
    peer.write(b"".join(prioritized(peer, seq, priority) for seq, priority in enumerate(priorities, 1)))
    assert log == ["a accept", "a 3", "a 1", "a 4", "a 5", "a 6", "a 2"]


def test_messages_are_dispatched_in_order_of_arrival_by_default() -> None:
    log: list[str] = []
    _, peer = started(Taker("a", log, takes=None))
    peer.write(b"".join(prioritized(peer, seq, priority) for seq, priority in enumerate([127, 10, 255], 1)))
    assert log[1:] == ["a 1", "a 2", "a 3"]


def test_fast_messages_overtake_the_queue() -> None:
    log: list[str] = []
    driver, peer = started(FastTaker("a", log, takes=None, fast=frozenset({3})), dispatch_by_priority=True)
    peer.send_messages(1, 2, 3, 4)
    assert log[1:] == ["a fast 3", "a 1", "a 2", "a 4"]
    assert driver.endpoint.dispatch_throttle.value == 0


def test_queued_messages_are_dispatched_before_a_later_event() -> None:
    """INV-3 holds with the queue, too; a reset does not overtake messages."""
    log: list[str] = []
    driver, peer = started(Taker("a", log, takes=None), dispatch_by_priority=True)
    raw = peer.message(1) + prioritized(peer, 2, 10) + peer.message(3)
    driver.endpoint.link_data(peer.link, raw, 0.0)
    driver.endpoint.link_eof(peer.link, 0.0)
    driver.pump()
    assert log == ["a accept", "a 1", "a 3", "a 2", "a reset"]


def test_mark_down_drops_the_queued_messages_of_the_session() -> None:
    class Fickle(Taker):
        def ms_dispatch(self, connection: Connection, message: Message) -> None:
            super().ms_dispatch(connection, message)
            connection.mark_down()

    log: list[str] = []
    driver, peer = started(Fickle("a", log), dispatch_by_priority=True)
    peer.write(peer.message(1, data=bytes(50)) + peer.message(2, data=bytes(50)))
    assert log == ["a accept", "a 1"]
    assert driver.endpoint.dispatch_throttle.value == 0


# ---- other conditions that may be fatal


@pytest.mark.parametrize(
    ("option", "seqs"), [("ms_die_on_skipped_message", (1, 3)), ("ms_die_on_old_message", (1, 2, 1))]
)
def test_seqs_out_of_order_can_be_fatal(option: str, seqs: tuple[int, ...]) -> None:
    driver, peer = started(Taker("a", []), policy=LOSSLESS_PEER)
    peer.send_messages(*seqs)
    assert not peer.closed
    counter = "skipped_messages" if "skipped" in option else "old_messages"
    assert driver.perf_dump()["msgr"][counter] == 1
    _, peer = started(Taker("a", []), policy=LOSSLESS_PEER, **{option: True})
    with pytest.raises(DieError, match=f"{option}: <Session"):
        peer.send_messages(*seqs)


def test_a_message_that_does_not_decode_can_be_fatal() -> None:
    def bad_monmap(peer: RawPeer) -> bytes:
        pieces: list = []
        header = MESSAGE_HEADER.pack(1, 1, MessageType.MON_MAP, 127, 1, 0, 0, 0, 3, 1, 0)
        peer.writer.message(pieces, header, b"\xff" * 8, b"", b"")
        return b"".join(pieces)

    driver, peer = started(Taker("a", []))
    peer.write(bad_monmap(peer))
    assert peer.closed
    assert driver.perf_dump()["msgr"]["fault_bad_message"] == 1
    _, peer = started(Taker("a", []), ms_die_on_bad_msg=True)
    with pytest.raises(DieError, match="ms_die_on_bad_msg"):
        peer.write(bad_monmap(peer))


def test_too_much_before_authentication_can_be_fatal() -> None:
    peer = meet("acceptor", new_node(max_preauth_bytes=50))
    peer.banner()
    assert peer.closed
    peer = meet("acceptor", new_node(max_preauth_bytes=50, ms_die_on_bug=True))
    with pytest.raises(DieError, match="ms_die_on_bug"):
        peer.banner()
