"""From the first byte to READY (docs/protocol.md §4.1; scenarios HS-01, HS-02, HS-09, HS-14 to HS-17, HS-20)."""

from collections.abc import Callable

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import Session, SessionState
from messenger.v2.wire import FLAG_LOSSY, ClientIdent
from tests.support.network import SEEN_HOST, Pair
from tests.support.node import A_ADDR, B_ADDR, new_node
from tests.support.raw_peer import ROLES, RawPeer, meet
from toolkit.errors import ScenarioFailed

SECURITY = [("none", ConMode.CRC), ("cephx", ConMode.CRC), ("cephx", ConMode.SECURE)]
by_security = pytest.mark.parametrize(("auth", "mode"), SECURITY)


def negotiated(session: Session) -> tuple[object, ...]:
    assert session.link is not None
    result = session.link.auth_result
    assert result is not None
    return (
        session.features,
        session.client_cookie,
        session.server_cookie,
        session.lossy,
        session.link.con_mode,
        result.session_key,
        result.connection_secret,
    )


# ---- clean ones


@by_security
def test_clean_handshake(auth: str, mode: ConMode) -> None:
    pair = Pair(auth=auth, mode=mode)
    mine, theirs = pair.established()
    pair.a.send(mine, 1)
    pair.drive()
    assert (pair.a.kinds, pair.b.kinds) == ([EventKind.CONNECT], [EventKind.ACCEPT])
    assert pair.b.tids == [1]
    assert negotiated(mine) == negotiated(theirs)
    assert mine.features == CLIENT_FEATURES
    assert mine.client_cookie != 0 != mine.server_cookie
    assert (str(mine.peer_name), str(theirs.peer_name)) == ("osd.2", "osd.1")
    assert (mine.peer_addrs, theirs.peer_addrs) == (AddrVec.parse(B_ADDR), AddrVec.parse(A_ADDR))


def test_frames_of_a_clean_handshake() -> None:
    pair = Pair(auth="cephx", mode=ConMode.SECURE)
    pair.established()
    first = ["BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REQUEST_MORE", "AUTH_SIGNATURE"]
    first += ["COMPRESSION_REQUEST", "CLIENT_IDENT"]
    assert pair.a.frames("tx") == pair.b.frames("rx") == first
    answers = ["BANNER", "HELLO", "AUTH_REPLY_MORE", "AUTH_DONE", "AUTH_SIGNATURE"]
    answers += ["COMPRESSION_DONE", "SERVER_IDENT"]
    assert pair.b.frames("tx") == pair.a.frames("rx") == answers


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_only_secure_mode_hides_contents(mode: ConMode) -> None:
    pair = Pair(auth="cephx", mode=mode)
    mine, theirs = pair.established()
    pair.a.send(mine, 12345678)
    pair.b.send(theirs, 12345678)
    pair.drive()
    assert pair.a.tids == pair.b.tids == [12345678]
    for pipe in pair.wire.pipes:
        assert (b"12345678" in pipe.log) == (mode is ConMode.CRC)


@by_security
@pytest.mark.parametrize("piece_bytes", [1, 7, 31, 33])
def test_bytes_may_arrive_in_any_pieces(auth: str, mode: ConMode, piece_bytes: int) -> None:
    pair = Pair(auth=auth, mode=mode)

    def chop(wire: object) -> None:
        for pipe in pair.wire.pipes:
            pipe.piece_bytes = piece_bytes

    pair.opened = chop
    mine, theirs = pair.established()
    pair.a.send(mine, 1, 2)
    pair.b.send(theirs, 3)
    pair.drive()
    assert (pair.b.tids, pair.a.tids) == ([1, 2], [3])
    assert pair.a.faults == pair.b.faults == []


def test_messages_queued_before_the_dial_leave_after_the_handshake() -> None:
    pair = Pair()
    mine = pair.connect()
    pair.a.send(mine, 1, 2, 3)
    pair.drive()
    assert pair.b.tids == [1, 2, 3]


@by_security
def test_messages_right_behind_server_ident_in_the_same_bytes(auth: str, mode: ConMode) -> None:
    node = new_node(auth=auth, mode=mode)
    peer = meet("connector", node, auth=auth, mode=mode)
    peer.handshake(until=peer.ident)
    peer.expect(ClientIdent)
    ident = peer.server_ident()
    peer.write(peer.writer.control(ident.TAG, ident.encode()) + peer.message(1) + peer.message(2))
    assert node.tids == [1, 2]


def test_a_client_without_an_address_learns_it() -> None:
    pair = Pair(addr="any:0.0.0.0:0/77")
    mine, theirs = pair.established()
    assert mine.state is SessionState.READY
    assert str(pair.a.endpoint.addrs) == f"{SEEN_HOST}:0/77"
    assert theirs.peer_addrs == pair.a.endpoint.addrs


def test_a_hello_alone_teaches_no_address() -> None:
    node = new_node("any:0.0.0.0:0/77", policy=LOSSLESS_CLIENT)
    node.connect(B_ADDR, EntityType.OSD)
    peer = RawPeer(node).accept()
    peer.banner()
    peer.hello(peer_addr=EntityAddr.parse("v2:10.6.6.6:1/0"))
    assert node.endpoint.addrs.front.host == "0.0.0.0"


# ---- peers that stop


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("auth", "mode"), [("cephx", ConMode.CRC), ("cephx", ConMode.SECURE)])
@pytest.mark.parametrize("done", range(6))
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_peer_that_stops_runs_into_the_ready_timeout(
    role: str, auth: str, mode: ConMode, done: int, part: float
) -> None:
    """At every frame boundary of the handshake (``part`` 0) and within every frame."""
    node = new_node(auth=auth, mode=mode, policy=LOSSLESS_CLIENT)
    peer = meet(role, node, auth=auth, mode=mode)
    for step in peer.steps[:done]:
        step()
    if part:
        send_part_of(peer, peer.steps[done], part)
    node.run(9.9)
    assert node.faults == []
    node.run(0.2)
    assert node.faults == [FaultReason.READY_TIMEOUT]
    assert peer.closed
    assert EventKind.RESET not in node.kinds
    if role == "acceptor":
        assert node.endpoint.link_count == 0
        assert node.endpoint.next_deadline() is None
    else:
        assert node.endpoint.next_deadline() is not None


def send_part_of(peer: RawPeer, step: Callable[[], None], part: float) -> None:
    """Do a step, of whose first frame only a part arrives."""
    write, written = peer.write, list[bytes]()

    def write_some(raw: bytes) -> None:
        if not written:
            written.append(raw)
            write(raw[: int(len(raw) * part)])

    peer.write = write_some  # type: ignore[method-assign]
    try:
        step()
    except ScenarioFailed:
        return  # the node gave no answer


@pytest.mark.parametrize("role", ROLES)
def test_one_byte_per_second_does_not_extend_the_ready_timeout(role: str) -> None:
    node = new_node()
    peer = meet(role, node)
    for byte in b"ceph v2\n\x10\x00\x01":
        peer.write(bytes([byte]))
        node.run(1.0)
    assert node.faults == [FaultReason.READY_TIMEOUT]


def test_a_ready_session_has_no_ready_timeout() -> None:
    pair = Pair()
    pair.established()
    pair.pass_time(60.0)
    assert pair.a.faults == pair.b.faults == []


# ---- the decision on lossiness (HS-20)


@pytest.mark.parametrize(
    ("client", "server", "lossy"),
    [
        (LOSSLESS_CLIENT, STATELESS_SERVER, True),
        (LOSSY_CLIENT, STATELESS_SERVER, True),
        (LOSSY_CLIENT, STATEFUL_SERVER, False),
        (LOSSLESS_CLIENT, STATEFUL_SERVER, False),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_server_decides_whether_the_session_is_lossy(client: Policy, server: Policy, *, lossy: bool) -> None:
    pair = Pair(client, server)
    mine, theirs = pair.established()
    assert mine.lossy == theirs.lossy == lossy
    assert bool(mine.server_cookie) == (not lossy)


@pytest.mark.parametrize(("policy", "flags"), [(LOSSY_CLIENT, FLAG_LOSSY), (LOSSLESS_CLIENT, 0)])
def test_a_client_announces_its_policy(policy: Policy, flags: int) -> None:
    node = new_node(policy=policy)
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    ident = peer.expect(ClientIdent)
    assert ident.flags == flags
    assert bool(ident.client_cookie) == (flags == 0)
    assert (ident.addrs, ident.target_addr, ident.gid) == (AddrVec.parse(A_ADDR), EntityAddr.parse(B_ADDR), 1)
