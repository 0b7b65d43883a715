"""Every way to fail has a name, an errno, and one place here that provokes it (docs/protocol.md §5; family AU)."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from messenger.cephx.authorizer import open_reply, seal_reply, successor
from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.identity import client_identity
from messenger.cephx.key_server import CipherPolicy, Principal
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import MAuthAnswer
from messenger.cephx.none import NoneClient
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.service import CephxService
from messenger.cephx.structures import AuthorizeReply, RequestHeader, ServerChallenge, TicketBlob
from messenger.cephx.v1 import judge_connect
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.denc.layout import encoded
from messenger.errors import FaultReason
from tests.support.cephx import (
    ADMIN,
    GUEST,
    HOUR_S,
    NOW_S,
    Cluster,
    MAuthPair,
    mauth_pair,
    renewing_pair,
)

AUTH, MON, OSD, MDS, CLIENT = (EntityType[name] for name in ("AUTH", "MON", "OSD", "MDS", "CLIENT"))
CEPHX, CRC, SECURE = AuthMethod.CEPHX, ConMode.CRC, ConMode.SECURE
EPERM, ENOENT, EACCES, EBUSY, EINVAL, EOPNOTSUPP = 1, 2, 13, 16, 22, 95


class Service:
    """A client that has tickets, and a service, about to authenticate."""

    def __init__(self, service: EntityType = OSD, now_s: float = NOW_S) -> None:
        self.cluster = Cluster()
        self.client = self.cluster.client()
        self.cluster.login(self.client)
        keys = CephxService(service, self.cluster.keys.secrets(service))
        self.mine = self.client.exchange(OSD, NOW_S, self.cluster.rng)
        self.theirs = keys.exchange(CLIENT, now_s, self.cluster.rng)

    def start(self, at: int | None = None) -> bytes:
        """The challenge to the authorizer, in which one byte may be changed."""
        payload = bytearray(self.mine.start().payload)
        if at is not None:
            payload[at] ^= 4
        return self.theirs.start(CEPHX, CRC, bytes(payload)).payload

    def done(self, mode: ConMode = CRC) -> tuple[bytes, CryptoKey]:
        step = self.theirs.more(self.mine.more(self.start()))
        return step.payload, CryptoKey(KeyType.AES, step.result.session_key)


def pair() -> tuple[Cluster, CephxClient, MAuthPair]:
    cluster = Cluster()
    client = cluster.client()
    return cluster, client, mauth_pair(cluster, client)


def renewing() -> tuple[Cluster, MAuthPair]:
    cluster = Cluster()
    return cluster, renewing_pair(cluster, cluster.client())


def answered(answer: MAuthAnswer | None) -> None:
    """Raise the error of the monitor's answer."""
    assert answer is not None
    assert answer.refusal is not None
    raise answer.refusal.error(answer.detail, code=-answer.result)


# ---- at monitors


def unknown_entity() -> None:
    cluster = Cluster()
    client = CephxClient(AuthName(CLIENT, "nobody"), cluster.key(ADMIN))
    cluster.login(client)


def wrong_key() -> None:
    cluster = Cluster()
    cluster.login(CephxClient(ADMIN, cluster.key(GUEST)))


def disallowed_cipher() -> None:
    cluster = Cluster()
    cluster.keys.policy = CipherPolicy((KeyType.AES256KRB5,), KeyType.AES256KRB5)
    cluster.login(cluster.client())


def no_mon_caps() -> None:
    cluster = Cluster()
    cluster.set_principal(ADMIN, Principal(cluster.key(ADMIN), {"osd": "allow *"}))
    cluster.login(cluster.client())


def no_challenge() -> None:
    Cluster().server.exchange(CLIENT, NOW_S, Random(1)).more(b"")


def new_id_with_ticket() -> None:
    cluster, client, conversation = pair()
    cluster.login(client)
    introduction = conversation.client.start(NOW_S).payload
    asks_for_new_id = introduction[:-8] + bytes(8)
    answer = conversation.session.handle(0, asks_for_new_id, NOW_S)
    challenge = int.from_bytes(answer.payload[1:9], "little")
    proof = client.prove(challenge, client.tickets[AUTH], 0x20, cluster.rng)
    answered(conversation.session.handle(2, proof, NOW_S))


def reclaim(change: Callable[[Cluster, TicketBlob], TicketBlob]) -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    mine = client.exchange(MON, NOW_S, cluster.rng)
    ticket = client.tickets[AUTH]
    mine._old_ticket = replace(ticket, blob=change(cluster, ticket.blob))
    theirs = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
    theirs.more(mine.more(theirs.start(CEPHX, CRC, mine.start().payload).payload))


def reclaim_with_anothers(cluster: Cluster, _blob: TicketBlob) -> TicketBlob:
    guest = cluster.client(GUEST)
    cluster.login(guest)
    return guest.tickets[AUTH].blob


def not_authenticated() -> None:
    _, _, conversation = pair()
    conversation.session.handle(0, conversation.client.start(NOW_S).payload, NOW_S)
    answered(conversation.session.handle(2, encoded(RequestHeader(0x400)), NOW_S))


def request(payload: bytes) -> None:
    answered(renewing()[1].session.handle(2, payload, NOW_S))


def no_service_key() -> None:
    _, conversation = renewing()
    client = conversation.client
    asked = client._tickets_request(client._cephx, client._cephx.tickets[AUTH], 0x40)
    answered(conversation.session.handle(2, asked.payload, NOW_S))


def busy() -> None:
    cluster = Cluster()
    cluster.server.ready = False
    cluster.login(cluster.client())


def method_not_allowed() -> None:
    none = NoneClient(ADMIN).exchange(MON, NOW_S, Random(1)).start()
    Cluster().server.exchange(CLIENT, NOW_S, Random(1)).start(none.method, CRC, none.payload)


# ---- at services


def no_authorizer() -> None:
    judge_connect(Service().theirs, OSD, CLIENT, protocol=0, authorizer=b"", features=ALL_FEATURES)


def bad_authorize() -> None:
    Service().start(at=-20)


def challenge_mismatch() -> None:
    service = Service()
    authorizer = service.mine.start().payload
    service.theirs.start(CEPHX, CRC, authorizer)
    other_link = CephxService(OSD, service.cluster.keys.secrets(OSD)).exchange(CLIENT, NOW_S, Random(8))
    service.theirs.more(service.mine.more(other_link.start(CEPHX, CRC, authorizer).payload))


# ---- at clients


def no_ticket() -> None:
    Cluster().client().exchange(OSD, NOW_S, Random(1)).start()


def own_ticket_expired() -> None:
    client = Service().client
    client.exchange(OSD, NOW_S + 2 * HOUR_S, Random(1)).start()


def refused_by_peer() -> None:
    service = Service()
    service.start()
    service.mine.bad_method(-EACCES, [CEPHX])


def no_common_method() -> None:
    NoneClient(ADMIN).exchange(OSD, NOW_S, Random(1)).bad_method(-EOPNOTSUPP, [CEPHX])


def unexpected_reply() -> None:
    service = Service()
    challenge = service.start()
    service.mine.more(challenge)
    service.mine.more(challenge)


def bad_challenge() -> None:
    mine = Cluster().client().exchange(MON, NOW_S, Random(1))
    mine.start()
    mine.more(encoded(ServerChallenge(0)))


def bad_reply() -> None:
    service = Service()
    payload, _ = service.done()
    service.mine.done(0, CRC, payload[:4] + payload[-16:] + payload[4:-16])


def wrong_nonce() -> None:
    service = Service()
    payload, key = service.done()
    nonce = successor(open_reply(key, payload).nonce_plus_one)
    service.mine.done(0, CRC, seal_reply(key, AuthorizeReply(nonce), Random(1)))


def bad_connection_secret() -> None:
    service = Service()
    service.mine.done(0, SECURE, service.done()[0])


PROVOKED: dict[Refusal, tuple[int, Callable[[], object]]] = {
    Refusal.UNKNOWN_ENTITY: (EACCES, unknown_entity),
    Refusal.WRONG_KEY: (EACCES, wrong_key),
    Refusal.DISALLOWED_CIPHER: (EACCES, disallowed_cipher),
    Refusal.NO_MON_CAPS: (EACCES, no_mon_caps),
    Refusal.NO_CHALLENGE: (EACCES, no_challenge),
    Refusal.NEW_ID_WITH_TICKET: (EINVAL, new_id_with_ticket),
    Refusal.RECLAIM_WITHOUT_TICKET: (EACCES, lambda: reclaim(lambda _cluster, _blob: TicketBlob())),
    Refusal.RECLAIM_BAD_TICKET: (EACCES, lambda: reclaim(lambda _cluster, blob: replace(blob, secret_id=77))),
    Refusal.RECLAIM_WRONG_TICKET: (EACCES, lambda: reclaim(reclaim_with_anothers)),
    Refusal.NOT_AUTHENTICATED: (EACCES, not_authenticated),
    Refusal.NO_ROTATING_KEYS: (EACCES, lambda: request(encoded(RequestHeader(0x400)))),
    Refusal.NO_SERVICE_KEY: (EACCES, no_service_key),
    Refusal.UNKNOWN_REQUEST: (EINVAL, lambda: request(encoded(RequestHeader(0x800)))),
    Refusal.MALFORMED: (EPERM, lambda: request(b"")),
    Refusal.BUSY: (EBUSY, busy),
    Refusal.METHOD_NOT_ALLOWED: (EOPNOTSUPP, method_not_allowed),
    Refusal.NO_AUTHORIZER: (EACCES, no_authorizer),
    Refusal.NOT_AN_AUTHORIZER: (EACCES, lambda: Service().start(at=0)),
    Refusal.WRONG_SERVICE: (EACCES, lambda: Service(MDS).start()),
    Refusal.UNKNOWN_SECRET: (EACCES, lambda: Service().start(at=15)),
    Refusal.BAD_TICKET: (EACCES, lambda: Service().start(at=30)),
    Refusal.EXPIRED_TICKET: (EACCES, lambda: Service(now_s=NOW_S + 2 * HOUR_S).start()),
    Refusal.WRONG_GLOBAL_ID: (EACCES, lambda: Service().start(at=1)),
    Refusal.BAD_AUTHORIZE: (EACCES, bad_authorize),
    Refusal.CHALLENGE_MISMATCH: (EACCES, challenge_mismatch),
    Refusal.NO_KEYRING: (ENOENT, lambda: client_identity(ADMIN, None, "cephx")),
    Refusal.NO_TICKET: (EACCES, no_ticket),
    Refusal.OWN_TICKET_EXPIRED: (EACCES, own_ticket_expired),
    Refusal.REFUSED: (EACCES, refused_by_peer),
    Refusal.NO_COMMON_METHOD: (EOPNOTSUPP, no_common_method),
    Refusal.UNEXPECTED_REPLY: (EPERM, unexpected_reply),
    Refusal.BAD_CHALLENGE: (EPERM, bad_challenge),
    Refusal.BAD_REPLY: (EPERM, bad_reply),
    Refusal.WRONG_NONCE: (EPERM, wrong_nonce),
    Refusal.BAD_CONNECTION_SECRET: (EPERM, bad_connection_secret),
}


@pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name.lower())
def test_provoked(refusal: Refusal) -> None:
    errno, provoke = PROVOKED[refusal]
    with pytest.raises(RefusedError) as raised:
        provoke()
    error = raised.value
    assert (error.refusal, error.errno) == (refusal, errno)
    assert error.reason is refusal.reason
    assert error.detail


def test_refusals_of_guesses_have_one_code_and_reason() -> None:
    guesses = (Refusal.UNKNOWN_ENTITY, Refusal.WRONG_KEY, Refusal.NO_MON_CAPS, Refusal.DISALLOWED_CIPHER)
    assert {refusal.code for refusal in guesses} == {EACCES}
    assert {refusal.reason for refusal in guesses} == {FaultReason.AUTH_DENIED}
