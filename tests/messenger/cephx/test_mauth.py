"""Authentication by MAuth messages: v1 from the beginning, and renewals on v2 (protocol.md §5.6)."""

from dataclasses import replace
from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import METADATA_SERVICES, CephxClient
from messenger.cephx.exchange import AuthMethod, AuthResult
from messenger.cephx.key_server import CipherPolicy, Principal
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import Introduction, MAuthAnswer, MAuthRequest
from messenger.cephx.mauth_client import RETRY_S, MonAuthClient
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.minting import MintingClient
from messenger.cephx.negotiation import ClientAuth
from messenger.cephx.none import NoneClient
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.service import CephxService
from messenger.cephx.structures import RequestHeader, ResponseHeader, ServerChallenge
from messenger.cephx.tickets import open_ticket
from messenger.cephx.v1 import CephxRequirements
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.denc.layout import encoded
from messenger.errors import DecodeError, LocalError
from tests.support.cephx import (
    ADMIN,
    AES,
    AES256K,
    HOUR_S,
    MGR_X,
    NOW_S,
    OSD_0,
    Cluster,
    MAuthPair,
    mauth_pair,
    renewing_pair,
)

AUTH, MON, OSD, MDS, MGR = (EntityType[name] for name in ("AUTH", "MON", "OSD", "MDS", "MGR"))
CEPHX, NONE = AuthMethod.CEPHX, AuthMethod.NONE
SESSION_KEY, TICKETS, ROTATING = "0001", "0002", "0004"
TYPES = [AES, AES256K]


def refused(what: Refusal):
    return pytest.raises(RefusedError, check=lambda error: error.refusal is what)


# ---- v1 from the beginning


@pytest.mark.parametrize("service_type", TYPES)
@pytest.mark.parametrize("principal_type", TYPES)
@pytest.mark.parametrize("wanted", [0x20, 0x35, 0x37])
def test_first_time(principal_type: KeyType, service_type: KeyType, wanted: int) -> None:
    cluster = Cluster(principal_type, service_type)
    client = cluster.client(wanted=wanted)
    pair = mauth_pair(cluster, client)
    assert not pair.client.authenticated
    pair.start()
    assert pair.client.authenticated
    assert pair.kinds == ["start", SESSION_KEY] + ([TICKETS] if wanted != 0x20 else [])
    assert {int(service) for service in client.tickets} == {bit for bit in (1, 2, 4, 16, 32) if bit & wanted}
    assert client.global_id == pair.session.global_id == 4100
    result = pair.session.result
    assert result is not None
    assert (result.name, result.global_id) == (ADMIN, 4100)
    assert Decoder(result.caps).string() == "allow *"
    for service, ticket in client.tickets.items():
        info = open_ticket(ticket.blob, cluster.keys.secrets(service))
        assert (info.session_key, info.ticket.name) == (ticket.session_key, ADMIN)
    assert pair.client.due(NOW_S) is None


def test_the_first_payload_on_the_wire() -> None:
    request = MonAuthClient(Cluster().client(), Random(1)).start(NOW_S)
    wire = "01 01000000 02000000 08000000 05000000 61646d696e 0000000000000000"
    assert request == MAuthRequest(0, bytes.fromhex(wire))


def test_the_answer_to_the_first_is_a_challenge() -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, cluster.client())
    pair.start()
    first, second, third = pair.answers
    assert (first.protocol, first.result, first.global_id, len(first.payload)) == (2, 0, 4100, 9)
    assert first.done is None
    assert second.done == pair.session.result
    assert third.done is None


@pytest.mark.parametrize("key_type", TYPES)
def test_reclaim(key_type: KeyType) -> None:
    cluster = Cluster(key_type)
    client = cluster.client()
    mauth_pair(cluster, client).start()
    old = dict(client.tickets)
    pair = mauth_pair(cluster, client)
    pair.start(NOW_S + HOUR_S)
    assert Introduction.decode(Decoder(pair.requests[0].payload)).global_id == 4100
    assert client.global_id == 4100
    assert all(client.tickets[service] != ticket for service, ticket in old.items())


def test_ids_from_v1_and_v2_are_the_same_identity() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    mauth_pair(cluster, client).start()
    mine, _ = cluster.login(client)
    assert client.global_id == mine.global_id == 4100


# ---- methods


def identity(*methods: AuthMethod, cluster: Cluster) -> ClientAuth:
    known = {NONE: NoneClient(ADMIN), CEPHX: cluster.client()}
    return ClientAuth({method: known[method] for method in methods})


@pytest.mark.parametrize(
    ("mine", "theirs", "agreed"),
    [
        ((CEPHX, NONE), (CEPHX, NONE), CEPHX),
        ((NONE, CEPHX), (NONE, CEPHX), CEPHX),
        ((CEPHX, NONE), (NONE,), NONE),
        ((NONE,), (CEPHX, NONE), NONE),
    ],
)
def test_method_choice(mine: tuple[AuthMethod, ...], theirs: tuple[AuthMethod, ...], agreed: AuthMethod) -> None:
    cluster = Cluster()
    cluster.server.service_required = theirs
    auth = identity(*mine, cluster=cluster)
    pair = MAuthPair(MonAuthClient(auth, cluster.rng), MonAuthSession(cluster.server, cluster.rng))
    pair.start()
    assert pair.client.authenticated
    assert pair.answers[0].protocol == agreed
    assert auth.exchange(OSD, NOW_S, cluster.rng).start().method == agreed


def test_none_is_done_at_once() -> None:
    cluster = Cluster()
    cluster.server.service_required = (NONE,)
    client = NoneClient(ADMIN)
    pair = mauth_pair(cluster, client)
    pair.start()
    assert pair.answers == [MAuthAnswer(NONE, 0, 4100, b"", AuthResult(4100, name=ADMIN))]
    assert client.global_id == 4100
    assert pair.client.due(NOW_S + 100 * HOUR_S) is None
    again = mauth_pair(cluster, client)
    again.start()
    assert client.global_id == 4100


def test_no_method_in_common() -> None:
    cluster = Cluster()
    pair = mauth_pair(cluster, NoneClient(ADMIN))
    with refused(Refusal.NO_COMMON_METHOD) as raised:
        pair.start()
    assert raised.value.errno == 95
    answer = pair.answers[0]
    assert (answer.protocol, answer.result, answer.refusal) == (0, -95, Refusal.METHOD_NOT_ALLOWED)


def test_daemons_must_keep_to_the_clusters_methods() -> None:
    cluster = Cluster()
    cluster.server.service_required = (NONE, CEPHX)
    with refused(Refusal.NO_COMMON_METHOD):
        mauth_pair(cluster, NoneClient(OSD_0)).start()


@pytest.mark.parametrize(
    ("missing", "requirements", "name", "result"),
    [
        (Feature.CEPHX_V2, CephxRequirements(), ADMIN, -95),
        (Feature.CEPHX_V2, CephxRequirements(1, 1, 1, 1, 1, 1), ADMIN, 0),
        (
            Feature.CEPHX_V2,
            CephxRequirements(cephx_require_version=1, cephx_service_require_version=1),
            ADMIN,
            0,
        ),
        (
            Feature.CEPHX_V2,
            CephxRequirements(cephx_require_version=1, cephx_service_require_version=1),
            OSD_0,
            -95,
        ),
        (Feature.MSG_AUTH, CephxRequirements(), ADMIN, 0),
        (Feature.MSG_AUTH, CephxRequirements(cephx_require_signatures=True), ADMIN, -95),
        (Feature.MSG_AUTH, CephxRequirements(cephx_cluster_require_signatures=True), ADMIN, 0),
        (Feature.MSG_AUTH, CephxRequirements(cephx_cluster_require_signatures=True), OSD_0, -95),
    ],
)
def test_what_cephx_requires_of_a_v1_connection(
    missing: Feature, requirements: CephxRequirements, name: AuthName, result: int
) -> None:
    cluster = Cluster()
    session = MonAuthSession(
        cluster.server, cluster.rng, features=ALL_FEATURES & ~missing, requirements=requirements
    )
    request = MonAuthClient(cluster.client(name), cluster.rng).start(NOW_S)
    answer = session.handle(request.protocol, request.payload, NOW_S)
    assert answer is not None
    assert answer.result == result


def test_unknown_identity() -> None:
    with pytest.raises(LocalError, match="MintingClient cannot authenticate to a monitor"):
        MonAuthClient(MintingClient(ADMIN, 1, {}), Random(1))


# ---- renewal


@pytest.mark.parametrize("pair_of", [renewing_pair, None])
@pytest.mark.parametrize("principal_type", TYPES)
def test_service_tickets_are_renewed_at_three_quarters(pair_of, principal_type: KeyType) -> None:
    cluster = Cluster(principal_type)
    client = cluster.client()
    if pair_of is None:
        pair = mauth_pair(cluster, client)
        pair.start()
    else:
        pair = pair_of(cluster, client)
    pair.requests.clear()
    old = dict(client.tickets)
    pair.renew(NOW_S + 0.74 * HOUR_S)
    assert pair.kinds == []
    pair.renew(NOW_S + 0.75 * HOUR_S)
    assert pair.kinds == [TICKETS]
    assert {service for service in old if client.tickets[service] != old[service]} == {MON, OSD, MGR}
    assert client.tickets[OSD].expires_s == NOW_S + 1.75 * HOUR_S
    assert client.global_id == 4100


@pytest.mark.parametrize("principal_type", TYPES)
def test_the_auth_ticket_is_renewed_at_three_quarters(principal_type: KeyType) -> None:
    """With the challenge of the handshake of v2 once more, and with the old ticket (§5.5)."""
    cluster = Cluster(principal_type)
    client = cluster.client()
    pair = renewing_pair(cluster, client)
    for round_ in range(1, 4):
        old = dict(client.tickets)
        now_s = NOW_S + round_ * 0.75 * 72 * HOUR_S
        pair.requests.clear()
        pair.renew(now_s)
        assert pair.kinds == [SESSION_KEY, TICKETS]
        assert all(client.tickets[service] != ticket for service, ticket in old.items())
        assert client.tickets[AUTH].expires_s == now_s + 72 * HOUR_S
    assert pair.session.result is not None
    assert pair.session.result.global_id == client.global_id == 4100


def test_a_refused_service_ticket_is_asked_for_at_once() -> None:
    """What AUTH_BAD_METHOD and BADAUTHORIZER lead to (§5.8)."""
    cluster = Cluster()
    client = cluster.client()
    pair = renewing_pair(cluster, client)
    cluster.keys.wipe(NOW_S)
    service = CephxService(OSD, cluster.keys.secrets(OSD))

    def dial() -> None:
        mine = client.exchange(OSD, NOW_S, cluster.rng)
        theirs = service.exchange(EntityType.CLIENT, NOW_S, cluster.rng)
        opening = mine.start()
        try:
            more = theirs.start(CEPHX, 1, opening.payload)
        except RefusedError as error:
            mine.bad_method(-error.errno, [CEPHX])
        theirs.more(mine.more(more.payload))

    with refused(Refusal.REFUSED):
        dial()
    with refused(Refusal.NO_TICKET):
        dial()
    pair.renew(NOW_S)
    assert pair.kinds == [TICKETS]
    dial()


def test_one_request_at_a_time() -> None:
    cluster = Cluster()
    client = cluster.client()
    pair = renewing_pair(cluster, client)
    now_s = NOW_S + 0.8 * HOUR_S
    request = pair.client.due(now_s)
    assert request is not None
    assert pair.client.due(now_s + RETRY_S - 1) is None
    assert pair.client.due(now_s + RETRY_S) is not None, "the monitor may have dropped the first"
    pair.converse(request, now_s + RETRY_S)
    assert pair.client.due(now_s + RETRY_S) is None


def test_a_refused_renewal_is_tried_again_later() -> None:
    cluster = Cluster()
    client = cluster.client()
    pair = renewing_pair(cluster, client)
    caps = cluster.keys.principals[ADMIN].caps
    cluster.set_principal(ADMIN, Principal(cluster.key(ADMIN), {}))
    now_s = NOW_S + 0.75 * 72 * HOUR_S
    with refused(Refusal.REFUSED):
        pair.renew(now_s)
    assert pair.answers[-1].refusal is Refusal.NO_MON_CAPS
    assert pair.client.authenticated
    cluster.set_principal(ADMIN, Principal(cluster.key(ADMIN), caps))
    assert pair.client.due(now_s + RETRY_S - 1) is None
    pair.renew(now_s + RETRY_S)
    assert client.services_to_renew(now_s) == 0
    assert client.global_id == 4100


def test_a_service_for_which_there_are_no_tickets_is_not_asked_for_all_the_time() -> None:
    cluster = Cluster()
    del cluster.keys._rotating[MDS]
    pair = mauth_pair(cluster, cluster.client(wanted=0x37))
    pair.start()
    assert pair.kinds == ["start", SESSION_KEY, TICKETS]
    for now_s in (NOW_S + 1, NOW_S + RETRY_S - 1):
        assert pair.client.due(now_s) is None
    with refused(Refusal.REFUSED):
        pair.renew(NOW_S + RETRY_S)
    assert pair.answers[-1].refusal is Refusal.NO_SERVICE_KEY


# ---- rotating keys


@pytest.mark.parametrize("service_type", TYPES)
@pytest.mark.parametrize("principal_type", TYPES)
@pytest.mark.parametrize("name", [OSD_0, MGR_X])
@pytest.mark.parametrize("version", [1, 2])
def test_daemons_get_their_keys(
    name: AuthName, principal_type: KeyType, service_type: KeyType, version: int
) -> None:
    cluster = Cluster(principal_type, service_type)
    keyring = RotatingKeyring(name.type)
    daemon = cluster.client(name, METADATA_SERVICES)
    if version == 1:
        pair = mauth_pair(cluster, daemon, rotating=keyring)
        pair.start()
        assert pair.kinds == ["start", SESSION_KEY, TICKETS, ROTATING]
    else:
        pair = renewing_pair(cluster, daemon, rotating=keyring)
        pair.renew(NOW_S)
        assert pair.kinds == [ROTATING]
    assert keyring.secrets == cluster.keys.secrets(name.type)
    assert len(keyring.secrets) == 3
    client = cluster.client()
    cluster.login(client)
    info = open_ticket(client.tickets[name.type].blob, keyring.secrets)
    assert info.session_key == client.tickets[name.type].session_key


def test_daemons_follow_a_rotation_within_their_grace() -> None:
    cluster = Cluster()
    keyring = RotatingKeyring(OSD)
    pair = renewing_pair(cluster, cluster.client(OSD_0), rotating=keyring)
    pair.renew(NOW_S)
    pair.requests.clear()
    pair.renew(NOW_S + HOUR_S)
    pair.renew(NOW_S + 2 * HOUR_S)
    assert ROTATING not in pair.kinds
    assert set(keyring.secrets) == {1, 2, 3}
    pair.renew(NOW_S + 2 * HOUR_S + 30)
    assert pair.kinds[-1] == ROTATING
    assert set(keyring.secrets) == {2, 3, 4}


def test_at_most_one_request_for_keys_per_second() -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client(OSD_0), rotating=RotatingKeyring(OSD))
    assert pair.client.due(NOW_S) is not None
    assert pair.client.due(NOW_S + 0.9) is None
    assert pair.client.due(NOW_S + 1.0) is not None


def test_a_daemon_with_a_pending_key_can_read_its_keys() -> None:
    cluster = Cluster()
    new = CryptoKey.generate(Random(9), NOW_S, AES256K)
    principal = cluster.keys.principals[OSD_0]
    cluster.set_principal(OSD_0, replace(principal, pending_key=new))
    for key in (principal.key, new):
        keyring = RotatingKeyring(OSD)
        mauth_pair(cluster, CephxClient(OSD_0, key), rotating=keyring).start()
        assert len(keyring.secrets) == 3


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
def test_masks_with_services_that_do_not_exist_or_are_not_had_like_this(
    keys: int, result: int, count: int
) -> None:
    cluster = Cluster()
    pair = renewing_pair(cluster, cluster.client())
    answer = ask(pair, bytes(tickets_request(pair, keys)))
    assert answer.result == result
    if not result:
        assert answer.payload[:6] == encoded(ResponseHeader(0x200))
        assert answer.payload[7] == count


@pytest.mark.parametrize("kind", [0x200, 0x400])
def test_nothing_before_the_proof(kind: int) -> None:
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
def test_a_monitor_that_is_not_ready_says_nothing(busy: str) -> None:
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
