"""Opening a v1 link: banner, addresses, versions, features, authorizers (protocol.md §3.2 to §3.5)."""

from collections.abc import Callable

import pytest

from messenger.cephx.exchange import AuthMethod
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import FaultReason, LocalError
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER
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
from tests.support.raw_v1 import A_V1_ADDR, B_V1_ADDR, SOCKET_ADDR, RawV1Peer, meet, new_v1_node

ROLES = ("connector", "acceptor")
MON = EntityName(EntityType.MON, 0)
MON_ADDR = "v1:10.0.0.9:6789/0"
CLIENT = EntityName(EntityType.CLIENT)
CLIENT_ADDR = "any:0.0.0.0:0/77"

by_role = pytest.mark.parametrize("role", ROLES)
by_auth = pytest.mark.parametrize("auth", ["none", "cephx"])


def new_mon(**options: object) -> Node:
    return Node(new_endpoint(MON, MON_ADDR, **options))  # type: ignore[arg-type]


# ---- opening bytes (§3.2)


def test_the_acceptor_speaks_first_and_at_once() -> None:
    peer = RawV1Peer(new_v1_node()).dial()
    assert peer.inbound == BANNER + EntityAddr.parse(A_V1_ADDR).legacy_image() + SOCKET_ADDR.legacy_image()


def test_the_connector_says_its_banner_at_once_and_its_address_when_it_has_heard_the_acceptor() -> None:
    node = new_v1_node()
    node.connect(B_V1_ADDR)
    peer = RawV1Peer(node).accept()
    assert peer.inbound == BANNER
    raw = BANNER + ServerIdentify(peer.addr, SOCKET_ADDR).encode()
    peer.write(raw[:-1])
    assert peer.inbound == BANNER
    peer.write(raw[-1:])
    peer.expect(Banner)
    assert peer.expect(ClientIdentify).client_addr == EntityAddr.parse(A_V1_ADDR)
    assert peer.expect(Connect).global_seq == 1


@by_role
@by_auth
@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
def test_a_session_opens_whatever_the_bytes_are_cut_into(role: str, auth: str, piece_bytes: int) -> None:
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


# ---- who is who (§3.2)


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
def test_the_acceptor_must_be_who_was_dialled(server_addr: str, *, accepted: bool) -> None:
    """Only its IP may be unknown to itself; nonce and port must match."""
    node = new_v1_node()
    node.connect(B_V1_ADDR)
    peer = RawV1Peer(node, addr=server_addr).accept()
    peer.banner()
    peer.send(ServerIdentify(peer.addr, SOCKET_ADDR))
    assert node.faults == ([] if accepted else [FaultReason.WRONG_TARGET])


@pytest.mark.parametrize("learn", [True, False])
def test_a_client_learns_its_ip_from_the_acceptor_or_the_socket(*, learn: bool) -> None:
    node = Node(new_endpoint(CLIENT, CLIENT_ADDR, ms_learn_addr_from_peer=learn))
    peer = meet("connector", node)
    peer.banner()
    peer.send(ServerIdentify(peer.addr, EntityAddr.parse("v1:192.0.2.7:5555/9")))
    expected = "10.0.0.77" if not learn else "192.0.2.7"
    assert peer.expect(ClientIdentify).client_addr == EntityAddr.parse(f"v1:{expected}:0/77")
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
def test_what_a_messenger_calls_itself_on_v1(addrs: str, legacy: str) -> None:
    """A port of v2 is nothing that a v1 peer could dial."""
    node = Node(new_endpoint(CLIENT, addrs))
    assert my_legacy_addr(node.endpoint.addrs) == EntityAddr.parse(legacy)


# ---- versions and features (§3.1, §3.4 steps 1 to 3)


def test_a_connector_tells_version_features_and_seqs() -> None:
    node = new_v1_node()
    session = node.connect(B_V1_ADDR, EntityType.MDS, LOSSY_CLIENT)
    peer = RawV1Peer(node).accept()
    peer.banner()
    peer.identify()
    connect = peer.expect(Connect)
    assert (connect.features, connect.host_type, connect.protocol_version) == (CLIENT_FEATURES, EntityType.OSD, 32)
    assert (connect.global_seq, connect.connect_seq, connect.flags) == (session.global_seq, 0, 1)


def test_another_protocol_version_is_told_ours_and_may_try_again() -> None:
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


def test_replies_that_are_not_the_last_tell_what_is_common_and_the_last_tells_all() -> None:
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
def test_a_refused_connector_tells_its_application_and_tries_again(
    reply: ConnectReply, reason: FaultReason
) -> None:
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


# ---- authorizers (§3.3, §3.4 step 4)


@by_role
def test_cephx_challenges_once_and_proves_both_sides(role: str) -> None:
    node = new_v1_node(auth="cephx")
    peer = meet(role, node, auth="cephx").handshake()
    peer.send_messages(1)
    assert node.tids == [1]
    (session,) = node.endpoint.sessions
    node.send(session, 7)
    message = peer.messages()[0]
    assert message.flags == 1 | 4
    tags = [fields["fields"]["tag"] for fields in _frames(node, "CONNECT_REPLY")]  # type: ignore[index]
    assert tags == ["CHALLENGE_AUTHORIZER", "SEQ"]


def _frames(node: Node, tag: str) -> list[dict[str, object]]:
    return [record.fields for record in node.trace if record.kind == "frame" and record.fields["tag"] == tag]


@by_role
def test_auth_none_says_a_name_and_signs_nothing(role: str) -> None:
    node = new_v1_node(auth="none")
    peer = meet(role, node).handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 7)
    (message,) = peer.messages()
    assert message.flags == 1


def test_without_cephx_v2_there_is_no_challenge_and_the_old_signature() -> None:
    lenient = {"cephx_require_version": 1, "cephx_cluster_require_version": 1}
    node = new_v1_node(auth="cephx", **lenient)
    peer = meet("acceptor", node, auth="cephx", features=CLIENT_FEATURES & ~Feature.CEPHX_V2).handshake()
    peer.send_messages(1)
    assert (node.tids, node.faults) == ([1], [])
    node.send(node.endpoint.sessions[0], 7)
    assert peer.messages()[0].flags == 1 | 4
    assert len(_frames(node, "CONNECT")) == 1


def test_cephx_v2_is_required_unless_options_say_otherwise() -> None:
    node = new_v1_node(auth="cephx")
    peer = meet("acceptor", node, auth="cephx", features=CLIENT_FEATURES & ~Feature.CEPHX_V2)
    peer.banner()
    peer.identify()
    reply = peer.converse()
    assert reply.tag is Tag.FEATURES
    assert reply.features & Feature.CEPHX_V2 == Feature.CEPHX_V2


def test_required_signatures_need_msg_auth() -> None:
    node = new_v1_node(auth="cephx", cephx_require_signatures=True)
    peer = meet("acceptor", node, auth="cephx", features=CLIENT_FEATURES & ~Feature.MSG_AUTH)
    peer.banner()
    peer.identify()
    assert peer.converse().tag is Tag.FEATURES


@pytest.mark.parametrize("peer_auth", ["none", "cephx"])
def test_without_msg_auth_nothing_is_signed(peer_auth: str) -> None:
    node = new_v1_node(auth=peer_auth)
    peer = meet("acceptor", node, auth=peer_auth, features=CLIENT_FEATURES & ~Feature.MSG_AUTH).handshake()
    peer.send_messages(1)
    assert node.tids == [1]
    node.send(node.endpoint.sessions[0], 7)
    assert peer.messages()[0].flags == 1


@by_role
def test_signing_can_be_switched_off(role: str) -> None:
    node = new_v1_node(auth="cephx", cephx_sign_messages=False)
    peer = meet(role, node, auth="cephx").handshake()
    peer.send_messages(1)
    assert node.tids == [1]  # the peer's signature is not looked at
    node.send(node.endpoint.sessions[0], 7)
    with pytest.raises(Exception, match="missing"):
        peer.messages()


@by_role
def test_a_message_with_a_wrong_signature_is_a_fault(role: str) -> None:
    node = new_v1_node(auth="cephx")
    peer = meet(role, node, auth="cephx").handshake()
    raw = bytearray(peer.message(1))
    raw[-9] ^= 1
    peer.write(bytes(raw))
    assert (node.tids, node.faults) == ([], [FaultReason.MESSAGE_SIGNATURE])


BAD_AUTHORIZERS: dict[str, dict[str, object]] = {
    "none at all": {"authorizer_protocol": 0, "authorizer": b""},
    "noise": {"authorizer": b"noise"},
    "a prefix": {"authorizer": b"\x01"},
    "another method": {"authorizer_protocol": AuthMethod.NONE, "authorizer": b"\x01\x04\0\0\0\0\0\0\0" + bytes(8)},
    "no method": {"authorizer_protocol": 99},
}


@pytest.mark.parametrize("changes", BAD_AUTHORIZERS.values(), ids=BAD_AUTHORIZERS)
def test_a_bad_authorizer_is_refused_and_a_good_one_may_follow(changes: dict[str, object]) -> None:
    node = new_v1_node(auth="cephx")
    peer = meet("acceptor", node, auth="cephx")
    peer.banner()
    peer.identify()
    assert peer.converse(**changes).tag is Tag.BADAUTHORIZER
    assert node.faults in ([FaultReason.AUTH_DENIED], [FaultReason.AUTH_METHOD])
    assert node.endpoint.sessions == []
    assert not peer.closed
    assert peer.converse().tag is Tag.SEQ


def test_an_answered_authorizer_is_worth_nothing_on_another_link() -> None:
    """Whoever recorded it cannot use it: the challenge there is another one."""
    node = new_v1_node(auth="cephx")
    recorded = meet("acceptor", node, auth="cephx").handshake()
    answered = recorded.said[-1].authorizer
    thief = meet("acceptor", node, auth="cephx")
    thief.banner()
    thief.identify()
    first = thief.connect_message()
    thief.send(first)
    assert thief.expect(ConnectReply).tag is Tag.CHALLENGE_AUTHORIZER
    first.authorizer = answered
    thief.send(first)
    assert thief.expect(ConnectReply).tag is Tag.BADAUTHORIZER


def test_the_authorizer_is_sent_again_on_the_same_link_and_still_good() -> None:
    """Real clients repeat it when they are told to retry; the challenge was answered already."""
    node = new_v1_node(auth="cephx")
    peer = meet("acceptor", node, auth="cephx")
    peer.banner()
    peer.identify()
    connect = peer.connect_message(connect_seq=4)
    peer.send(connect)
    connect.authorizer = peer.exchange.more(peer.expect(ConnectReply).authorizer)
    peer.send(connect)
    reply = peer.expect(ConnectReply)
    assert reply.tag is Tag.RESETSESSION
    peer.exchange.done(0, 1, reply.authorizer)  # type: ignore[arg-type]  # proof comes with every reply
    connect.connect_seq = 0
    peer.send(connect)
    assert peer.expect(ConnectReply).tag is Tag.SEQ


def test_a_connector_repeats_the_authorizer_that_answered_the_challenge() -> None:
    """Real daemons take no other one on the same link; but after a replacement they challenge it again."""
    node = new_v1_node(auth="cephx")
    node.connect(B_V1_ADDR)
    peer = RawV1Peer(node, auth="cephx").accept()
    peer.banner()
    peer.identify()
    first = peer.expect(Connect)
    step = peer.judge(first)
    peer.send(peer.reply_to(first, Tag.CHALLENGE_AUTHORIZER, authorizer=step.payload))
    answered = peer.expect(Connect)
    assert answered.authorizer != first.authorizer
    proof = peer.judge(answered)
    for tag in Tag.RETRY_SESSION, Tag.RETRY_GLOBAL:
        peer.send(peer.reply_to(answered, tag, connect_seq=4, global_seq=9, authorizer=proof.payload))
        again = peer.expect(Connect)
        assert again.authorizer == answered.authorizer
    del peer.judging  # the session that was replaced has an exchange of its own
    challenge = peer.judge(again)
    peer.send(peer.reply_to(again, Tag.CHALLENGE_AUTHORIZER, authorizer=challenge.payload))
    last, _ = peer.authenticated()
    assert last.authorizer != answered.authorizer
    assert node.faults == []


def test_heartbeat_messengers_take_peers_without_authorizer() -> None:
    node = new_v1_node(auth="cephx", require_authorizer=False)
    peer = meet("acceptor", node)
    peer.banner()
    peer.identify()
    peer.send(peer.connect_message(authorizer_protocol=0, authorizer=b""))
    reply = peer.reply = peer.expect(ConnectReply)
    assert reply.tag is Tag.SEQ
    peer.seq()
    peer.send_messages(1)
    assert node.tids == [1]


@by_auth
def test_a_monitor_takes_clients_and_daemons_without_authorizer(auth: str) -> None:
    node = new_mon(auth=auth, policy=STATELESS_SERVER)
    for name in CLIENT, EntityName(EntityType.OSD, 2):
        peer = RawV1Peer(node, auth=auth, name=name).dial()
        peer.banner()
        peer.identify()
        connect = peer.connect_message()
        assert (connect.authorizer_protocol, connect.authorizer) == (0, b"")
        peer.send(connect)
        peer.reply = peer.expect(ConnectReply)
        assert (peer.reply.tag, peer.reply.protocol_version) == (Tag.SEQ, 15)
        peer.seq()
        peer.agree(CLIENT_FEATURES)
        peer.send_messages(1)
    assert (node.tids, node.faults) == ([1, 1], [])


def test_a_peer_that_has_not_logged_in_is_held_to_the_small_limit() -> None:
    node = new_mon(auth="cephx", policy=STATELESS_SERVER, max_preauth_frame_bytes=1000)
    peer = RawV1Peer(node, auth="cephx", name=CLIENT).dial().handshake()
    peer.write(peer.message(1, data=bytes(1000)))
    assert node.faults == [FaultReason.OVERSIZE]


@by_auth
def test_monitors_authenticate_to_each_other(auth: str) -> None:
    node = new_mon(auth=auth)
    peer = RawV1Peer(node, auth=auth, name=EntityName(EntityType.MON, 1), addr="v1:10.0.0.8:6789/0").dial()
    peer.banner()
    peer.identify()
    assert peer.converse(authorizer_protocol=0, authorizer=b"").tag is Tag.BADAUTHORIZER
    assert peer.converse().tag is Tag.SEQ
    assert peer.reply is not None
    assert peer.reply.protocol_version == 13


@by_auth
def test_a_client_gives_no_authorizer_to_a_monitor(auth: str) -> None:
    node = Node(new_endpoint(CLIENT, CLIENT_ADDR, auth=auth, policy=LOSSY_CLIENT))
    peer = meet("connector", node, auth=auth, name=MON, addr=MON_ADDR).handshake()
    assert (node.kinds, node.faults) == ([EventKind.CONNECT], [])
    (session,) = node.endpoint.sessions
    node.send(session, 7)
    (message,) = peer.messages()
    assert (message.flags, message.header.src_type, message.header.src_num) == (1, EntityType.CLIENT, -1)


def test_a_monitor_that_challenges_a_client_breaks_the_protocol() -> None:
    node = Node(new_endpoint(CLIENT, CLIENT_ADDR, auth="cephx", policy=LOSSLESS_CLIENT))
    peer = meet("connector", node, auth="cephx", name=MON, addr=MON_ADDR)
    peer.banner()
    peer.identify()
    peer.expect(Connect)
    peer.send(ConnectReply(Tag.CHALLENGE_AUTHORIZER, CLIENT_FEATURES, authorizer=bytes(32)))
    assert node.faults == [FaultReason.AUTH_REPLY]


def _prove_nothing(reply: ConnectReply) -> None:
    reply.authorizer = b""


def _prove_noise(reply: ConnectReply) -> None:
    reply.authorizer = bytes(36)


def _prove_wrongly(reply: ConnectReply) -> None:
    reply.authorizer = reply.authorizer[:-1] + bytes([reply.authorizer[-1] ^ 1])


@pytest.mark.parametrize("tag", [Tag.SEQ, Tag.READY])
@pytest.mark.parametrize("spoil", [_prove_nothing, _prove_noise, _prove_wrongly])
def test_an_acceptor_that_does_not_prove_itself_is_left(spoil: Callable[[ConnectReply], None], tag: Tag) -> None:
    node = new_v1_node(auth="cephx", policy=LOSSLESS_CLIENT)
    peer = meet("connector", node, auth="cephx")
    peer.banner()
    peer.identify()
    connect, step = peer.authenticated()
    reply = peer.reply_to(connect, tag, authorizer=step.payload)
    spoil(reply)
    peer.send(reply, Seq(0))
    assert node.faults in ([FaultReason.AUTH_REPLY], [FaultReason.MALFORMED])
    assert EventKind.CONNECT not in node.kinds


def test_an_unproven_acceptor_cannot_make_a_client_drop_its_messages() -> None:
    """The reply's authorizer is checked before its tag is acted on (§3.5 step 1)."""
    node = new_v1_node(auth="cephx", policy=LOSSLESS_CLIENT)
    meet("connector", node, auth="cephx").handshake().hang_up()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    peer = RawV1Peer(node, auth="cephx").accept()
    peer.banner()
    peer.identify()
    peer.authenticated()
    peer.send(ConnectReply(Tag.RESETSESSION, CLIENT_FEATURES, authorizer=bytes(36)))
    assert node.faults[-1] is FaultReason.AUTH_REPLY
    assert EventKind.REMOTE_RESET not in node.kinds
    assert len(session.queue) == 1


def test_without_credentials_a_dial_fails_and_says_so() -> None:
    node = new_v1_node()
    endpoint = new_endpoint(EntityName(EntityType.OSD, 1), A_V1_ADDR)
    endpoint._auth_client = None
    with pytest.raises(LocalError, match="no credentials"):
        Node(endpoint).connect(B_V1_ADDR)
    assert node.endpoint.sessions == []


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


def test_nothing_is_sent_before_the_connector_has_told_its_in_seq() -> None:
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
