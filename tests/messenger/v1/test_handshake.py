"""Opening a v1 link: banner, addresses, versions, features (docs/protocol.md §3.2 to §3.5)."""

import pytest

from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT
from messenger.session.session import SessionState
from messenger.v1.handshake import my_legacy_addr
from messenger.v1.wire import (
    BANNER,
    Ack,
    Banner,
    ClientIdentify,
    Connect,
    ConnectReply,
    Seq,
    ServerIdentify,
    Tag,
)
from tests.support.node import Node, new_endpoint
from tests.support.raw_v1 import A_V1_ADDR, B_V1_ADDR, RawV1Peer, meet, new_v1_node

ROLES = ("connector", "acceptor")
CLIENT = EntityName(EntityType.CLIENT)
CLIENT_ADDR = "any:0.0.0.0:0/77"

by_role = pytest.mark.parametrize("role", ROLES)
by_auth = pytest.mark.parametrize("auth", ["none", "cephx"])


# ---- opening bytes (§3.2)


def test_the_acceptor_speaks_first_and_at_once() -> None:
    peer = RawV1Peer(new_v1_node()).dial()
    assert (
        peer.inbound == BANNER + EntityAddr.parse(A_V1_ADDR).legacy_image() + RawV1Peer.SOCKET_ADDR.legacy_image()
    )


def test_connector_sends_its_banner_at_once_and_its_address_after_that_of_the_acceptor() -> None:
    node = new_v1_node()
    node.connect(B_V1_ADDR)
    peer = RawV1Peer(node).accept()
    assert peer.inbound == BANNER
    raw = BANNER + ServerIdentify(peer.addr, RawV1Peer.SOCKET_ADDR).encode()
    peer.write(raw[:-1])
    assert peer.inbound == BANNER
    peer.write(raw[-1:])
    peer.expect(Banner)
    assert peer.expect(ClientIdentify).client_addr == EntityAddr.parse(A_V1_ADDR)
    assert peer.expect(Connect).global_seq == 1


@by_role
@by_auth
@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
def test_session_opens_with_bytes_in_pieces_of_any_size(role: str, auth: str, piece_bytes: int) -> None:
    node = new_v1_node(auth=auth)
    peer = meet(role, node, auth=auth)
    write = peer.write

    def in_pieces(raw: bytes) -> None:
        for start in range(0, len(raw), piece_bytes):
            write(raw[start : start + piece_bytes])

    peer.write = in_pieces  # type: ignore[method-assign]
    peer.handshake()
    peer.send_messages(1, 2)
    assert (node.tids, node.faults) == ([1, 2], [])


@by_role
def test_a_v2_peer_is_recognised(role: str) -> None:
    node = new_v1_node()
    peer = meet(role, node)
    peer.write(b"ceph v2\n")
    assert node.faults == [FaultReason.V2_PEER]
    assert peer.closed


@by_role
def test_a_wrong_banner_is_a_fault_at_its_first_byte(role: str) -> None:
    node = new_v1_node()
    peer = meet(role, node)
    peer.write(b"H")
    assert node.faults == [FaultReason.NOT_MSGR]
    assert peer.closed
    assert node.endpoint.link_count == 0


@by_role
def test_an_address_of_an_unknown_family_is_a_fault(role: str) -> None:
    node = new_v1_node()
    peer = meet(role, node)
    peer.banner()
    peer.write(bytes(8) + b"\0\x63" + bytes(600))
    assert node.faults == [FaultReason.MALFORMED]


# ---- addresses and identities (§3.2)


@pytest.mark.parametrize(
    ("server_addr", "accepted"),
    [
        (B_V1_ADDR, True),
        ("v1:0.0.0.0:6802/2", True),
        ("v1:10.0.0.3:6802/2", False),
        ("v1:10.0.0.2:6803/2", False),
        ("v1:10.0.0.2:6802/3", False),
        ("v1:0.0.0.0:6803/2", False),
        ("v1:0.0.0.0:6802/3", False),
    ],
)
def test_acceptor_must_be_the_dialled_one(server_addr: str, *, accepted: bool) -> None:
    """Only its IP may be unknown to itself; nonce and port must match."""
    node = new_v1_node()
    node.connect(B_V1_ADDR)
    peer = RawV1Peer(node, addr=server_addr).accept()
    peer.banner()
    peer.send(ServerIdentify(peer.addr, RawV1Peer.SOCKET_ADDR))
    assert node.faults == ([] if accepted else [FaultReason.WRONG_TARGET])


@pytest.mark.parametrize("learn", [True, False])
def test_a_client_learns_its_ip_from_the_acceptor_or_the_socket(*, learn: bool) -> None:
    node = Node(new_endpoint(CLIENT, CLIENT_ADDR, ms_learn_addr_from_peer=learn))
    peer = meet("connector", node)
    peer.banner()
    peer.send(ServerIdentify(peer.addr, EntityAddr.parse("v1:192.0.2.7:5555/9")))
    expected = "10.0.0.77" if not learn else "192.0.2.7"
    assert peer.expect(ClientIdentify).client_addr == EntityAddr.parse(f"v1:{expected}:0/77")
    if learn:  # for good only from an acceptor that has authenticated
        assert str(node.endpoint.addrs) == CLIENT_ADDR.removeprefix("any:")
        peer.answer()
    assert str(node.endpoint.addrs) == f"{expected}:0/77"


def test_a_peer_that_does_not_know_its_ip_is_known_by_that_of_its_socket() -> None:
    node = new_v1_node()
    peer = RawV1Peer(node, addr="v1:0.0.0.0:6802/2").dial().handshake()
    (session,) = node.endpoint.sessions
    assert str(session.peer_addrs) == "v1:10.0.0.77:6802/2"
    peer.send_messages(1)
    assert node.tids == [1]


@pytest.mark.parametrize(
    ("addrs", "legacy"),
    [
        ("[v2:10.0.0.1:3300/7,v1:10.0.0.1:6789/7]", "v1:10.0.0.1:6789/7"),
        ("any:10.0.0.1:0/7", "v1:10.0.0.1:0/7"),
        ("v2:10.0.0.1:3300/7", "v1:10.0.0.1:0/7"),
    ],
)
def test_own_address_on_v1_has_no_port_of_v2(addrs: str, legacy: str) -> None:
    """A port of v2 is nothing that a v1 peer could dial."""
    node = Node(new_endpoint(CLIENT, addrs))
    assert my_legacy_addr(node.endpoint.addrs) == EntityAddr.parse(legacy)


# ---- versions and features (§3.1, §3.4 steps 1 to 3)


def test_connect_has_version_features_and_seqs() -> None:
    node = new_v1_node()
    session = node.connect(B_V1_ADDR, EntityType.MDS, LOSSY_CLIENT)
    peer = RawV1Peer(node).accept()
    peer.banner()
    peer.identify()
    connect = peer.expect(Connect)
    assert (connect.features, connect.host_type, connect.protocol_version) == (CLIENT_FEATURES, EntityType.OSD, 32)
    assert (connect.global_seq, connect.connect_seq, connect.flags) == (session.global_seq, 0, 1)


def test_other_protocol_version_gets_ours_and_may_retry() -> None:
    node = new_v1_node()
    peer = meet("acceptor", node)
    peer.banner()
    peer.identify()
    reply = peer.converse(protocol_version=24)
    assert (reply.tag, reply.protocol_version) == (Tag.BADPROTOVER, 10)
    assert peer.converse().tag is Tag.SEQ


@by_role
def test_missing_features_are_named(role: str) -> None:
    node = new_v1_node(policy=LOSSLESS_PEER.requiring(int(Feature.OSDENC)))
    peer = meet(role, node, features=CLIENT_FEATURES & ~Feature.OSDENC)
    peer.banner()
    peer.identify()
    if role == "connector":
        peer.answer()
        assert node.faults == [FaultReason.MISSING_FEATURES]
        assert "0x2000" in node.fault_texts[0]
    else:
        reply = peer.converse()
        assert reply.tag is Tag.FEATURES
        assert reply.features == (peer.features & CLIENT_FEATURES) | Feature.OSDENC
        assert not peer.closed


def test_replies_have_the_common_features_and_the_last_has_all() -> None:
    node = new_v1_node(auth="cephx")
    few = int(Feature.CEPHX_V2 | Feature.MSG_AUTH | Feature.RECONNECT_SEQ | Feature.NOSRCADDR)
    peer = meet("acceptor", node, auth="cephx", features=few)
    peer.banner()
    peer.identify()
    peer.send(peer.connect_message())
    challenge = peer.expect(ConnectReply)
    assert (challenge.tag, challenge.features) == (Tag.CHALLENGE_AUTHORIZER, few)
    connect = peer.connect_message()
    peer.send(connect)
    connect.authorizer = peer.exchange.more(peer.expect(ConnectReply).authorizer)
    peer.send(connect)
    last = peer.expect(ConnectReply)
    assert (last.tag, last.features) == (Tag.SEQ, CLIENT_FEATURES)
    assert node.endpoint.sessions[0].features == few


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ConnectReply(Tag.BADPROTOVER, 0, protocol_version=7), FaultReason.PROTOCOL_VERSION),
        (ConnectReply(Tag.FEATURES, 1 << 17), FaultReason.MISSING_FEATURES),
        (ConnectReply(Tag.BADAUTHORIZER, 0), FaultReason.AUTH_DENIED),
    ],
)
def test_refused_connector_raises_an_event_and_retries(reply: ConnectReply, reason: FaultReason) -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    peer = meet("connector", node)
    peer.banner()
    peer.identify()
    peer.expect(Connect)
    peer.send(reply)
    assert (node.faults, node.kinds) == ([reason], [EventKind.REFUSED])
    assert node.endpoint.sessions[0].state is SessionState.CONNECTING
    node.run(0.25)
    RawV1Peer(node).accept().handshake()
    assert node.kinds == [EventKind.REFUSED, EventKind.CONNECT]


def test_the_words_of_a_refusal() -> None:
    node = new_v1_node(policy=LOSSLESS_CLIENT)
    peer = meet("connector", node)
    peer.banner()
    peer.identify()
    peer.send(ConnectReply(Tag.BADPROTOVER, 0, protocol_version=7))
    assert "10, the peer has 7" in node.fault_texts[0]


# ---- after the last reply


def test_messages_right_behind_the_connectors_seq_are_taken() -> None:
    node = new_v1_node()
    peer = meet("acceptor", node)
    peer.banner()
    peer.identify()
    peer.connect()
    peer.expect(Seq)
    peer.write(Seq(0).encode() + peer.message(1) + peer.message(2))
    assert (node.tids, peer.rest()) == ([1, 2], [Ack(2)])


def test_messages_right_behind_the_acceptors_seq_are_taken() -> None:
    node = new_v1_node()
    peer = meet("connector", node)
    peer.banner()
    peer.identify()
    connect = peer.expect(Connect)
    peer.agree(CLIENT_FEATURES)
    peer.write(peer.reply_to(connect, Tag.SEQ).encode() + Seq(0).encode() + peer.message(1))
    assert node.tids == [1]


def test_acceptor_sends_no_message_before_the_in_seq_of_the_connector() -> None:
    node = new_v1_node()
    peer = meet("acceptor", node)
    peer.banner()
    peer.identify()
    peer.connect()
    peer.expect(Seq)
    (session,) = node.endpoint.sessions
    assert node.kinds == [EventKind.ACCEPT]
    node.send(session, 9)
    assert peer.inbound == b""
    peer.send(Seq(0))
    assert [message.header.tid for message in peer.messages()] == [9]


@by_role
def test_a_handshake_that_takes_too_long_is_given_up(role: str) -> None:
    for done in range(4):
        node = new_v1_node(policy=LOSSLESS_CLIENT)
        peer = meet(role, node)
        for step in peer.steps[:done]:
            step()
        node.run(9.9)
        assert node.faults == []
        node.run(0.2)
        assert node.faults == [FaultReason.READY_TIMEOUT]


@by_role
def test_an_open_link_without_traffic_is_given_up(role: str) -> None:
    node = new_v1_node(policy=LOSSLESS_PEER, ms_connection_idle_timeout=30.0)
    peer = meet(role, node).handshake()
    node.run(25.0)
    peer.send_messages(1)
    node.run(25.0)
    assert node.faults == []
    node.run(10.0)
    assert node.faults == [FaultReason.IDLE_TIMEOUT]
