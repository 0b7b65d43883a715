"""Peers that may dial under the addresses of a session (MF-17, MF-18), by every setting of both rules."""

from typing import Any

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_PEER_REUSE
from messenger.session.session import Session, SessionState
from messenger.v1.wire import ConnectReply
from messenger.v2.wire import SessionReconnect, SessionReconnectOk, SessionReset
from tests.support.node import B_ADDR, Node, new_node
from tests.support.raw_peer import COOKIE, RawPeer, meet
from tests.support.raw_v1 import B_V1_ADDR, RawV1Peer, new_v1_node

OSD_2 = EntityName(EntityType.OSD, 2)
OSD_9 = EntityName(EntityType.OSD, 9)
MDS_2 = EntityName(EntityType.MDS, 2)
STRANGERS = pytest.mark.parametrize("stranger", [OSD_9, MDS_2], ids=str)
AUTHS = pytest.mark.parametrize("auth", ["none", "cephx"])
protocols = pytest.mark.parametrize("protocol", ["v1", "v2"])

Peer = Any


def dial(node: Node, protocol: str, auth: str, name: EntityName, **changes: object) -> Peer:
    """A peer dials from the address of osd.2 and sends all frames up to the one that opens a session."""
    if protocol == "v1":
        peer: Peer = RawV1Peer(node, auth=auth, name=name).dial()
        peer.handshake(peer.connect)
        peer.last_connect = peer.connect_message(**changes)
        peer.send(peer.last_connect)
        if auth == "cephx":
            peer.last_connect.authorizer = peer.exchange.more(peer.expect(ConnectReply).authorizer)
            peer.send(peer.last_connect)
        return peer
    peer = RawPeer(node, auth=auth, name=name).dial()
    peer.handshake(peer.ident)
    peer.send(peer.client_ident(**changes))
    return peer


def with_osd_2(protocol: str, auth: str = "none", **options: object) -> tuple[Node, Session, Peer]:
    """A node whose session with osd.2 is open."""
    options = {"policy": LOSSLESS_PEER_REUSE, "auth": auth} | options
    if protocol == "v1":
        node = new_v1_node(**options)
        peer: Peer = RawV1Peer(node, auth=auth).dial().handshake()
    else:
        node = new_node(**options)
        peer = RawPeer(node, auth=auth).dial().handshake()
    (session,) = node.endpoint.sessions
    assert session.state is SessionState.READY
    node.events.clear()
    return node, session, peer


# ---- peer_identity


@STRANGERS
@AUTHS
@protocols
def test_stranger_cannot_take_over_a_session(protocol: str, auth: str, stranger: EntityName) -> None:
    node, session, peer = with_osd_2(protocol, auth)
    node.send(session, 1)
    spoofing = dial(node, protocol, auth, stranger, global_seq=100)
    assert (spoofing.closed, node.faults) == (True, [FaultReason.PEER_IDENTITY])
    assert "the session is with osd." in node.fault_texts[0]
    assert (session.state, peer.closed, node.events) == (SessionState.READY, False, [])
    peer.send_messages(1)
    assert node.tids == [1]


@STRANGERS
@AUTHS
@protocols
def test_stranger_takes_over_a_session_compared_by_addresses(
    protocol: str, auth: str, stranger: EntityName
) -> None:
    """As with AsyncMessenger: the session is reset and goes on with the stranger."""
    node, _, peer = with_osd_2(protocol, auth, peer_identity="addresses")
    its_own = {} if protocol == "v1" else {"client_cookie": COOKIE + 1}
    spoofing = dial(node, protocol, auth, stranger, global_seq=100, **its_own)
    assert (spoofing.closed, peer.closed, node.faults) == (False, True, [])
    assert EventKind.REMOTE_RESET in node.kinds


@AUTHS
@protocols
def test_the_peer_itself_may_come_again(protocol: str, auth: str) -> None:
    node, session, peer = with_osd_2(protocol, auth)
    again = dial(node, protocol, auth, OSD_2, global_seq=100)
    assert (again.closed, peer.closed, node.faults) == (False, True, [])
    assert session.state in {SessionState.READY, SessionState.REPLACING}


def test_number_of_the_dialled_peer_is_compared() -> None:
    """A listener at an address proves no name; the osd number that it announced counts."""
    for rule, reason in (("name", [FaultReason.PEER_IDENTITY]), ("addresses", [])):
        node = new_node(policy=LOSSLESS_PEER_REUSE, peer_identity=rule)
        meet("connector", node).handshake()
        spoofing = dial(node, "v2", "none", OSD_9, global_seq=100)
        assert (node.faults, spoofing.closed) == (reason, bool(reason))


def test_a_number_that_is_not_known_is_not_compared() -> None:
    node = new_node(policy=LOSSLESS_PEER_REUSE)
    node.connect(B_ADDR)
    again = dial(node, "v2", "none", OSD_9, global_seq=100)
    assert (node.faults, again.closed) == ([], False)


def test_a_client_may_change_its_number_but_not_its_name() -> None:
    """A monitor gave it another one."""
    node, session, _ = with_osd_2("v2", "cephx")
    again = dial(node, "v2", "cephx", OSD_2, global_seq=100, gid=4711)
    assert (node.faults, again.closed, session.peer_name.num) == ([], False, 4711)


def reconnect(peer: RawPeer, session: Session, cookie: int) -> SessionReconnect:
    return SessionReconnect(peer.addrs, cookie, session.server_cookie, 100, 5, 0)


@STRANGERS
@AUTHS
def test_stranger_with_the_cookie_cannot_reconnect(auth: str, stranger: EntityName) -> None:
    node, session, peer = with_osd_2("v2", auth)
    spoofing = RawPeer(node, auth=auth, name=stranger).dial()
    spoofing.handshake(spoofing.ident)
    spoofing.send(reconnect(spoofing, session, COOKIE))
    assert (spoofing.closed, peer.closed, node.faults) == (True, False, [FaultReason.PEER_IDENTITY])


@AUTHS
def test_stranger_with_the_cookie_reconnects_when_compared_by_addresses(auth: str) -> None:
    for cookie, answer in ((COOKIE + 1, SessionReset), (COOKIE, SessionReconnectOk)):
        node, session, peer = with_osd_2("v2", auth, peer_identity="addresses")
        spoofing = RawPeer(node, auth=auth, name=OSD_9).dial()
        spoofing.handshake(spoofing.ident)
        spoofing.send(reconnect(spoofing, session, cookie))
        assert isinstance(spoofing.next(), answer)
        assert peer.closed is (answer is SessionReconnectOk)


@protocols
def test_a_stranger_does_not_end_a_session_of_the_other_protocol(protocol: str) -> None:
    for rule, state in (("name", SessionState.READY), ("addresses", SessionState.CLOSED)):
        node, session, _ = with_osd_2(protocol, peer_identity=rule)
        other = "v1" if protocol == "v2" else "v2"
        node.endpoint.addrs = AddrVec.parse("v2:10.0.0.1:6801/1,v1:10.0.0.1:6801/1")
        dial(node, other, "none", OSD_9, global_seq=100)
        assert (session.state, bool(node.faults)) == (state, rule == "name")


# ---- peer_addresses


def from_host(node: Node, addr: str) -> RawPeer:
    """A v2 peer that dials from 10.0.0.1 and announces these addresses."""
    peer = RawPeer(node, addr=addr).dial()
    peer.handshake(peer.ident)
    peer.send(peer.client_ident())
    return peer


@pytest.mark.parametrize(
    ("addr", "refused"),
    [
        ("v2:10.0.0.1:6802/2", False),
        ("any:10.0.0.1:0/2", False),
        ("v2:10.0.0.2:6802/2", True),
        ("v1:10.0.0.1:6802/2", True),
        ("v2:10.0.0.1:6802/2,v1:10.0.0.2:6803/2", False),
    ],
)
def test_addresses_of_v2_must_be_on_the_host_that_dials(addr: str, refused: bool) -> None:  # noqa: FBT001
    for rule in ("same_host", "any"):
        node = new_node(peer_addresses=rule)
        peer = from_host(node, addr)
        refuses = refused and rule == "same_host"
        assert peer.closed is refuses
        assert node.faults == [FaultReason.MALFORMED] * refuses


def test_the_addresses_of_a_link_do_not_change() -> None:
    for rule in ("same_host", "any"):
        node = new_node(peer_addresses=rule)
        peer = RawPeer(node, addr="v2:10.0.0.1:6802/2").dial()
        peer.handshake(peer.ident)
        peer.send(SessionReconnect(peer.addrs, 1, 2, 1, 1, 0))
        peer.expect(SessionReset)
        peer.send(peer.client_ident(addrs=AddrVec.parse("v2:10.0.0.1:6803/3")))
        assert peer.closed is (rule == "same_host")


@pytest.mark.parametrize(
    ("addr", "refused"),
    [("v1:10.0.0.77:6802/2", False), ("v1:0.0.0.0:6802/2", False), (B_V1_ADDR, True)],
)
def test_the_address_of_v1_must_be_on_the_host_that_dials(addr: str, refused: bool) -> None:  # noqa: FBT001
    for rule in ("same_host", "any"):
        node = new_v1_node(peer_addresses=rule)
        peer = RawV1Peer(node, addr=addr).dial()
        peer.handshake(peer.connect)
        refuses = refused and rule == "same_host"
        assert peer.closed is refuses
        assert node.faults == [FaultReason.MALFORMED] * refuses
