"""Mistakes of an application cost what they are about, and nothing else."""

import array
import asyncio
import uuid

import pytest

from messenger.cephx.exchange import AuthClient
from messenger.denc.address import AddrVec
from messenger.denc.codec import Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature, has_feature
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault, FaultReason, LocalError
from messenger.interception import Action
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messages.monmap import MMonMap, MonMap
from messenger.messages.ping import MPing
from messenger.outputs import TraceRecord
from messenger.session.policy import LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER
from messenger.session.session import SessionState
from tests.support.both import V2
from tests.support.driver import NodeDriver
from tests.support.network import Pair
from tests.support.node import Node, new_node, numbered
from tests.support.raw_peer import meet

# ---- messages that cannot be written

BAD_PARTS: dict[str, object] = {
    "str": "text",
    "list": [1, 2, 3],
    "array": array.array("I", [1, 2, 3]),
    "memoryview of words": memoryview(array.array("I", [1, 2, 3])),
    "memoryview with gaps": memoryview(bytes(64))[::2],
    "memoryview of two dimensions": memoryview(bytes(64)).cast("B", (8, 8)),
    "None": None,
}


@pytest.mark.parametrize("part", BAD_PARTS.values(), ids=BAD_PARTS)
@pytest.mark.parametrize("name", ["front", "middle", "data"])
def test_a_part_that_is_no_bytes_is_refused_when_it_is_sent(name: str, part: object) -> None:
    pair = Pair()
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    with pytest.raises(LocalError, match=f"Message.{name}: give bytes, a bytearray or a contiguous memoryview"):
        pair.a.endpoint.send(mine, Message(2, **{name: part}), 0.0)  # type: ignore[arg-type]
    pair.a.send(mine, 2)
    pair.drive()
    assert pair.b.tids == [1, 2]


@pytest.mark.parametrize("part", [bytearray(b"12"), memoryview(b"12"), memoryview(bytearray(b"0123"))[1:3]])
def test_other_buffers_of_bytes_are_written(part: object) -> None:
    pair = Pair()
    mine, _ = pair.established()
    assert pair.a.endpoint.send(mine, Message(2, data=part), 0.0)  # type: ignore[arg-type]
    pair.drive()
    ((_, message),) = pair.b.delivered
    assert bytes(message.data) == b"12"


@pytest.mark.parametrize(
    ("name", "number"), [("tid", None), ("tid", 1 << 64), ("tid", -1), ("priority", 1 << 16), ("version", 1.5)]
)
def test_a_number_that_does_not_fit_is_refused_when_it_is_sent(name: str, number: object) -> None:
    pair = Pair()
    mine, _ = pair.established()
    with pytest.raises(LocalError, match=f"Message.{name} = {number}: give a number of"):
        pair.a.endpoint.send(mine, Message(**{"type": 2, name: number}), 0.0)  # type: ignore[arg-type]


def test_a_message_longer_than_is_accepted_here_is_not_sent() -> None:
    """A peer with the same options would break every link that it comes on."""
    pair = Pair(max_frame_bytes=1000)
    mine, _ = pair.established()
    with pytest.raises(LocalError, match="longer than max_frame_bytes = 1000"):
        pair.a.endpoint.send(mine, Message(2, data=bytes(1001)), 0.0)


def test_a_payload_that_cannot_be_encoded_is_refused_when_it_is_sent() -> None:
    pair = Pair()
    mine = pair.connect()
    bad = Message.of(MMonMap(MonMap(uuid.UUID(int=0), auth_epoch=-1)))
    with pytest.raises(LocalError, match=r"<Message mon_map .*> cannot be encoded: error: "):
        pair.a.endpoint.send(mine, bad, 0.0)


OLDER = CLIENT_FEATURES & ~Feature.SERVER_NAUTILUS


class Choosy(MPing):
    """A payload that cannot be encoded for older peers."""

    def encode(self, encoder: Encoder, features: int, /) -> None:
        if not has_feature(features, Feature.SERVER_NAUTILUS):
            raise ValueError("not for older peers")
        super().encode(encoder, features)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("others", [True, False], ids=["among others", "alone"])
def test_a_message_that_cannot_be_encoded_for_its_peer_is_dropped_alone(
    protocol: Protocol, *, others: bool
) -> None:
    """The features of the peer are known when the session opens."""
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    pair.b.endpoint.configure(features_supported=OLDER)
    mine = pair.connect()
    if others:
        pair.a.send(mine, 1)
    assert pair.a.endpoint.send(mine, Message.of(Choosy(), tid=2), pair.clock.now)
    if others:
        pair.a.send(mine, 3)
    pair.drive()
    assert pair.b.tids == ([1, 3] if others else [])
    (escaped,) = pair.a.escaped
    assert escaped.endswith(" cannot be sent: ValueError: not for older peers")
    assert pair.a.endpoint.perf_dump()["msgr"]["unsendable_messages"] == 1
    assert [record.fields["tid"] for record in pair.a.trace if record.kind == "unsent"] == [2]
    assert (mine.out_seq, len(mine.queue)) == (2 * others, 0)


@pytest.mark.parametrize("part", ["front", "middle", "data"])
@pytest.mark.parametrize("protocol", Protocol)
def test_a_buffer_that_is_released_too_early_loses_its_message_alone(protocol: Protocol, part: str) -> None:
    """The application gets one report of it."""
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    buffer = memoryview(b"released")
    assert pair.a.endpoint.send(mine, Message(2, tid=2, **{part: buffer}), pair.clock.now)
    buffer.release()
    assert pair.a.endpoint.perf_dump()["msgr-now"]["queued_bytes"] == 8
    pair.a.send(mine, 3)
    pair.drive()
    assert pair.b.tids == [1, 3]
    assert [record.fields["tid"] for record in pair.a.trace if record.kind == "unsent"] == [2]
    (escaped,) = pair.a.escaped
    assert "cannot be sent: ValueError: operation forbidden on released memoryview object" in escaped


@pytest.mark.parametrize("part", ["front", "middle", "data"])
@pytest.mark.parametrize("protocol", Protocol)
def test_part_that_is_no_buffer_any_more_is_reported_with_its_message(protocol: Protocol, part: str) -> None:
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    mine, _ = pair.established()
    before, spoilt, behind = (numbered(tid) for tid in (1, 2, 3))
    for message in (before, spoilt, behind):
        pair.a.endpoint.send(mine, message, pair.clock.now)
    setattr(spoilt, part, None)
    left_bytes = 0 if part == "data" else 8
    assert pair.a.endpoint.perf_dump()["msgr-now"]["queued_bytes"] == 16 + left_bytes
    pair.drive()
    assert pair.b.tids == [1, 3]
    assert [record.fields["tid"] for record in pair.a.trace if record.kind == "unsent"] == [2]
    (escaped,) = pair.a.escaped
    assert f"tid 2 0+0+{left_bytes} bytes> cannot be sent: TypeError: " in escaped


@pytest.mark.parametrize("protocol", Protocol)
def test_a_message_whose_numbers_were_changed_after_it_was_sent_is_dropped_alone(protocol: Protocol) -> None:
    """Its link ends, since what is built of a frame cannot be taken back."""
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    mine, _ = pair.established()
    before, spoilt, behind = (numbered(tid) for tid in (1, 2, 3))
    for message in (before, spoilt, behind):
        pair.a.endpoint.send(mine, message, pair.clock.now)
    spoilt.priority = None  # type: ignore[assignment]
    pair.drive()
    assert pair.b.tids == [1, 3]
    (escaped,) = pair.a.escaped
    assert "cannot be sent: error: required argument is not an integer" in escaped
    assert pair.a.endpoint.perf_dump()["msgr"]["unsendable_messages"] == 1
    assert [record.fields["tid"] for record in pair.a.trace if record.kind == "unsent"] == [2]
    assert (mine.out_seq, len(mine.queue), len(mine.queue.sent)) == (2, 0, 0)


@pytest.mark.parametrize("part", ["front", "middle", "data"])
@pytest.mark.parametrize("protocol", Protocol)
def test_part_that_became_a_buffer_of_wider_items_is_dropped_at_its_replay(protocol: Protocol, part: str) -> None:
    """The link was cut before the message arrived; the session and the other messages survive."""
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    mine, _ = pair.established()
    before, spoilt, behind = (numbered(tid) for tid in (1, 2, 3))
    for message in (before, spoilt, behind):
        pair.a.endpoint.send(mine, message, pair.clock.now)
    pair.wire.hold()
    pair.drive()
    setattr(spoilt, part, memoryview(array.array("I", range(64))))
    pair.wire.cut(pair.a, pair.b)
    assert pair.run_until(lambda: pair.b.tids[-1:] == [3], 60)
    assert pair.b.tids == [1, 3]
    (escaped,) = pair.a.escaped
    assert f"Message.{part}: give bytes, a bytearray or a contiguous memoryview of bytes" in escaped


def test_a_message_of_one_session_that_cannot_be_written_does_not_hold_up_another() -> None:
    """Parts that were changed after they were sent."""
    node = new_node()
    first, second = meet("acceptor", node).handshake(), V2.another(node, 3).handshake()
    spoilt = numbered(1)
    one, other = node.endpoint.sessions
    node.endpoint.send(one, spoilt, node.now)
    node.send(other, 2)
    spoilt.data = "text"  # type: ignore[assignment]
    node.pump()
    assert [message.tid for message in second.rest()] == [2]
    assert first.stream.read() == b""
    assert first.closed
    assert node.faults == [FaultReason.LOCAL]
    assert node.endpoint.perf_dump()["msgr"]["unsendable_messages"] == 1


def test_one_message_on_two_connections_is_encoded_for_each() -> None:
    """A message is not changed by being sent."""
    message = Message.of(MMonMap(MonMap(uuid.UUID(int=0))))
    fronts = [message.front_for(features) for features in (CLIENT_FEATURES, OLDER, CLIENT_FEATURES)]
    assert fronts[0] == fronts[2] != fronts[1]


# ---- callbacks that raise


class Raiser(Dispatcher):
    """Raises at the chosen callbacks, and records all of them."""

    def __init__(self, at: str = "", error: BaseException | None = None) -> None:
        self.log: list[str] = []
        self.at = at
        self.error = error or ValueError(at)

    def note(self, what: str) -> None:
        self.log.append(what)
        if what == self.at:
            raise self.error

    def ms_dispatch(self, _connection: Connection, message: Message) -> None:
        self.note(str(message.tid))

    def ms_handle_fast_accept(self, _connection: Connection) -> None:
        self.note("fast accept")

    def ms_handle_accept(self, _connection: Connection) -> None:
        self.note("accept")

    def ms_handle_reset(self, _connection: Connection, _fault: Fault) -> None:
        self.note("reset")


class Reporting(NodeDriver):
    """A driver that goes on after an exception of the application, as the asyncio one does."""

    def __init__(self, node: Node, dispatcher: Dispatcher) -> None:
        super().__init__(node, dispatcher)
        self.reported: list[BaseException] = []

    def failed(self, error: BaseException) -> None:
        self.reported.append(error)


def reporting(dispatcher: Dispatcher, **options: object) -> Reporting:
    return Reporting(new_node(**{"policy": STATELESS_SERVER} | options), dispatcher)


ALL = ["fast accept", "accept", "1", "2", "3", "reset"]


ERRORS = [ValueError("mine"), asyncio.CancelledError()]
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@pytest.mark.parametrize("at", ALL)
@pytest.mark.parametrize("by_priority", [False, True])
@each_error
def test_exception_of_a_callback_is_reported_and_other_callbacks_run(
    at: str, error: BaseException, *, by_priority: bool
) -> None:
    raiser, behind = Raiser(at, error), Raiser()
    driver = reporting(raiser, dispatch_by_priority=by_priority)
    driver.add_dispatcher_tail(behind)
    peer = meet("acceptor", driver.node).handshake()
    peer.write(b"".join(peer.message(seq, tid=seq, data=bytes(100)) for seq in (1, 2, 3)))
    peer.hang_up()
    driver.pump()
    assert raiser.log == ALL
    assert behind.log == [
        what for what in ALL if not what.isdigit() or what == at
    ]  # a message goes on if it raised
    assert driver.reported == [error]
    assert driver.endpoint.dispatch_throttle.value == driver.endpoint.dispatch_messages.value == 0
    assert driver.perf_dump()["msgr"]["unhandled_messages"] == 0
    (record,) = [record for record in driver.node.trace if record.kind == "exception"]
    assert record.fields["where"] == "a dispatcher"


@pytest.mark.parametrize("by_priority", [False, True])
@each_error
def test_only_dispatcher_gets_later_messages_after_it_raised(error: BaseException, *, by_priority: bool) -> None:
    raiser = Raiser("2", error)
    driver = reporting(raiser, dispatch_by_priority=by_priority)
    peer = meet("acceptor", driver.node).handshake()
    peer.write(b"".join(peer.message(seq, tid=seq, data=bytes(100)) for seq in (1, 2, 3)))
    driver.pump()
    assert raiser.log == ALL[:-1]
    assert driver.reported == [error]
    assert driver.endpoint.dispatch_throttle.value == driver.endpoint.dispatch_messages.value == 0


@pytest.mark.parametrize("by_priority", [False, True])
def test_an_interrupt_stops_the_pump_and_the_next_one_continues(*, by_priority: bool) -> None:
    raiser = Raiser("2", KeyboardInterrupt())
    driver = reporting(raiser, dispatch_by_priority=by_priority)
    peer = meet("acceptor", driver.node)
    peer.handshake(until=peer.ident)
    ident = peer.client_ident()
    raw = peer.writer.control(ident.TAG, ident.encode())
    raw += b"".join(peer.message(seq, tid=seq, data=bytes(100)) for seq in (1, 2, 3))
    driver.endpoint.link_data(peer.link, raw, 0.0)
    driver.endpoint.link_eof(peer.link, 0.0)
    with pytest.raises(KeyboardInterrupt):
        driver.pump()
    asked = driver.asked_to_pump
    assert asked
    driver.pump()
    assert raiser.log == ALL
    assert driver.endpoint.dispatch_throttle.value == driver.endpoint.dispatch_messages.value == 0


def test_failing_recorder_is_reported_once_and_loses_no_message() -> None:
    raiser = Raiser()
    driver = reporting(raiser)
    full = [False]

    def record(record: TraceRecord) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        driver.node.trace.append(record)

    driver.record = record  # type: ignore[method-assign]
    peer = meet("acceptor", driver.node).handshake()
    full[0] = True
    peer.write(b"".join(peer.message(seq, tid=seq, data=bytes(100)) for seq in (1, 2)))
    full[0] = False
    peer.write(peer.message(3, tid=3))
    assert raiser.log == ALL[:-1]
    assert len(driver.reported) == 1
    assert driver.endpoint.dispatch_throttle.value == 0


# ---- releasing


class Keeper(Dispatcher):
    """Keeps every message, or releases it at once, a given number of times."""

    def __init__(self, releases: int, *, returns: bool | None) -> None:
        self.kept: list[tuple[Connection, Message]] = []
        self.releases = releases
        self.returns = returns
        self.errors: list[LocalError] = []

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        self.kept.append((connection, message))
        for _ in range(self.releases):
            try:
                connection.release(message)
            except LocalError as error:
                self.errors.append(error)
        return self.returns


@pytest.mark.parametrize("releases", [0, 1, 2])
@pytest.mark.parametrize("returns", [True, None])
@pytest.mark.parametrize("changes", [True, False], ids=["emptied", "as it was"])
def test_each_message_is_released_exactly_once(releases: int, *, returns: bool | None, changes: bool) -> None:
    keeper = Keeper(releases, returns=returns)
    driver = reporting(keeper)
    peer = meet("acceptor", driver.node).handshake()
    peer.write(b"".join(peer.message(seq, data=bytes(100)) for seq in (1, 2, 3)))
    held = 3 * (returns is True and not releases)
    assert (driver.endpoint.dispatch_messages.value, driver.endpoint.dispatch_throttle.value) == (held, 100 * held)
    assert len(keeper.errors) == 3 * max(releases - 1, 0)
    assert driver.reported == []
    for connection, message in keeper.kept:
        if changes:
            message.data = b""
        if held:
            connection.release(message)
        with pytest.raises(LocalError, match="holds nothing of the throttles: was it released before"):
            connection.release(message)
    assert driver.endpoint.dispatch_messages.value == driver.endpoint.dispatch_throttle.value == 0


# ---- code around the core


class Failing:
    """Credentials whose code fails some times."""

    def __init__(self, inner: AuthClient, times: int) -> None:
        self.inner = inner
        self.times = times

    def exchange(self, *about: object) -> object:
        if self.times:
            self.times -= 1
            raise KeyError("a mistake")
        return self.inner.exchange(*about)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("at", ["a", "b"])
def test_an_authoriser_that_raises_costs_one_link(protocol: Protocol, at: str) -> None:
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    me = getattr(pair, at).endpoint.me
    kind = "auth_client" if at == "a" else "auth_server"
    setattr(me, kind, Failing(getattr(me, kind), 1))
    mine = pair.connect()
    pair.a.send(mine, 1)
    pair.pass_time(1.0)
    assert mine.state is SessionState.READY
    assert pair.b.tids == [1]
    assert getattr(pair, at).escaped == ["'a mistake'"]
    assert getattr(pair, at).faults == [FaultReason.LOCAL]


def test_a_timer_that_raises_keeps_no_other_from_firing() -> None:
    node = new_node(policy=LOSSY_CLIENT)
    fired: list[int] = []

    def fail(_now: float) -> None:
        raise KeyError("a mistake")

    for callback in (fail, lambda _now: fired.append(1), fail, lambda _now: fired.append(2)):
        node.endpoint.timers.at(1.0, callback)
    node.run(2.0)
    assert fired == [1, 2]
    assert node.escaped == ["'a mistake'"] * 2


class FailingInterceptor:
    """An interceptor with a mistake."""

    def __init__(self) -> None:
        self.times = 1

    def intercept(self, *_about: object) -> Action:
        if self.times:
            self.times -= 1
            raise KeyError("a mistake")
        return Action.CONTINUE


@pytest.mark.parametrize("protocol", Protocol)
def test_an_interceptor_that_raises_costs_one_link(protocol: Protocol) -> None:
    pair = Pair(LOSSLESS_PEER, protocol=protocol, interceptor=FailingInterceptor())
    mine = pair.connect()
    pair.a.send(mine, 1)
    pair.pass_time(1.0)
    assert pair.b.tids == [1]
    assert pair.a.escaped == ["'a mistake'"]
    assert pair.a.endpoint.connect(AddrVec.parse(pair.b_addr), EntityType.OSD, pair.clock.now) is mine
