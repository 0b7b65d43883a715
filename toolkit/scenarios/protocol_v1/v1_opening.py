"""V1: how sessions of msgr v1 are opened, refused, retried and reset."""

from dataclasses import replace
from functools import partial
from typing import Any

from messenger.cephx.authorizer import Authorizer
from messenger.cephx.structures import TicketBlob
from messenger.denc.codec import Decoder
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.v1.wire import ClientIdentify, Connect, ConnectReply, Seq, ServerIdentify, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, breaks, stage
from toolkit.lab.ways import V1_WAYS
from toolkit.node.raw.v1 import FINAL
from toolkit.scenarios.protocol_v1 import V1
from toolkit.scenarios.shared.by_hand import acknowledge, asked, hang_up, messages, opened, resume

ROLES = {"connector": {"role": CONNECTOR}, "acceptor": {"role": ACCEPTOR}}


@V1.scenario("V1-01", "clean_connect", ways=V1_WAYS)
def clean_connect(lab: Lab) -> None:
    """A new v1 session has the same connect_seq on both sides, and each side's first message has seq 1.

    A node is dialled: it answers SEQ, with connect_seq one above the requested one, the protocol version for two
    OSDs, its features, and no LOSSY; its in_seq is 0. Each side's first message has seq 1, the application gets
    one accept event, and the session is open with that connect_seq.
    """
    peer = stage(lab, ACCEPTOR)
    link = peer.dial("a")
    link.handshake(until=link.connect)
    reply = link.converse()
    lab.require((reply.tag, reply.connect_seq, reply.protocol_version) == (Tag.SEQ, 1, 10), f"{reply} came")
    lab.require(not link.lossy and reply.features & Feature.RECONNECT_SEQ, f"{reply} came")
    lab.require(link.expect(Seq).seq == 0, "another in_seq is sent")
    link.send(Seq(0))
    lab.expect_state("a", "b", "READY")
    link.send_messages(1)
    lab.expect_delivered("b", "a", 1)
    lab.send("a", "b")
    lab.require([message.seq for message in messages(link)] == [1], "the first message is not number 1")
    lab.expect_events("a", "b", accept=1)
    lab.require(lab.session("a", "b")["connect_seq"] == 1, f"{lab.session('a', 'b')}")


BANNERS = {
    "garbage": {"raw": b"HTTP/1.1 400 Bad Request\r\n", "reason": "NOT_MSGR"},
    "msgr v2": {"raw": b"ceph v2\n\x10\0", "reason": "V2_PEER"},
}
WRONG = {f"{name} {role}": what | {"role": role} for name, what in BANNERS.items() for role in ROLES}


@V1.scenario(
    "V1-02", "banner_and_address_errors", priority=2, ways=V1_WAYS, cases=WRONG | {"addresses": {"role": ""}}
)
def banner_and_address_errors(lab: Lab, role: str, raw: bytes = b"", reason: str = "") -> None:
    """A wrong v1 banner or address breaks the link; a blank IP is filled in.

    Either side sends other bytes than the banner of v1. An acceptor announces another port, nonce or IP than was
    dialled, which breaks the link; a blank IP with the right port and nonce is accepted. A session that is marked
    down while the peer's address is on its way stays closed.
    """
    if role:
        peer = stage(lab, role)
        link = peer.dial("a") if role == ACCEPTOR else peer.accept("a")
        breaks(lab, link, partial(link.write, raw), reason)
        return
    peer = stage(lab, CONNECTOR)
    own = peer.spec.addrs.front
    wrong: tuple[dict[str, Any], ...] = (
        {"port": own.port + 1},
        {"nonce": own.nonce + 1},
        {"ip": bytes([10, 9, 8, 7])},
    )
    blank = replace(own, ip=bytes(4))
    for changes in wrong:
        link = peer.accept("a")
        link.banner()
        addr = replace(own, **changes)
        breaks(lab, link, partial(link.send, ServerIdentify(addr, link.socket_addr)), "WRONG_TARGET")
    link = peer.accept("a")
    link.banner()
    link.send(ServerIdentify(blank, link.socket_addr))
    link.expect(ClientIdentify)
    link.handshake_from("connect")
    lab.expect_state("a", "b", "READY")
    link.hang_up()
    link = peer.accept("a")
    link.banner()
    lab.mark_down("a", "b")
    link.send(ServerIdentify(own, link.socket_addr))
    peer.expect_no_dial(0.5)
    lab.require(not lab.session("a", "b"), "the session has come back to life")


@V1.scenario("V1-03", "protover_features", ways=V1_WAYS, cases=ROLES)
def protover_features(lab: Lab, role: str) -> None:
    """v1 refuses another protocol version or missing features by a reply, and the peer may retry.

    A connector with another protocol version gets BADPROTOVER with the right one; a connector without a feature
    that cephx requires gets FEATURES with the mask; the link stays open, and a proper CONNECT opens the session. A
    node that is refused breaks its link, raises a refused event and doubles its pause each time, and opens its
    session once the peer accepts it.
    """
    if role == ACCEPTOR:
        peer = stage(lab, role)
        link = peer.dial("a")
        link.handshake(until=link.connect)
        reply = link.converse(protocol_version=9)
        lab.require((reply.tag, reply.protocol_version) == (Tag.BADPROTOVER, 10), f"{reply} came")
        reply = link.converse(features=CLIENT_FEATURES & ~Feature.CEPHX_V2)
        lab.require(reply.tag is Tag.FEATURES and bool(reply.features & Feature.CEPHX_V2), f"{reply} came")
        link.handshake_from("connect")
        lab.expect_state("a", "b", "READY")
        return
    peer = stage(lab, role, ms_initial_backoff=0.05, ms_max_backoff=0.4)
    for tag, reason in (Tag.BADPROTOVER, "PROTOCOL_VERSION"), (Tag.FEATURES, "MISSING_FEATURES"):
        for _ in range(2):
            link = peer.accept("a")
            link.handshake(until=link.connect)
            connect = link.expect(Connect)
            reply = link.reply_to(connect, tag, protocol_version=9, features=connect.features | 1 << 62)
            breaks(lab, link, partial(link.send, reply), reason)
    pauses = lab.dial_pauses_s("a")
    due_s = (0.05, 0.1, 0.2)
    in_time = all(pause >= due - 0.001 for pause, due in zip(pauses, due_s, strict=False))
    lab.require(len(pauses) >= len(due_s) and in_time, f"dials came after {pauses} s, not before {due_s} s")
    peer.accept("a").handshake()
    lab.expect_state("a", "b", "READY")
    lab.expect_events("a", "b", refused=4, connect=1)


_VERSIONS = {
    "osd.1 osd.2": 10,
    "mon.1 mon.2": 13,
    "mds.1 mds.2": 36,
    "mgr.1 mgr.2": 0,
    "client.1 client.2": 0,
    "client.1 mon.2": 15,
    "client.1 osd.2": 24,
    "osd.1 mds.2": 32,
    "osd.1 mgr.2": 0,
}
"""The protocol version between two entities, the connector first (docs/protocol.md §3.1)."""


@V1.scenario(
    "V1-24",
    "protocol_version_of_a_pair",
    ways=V1_WAYS,
    cases={pair.replace(" ", " to "): {"pair": pair} for pair in _VERSIONS},
)
def protocol_version_of_a_pair(lab: Lab, pair: str) -> None:
    """The protocol version of v1 is that of the pair of entity types.

    Two entities of one type use the internal version of their type, others the public version of the acceptor's
    type; 0 if the type has none. A node dials with the version of the pair; another one, which is dialled with a
    wrong version, answers BADPROTOVER with that of the pair.
    """
    connector, acceptor = pair.split()
    due = _VERSIONS[pair]
    dialled, dialling = lab.raw("b", acceptor), lab.raw("d", connector)
    lab.node("a", connector, "lossless_peer")
    lab.node("c", acceptor, "lossless_peer")
    lab.start()
    lab.dial("a", "b")
    link = dialled.accept("a")
    link.handshake(until=link.connect)
    seen = link.expect(Connect).protocol_version
    lab.require(seen == due, f"the node dials with protocol version {seen}, that of {pair} is {due}")
    link = dialling.dial("c")
    link.handshake(until=link.connect)
    reply = link.converse(protocol_version=due + 1)
    lab.require(
        (reply.tag, reply.protocol_version) == (Tag.BADPROTOVER, due), f"{reply} came, {due} is the version"
    )


@V1.scenario("V1-04", "badauthorizer_once_twice", ways=V1_WAYS, cases=ROLES)
def badauthorizer_once_twice(lab: Lab, role: str) -> None:
    """After BADAUTHORIZER a connector presents another ticket, and an acceptor takes a good one on the same link.

    Acceptor: a peer presents no authorizer, then zeros, then a good one, all on one link. The first two get
    BADAUTHORIZER and the link stays open; the good one opens the session. Connector: the node keeps its tickets
    until they are refused. Each BADAUTHORIZER breaks the link, raises one refused event and drops the ticket: the
    next dial, after a pause of 0.2 s and then of 0.4 s, presents another one. A ticket that was accepted is
    presented again.
    """
    if role == ACCEPTOR:
        peer = stage(lab, role)
        link = peer.dial("a")
        link.handshake(until=link.connect)
        for authorizer in (b"", bytes(100)):
            reply = link.converse(authorizer=authorizer)
            lab.require(reply.tag is Tag.BADAUTHORIZER, f"{reply} came")
        link.handshake_from("connect")
        lab.expect_state("a", "b", "READY")
        lab.require(lab.closes("a") == 0, f"the link broke: {lab.faults('a')}")
        return
    kept = {"mints": {"keeps": True}}
    peer = stage(lab, role, auth=kept, ms_initial_backoff=0.2, ms_max_backoff=4.0)
    presented = []
    for _ in range(2):
        link = peer.accept("a")
        link.handshake(until=link.connect)
        connect = link.expect(Connect)
        presented.append(_ticket(connect))
        breaks(lab, link, lambda: link.send(link.reply_to(connect, Tag.BADAUTHORIZER)), "AUTH_DENIED")  # noqa: B023
    for _ in range(2):
        link = peer.accept("a").handshake()
        lab.expect_state("a", "b", "READY")
        presented.append(_ticket(link.proven))
        hang_up(lab, link)
    first, second, third, fourth = presented
    lab.require(len({first, second, third}) == 3, "a ticket that was refused is presented again")
    lab.require(third == fourth, "a ticket that was accepted is not presented again")
    lab.expect_pauses("a", 0.2, 0.4)
    lab.expect_events("a", "b", refused=2, connect=2)


def _ticket(connect: Connect) -> TicketBlob:
    """The sealed ticket in the authorizer of a CONNECT."""
    return Authorizer.decode(Decoder(connect.authorizer[1:])).ticket


CHALLENGES = {name: {"kind": name} for name in ("answers", "old client", "ignores", "wrong answer")}


@V1.scenario("V1-05", "challenge_authorizer", ways=V1_WAYS, cases=CHALLENGES)
def challenge_authorizer(lab: Lab, kind: str) -> None:
    """A peer must answer the challenge to its authorizer.

    A peer with CEPHX_V2 is challenged: a right answer opens the session; a wrong one is refused; a repetition of
    its first authorizer is challenged again each time, until the peer exceeds the limit for unauthenticated peers.
    A peer without CEPHX_V2 is accepted without a challenge by a node that does not require it.
    """
    peer = stage(lab, ACCEPTOR, cephx_cluster_require_version=1, cephx_require_version=1, max_preauth_bytes=20_000)
    link = peer.dial("a")
    link.handshake(until=link.connect)
    if kind == "old client":
        reply = link.converse(features=CLIENT_FEATURES & ~Feature.CEPHX_V2)
        lab.require(len(link.connects) == 1, "a peer that cannot answer challenges is challenged")
    elif kind == "answers":
        reply = link.converse()
        lab.require(len(link.connects) == 2, "nobody was challenged")
    else:
        connect = link.connect_message()
        link.send(connect)
        lab.require(link.expect(ConnectReply).tag is Tag.CHALLENGE_AUTHORIZER, "nobody was challenged")
        if kind == "wrong answer":
            connect.authorizer = connect.authorizer[:-1] + bytes([connect.authorizer[-1] ^ 1])
        link.send(connect)
        reply = link.expect(ConnectReply)
        wanted = Tag.CHALLENGE_AUTHORIZER if kind == "ignores" else Tag.BADAUTHORIZER
        lab.require(reply.tag is wanted, f"{reply} came")
        while kind == "ignores" and not link.closed:
            link.send(connect)
            lab.wait(0.005)
        lab.require(kind != "ignores" or lab.faults("a") == ["OVERSIZE"], f"{lab.faults('a')}")
        lab.require(not lab.session("a", "b"), "there is a session")
        return
    lab.require(reply.tag is Tag.SEQ, f"{reply} came")
    link.seq()
    lab.expect_state("a", "b", "READY")


@V1.scenario("V1-06", "retry_global", ways=V1_WAYS, cases=ROLES)
def retry_global(lab: Lab, role: str) -> None:
    """A stale global_seq gets RETRY_GLOBAL and is raised on the same link.

    A node that gets RETRY_GLOBAL tries again on the same link with a larger global_seq. A peer that dials with a
    lower global_seq than that of the session gets RETRY_GLOBAL with the session's, as does any dial while another
    link is taking the session over.
    """
    peer, link = opened(lab, role)
    if role == CONNECTOR:
        hang_up(lab, link)
        link = peer.accept("a")
        wish = asked(lab, link)
        link.send(link.reply_to(wish, Tag.RETRY_GLOBAL, global_seq=5000))
        again = link.expect(Connect)
        lab.require(again.global_seq > 5000 and again.connect_seq == wish.connect_seq, f"{again} came")
        return
    late = peer.dial("a")
    late.handshake(until=late.connect)
    reply = late.converse(global_seq=0, connect_seq=5)
    lab.require((reply.tag, reply.global_seq) == (Tag.RETRY_GLOBAL, 1), f"{reply} came")
    first = peer.dial("a")
    first.handshake(until=first.connect)
    lab.require(first.converse(connect_seq=2).tag is Tag.RETRY_GLOBAL, "the session is not taken over")
    second = peer.dial("a")
    second.handshake(until=second.connect)
    reply = second.converse(connect_seq=3)
    lab.require(reply.tag is Tag.RETRY_GLOBAL, f"{reply} came while another link takes over")
    lab.require(not second.closed, "the second link is closed")
    lab.require(first.converse(global_seq=90, connect_seq=2).tag is Tag.SEQ, "the first link is not let in")


@V1.scenario(
    "V1-07",
    "retry_session",
    ways=V1_WAYS,
    cases={"raised": {"value": 9}, "same": {"value": 2}, "lower": {"value": 1}, "huge": {"value": 0xFFFFFFFF}},
)
def retry_session(lab: Lab, value: int) -> None:
    """RETRY_SESSION raises a stale connect_seq; a value not above it is a fault.

    A node resumes with connect_seq 2. After RETRY_SESSION with 9 it tries again with 9, on the same link. With 2,
    a lower value, or the largest possible one, the link breaks and the next dial has connect_seq 2 again.
    """
    peer, link = opened(lab, CONNECTOR)
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    lab.require(wish.connect_seq == 2, f"{wish} came")
    reply = link.reply_to(wish, Tag.RETRY_SESSION, connect_seq=value)
    if value != 9:
        breaks(lab, link, partial(link.send, reply), "UNEXPECTED_FRAME")
        lab.require(asked(lab, peer.accept("a")).connect_seq == 2, "connect_seq has changed")
        return
    link.send(reply)
    again = link.expect(Connect)
    lab.require(again.connect_seq == 9, f"{again} came")


_NO_MSG_AUTH = CLIENT_FEATURES & ~int(Feature.MSG_AUTH)
_RESETS = {
    "told, then SEQ": {"tag": Tag.SEQ.name, "features": CLIENT_FEATURES},
    "told, then READY": {"tag": Tag.READY.name, "features": CLIENT_FEATURES},
    "told, then READY without MSG_AUTH": {"tag": Tag.READY.name, "features": _NO_MSG_AUTH},
    "asking": {"tag": "", "features": CLIENT_FEATURES},
}


@V1.scenario("V1-08", "resetsession", ways=V1_WAYS, cases=_RESETS)
def resetsession(lab: Lab, tag: str, features: int) -> None:
    """A CONNECT for an unknown session gets RESETSESSION, and the connector opens a new one.

    A peer sends CONNECT with connect_seq 3 for a session that the node never had: the node answers RESETSESSION. A
    node that gets this reply drops its queue, raises one remote_reset and tries again with connect_seq 0. If the
    last reply is SEQ, the node's first message has seq 1, as it announces. After READY the first seq is random
    with 31 bits if MSG_AUTH was negotiated, another one after each reset; without MSG_AUTH it is 1.
    """
    if not tag:
        peer = stage(lab, ACCEPTOR)
        link = peer.dial("a")
        link.handshake(until=link.connect)
        reply = link.converse(connect_seq=3)
        lab.require(reply.tag is Tag.RESETSESSION, f"{reply} came")
        lab.require(link.converse(connect_seq=0).tag is Tag.SEQ, "nor is it let in with 0")
        link.seq()
        return
    peer = stage(lab, CONNECTOR)
    link = peer.accept("a")
    link.features = features
    link.handshake()
    firsts = []
    for reset in (1, 2):
        lab.send("a", "b", 3)
        messages(link)
        hang_up(lab, link)
        link = peer.accept("a")
        link.features = features
        _begin_anew(lab, link, Tag[tag])
        lab.send("a", "b", 2)
        received = messages(link)
        lab.require([message.tid for message in received] == [5 * reset - 1, 5 * reset], f"{received} came")
        lab.require(received[1].seq == received[0].seq + 1, f"{received} came")
        firsts.append(received[0].seq)
        lab.expect_events("a", "b", connect=1 + reset, remote_reset=reset)
    if tag == Tag.SEQ.name or features == _NO_MSG_AUTH:
        lab.require(firsts == [1, 1], f"the first messages have the seqs {firsts}")
    else:
        lab.require(all(1 < first <= 1 << 31 for first in firsts), f"the first messages have the seqs {firsts}")
        lab.require(firsts[0] != firsts[1], f"both begin with seq {firsts[0]}")


def _begin_anew(lab: Lab, link: Any, tag: Tag) -> None:  # noqa: ANN401 - a RawV1Link
    """Answer the node's wish to resume its session with RESETSESSION, and its next CONNECT with ``tag``."""
    link.send(link.reply_to(asked(lab, link), Tag.RESETSESSION))
    again = link.expect(Connect)
    lab.require(again.connect_seq == 0, f"{again} came")
    if tag is Tag.SEQ:
        resume(lab, link, again, 0)
        return
    link.reply = link.reply_to(again, tag, authorizer=link.proof)
    link.agree(link.reply.features & again.features)
    link.send(link.reply)


HARD = {"resetcheck": {"policy": "lossless_peer_reuse"}, "none": {"policy": "lossless_peer"}}


@V1.scenario("V1-09", "hard_reset_replace", ways=V1_WAYS, cases=HARD)
def hard_reset_replace(lab: Lab, policy: str) -> None:
    """CONNECT with connect_seq 0 for a session that is open takes it over, and both directions count from 1 again.

    Both sides have sent messages when the peer, as if it had restarted, dials with connect_seq 0. With resetcheck
    the application gets remote_reset, and the queue of the old session is dropped; without it no event is raised,
    and the messages that the peer had not acknowledged are replayed, numbered from 1.
    """
    peer, link = opened(lab, ACCEPTOR, policy=policy)
    link.send_messages(1, 2)
    lab.send("a", "b", 3)
    lab.require(len(messages(link)) == 3, "three messages did not come")
    acknowledge(lab, link, 1)
    lab.expect("a", "sent", 2)
    again = peer.dial("a")
    again.handshake()
    lab.require(again.reply is not None and again.reply.tag is Tag.READY, f"{again.reply} came")
    lab.expect_state("a", "b", "READY")
    again.send_messages(1)
    lab.expect_delivered("b", "a", 3)
    lab.require(lab.tids("a") == [1, 2, 1], f"delivered were {lab.tids('a')}")
    lab.send("a", "b")
    received = [(message.seq, message.tid) for message in messages(again)]
    checked = policy == "lossless_peer_reuse"
    lab.require(received == ([(1, 4)] if checked else [(1, 2), (2, 3), (3, 4)]), f"{received} came")
    lab.expect_events("a", "b", accept=2, **({"remote_reset": 1} if checked else {}))
    lab.require(link.closed, "the old link is open")


TERMS = {
    "seq": {"features": CLIENT_FEATURES},
    "no seq": {"features": CLIENT_FEATURES & ~int(Feature.RECONNECT_SEQ)},
}


@V1.scenario("V1-12", "tag_seq_exchange", ways=V1_WAYS, cases=TERMS)
def tag_seq_exchange(lab: Lab, features: int) -> None:
    """With RECONNECT_SEQ or without, a session that is resumed loses no message and delivers none twice.

    Both sides have unacknowledged messages when the link breaks. With RECONNECT_SEQ on both sides each announces
    its in_seq, and only messages above it are replayed; a link that breaks between the two in_seqs changes
    nothing. If the peer lacks it the reply is READY: each side replays every unacknowledged message with its old
    seq, and drops those that it has by their seqs.
    """
    peer, link = opened(lab, ACCEPTOR)
    link.send_messages(1, 2)
    lab.expect_delivered("b", "a", 2)
    lab.send("a", "b", 3)
    lab.require([m.seq for m in messages(link)] == [1, 2, 3], "three messages did not come")
    hang_up(lab, link)
    number = 2
    if features == CLIENT_FEATURES:
        link = peer.dial("a")
        link.handshake(until=link.connect)
        reply = link.converse(connect_seq=number)
        reply = link.converse(connect_seq=number, global_seq=reply.global_seq + 20)
        lab.require(link.expect(Seq).seq == 2, "another in_seq is sent")
        hang_up(lab, link)
        number += 2
    link = peer.dial("a")
    link.features = features
    link.handshake(until=link.connect)
    reply = link.converse(connect_seq=number, global_seq=60)
    while reply.tag in {Tag.RETRY_GLOBAL, Tag.RETRY_SESSION}:
        number = reply.connect_seq if reply.tag is Tag.RETRY_SESSION else number
        reply = link.converse(connect_seq=number, global_seq=70 + len(link.connects))
    lab.require(reply.tag is (Tag.SEQ if features == CLIENT_FEATURES else Tag.READY), f"{reply} came")
    link.seq(2)
    received = [(message.seq, message.tid) for message in messages(link)]
    lab.require(
        received == ([(3, 3)] if reply.tag is Tag.SEQ else [(1, 1), (2, 2), (3, 3)]), f"{received} came again"
    )
    link.send_messages(*((3,) if reply.tag is Tag.SEQ else (2, 3)))
    lab.expect_delivered("b", "a", 3)
    lab.require(lab.tids("a") == [1, 2, 3], f"delivered were {lab.tids('a')}")
    lab.send("a", "b")
    received = [(message.seq, message.tid) for message in messages(link)]
    lab.require(received == [(4, 4)], f"{received} came behind that")


@V1.scenario(
    "V1-23",
    "connect_seq_of_reply",
    priority=2,
    ways=V1_WAYS,
    cases={
        f"{tag.name} {resumes or 'first'}": {"tag": tag, "resumes": resumes}
        for tag in FINAL
        for resumes in ("", "resumed")
    },
)
def connect_seq_of_reply(lab: Lab, tag: Tag, resumes: str) -> None:
    """A last reply whose connect_seq is not one above the connector's breaks the link, and opens nothing.

    A peer answers a node's CONNECT with SEQ or READY and the connect_seq of the CONNECT itself, two more than it,
    or the largest possible one, for a new session and for a resumed one. Each breaks the link without an event,
    and the queued message is sent once the peer answers with the right number.
    """
    peer = stage(lab, CONNECTOR)
    asked_seq = 0
    if resumes:
        asked_seq = 2  # it was open with 1
        link = peer.accept("a").handshake()
        lab.expect_state("a", "b", "READY")
        hang_up(lab, link)
    lab.send("a", "b")
    for wrong in (0, 2, 0xFFFFFFFF):
        link = peer.accept("a")
        link.handshake(until=link.connect)
        connect, step = link.authenticated()
        lab.require(connect.connect_seq == asked_seq, f"{connect} came")
        answered_seq = min(connect.connect_seq + wrong, 0xFFFFFFFF)
        reply = link.reply_to(connect, tag, connect_seq=answered_seq, authorizer=step.payload)
        breaks(lab, link, partial(link.send, reply), "UNEXPECTED_FRAME")
    link = peer.accept("a").handshake()
    lab.require([message.tid for message in messages(link)] == [1], "the message is not sent")
    lab.expect_events("a", "b", connect=1 + bool(resumes))
    opened_seq = lab.session("a", "b")["connect_seq"]
    lab.require(opened_seq == asked_seq + 1, f"the session is open with connect_seq {opened_seq}")
