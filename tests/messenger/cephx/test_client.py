"""A client with a key against the stand-in monitor of conftest.py, then against a service.

See docs/protocol.md §5.5, §5.7.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messenger.cephx.ciphers import AesCipher, KeyType, KeyUsage
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthDone, AuthMore, AuthResult, ClientExchange, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.service import CephxService
from messenger.cephx.session_reply import SessionReply, decode_session_reply, encode_session_reply
from messenger.cephx.structures import Prelude, RequestType, ResponseHeader, ServerChallenge, TicketBlob
from messenger.cephx.tickets import encode_ticket_reply
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import AuthError, DecodeError, FaultReason, LocalError, PeerError
from messenger.randomness import RandomSource

NOW_S = 1_700_000_000.0
HOUR_S = 3600.0
ADMIN = AuthName(EntityType.CLIENT, "admin")
ADMIN_KEY = CryptoKey(KeyType.AES, bytes(range(16)))
MON, OSD, MGR, AUTH = EntityType.MON, EntityType.OSD, EntityType.MGR, EntityType.AUTH

NewClient = Callable[[], CephxClient]


def started(client: CephxClient, monitor, now_s: float = NOW_S) -> tuple[ClientExchange, bytes]:
    """An exchange up to the client's answer to the challenge."""
    exchange = client.exchange(MON, now_s, Random(5))
    return exchange, exchange.more(monitor.challenge(exchange.start().payload))


def not_genuine(message: str):
    return pytest.raises(AuthError, match=f"^{FaultReason.AUTH_REPLY.value}: .*{message}")


@pytest.mark.parametrize(("mode", "secret_size"), [(ConMode.CRC, 0), (ConMode.SECURE, 64)])
def test_first_time(monitor, new_client: NewClient, mode: ConMode, secret_size: int) -> None:
    client = new_client()
    result = monitor.admit(client, mode)
    assert (result.global_id, client.global_id) == (4100, 4100)
    assert len(result.connection_secret) == secret_size
    assert set(client.tickets) == {AUTH, MON, OSD, MGR}
    assert monitor.authenticate.other_keys == 0x35
    assert client.tickets[OSD].expires_s == NOW_S + HOUR_S


@pytest.mark.parametrize(
    ("wanted", "mode", "again", "size"),
    [
        (0x20, ConMode.CRC, 0, 210),
        (0x20, ConMode.SECURE, 0, 274),
        (0x35, ConMode.CRC, 0, 760),
        (0x35, ConMode.SECURE, 0, 824),
        (0x20, ConMode.CRC, 1, 229),
        (0x20, ConMode.SECURE, 1, 293),
    ],
)
def test_payload_sizes_are_those_of_real_monitors(
    monitor, wanted: int, mode: ConMode, again: int, size: int
) -> None:
    client = CephxClient(ADMIN, ADMIN_KEY, wanted)
    for _ in range(again):
        monitor.admit(client)
    exchange = client.exchange(MON, NOW_S, Random(5))
    first = exchange.start().payload
    challenge = monitor.challenge(first)
    second = exchange.more(challenge)
    payload, _, _ = monitor.judge(second, mode, NOW_S)
    assert (len(first), len(challenge), len(second), len(payload)) == (22, 9, 132 if again else 36, size)


def test_auth_is_always_wanted(monitor) -> None:
    client = CephxClient(ADMIN, ADMIN_KEY, OSD)
    monitor.admit(client)
    assert monitor.authenticate.other_keys == AUTH | OSD
    assert set(client.tickets) == {AUTH, OSD}


def test_reclaim_keeps_the_global_id(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    old = dict(client.tickets)
    monitor.next_global_id = 9000
    result = monitor.admit(client, ConMode.SECURE, NOW_S + HOUR_S)
    assert monitor.claimed_id == result.global_id == client.global_id == 4100
    assert monitor.authenticate.old_ticket == old[AUTH].blob
    assert all(client.tickets[service] != ticket for service, ticket in old.items())


def test_new_id_when_the_old_one_cannot_be_proved_any_more(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    monitor.admit(client, now_s=NOW_S + 72 * HOUR_S)
    assert monitor.claimed_id == 0
    assert client.global_id == 4101


def test_tickets_of_another_global_id_go(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    client.wanted_services = AUTH
    monitor.admit(client, now_s=NOW_S + 72 * HOUR_S)
    assert set(client.tickets) == {AUTH}


def test_refused_claim_is_not_repeated(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    monitor.service_keys[AUTH] = replace(monitor.service_keys[AUTH], secret_id=99)
    exchange, answer = started(client, monitor)
    with pytest.raises(AuthError, match="sealed with secret 2, those known are 99"):
        monitor.judge(answer, ConMode.CRC, NOW_S)
    with pytest.raises(AuthError, match="EACCES"):
        exchange.bad_method(-13, [2])
    assert monitor.admit(client).global_id == 4101


def test_mode_refusal_does_not_cost_the_claim(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    exchange, _ = started(client, monitor)
    with pytest.raises(AuthError, match="EOPNOTSUPP"):
        exchange.bad_method(-95, [2])
    assert monitor.admit(client).global_id == 4100


def test_wrong_key(monitor) -> None:
    client = CephxClient(ADMIN, CryptoKey(KeyType.AES, bytes(16)))
    exchange, answer = started(client, monitor)
    with pytest.raises(AuthError, match="wrong key"):
        monitor.judge(answer, ConMode.CRC, NOW_S)
    with pytest.raises(AuthError, match="cephx refused with EACCES") as raised:
        exchange.bad_method(-13, [2])
    assert raised.value.reason is FaultReason.AUTH_DENIED
    assert client.global_id == 0


def test_monitor_that_does_not_know_our_key(monitor, new_client: NewClient) -> None:
    client = new_client()
    exchange, answer = started(client, monitor)
    payload, _, _ = monitor.judge(answer, ConMode.CRC, NOW_S)
    impostor = CephxClient(ADMIN, CryptoKey(KeyType.AES, bytes(16)))
    other, _ = started(impostor, monitor)
    with not_genuine("tickets: decrypts to a wrong magic number"):
        other.done(4100, ConMode.CRC, payload)
    assert not impostor.tickets
    exchange.done(4100, ConMode.CRC, payload)


def test_two_monitors_at_once_leave_one_consistent_identity(monitor, new_client: NewClient) -> None:
    client = new_client()
    first, first_answer = started(client, monitor)
    first_payload, _, _ = monitor.judge(first_answer, ConMode.CRC, NOW_S)
    second, second_answer = started(client, monitor)
    second_payload, _, _ = monitor.judge(second_answer, ConMode.CRC, NOW_S)
    second.done(4101, ConMode.CRC, second_payload)
    first.done(4100, ConMode.CRC, first_payload)
    assert client.global_id == 4100
    assert monitor.admit(client).global_id == 4100


def test_renewal(monitor, new_client: NewClient) -> None:
    client = new_client()
    assert client.needs_renewal(OSD, NOW_S)
    monitor.admit(client)
    assert not client.needs_renewal(OSD, NOW_S + 0.74 * HOUR_S)
    assert client.needs_renewal(OSD, NOW_S + 0.75 * HOUR_S)
    assert not client.needs_renewal(AUTH, NOW_S + HOUR_S)
    assert client.needs_renewal(AUTH, NOW_S + 54 * HOUR_S)
    assert client.needs_renewal(EntityType.MDS, NOW_S)


# ---- hostile monitors


def test_zero_and_repeated_challenges(monitor, new_client: NewClient) -> None:
    exchange = new_client().exchange(MON, NOW_S, Random(5))
    exchange.start()
    with not_genuine("challenge is 0"):
        exchange.more(encoded(ServerChallenge(0)))
    exchange, _ = started(new_client(), monitor)
    with not_genuine("challenged twice"):
        exchange.more(encoded(ServerChallenge(5)))


def test_done_without_challenge_or_global_id(monitor, new_client: NewClient) -> None:
    exchange = new_client().exchange(MON, NOW_S, Random(5))
    exchange.start()
    with not_genuine("without a challenge"):
        exchange.done(4100, ConMode.CRC, b"")
    exchange, answer = started(new_client(), monitor)
    with not_genuine("global_id 0"):
        exchange.done(0, ConMode.CRC, monitor.judge(answer, ConMode.CRC, NOW_S)[0])


@pytest.mark.parametrize(
    ("payload", "error", "message"),
    [
        (encoded(ResponseHeader(0x100, -13)), AuthError, "refused: monitor answered EACCES"),
        (encoded(ResponseHeader(0x100, 77)), AuthError, "monitor answered result 77"),
        (encoded(ResponseHeader(0x400)), DecodeError, "response to request 0x400"),
        (encoded(ResponseHeader(0x100)) + b"\1\0\0\0\0", AuthError, "no ticket for its ticket service"),
        (encoded(ResponseHeader(0x100)) + b"\1\xff\xff\xff\xff" + bytes(99), DecodeError, "count 4294967295"),
        (encoded(ResponseHeader(0x100)) + b"\1\1\0\0\0\x20\0\0\0\1\xf0\xff\xff\xff", DecodeError, "needs"),
    ],
)
def test_done_with_an_error_body(
    monitor, new_client: NewClient, payload: bytes, error: type[Exception], message: str
) -> None:
    exchange, _ = started(new_client(), monitor)
    with pytest.raises(error, match=message):
        exchange.done(4100, ConMode.CRC, payload)


@pytest.mark.parametrize("size", [0, 40, 63, 65, 4096])
def test_connection_secret_of_a_wrong_size(monitor, new_client: NewClient, size: int) -> None:
    client = new_client()
    exchange, answer = started(client, monitor)
    reply = decode_session_reply(monitor.judge(answer, ConMode.SECURE, NOW_S)[0], ADMIN_KEY)
    forged = SessionReply(reply.auth, bytes(size), reply.services)
    with not_genuine(f"secret of {size} bytes, 64 are due"):
        exchange.done(4100, ConMode.SECURE, encode_session_reply(forged, ADMIN_KEY, Random(0)))
    assert (client.global_id, dict(client.tickets)) == (0, {})


def test_ticket_for_a_service_that_does_not_exist(monitor, new_client: NewClient) -> None:
    client = new_client()
    exchange, answer = started(client, monitor)
    reply = decode_session_reply(monitor.judge(answer, ConMode.CRC, NOW_S)[0], ADMIN_KEY)
    forged = SessionReply(reply.auth, b"", (replace(reply.services[0], service_id=0x40),))
    with pytest.raises(DecodeError, match="unknown entity type 0x40"):
        exchange.done(4100, ConMode.CRC, encode_session_reply(forged, ADMIN_KEY, Random(0)))
    assert (client.global_id, dict(client.tickets)) == (0, {})


def test_unrequested_encrypted_ticket_is_refused(monitor, new_client: NewClient) -> None:
    exchange, answer = started(new_client(), monitor)
    reply = decode_session_reply(monitor.judge(answer, ConMode.CRC, NOW_S)[0], ADMIN_KEY)
    payload = encode_session_reply(reply, ADMIN_KEY, Random(0), CryptoKey(KeyType.AES, bytes(16)))
    with not_genuine("auth ticket encrypted with an unknown key"):
        exchange.done(4100, ConMode.CRC, payload)


@pytest.mark.parametrize("key_type", [KeyType.NONE, 77])
def test_session_key_of_an_unsupported_type(monitor, new_client: NewClient, key_type: int) -> None:
    client = new_client()
    exchange, answer = started(client, monitor)
    reply = decode_session_reply(monitor.judge(answer, ConMode.CRC, NOW_S)[0], ADMIN_KEY)
    ticket = replace(reply.auth.ticket, session_key=CryptoKey(key_type, b"secret"))
    grants = encode_ticket_reply([replace(reply.auth, ticket=ticket)], ADMIN_KEY, Random(0))
    payload = encoded(ResponseHeader(RequestType.GET_AUTH_SESSION_KEY)) + grants
    with not_genuine(f"auth ticket with a session key of type {key_type}"):
        exchange.done(4100, ConMode.CRC, payload)
    assert (client.global_id, dict(client.tickets)) == (0, {})


def test_done_cut_or_flipped_at_every_byte(monitor, new_client: NewClient) -> None:
    client = new_client()
    exchange, answer = started(client, monitor)
    payload, _, _ = monitor.judge(answer, ConMode.SECURE, NOW_S)
    for position in range(len(payload)):
        with pytest.raises(PeerError):
            exchange.done(4100, ConMode.SECURE, payload[:position])
        flipped = bytearray(payload)
        flipped[position] ^= 0x11
        try:
            exchange.done(4100, ConMode.SECURE, bytes(flipped))
        except PeerError:
            continue


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_random_payloads(monitor, new_client: NewClient, payload: bytes) -> None:
    exchange = new_client().exchange(MON, NOW_S, Random(5))
    exchange.start()
    with contextlib.suppress(PeerError):
        exchange.more(payload)
    with pytest.raises(PeerError):
        exchange.done(4100, ConMode.CRC, encoded(ResponseHeader(0x100)) + payload)


# ---- watching with keys


def test_watching_with_the_principals_key(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    old = client.tickets[AUTH]
    exchange, answer = started(client, monitor)
    payload, session_key, secret = monitor.judge(answer, ConMode.SECURE, NOW_S)
    seen = decode_session_reply(payload, ADMIN_KEY)
    assert seen.auth.ticket.session_key.secret == session_key
    assert seen.connection_secret == secret
    assert seen.auth.blob is None
    assert {grant.service_id for grant in seen.services} == {MON, OSD, MGR}
    exchange.done(4100, ConMode.SECURE, payload)
    assert decode_session_reply(payload, ADMIN_KEY, old.session_key).auth.blob == client.tickets[AUTH].blob


def test_reply_to_a_client_that_wants_no_other_keys(monitor, new_client: NewClient) -> None:
    exchange, answer = started(new_client(), monitor)
    payload, session_key, _ = monitor.judge(answer, ConMode.CRC, NOW_S)
    reply = decode_session_reply(payload, ADMIN_KEY)
    short = payload[: 6 + 5 + 4 + 1 + 52 + 1 + 4 + len(encoded(reply.auth.blob))]
    assert decode_session_reply(short, ADMIN_KEY).auth.ticket.session_key.secret == session_key
    with not_genuine("secret of 0 bytes"):
        exchange.done(4100, ConMode.SECURE, short)


# ---- tickets in use


def service_for(monitor, service: EntityType) -> CephxService:
    key = monitor.service_keys[service]
    return CephxService(service, {key.secret_id: key.key})


def converse(monitor, client: CephxClient, service: EntityType) -> tuple[AuthResult, AuthResult]:
    mine = client.exchange(service, NOW_S + 60, Random(8))
    theirs = service_for(monitor, service).exchange(EntityType.CLIENT, NOW_S + 60, Random(9))
    opening = mine.start()
    more = theirs.start(opening.method, ConMode.SECURE, opening.payload)
    assert isinstance(more, AuthMore)
    done = theirs.more(mine.more(more.payload))
    assert isinstance(done, AuthDone)
    return mine.done(0, ConMode.SECURE, done.payload), done.result


@pytest.mark.parametrize("service", [OSD, MGR])
def test_ticket_opens_the_service(monitor, new_client: NewClient, service: EntityType) -> None:
    client = new_client()
    monitor.admit(client)
    mine, theirs = converse(monitor, client, service)
    assert (mine.session_key, mine.connection_secret) == (theirs.session_key, theirs.connection_secret)
    assert (theirs.name, theirs.global_id, mine.global_id) == (ADMIN, 4100, 4100)


def test_no_ticket(monitor, new_client: NewClient) -> None:
    client = new_client()
    message = "client.admin has no ticket for osd from a monitor; it holds: "
    with pytest.raises(AuthError, match=f"{message}none"):
        client.exchange(OSD, NOW_S, Random(8)).start()
    monitor.admit(client)
    with pytest.raises(AuthError, match="no ticket for mds from a monitor; it holds: mon, osd, mgr, auth"):
        client.exchange(EntityType.MDS, NOW_S, Random(8)).start()


def test_expired_ticket(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    with pytest.raises(AuthError, match=r"client\.admin's ticket for osd expired 2 s ago"):
        client.exchange(OSD, NOW_S + HOUR_S + 2, Random(8)).start()


def test_refused_ticket_goes_and_a_new_one_is_needed(monitor, new_client: NewClient) -> None:
    client = new_client()
    monitor.admit(client)
    exchange = client.exchange(OSD, NOW_S, Random(8))
    exchange.start()
    with pytest.raises(AuthError, match="EACCES"):
        exchange.bad_method(-13, [2])
    assert client.needs_renewal(OSD, NOW_S)
    assert not client.needs_renewal(MGR, NOW_S)


@pytest.mark.parametrize("result", [-13, -95])
def test_newer_ticket_and_mode_refusals_stay(monitor, new_client: NewClient, result: int) -> None:
    client = new_client()
    monitor.admit(client)
    exchange = client.exchange(OSD, NOW_S, Random(8))
    exchange.start()
    if result == -13:
        monitor.admit(client)
    with pytest.raises(AuthError):
        exchange.bad_method(result, [2])
    assert not client.needs_renewal(OSD, NOW_S)


class RecordingCipher(AesCipher):
    """Notes what each ciphertext is for, which aes itself does not care about but newer key types do."""

    def __init__(self) -> None:
        self.sealed: list[KeyUsage] = []
        self.opened: list[KeyUsage] = []

    def encrypt(self, secret: bytes, usage: KeyUsage, plaintext: bytes, rng: RandomSource) -> bytes:
        self.sealed.append(usage)
        return super().encrypt(secret, usage, plaintext, rng)

    def decrypt(self, secret: bytes, usage: KeyUsage, ciphertext: bytes) -> bytes:
        self.opened.append(usage)
        return super().decrypt(secret, usage, ciphertext)


def test_key_usages(monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    cipher = RecordingCipher()
    monkeypatch.setattr("messenger.cephx.keys.CIPHERS", {KeyType.AES: cipher})
    client = CephxClient(ADMIN, ADMIN_KEY, OSD)
    monitor.admit(client)
    cipher.sealed.clear()
    cipher.opened.clear()
    monitor.admit(client)
    assert cipher.sealed == [0x30, 0x30, 0x04, 0x05, 0x03, 0x04]
    assert cipher.opened == [0x30, 0x04, 0x05, 0x03, 0x04]

    cipher.sealed.clear()
    cipher.opened.clear()
    converse(monitor, client, OSD)
    assert cipher.sealed == [0x10, 0x11, 0x10, 0x12]
    assert cipher.opened == [0x30, 0x10, 0x11, 0x30, 0x10, 0x12]


# ---- misuse


def test_unusable_arguments() -> None:
    with pytest.raises(LocalError, match=r"client\.admin: keys of type 77"):
        CephxClient(ADMIN, CryptoKey(77, bytes(32)))
    with pytest.raises(LocalError, match="not 32 bits"):
        CephxClient(ADMIN, ADMIN_KEY, 1 << 32)


def test_introduction(monitor, new_client: NewClient) -> None:
    client = new_client()
    assert Prelude.decode(Decoder(client.exchange(MON, NOW_S, Random(1)).start().payload)).global_id == 0
    monitor.admit(client)
    assert Prelude.decode(Decoder(client.exchange(MON, NOW_S, Random(1)).start().payload)).global_id == 4100
    assert client.tickets[AUTH].blob != TicketBlob()
