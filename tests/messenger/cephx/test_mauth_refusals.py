"""Errors in MAuth messages and in their replies (the errnos are a real monitor's).

See docs/protocol.md §5.6.
"""

from dataclasses import replace
from random import Random

import pytest

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod
from messenger.cephx.key_server import CipherPolicy
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import MAuthAnswer, MAuthRequest
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.structures import RequestHeader, ResponseHeader, ServerChallenge
from messenger.denc.entity import EntityType
from messenger.denc.layout import encoded
from messenger.errors import DecodeError
from tests.support.cephx import (
    ADMIN,
    AES,
    AES256K,
    HOUR_S,
    NOW_S,
    OSD_0,
    Cluster,
    MAuthPair,
    mauth_pair,
    renewing_pair,
)

AUTH, OSD = EntityType.AUTH, EntityType.OSD
CEPHX, NONE = AuthMethod.CEPHX, AuthMethod.NONE
TICKETS, ROTATING = "0002", "0004"


def refused(what: Refusal):
    return pytest.raises(RefusedError, check=lambda error: error.refusal is what)


# ---- what the monitor refuses


def ask(pair: MAuthPair, payload: bytes, protocol: int = 2) -> MAuthAnswer:
    answer = pair.session.handle(protocol, payload, NOW_S)
    assert answer is not None
    return answer


ESTABLISHED_ERRNOS = [  # as ceph-mon 16.2.15 has them
    (encoded(RequestHeader(0x800)), 22, Refusal.UNKNOWN_REQUEST),
    (b"", 1, Refusal.MALFORMED),
    (b"\1", 1, Refusal.MALFORMED),
    (encoded(RequestHeader(0x100)) + b"\3", 1, Refusal.MALFORMED),
    (encoded(RequestHeader(0x200)) + b"\1", 13, Refusal.NOT_AN_AUTHORIZER),
    (encoded(RequestHeader(0x400)), 13, Refusal.NO_ROTATING_KEYS),
]


@pytest.mark.parametrize(("payload", "errno", "what"), ESTABLISHED_ERRNOS)
def test_bad_requests(payload: bytes, errno: int, what: Refusal) -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client())
    answer = ask(pair, payload)
    assert (answer.result, answer.refusal) == (-errno, what)
    assert (answer.protocol, answer.global_id, answer.payload) == (2, 4100, b"")
    assert ask(pair, pair.client._session_key_request(pair.client._cephx, 0x20).payload).result == -13
    pair.renew(NOW_S + 0.8 * HOUR_S)


def tickets_request(pair: MAuthPair, keys: int = 4) -> bytearray:
    client = pair.client._cephx
    return bytearray(pair.client._tickets_request(client, client.tickets[AUTH], keys).payload)


@pytest.mark.parametrize(
    ("position", "what"),
    [
        (2, Refusal.NOT_AN_AUTHORIZER),
        (3, Refusal.WRONG_GLOBAL_ID),
        (11, Refusal.WRONG_SERVICE),
        (17, Refusal.UNKNOWN_SECRET),
        (30, Refusal.BAD_TICKET),
        (-25, Refusal.BAD_AUTHORIZE),
    ],
)
def test_bad_requests_for_tickets(position: int, what: Refusal) -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client())
    payload = tickets_request(pair)
    payload[position] ^= 1
    answer = ask(pair, bytes(payload))
    assert (answer.result, answer.refusal) == (-13, what)


@pytest.mark.parametrize(("keys", "result", "count"), [(0x40, -13, 0), (0x44, 0, 1), (0x20, 0, 0), (0x25, 0, 2)])
def test_ticket_requests_with_unknown_services_or_auth(keys: int, result: int, count: int) -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client())
    answer = ask(pair, bytes(tickets_request(pair, keys)))
    assert answer.result == result
    if not result:
        assert answer.payload[:6] == encoded(ResponseHeader(0x200))
        assert answer.payload[7] == count


@pytest.mark.parametrize("kind", [0x200, 0x400])
def test_requests_before_the_proof_are_refused(kind: int) -> None:
    cluster = Cluster()
    established = renewing_pair(cluster, cluster.client())
    payload = bytes(tickets_request(established)) if kind == 0x200 else encoded(RequestHeader(kind))
    pair = mauth_pair(cluster, cluster.client())
    assert ask(pair, payload).refusal is Refusal.UNKNOWN_REQUEST, "not even introduced"
    ask(pair, pair.client.start(NOW_S).payload, protocol=0)
    answer = ask(pair, payload)
    assert (answer.result, answer.refusal) == (-13, Refusal.NOT_AUTHENTICATED)
    assert pair.session.result is None


def test_introductions() -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, cluster.client())
    wire = pair.client.start(NOW_S).payload
    for size in range(len(wire)):
        answer = ask(pair, wire[:size], protocol=0)
        assert (answer.result, answer.refusal) == (-22, Refusal.MALFORMED)
    assert ask(pair, wire, protocol=0).result == 0
    assert ask(pair, wire, protocol=0).result < 0, "there is one per session"


def test_wrong_key_leaves_the_session_unauthenticated() -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, CephxClient(ADMIN, CryptoKey.generate(Random(9), NOW_S)))
    with refused(Refusal.REFUSED) as raised:
        pair.start()
    assert raised.value.errno == 13
    assert pair.answers[-1].refusal is Refusal.WRONG_KEY
    assert pair.session.result is None
    assert not pair.client.authenticated


def test_allowed_ciphers_hold_for_renewals_too() -> None:
    cluster = Cluster(AES)
    pair = renewing_pair(cluster, cluster.client())
    cluster.keys.policy = CipherPolicy(allowed=(AES256K,), preferred=AES256K)
    with refused(Refusal.REFUSED):
        pair.renew(NOW_S + 0.75 * 72 * HOUR_S)
    assert pair.answers[-1].refusal is Refusal.DISALLOWED_CIPHER


@pytest.mark.parametrize("busy", ["quorum", "ids"])
def test_monitor_that_is_not_ready_does_not_answer(busy: str) -> None:
    cluster = Cluster(global_id_limit=4100 if busy == "ids" else 5000)
    cluster.server.ready = busy != "quorum"
    pair = mauth_pair(cluster, cluster.client())
    request = pair.client.start(NOW_S)
    assert pair.session.handle(request.protocol, request.payload, NOW_S) is None
    cluster.server.ready = True
    cluster.keys._global_id_limit = 5000
    pair.converse(request, NOW_S)
    assert pair.client.authenticated


# ---- what the client refuses


def test_refused_claim_is_not_repeated() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    cluster.keys._rotating[AUTH]._keys.clear()
    with refused(Refusal.REFUSED):
        mauth_pair(cluster, client).start()
    mauth_pair(cluster, client).start()
    assert client.global_id == 4101


def test_replies_to_no_request() -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client())
    with refused(Refusal.UNEXPECTED_REPLY):
        pair.client.handle(2, 0, 4100, encoded(ResponseHeader(0x200)), NOW_S)
    request = pair.client.due(NOW_S + 0.8 * HOUR_S)
    assert request is not None
    with refused(Refusal.UNEXPECTED_REPLY):
        pair.client.handle(2, 0, 4100, encoded(ResponseHeader(0x400)), NOW_S)


def test_replies_in_another_order() -> None:
    cluster = Cluster()
    keyring = RotatingKeyring(OSD)
    pair = renewing_pair(cluster, cluster.client(OSD_0), rotating=keyring)
    now_s = NOW_S + 0.8 * HOUR_S
    requests = list(iter(lambda: pair.client.due(now_s), None))
    assert [request.payload[:2].hex() for request in requests] == [TICKETS, ROTATING]
    for request in reversed(requests):
        pair.converse(request, now_s)
    assert keyring.secrets
    assert pair.client._cephx.services_to_renew(now_s) == 0


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (MAuthAnswer(NONE, 0, 4100), Refusal.NO_COMMON_METHOD),
        (MAuthAnswer(AuthMethod.GSS, 0, 4100), Refusal.NO_COMMON_METHOD),
        (MAuthAnswer(AuthMethod.UNKNOWN, 0, 4100), Refusal.NO_COMMON_METHOD),
        (MAuthAnswer(CEPHX, 0, 0, encoded(ServerChallenge(5))), Refusal.BAD_REPLY),
        (MAuthAnswer(CEPHX, 0, 4100, encoded(ServerChallenge(0))), Refusal.BAD_CHALLENGE),
        (MAuthAnswer(CEPHX, -13, 4100), Refusal.NO_COMMON_METHOD),
        (MAuthAnswer(CEPHX, 13, 4100), Refusal.NO_COMMON_METHOD),
    ],
)
def test_bad_answers_to_the_introduction(answer: MAuthAnswer, what: Refusal) -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, cluster.client())
    pair.client.start(NOW_S)
    with refused(what):
        pair.deliver(answer, NOW_S)


def test_another_global_id_at_the_end() -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, cluster.client())
    request = pair.deliver(ask(pair, pair.client.start(NOW_S).payload, protocol=0), NOW_S)
    answer = ask(pair, request.payload)
    with refused(Refusal.BAD_REPLY):
        pair.deliver(replace(answer, global_id=4200), NOW_S)
    assert not pair.client.authenticated


def test_replies_sealed_with_other_keys() -> None:
    for kind, name in (("session key", ADMIN), ("tickets", ADMIN), ("rotating keys", OSD_0)):
        mine, other = Cluster(seed=1), Cluster(seed=50)
        pair, strange = (
            renewing_pair(cluster, cluster.client(name), rotating=RotatingKeyring(OSD) if name == OSD_0 else None)
            for cluster in (mine, other)
        )
        now_s = NOW_S + (0.75 * 72 * HOUR_S if kind == "session key" else 0.8 * HOUR_S if kind == "tickets" else 0)
        assert pair.client.due(now_s) is not None
        request = strange.client.due(now_s)
        answer = strange.session.handle(request.protocol, request.payload, now_s)
        with refused(Refusal.BAD_REPLY):
            pair.deliver(answer, now_s)


@pytest.mark.parametrize("status", [-13, -1, 5])
def test_errors_inside_a_reply(status: int) -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client())
    pair.client.due(NOW_S + 0.8 * HOUR_S)
    with refused(Refusal.REFUSED) as raised:
        pair.client.handle(2, 0, 4100, encoded(ResponseHeader(0x200, status)), NOW_S)
    assert raised.value.errno == abs(status)


def test_replies_cut_at_every_byte() -> None:
    """All refused, but where the AUTH ticket ends: monitors older than Nautilus send no more."""
    taken = []
    cluster = Cluster()
    probe = mauth_pair(cluster, cluster.client(OSD_0), rotating=RotatingKeyring(OSD))
    probe.start()
    for number, answer in enumerate(probe.answers):
        for size in range(len(answer.payload)):
            cluster = Cluster()
            pair = mauth_pair(cluster, cluster.client(OSD_0), rotating=RotatingKeyring(OSD))
            request: MAuthRequest | None = pair.client.start(NOW_S)
            for _ in range(number):
                request = pair.deliver(pair.session.handle(request.protocol, request.payload, NOW_S), NOW_S)
            genuine = pair.session.handle(request.protocol, request.payload, NOW_S)
            try:
                pair.deliver(replace(genuine, payload=genuine.payload[:size]), NOW_S)
            except (DecodeError, RefusedError):
                continue
            taken.append((number, size))
    assert [number for number, _ in taken] == [1]
