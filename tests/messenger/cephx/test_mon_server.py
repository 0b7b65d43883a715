"""The monitor's side in the handshake of v2, with the package's own client.

See docs/protocol.md §5.5, §5.8, §5.10.
"""

from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthDone, AuthMethod, AuthMore, AuthStep, ConMode
from messenger.cephx.key_server import MON_NAME, CipherPolicy, Principal
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.none import NoneClient
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.service import CephxService
from messenger.cephx.structures import (
    NAMED_KEY_SECRET_ID,
    NO_TICKET,
    Authenticate,
    AuthMode,
    Prelude,
    RequestHeader,
    RequestType,
    ServerChallenge,
    TicketBlob,
)
from messenger.cephx.tickets import ServiceKey
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import DecodeError, FaultReason
from tests.support.cephx import ADMIN, AES, AES256K, GUEST, HOUR_S, NOW_S, OSD_0, Cluster

AUTH, MON, OSD, MDS, MGR, CLIENT = (EntityType[n] for n in ("AUTH", "MON", "OSD", "MDS", "MGR", "CLIENT"))
CRC, SECURE = ConMode.CRC, ConMode.SECURE
CEPHX, NONE = AuthMethod.CEPHX, AuthMethod.NONE
TYPES = [AES, AES256K]


def refused(what: Refusal):
    return pytest.raises(RefusedError, check=lambda error: error.refusal is what and error.errno == what.code)


@pytest.mark.parametrize("mode", [CRC, SECURE])
@pytest.mark.parametrize("service_type", TYPES)
@pytest.mark.parametrize("principal_type", TYPES)
@pytest.mark.parametrize("wanted", [0x20, 0x35, 0x37])
def test_both_sides_agree(mode: ConMode, service_type: KeyType, principal_type: KeyType, wanted: int) -> None:
    cluster = Cluster(principal_type, service_type)
    client = cluster.client(wanted=wanted)
    for global_id in (4100, 4100):
        mine, theirs = cluster.login(client, mode)
        assert (mine.global_id, theirs.global_id) == (global_id, global_id)
        assert mine.session_key == theirs.session_key
        assert mine.session_key_type == theirs.session_key_type == principal_type
        assert mine.connection_secret == theirs.connection_secret
        assert len(mine.connection_secret) == (64 if mode is SECURE else 0)
        assert mine.server_challenge == theirs.server_challenge != 0
        assert theirs.name == ADMIN
        assert Decoder(theirs.caps).string() == "allow *"
        assert {int(service) for service in client.tickets} == {bit for bit in (1, 2, 4, 16, 32) if bit & wanted}
        for service in set(client.tickets) - {AUTH}:
            mine, theirs = at_service(cluster, client, service, mode)
            assert (mine.session_key, mine.connection_secret) == (theirs.session_key, theirs.connection_secret)
            assert (theirs.name, theirs.global_id) == (ADMIN, global_id)


def at_service(cluster: Cluster, client: CephxClient, service: EntityType, mode: ConMode = CRC):
    mine = client.exchange(service, NOW_S, cluster.rng) if service is not MON else None
    if mine is None:  # monitors take clients by their keys; the ticket for them is never presented
        return cluster.login(client, mode)
    theirs = CephxService(service, cluster.keys.secrets(service)).exchange(CLIENT, NOW_S, cluster.rng)
    more = theirs.start(CEPHX, mode, mine.start().payload)
    done = theirs.more(mine.more(more.payload))
    return mine.done(0, mode, done.payload), done.result


SIZES = {  # [C], §5.5
    (AES, 0x20, CRC): (36, 210, 132, 229),
    (AES, 0x20, SECURE): (36, 274, 132, 293),
    (AES, 0x35, CRC): (36, 760, 132, 779),
    (AES, 0x35, SECURE): (36, 824, 132, 843),
    (AES256K, 0x20, CRC): (36, 355, 186, 408),
    (AES256K, 0x20, SECURE): (36, 419, 186, 472),
    (AES256K, 0x35, CRC): (36, 1230, 186, 1283),
    (AES256K, 0x35, SECURE): (36, 1294, 186, 1347),
}


@pytest.mark.parametrize(("key_type", "wanted", "mode"), SIZES)
def test_payload_sizes_are_those_of_real_monitors(key_type: KeyType, wanted: int, mode: ConMode) -> None:
    cluster = Cluster(key_type, key_type, mon_ticket_caps=key_type == AES256K)  # by the captures' releases
    client = cluster.client(wanted=wanted)
    sizes = []
    for _ in range(2):
        mine = client.exchange(MON, NOW_S, cluster.rng)
        theirs = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
        first = mine.start().payload
        challenge = theirs.start(CEPHX, mode, first).payload
        second = mine.more(challenge)
        done = theirs.more(second)
        assert (len(first), len(challenge)) == (22, 9)
        sizes += [len(second), len(done.payload)]
        mine.done(done.result.global_id, mode, done.payload)
    assert tuple(sizes) == SIZES[key_type, wanted, mode]


@pytest.mark.parametrize(("mode", "size"), [(CRC, 62), (SECURE, 130)])
def test_aes256k_authorizer_sizes_are_those_of_real_daemons(mode: ConMode, size: int) -> None:
    cluster = Cluster(AES256K, AES256K)
    client = cluster.client()
    cluster.login(client)
    mine = client.exchange(OSD, NOW_S, cluster.rng)
    theirs = CephxService(OSD, cluster.keys.secrets(OSD)).exchange(CLIENT, NOW_S, cluster.rng)
    first = mine.start().payload
    challenge = theirs.start(CEPHX, mode, first).payload
    second = mine.more(challenge)
    assert (len(first), len(challenge), len(second)) == (258, 58, 258)
    assert len(theirs.more(second).payload) == size


# ---- refused clients


class Attempt:
    """One authentication step by step, by hand where the client would not do it."""

    def __init__(self, cluster: Cluster, *, claim: int = 0, name: AuthName = ADMIN) -> None:
        self.cluster = cluster
        self.exchange = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
        step = self.exchange.start(CEPHX, CRC, encoded(Prelude(AuthMode.MON, name, claim)))
        assert isinstance(step, AuthMore), "everybody is challenged"
        self.challenge = ServerChallenge.decode(Decoder(step.payload)).server_challenge

    def answer(
        self, key: CryptoKey, old_ticket: TicketBlob = NO_TICKET, *, offset: int = 0, version: int = 3
    ) -> AuthStep:
        proof = key.challenge_response(self.challenge + offset, 77)
        authenticate = Authenticate(77, proof, old_ticket, 0x20, version)
        request = encoded(RequestHeader(RequestType.GET_AUTH_SESSION_KEY), authenticate)
        return self.exchange.more(request)


def test_unknown_entity_is_challenged_and_then_refused() -> None:
    cluster = Cluster()
    attempt = Attempt(cluster, name=AuthName(CLIENT, "nobody"))
    with refused(Refusal.UNKNOWN_ENTITY):
        attempt.answer(cluster.key(ADMIN))


@pytest.mark.parametrize("key_type", TYPES)
def test_wrong_key_and_answer_to_another_challenge(key_type: KeyType) -> None:
    cluster = Cluster(key_type)
    with refused(Refusal.WRONG_KEY):
        Attempt(cluster).answer(CryptoKey.generate(Random(9), NOW_S, key_type))
    with refused(Refusal.WRONG_KEY):
        Attempt(cluster).answer(cluster.key(ADMIN), offset=1)


def test_one_try_per_challenge() -> None:
    cluster = Cluster()
    attempt = Attempt(cluster)
    with refused(Refusal.WRONG_KEY):
        attempt.answer(cluster.key(GUEST))
    with refused(Refusal.NO_CHALLENGE):
        attempt.answer(cluster.key(ADMIN))
    with refused(Refusal.NO_CHALLENGE):
        cluster.server.exchange(CLIENT, NOW_S, cluster.rng).more(b"")


def test_replayed_proof() -> None:
    cluster = Cluster()
    mine = cluster.client().exchange(MON, NOW_S, cluster.rng)
    theirs = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
    first = mine.start().payload
    second = mine.more(theirs.start(CEPHX, CRC, first).payload)
    theirs.more(second)
    again = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
    again.start(CEPHX, CRC, first)
    with refused(Refusal.WRONG_KEY):
        again.more(second)


@pytest.mark.parametrize("caps", [{}, {"mon": ""}, {"osd": "allow *"}])
def test_entity_without_mon_caps_is_refused(caps: dict[str, str]) -> None:
    cluster = Cluster()
    cluster.set_principal(ADMIN, Principal(cluster.key(ADMIN), caps))
    with refused(Refusal.NO_MON_CAPS):
        Attempt(cluster).answer(cluster.key(ADMIN))


def test_keys_of_a_type_that_is_not_allowed() -> None:
    cluster = Cluster(AES, AES256K)
    cluster.keys.policy = CipherPolicy(allowed=(AES256K,), preferred=AES256K, service=AES256K)
    with refused(Refusal.DISALLOWED_CIPHER):
        Attempt(cluster).answer(cluster.key(ADMIN))
    cluster.keys.add(ADMIN, {"mon": "allow *"}, NOW_S)
    assert cluster.login(cluster.client())[1].session_key_type == AES256K


def test_old_keys_are_good_until_the_policy_forbids_them() -> None:
    """An aes client works in a cluster whose services use aes256k: its tickets are opaque to it (§5.1)."""
    cluster = Cluster(AES, AES256K)
    client = cluster.client()
    cluster.login(client, SECURE)
    mine, _ = at_service(cluster, client, OSD, SECURE)
    assert mine.session_key_type == AES
    assert {key.type for key in cluster.keys.secrets(OSD).values()} == {AES256K}


# ---- global_id


def test_new_id_with_an_old_ticket() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    with refused(Refusal.NEW_ID_WITH_TICKET) as raised:
        Attempt(cluster).answer(cluster.key(ADMIN), client.tickets[AUTH].blob)
    assert raised.value.errno == 22


def forged(cluster: Cluster) -> TicketBlob:
    return TicketBlob(2, CryptoKey.generate(Random(4), NOW_S).seal(0x30, bytes(90), Random(5)))


def of_another(cluster: Cluster) -> TicketBlob:
    guest = cluster.client(GUEST)
    cluster.login(guest)
    return guest.tickets[AUTH].blob


def for_a_service(cluster: Cluster) -> TicketBlob:
    client = cluster.client()
    cluster.login(client)
    return client.tickets[OSD].blob


def of_an_unknown_secret(cluster: Cluster) -> TicketBlob:
    return TicketBlob(99, of_another(cluster).blob)


BAD_CLAIMS = [
    (lambda _cluster: NO_TICKET, Refusal.RECLAIM_WITHOUT_TICKET),
    (forged, Refusal.RECLAIM_BAD_TICKET),
    (for_a_service, Refusal.RECLAIM_BAD_TICKET),
    (of_an_unknown_secret, Refusal.RECLAIM_BAD_TICKET),
    (of_another, Refusal.RECLAIM_WRONG_TICKET),
]


@pytest.mark.parametrize(("ticket", "what"), BAD_CLAIMS)
@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_bad_claims(ticket, what: Refusal, version: int, insecure) -> None:
    """Refused, unless the client is too old to know better and that is allowed."""
    cluster = Cluster()
    cluster.login(cluster.client())
    cluster.server.allow_insecure_reclaim = insecure
    blob = ticket(cluster)
    attempt = Attempt(cluster, claim=4100)
    if insecure and version < 3:
        step = attempt.answer(cluster.key(ADMIN), blob, version=version)
        assert isinstance(step, AuthDone)
        assert step.result.global_id == 4100
        return
    with refused(what):
        attempt.answer(cluster.key(ADMIN), blob, version=version)


def test_claim_with_a_ticket_whose_secret_has_rotated_away() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.login(client)
    later_s = NOW_S + 300 * HOUR_S
    cluster.keys.rotate(later_s)
    cluster.keys.rotate(later_s + 300 * HOUR_S)
    with refused(Refusal.RECLAIM_BAD_TICKET):
        Attempt(cluster, claim=4100).answer(cluster.key(ADMIN), client.tickets[AUTH].blob)


def test_no_ids_left_is_busy() -> None:
    cluster = Cluster(first_global_id=5, global_id_limit=5)
    with refused(Refusal.BUSY) as raised:
        Attempt(cluster)
    assert raised.value.reason is FaultReason.AUTH_BUSY


def test_not_in_the_quorum_is_busy() -> None:
    cluster = Cluster()
    cluster.server.ready = False
    with refused(Refusal.BUSY):
        Attempt(cluster)


# ---- pending keys


def test_both_keys_are_good_while_one_is_pending() -> None:
    cluster = Cluster()
    old, new = cluster.key(ADMIN), CryptoKey.generate(Random(9), NOW_S, AES256K)
    cluster.set_principal(ADMIN, Principal(old, {"mon": "allow *"}, pending_key=new))
    cluster.login(CephxClient(ADMIN, old))
    assert cluster.keys.used_pending_keys == {}
    _, theirs = cluster.login(CephxClient(ADMIN, new))
    assert theirs.session_key_type == AES256K
    assert cluster.keys.used_pending_keys == {ADMIN: new}
    cluster.keys.commit_pending_key(ADMIN)
    assert cluster.keys.used_pending_keys == {}
    cluster.login(CephxClient(ADMIN, new))
    with refused(Refusal.WRONG_KEY):
        Attempt(cluster).answer(old)


# ---- methods


def test_methods_depend_on_the_entity() -> None:
    cluster = Cluster()
    cluster.server.service_required = (CEPHX, NONE)
    assert cluster.server.exchange(CLIENT, NOW_S, cluster.rng).allowed_methods == (CEPHX, NONE)
    assert cluster.server.exchange(OSD, NOW_S, cluster.rng).allowed_methods == (CEPHX,)
    exchange = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
    with refused(Refusal.METHOD_NOT_ALLOWED) as raised:  # whatever type HELLO announced
        exchange.start(NONE, CRC, NoneClient(OSD_0).exchange(MON, NOW_S, cluster.rng).start().payload)
    assert raised.value.errno == 95


def test_none() -> None:
    cluster = Cluster()
    cluster.server.service_required = (NONE,)
    client = NoneClient(ADMIN)
    for _ in range(2):
        mine = client.exchange(MON, NOW_S, cluster.rng)
        exchange = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
        step = exchange.start(NONE, CRC, mine.start().payload)
        assert isinstance(step, AuthDone)
        assert step.payload == b""
        assert (step.result.name, step.result.session_key) == (ADMIN, b"")
        mine.done(step.result.global_id, CRC, step.payload)
        assert client.global_id == 4100
    with refused(Refusal.METHOD_NOT_ALLOWED):
        exchange.start(NONE, SECURE, mine.start().payload)


def test_malformed_introductions() -> None:
    cluster = Cluster()
    wire = encoded(Prelude(AuthMode.MON, ADMIN, 0))
    for size in range(len(wire)):
        with pytest.raises(DecodeError):
            cluster.server.exchange(CLIENT, NOW_S, cluster.rng).start(CEPHX, CRC, wire[:size])
    with pytest.raises(DecodeError, match="auth mode 3"):
        cluster.server.exchange(CLIENT, NOW_S, cluster.rng).start(CEPHX, CRC, b"\3" + wire[1:])


def test_malformed_proofs() -> None:
    cluster = Cluster()
    mine = cluster.client().exchange(MON, NOW_S, cluster.rng)
    theirs = cluster.server.exchange(CLIENT, NOW_S, cluster.rng)
    second = mine.more(theirs.start(CEPHX, CRC, mine.start().payload).payload)
    for size in range(len(second)):
        attempt = Attempt(cluster)
        with pytest.raises(RefusedError) as raised:
            attempt.exchange.more(second[:size])
        assert (raised.value.refusal, raised.value.errno) == (Refusal.MALFORMED, 1)


@pytest.mark.parametrize("kind", [0x200, 0x400, 0x800, 0])
def test_the_handshake_is_for_session_keys_only(kind: int) -> None:
    with refused(Refusal.UNKNOWN_REQUEST):
        Attempt(Cluster()).exchange.more(encoded(RequestHeader(kind)))


# ---- monitors among themselves


def monitor_among_monitors(cluster: Cluster, key: CryptoKey | None = None) -> MintingClient:
    keys = {MON: ServiceKey(NAMED_KEY_SECRET_ID, key or cluster.key(MON_NAME))}
    return MintingClient(MON_NAME, 0, keys)


@pytest.mark.parametrize("mode", [CRC, SECURE])
def test_another_monitor_presents_an_authorizer(mode: ConMode) -> None:
    cluster = Cluster()
    mine = monitor_among_monitors(cluster).exchange(MON, NOW_S, cluster.rng)
    theirs = cluster.server.exchange(MON, NOW_S, cluster.rng)
    more = theirs.start(CEPHX, mode, mine.start().payload)
    done = theirs.more(mine.more(more.payload))
    assert mine.done(0, mode, done.payload).connection_secret == done.result.connection_secret
    assert done.result.name == MON_NAME


def test_claim_to_be_a_monitor() -> None:
    cluster = Cluster()
    impostor = monitor_among_monitors(cluster, cluster.key(ADMIN)).exchange(MON, NOW_S, cluster.rng)
    with refused(Refusal.BAD_TICKET):
        cluster.server.exchange(MON, NOW_S, cluster.rng).start(CEPHX, CRC, impostor.start().payload)
    genuine = monitor_among_monitors(cluster).exchange(MON, NOW_S, cluster.rng)
    with refused(Refusal.NOT_AN_AUTHORIZER):
        cluster.server.exchange(CLIENT, NOW_S, cluster.rng).start(CEPHX, CRC, genuine.start().payload)
