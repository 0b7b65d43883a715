"""Authentication by MAuth messages: v1 from the beginning, and renewals on v2 (docs/protocol.md §5.6)."""

from dataclasses import replace
from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import METADATA_SERVICES, CephxClient
from messenger.cephx.exchange import AuthMethod, AuthResult
from messenger.cephx.key_server import Principal
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
from messenger.cephx.tickets import open_ticket
from messenger.cephx.v1 import CephxRequirements
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.errors import LocalError
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
    assert pair.client.is_current
    assert pair.client.due(NOW_S) is None
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
def test_v1_connection_needs_the_features_that_cephx_requires(
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


def test_of_two_connections_made_at_once_the_later_one_is_current() -> None:
    cluster = Cluster()
    client = cluster.client()
    exchanges = []
    for _ in range(2):
        mine = client.exchange(MON, NOW_S, cluster.rng)
        theirs = cluster.server.exchange(EntityType.CLIENT, NOW_S, cluster.rng)
        step = theirs.more(mine.more(theirs.start(CEPHX, 1, mine.start().payload).payload))
        exchanges.append((mine, step))
    first, second = (
        MAuthPair(
            MonAuthClient(client, cluster.rng, established=mine.done(step.result.global_id, 1, step.payload)),
            MonAuthSession(cluster.server, cluster.rng, established=step.result),
        )
        for mine, step in exchanges
    )
    assert (first.client.is_current, second.client.is_current) == (False, True)
    first.renew(NOW_S + 0.8 * HOUR_S)
    assert first.kinds == [TICKETS], "any monitor gives tickets for an AUTH ticket"
    first.renew(NOW_S + 60 * HOUR_S)
    assert first.kinds == [TICKETS, TICKETS]
    second.renew(NOW_S + 60 * HOUR_S)
    assert second.kinds == [SESSION_KEY]
    assert client.global_id == 4101


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


# ---- sizes


def ask(pair: MAuthPair, payload: bytes, protocol: int = 2) -> MAuthAnswer:
    answer = pair.session.handle(protocol, payload, NOW_S)
    assert answer is not None
    return answer


@pytest.mark.parametrize(("again", "sizes"), [(False, (9, 740, 556)), (True, (9, 759))])
def test_payload_sizes_are_those_of_a_real_monitor(again, sizes: tuple[int, ...]) -> None:
    """ceph-mon 16.2.15 to client.admin over v1: as on v2, but without a connection secret."""
    cluster = Cluster(mon_ticket_caps=False)
    client = cluster.client()
    if again:
        mauth_pair(cluster, client).start()
    pair = mauth_pair(cluster, client)
    pair.start()
    assert tuple(len(answer.payload) for answer in pair.answers) == sizes


def test_clients_older_than_nautilus_get_nothing_behind_the_auth_ticket() -> None:
    cluster = Cluster()
    client = cluster.client()
    pair = mauth_pair(cluster, client)
    challenge = ask(pair, pair.client.start(NOW_S).payload, protocol=0).payload
    proof = client.prove(int.from_bytes(challenge[1:], "little"), None, 0, cluster.rng)
    payload = ask(pair, proof).payload
    reply = client.open_session_reply(payload, None)
    assert (reply.connection_secret, reply.services) == (b"", ())
    assert len(payload) == 210 - (4 + 20) - 4
