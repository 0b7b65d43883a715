"""Authentications between our own clients, monitors and services, as an observer with keys sees them."""

from random import Random

from messenger.cephx.exchange import AuthClient, AuthDone, AuthMore, AuthResult, AuthServer, ConMode
from messenger.cephx.mauth import MAuthAnswer, MAuthRequest
from messenger.cephx.service import CephxService
from messenger.denc.codec import Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.messages.auth import MAuth, MAuthReply
from messenger.v1.wire import Connect, ConnectReply, Tag
from messenger.v2 import wire
from tests.support.cephx import NOW_S, Cluster, MAuthPair
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook, LinkKeys

TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT


def replay_login(
    book: KeyBook,
    client: AuthClient,
    server: AuthServer,
    *,
    peer: EntityType = EntityType.MON,
    own: EntityType = EntityType.CLIENT,
    mode: ConMode = ConMode.SECURE,
    now_s: float = NOW_S,
    link: LinkKeys | None = None,
) -> tuple[LinkKeys, AuthResult]:
    """Replay the handshake of v2 on a new link; returns the keys that were learned, and the server's result."""
    link = link or LinkKeys(book)
    mine = client.exchange(peer, now_s, Random("mine"))
    theirs = server.exchange(own, now_s, Random(f"theirs {peer}"))
    opening = mine.start()
    link.control(TO_SERVER, wire.AuthRequest(opening.method, [mode], opening.payload))
    step = theirs.start(opening.method, mode, opening.payload)
    while isinstance(step, AuthMore):
        link.control(TO_CLIENT, wire.AuthReplyMore(step.payload))
        answer = mine.more(step.payload)
        link.control(TO_SERVER, wire.AuthRequestMore(answer))
        step = theirs.more(answer)
    link.control(TO_CLIENT, wire.AuthDone(step.result.global_id, mode, step.payload))
    mine.done(step.result.global_id, mode, step.payload)
    return link, step.result


def replay_connect(
    book: KeyBook,
    client: AuthClient,
    server: AuthServer,
    peer: EntityType,
    *,
    features: int = ALL_FEATURES,
    own: EntityType = EntityType.CLIENT,
) -> tuple[LinkKeys, AuthResult]:
    """The same inside the CONNECT of v1."""
    link = LinkKeys(book)
    mine = client.exchange(peer, NOW_S, Random("mine"))
    theirs = server.exchange(own, NOW_S, Random("theirs"))
    opening = mine.start()
    payload = opening.payload
    while True:
        link.v1_piece(TO_SERVER, Connect(features, own, 1, 0, 24, opening.method, 0, payload))
        step = theirs.authorize(opening.method, payload, challenge=True)
        if isinstance(step, AuthDone):
            break
        link.v1_piece(TO_CLIENT, ConnectReply(Tag.CHALLENGE_AUTHORIZER, features, authorizer=step.payload))
        payload = mine.more(step.payload)
    link.v1_piece(TO_CLIENT, ConnectReply(Tag.READY, features, authorizer=step.payload))
    return link, step.result


def replay_mauth(link: LinkKeys, pair: MAuthPair) -> None:
    """Replay all MAuth messages between a client and a monitor so far."""
    for request, answer in zip(pair.requests, pair.answers, strict=True):
        replay_request(link, request)
        replay_answer(link, answer)


def replay_request(link: LinkKeys, request: MAuthRequest) -> None:
    """One MAuth."""
    front = Encoder()
    MAuth(request.protocol, request.payload).encode(front, ALL_FEATURES)
    link.message(TO_SERVER, MAuth.TYPE, front.getvalue())


def replay_answer(link: LinkKeys, answer: MAuthAnswer) -> None:
    """One MAuthReply."""
    front = Encoder()
    MAuthReply(answer.protocol, answer.result, answer.global_id, answer.payload).encode(front, ALL_FEATURES)
    link.message(TO_CLIENT, MAuthReply.TYPE, front.getvalue())


def osd_of(cluster: Cluster) -> AuthServer:
    """An OSD that has the present rotating keys."""
    return CephxService(EntityType.OSD, cluster.keys.secrets(EntityType.OSD))
