"""Authorizers in CONNECT: challenges, proofs, refusals, signatures (docs/protocol.md §3.3, §3.4 step 4)."""

from collections.abc import Callable

import pytest

from messenger.cephx.exchange import AuthMethod
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import FaultReason, LocalError
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, STATELESS_SERVER
from messenger.v1.wire import (
    Connect,
    ConnectReply,
    Seq,
    Tag,
)
from tests.support.node import Node, new_endpoint
from tests.support.raw_v1 import A_V1_ADDR, B_V1_ADDR, RawV1Peer, meet, new_v1_node

ROLES = ("connector", "acceptor")
MON = EntityName(EntityType.MON, 0)
MON_ADDR = "v1:10.0.0.9:6789/0"
CLIENT = EntityName(EntityType.CLIENT)
CLIENT_ADDR = "any:0.0.0.0:0/77"

by_role = pytest.mark.parametrize("role", ROLES)
by_auth = pytest.mark.parametrize("auth", ["none", "cephx"])


def new_mon(**options: object) -> Node:
    return Node(new_endpoint(MON, MON_ADDR, **options))  # type: ignore[arg-type]


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
def test_auth_none_sends_a_name_and_signs_nothing(role: str) -> None:
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


def test_cephx_v2_is_required_by_default() -> None:
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
def test_messages_are_not_signed_without_msg_auth(peer_auth: str) -> None:
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


def test_answered_authorizer_is_refused_on_another_link() -> None:
    """A recorded authorizer is useless on another link: the challenge there is another one."""
    node = new_v1_node(auth="cephx")
    recorded = meet("acceptor", node, auth="cephx").handshake()
    answered = recorded.connects[-1].authorizer
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
    """Real clients repeat it after a RETRY reply; the challenge was answered already."""
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
    peer.judging = None  # the session that was replaced has an exchange of its own
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


def test_dial_without_credentials_fails_with_the_reason() -> None:
    node = new_v1_node()
    endpoint = new_endpoint(EntityName(EntityType.OSD, 1), A_V1_ADDR)
    endpoint.me.auth_client = None
    with pytest.raises(LocalError, match="no credentials"):
        Node(endpoint).connect(B_V1_ADDR)
    assert node.endpoint.sessions == []
