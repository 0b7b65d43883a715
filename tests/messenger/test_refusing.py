"""An application that marks a session down in a callback: the peer is refused before it is answered."""

import pytest

from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from tests.support.driver import NodeDriver
from tests.support.network import Pair

ANSWERS = {"SERVER_IDENT", "SESSION_RECONNECT_OK", "SEQ", "MESSAGE", "MSG"}


class Refuser(Dispatcher):
    """Marks sessions down at the first so many events of a kind."""

    def __init__(self, at: EventKind, times: int) -> None:
        self.at = at
        self.times = times
        self.events: list[EventKind] = []
        self.tids: list[int] = []

    def note(self, kind: EventKind, connection: Connection) -> None:
        self.events.append(kind)
        if kind is self.at and self.times:
            self.times -= 1
            connection.mark_down()

    def ms_dispatch(self, _connection: Connection, message: object) -> None:
        self.tids.append(message.tid)  # type: ignore[attr-defined]

    def ms_handle_accept(self, connection: Connection) -> None:
        self.note(EventKind.ACCEPT, connection)

    def ms_handle_connect(self, connection: Connection) -> None:
        self.note(EventKind.CONNECT, connection)

    def ms_handle_reset(self, connection: Connection, _fault: Fault) -> None:
        self.note(EventKind.RESET, connection)

    def ms_handle_remote_reset(self, connection: Connection, _fault: Fault) -> None:
        self.note(EventKind.REMOTE_RESET, connection)


def frames_of(pair: Pair, node: str) -> set[str]:
    """Return the tags of the frames that a node has written to open sessions or within one."""
    records = [record.fields for record in getattr(pair, node).trace if record.kind == "frame"]
    written = [fields for fields in records if fields["direction"] == "tx"]
    final = {fields["fields"].get("tag") for fields in written} & {"READY", "SEQ"}  # type: ignore[attr-defined]
    return {str(fields["tag"]) for fields in written} & ANSWERS | final


@pytest.mark.parametrize(
    ("client", "server", "protocol"),
    [
        (LOSSLESS_CLIENT, STATEFUL_SERVER, Protocol.V1),
        (LOSSLESS_CLIENT, STATEFUL_SERVER, Protocol.V2),
        (LOSSLESS_PEER, LOSSLESS_PEER, Protocol.V1),
        (LOSSLESS_PEER, LOSSLESS_PEER, Protocol.V2),
        (LOSSY_CLIENT, STATELESS_SERVER, Protocol.V2),  # on v1 any fault behind the banner ends a lossy session
    ],
)
def test_refusing_server_sends_no_frame_and_the_client_loses_no_message(
    client: Policy, server: Policy, protocol: Protocol
) -> None:
    pair = Pair(client, server, protocol=protocol)
    refuser = Refuser(EventKind.ACCEPT, times=3)
    NodeDriver(pair.b, refuser)
    mine = pair.connect()
    pair.a.send(mine, 1, 2, 3)
    pair.drive()
    assert frames_of(pair, "b") == set()
    assert pair.a.kinds == []
    pair.pass_time(30.0)
    assert refuser.events == [EventKind.ACCEPT] * 4
    assert set(pair.a.kinds[:-1]) <= {EventKind.REFUSED}
    assert pair.a.kinds[-1] is EventKind.CONNECT
    assert (mine.state, refuser.tids) == (SessionState.READY, [1, 2, 3])
    assert len(pair.wires) == 4


@pytest.mark.parametrize("protocol", Protocol)
def test_refusing_a_session_that_comes_back(protocol: Protocol) -> None:
    """The client learns from the next answer that its session is gone."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, protocol=protocol)
    refuser = Refuser(EventKind.ACCEPT, times=0)
    NodeDriver(pair.b, refuser)
    mine, _ = pair.established()
    pair.b.trace.clear()
    refuser.times = 1
    pair.wire.cut()
    pair.a.send(mine, 1)
    pair.drive()
    assert refuser.events == [EventKind.ACCEPT] * 2
    assert frames_of(pair, "b") == set()
    pair.pass_time(5.0)
    pair.a.send(mine, 2)
    pair.drive()
    assert (mine.state, refuser.tids[-1]) == (SessionState.READY, 2)


@pytest.mark.parametrize("protocol", Protocol)
def test_a_client_that_ends_its_session_at_a_remote_reset_asks_for_no_other(protocol: Protocol) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, protocol=protocol)
    refuser = Refuser(EventKind.REMOTE_RESET, times=1)
    driver = NodeDriver(pair.a, refuser)
    mine = driver.connect(pair.b_addr, pair.b.endpoint.name.type).session
    pair.drive()
    pair.restart_b()
    pair.a.trace.clear()
    pair.wire.cut(pair.a)
    pair.a.send(mine, 1)
    pair.pass_time(5.0)
    assert refuser.events == [EventKind.CONNECT, EventKind.REMOTE_RESET]
    asked = [str(record.fields["tag"]) for record in pair.a.trace if record.kind == "frame"]
    assert asked[-1] in {"SESSION_RESET", "CONNECT_REPLY"}
    assert (mine.state, pair.b.kinds) == (SessionState.CLOSED, [])
