"""Authorizers between a client that mints its tickets and a service with the same key (docs/protocol.md §5.7)."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.authorizer import (
    answers_challenge,
    open_authorizer,
    open_challenge,
    open_reply,
    seal_reply,
)
from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthDone, AuthMethod, AuthMore, AuthResult, ClientExchange, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.service import CephxService, CephxServiceExchange
from messenger.cephx.structures import NAMED_KEY_SECRET_ID, Authorize, AuthorizeReply
from messenger.cephx.tickets import ServiceKey
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import AuthError, DecodeError, FaultReason, LocalError, PeerError

NOW_S = 1_700_000_000.0
OSD, MON, CLIENT = EntityType.OSD, EntityType.MON, EntityType.CLIENT
KEY = CryptoKey(KeyType.AES, bytes(range(16)))
OTHER_KEY = CryptoKey(KeyType.AES, bytes(range(1, 17)))
ADMIN = AuthName(CLIENT, "admin")


class Pair:
    """Both ends of one exchange, step by step."""

    def __init__(
        self,
        *,
        mode: ConMode = ConMode.CRC,
        client: MintingClient | None = None,
        service: CephxService | None = None,
        peer: EntityType = OSD,
        seed: int = 1,
        now_s: float = NOW_S,
    ) -> None:
        rng = random.Random(seed)
        self.mode = mode
        minting = client or MintingClient(ADMIN, 4101, {OSD: ServiceKey(3, KEY)}, caps="allow r")
        self.client: ClientExchange = minting.exchange(peer, NOW_S, rng)
        self.service: CephxServiceExchange = (service or CephxService(OSD, {3: KEY})).exchange(CLIENT, now_s, rng)

    def challenge(self) -> bytes:
        self.first = self.client.start().payload
        step = self.service.start(AuthMethod.CEPHX, self.mode, self.first)
        assert isinstance(step, AuthMore)
        return step.payload

    def answer(self) -> bytes:
        self.second = self.client.more(self.challenge())
        return self.second

    def accepted(self) -> AuthDone:
        step = self.service.more(self.answer())
        assert isinstance(step, AuthDone)
        return step

    def finish(self) -> tuple[AuthResult, AuthResult]:
        done = self.accepted()
        return self.client.done(done.result.global_id, self.mode, done.payload), done.result


def test_exchange_keeps_the_global_id_of_its_ticket() -> None:
    minting = MintingClient(ADMIN, 4101, {OSD: ServiceKey(3, KEY)}, caps="allow r")
    pair = Pair(client=minting)
    challenge = pair.challenge()
    minting.global_id = 4102  # another login has replaced it while the challenge was on its way
    step = pair.service.more(pair.client.more(challenge))
    assert isinstance(step, AuthDone)
    assert pair.client.done(0, pair.mode, step.payload).global_id == step.result.global_id == 4101


def denied(message: str):
    return pytest.raises(AuthError, match=f"^{FaultReason.AUTH_DENIED.value}: .*{message}")


def not_genuine(message: str):
    return pytest.raises(AuthError, match=f"^{FaultReason.AUTH_REPLY.value}: .*{message}")


@pytest.mark.parametrize(("mode", "secret_size"), [(ConMode.CRC, 0), (ConMode.SECURE, 64)])
def test_both_sides_agree(mode: ConMode, secret_size: int) -> None:
    mine, theirs = Pair(mode=mode).finish()
    assert mine.session_key == theirs.session_key
    assert len(mine.session_key) == 16
    assert mine.connection_secret == theirs.connection_secret
    assert len(mine.connection_secret) == secret_size
    assert (mine.global_id, theirs.global_id) == (4101, 4101)
    assert theirs.name == ADMIN
    assert Decoder(theirs.caps).string() == "allow r"


@pytest.mark.parametrize(("mode", "size"), [(ConMode.CRC, 36), (ConMode.SECURE, 100)])
def test_payload_sizes_are_those_of_real_daemons(mode: ConMode, size: int) -> None:
    client = MintingClient(ADMIN, 4101, {OSD: ServiceKey(3, KEY)}, caps="allow *")
    pair = Pair(mode=mode, client=client)
    done = pair.accepted()
    assert (len(pair.first), len(pair.second), len(done.payload)) == (174, 174, size)
    assert len(Pair(client=client).challenge()) == 32


def test_monitors_among_themselves() -> None:
    monitor = MintingClient(AuthName(MON, ""), 0, {MON: ServiceKey(NAMED_KEY_SECRET_ID, KEY)})
    service = CephxService(MON, {NAMED_KEY_SECRET_ID: KEY})
    mine, theirs = Pair(client=monitor, service=service, peer=MON, mode=ConMode.SECURE).finish()
    assert mine.connection_secret == theirs.connection_secret
    assert (str(theirs.name), theirs.global_id) == ("mon.", 0)


def test_tickets_are_made_with_the_newest_keys() -> None:
    client = MintingClient(ADMIN, 4101, {OSD: ServiceKey(3, KEY)})
    client.use_keys({OSD: ServiceKey(4, OTHER_KEY)})
    with denied("secret 4, those known are 3"):
        Pair(client=client).challenge()
    assert Pair(client=client, service=CephxService(OSD, {4: OTHER_KEY})).finish()


def test_two_exchanges_share_no_keys() -> None:
    first, second = (Pair(mode=ConMode.SECURE, seed=seed).finish()[0] for seed in (1, 2))
    assert first.session_key != second.session_key
    assert first.connection_secret != second.connection_secret


def test_watching_with_the_service_key() -> None:
    pair = Pair(mode=ConMode.SECURE)
    done = pair.accepted()
    for payload, have_challenge in ((pair.first, False), (pair.second, True)):
        opened = open_authorizer(payload, {OSD: {3: KEY}})
        assert opened.authorize.have_challenge is have_challenge
        assert opened.info.session_key.secret == done.result.session_key
        assert opened.info.ticket.name == ADMIN
    assert open_reply(opened.info.session_key, done.payload).connection_secret == done.result.connection_secret


# ---- what a service refuses


def test_replayed_conversation() -> None:
    recorded = Pair(seed=1)
    recorded.finish()
    service = Pair(seed=2).service
    assert isinstance(service.start(AuthMethod.CEPHX, ConMode.CRC, recorded.first), AuthMore)
    with denied("does not answer this link's challenge"):
        service.more(recorded.second)


def test_second_round_authorizer_first_is_challenged_all_the_same() -> None:
    recorded = Pair(seed=1)
    recorded.finish()
    service = Pair(seed=2).service
    assert isinstance(service.start(AuthMethod.CEPHX, ConMode.CRC, recorded.second), AuthMore)


def test_answer_without_challenge_and_second_try() -> None:
    pair = Pair()
    with denied("without a challenge"):
        pair.service.more(pair.client.start().payload)
    pair.answer()
    with denied("does not answer"):
        pair.service.more(pair.first)
    with denied("without a challenge"):
        pair.service.more(pair.second)


@pytest.mark.parametrize("offset", [0, 2, -1, 1 << 63])
def test_wrong_answers(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messenger.cephx.authorizer_exchange.successor", lambda c: (c + offset) % (1 << 64))
    pair = Pair()
    with denied("does not answer"):
        pair.service.more(pair.answer())


def test_answer_must_be_marked_as_one() -> None:
    assert not answers_challenge(Authorize(1, have_challenge=False, server_challenge_plus_one=6), 5)
    assert answers_challenge(Authorize(1, have_challenge=True, server_challenge_plus_one=6), 5)


def test_challenge_arithmetic_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messenger.cephx.service.nonzero_u64", lambda _rng: (1 << 64) - 1)
    mine, theirs = Pair().finish()
    assert mine.global_id == theirs.global_id == 4101


@pytest.mark.parametrize(
    ("service", "message"),
    [
        (CephxService(OSD, {4: KEY, 5: KEY}), "sealed with secret 3, those known are 4, 5"),
        (CephxService(OSD, {NAMED_KEY_SECRET_ID: KEY}), "those known are -1"),
        (CephxService(OSD, {}), "those known are none"),
        (CephxService(OSD, {3: OTHER_KEY}), "encrypted with another key"),
        (CephxService(EntityType.MDS, {3: KEY}), "authorizer for service 0x4, this is mds"),
    ],
)
def test_tickets_for_other_keys(service: CephxService, message: str) -> None:
    with denied(message) as raised:
        Pair(service=service).challenge()
    assert raised.value.errno == 13


def test_rotation_is_seen_by_exchanges_under_way() -> None:
    secrets = {3: KEY}
    pair = Pair(service=CephxService(OSD, secrets))
    answer = pair.answer()
    del secrets[3]
    with denied("sealed with secret 3"):
        pair.service.more(answer)


def test_authorizer_with_another_global_id_is_denied() -> None:
    pair = Pair()
    first = bytearray(pair.client.start().payload)
    first[1:9] = (4102).to_bytes(8, "little")
    with denied("global_id 4102, but the ticket is for 4101"):
        pair.service.start(AuthMethod.CEPHX, ConMode.CRC, bytes(first))


def test_expired_ticket() -> None:
    Pair(now_s=NOW_S + 3600).finish()
    with denied("ticket expired 5 s ago"):
        Pair(now_s=NOW_S + 3605).challenge()


def test_client_that_looks_for_a_monitor() -> None:
    with denied("auth mode 10"):
        Pair().service.start(AuthMethod.CEPHX, ConMode.CRC, b"\x0a" + bytes(21))


def test_authorizers_cut_at_every_byte() -> None:
    pair = Pair()
    answer = pair.answer()
    for size in range(len(answer)):
        fresh = Pair()
        with pytest.raises(DecodeError):
            fresh.service.start(AuthMethod.CEPHX, ConMode.CRC, pair.first[:size])
        fresh.challenge()
        with pytest.raises(DecodeError):
            fresh.service.more(answer[:size])


@given(st.binary(max_size=300))
def test_random_authorizers(payload: bytes) -> None:
    pair = Pair()
    with pytest.raises(PeerError):
        pair.service.start(AuthMethod.CEPHX, ConMode.CRC, payload)


def test_flipped_authorizers_are_challenged_or_refused() -> None:
    """aes has no integrity (CVE-2025-30156), so some flips go unnoticed; none may crash."""
    first = Pair().client.start().payload
    for position in range(len(first)):
        tampered = bytearray(first)
        tampered[position] ^= 0x41
        try:
            step = Pair().service.start(AuthMethod.CEPHX, ConMode.CRC, bytes(tampered))
        except PeerError:
            continue
        assert isinstance(step, AuthMore)


# ---- what a client refuses


def test_reply_of_another_exchange() -> None:
    other, pair = Pair(seed=2).accepted(), Pair(seed=1)
    pair.accepted()
    with not_genuine("another key"):
        pair.client.done(0, ConMode.CRC, other.payload)


@pytest.mark.parametrize("offset", [-1, 1])
def test_reply_nonce_mismatch(offset: int) -> None:
    pair = Pair()
    done = pair.accepted()
    session_key = CryptoKey(KeyType.AES, done.result.session_key)
    reply = open_reply(session_key, done.payload)
    forged = AuthorizeReply((reply.nonce_plus_one + offset) % (1 << 64))
    with not_genuine("nonce plus one"):
        pair.client.done(0, ConMode.CRC, seal_reply(session_key, forged, random.Random(0)))


@pytest.mark.parametrize("size", [0, 1, 63, 65, 4096])
def test_connection_secret_of_a_wrong_size(size: int) -> None:
    pair = Pair()
    done = pair.accepted()
    session_key = CryptoKey(KeyType.AES, done.result.session_key)
    genuine = open_reply(session_key, done.payload)
    forged = seal_reply(session_key, AuthorizeReply(genuine.nonce_plus_one, bytes(size)), random.Random(0))
    with not_genuine(f"secret of {size} bytes, 64 are due"):
        pair.client.done(0, ConMode.SECURE, forged)
    assert pair.client.done(0, ConMode.CRC, forged).connection_secret == b""


def test_done_cut_or_flipped_at_every_byte() -> None:
    pair = Pair(mode=ConMode.SECURE)
    payload = pair.accepted().payload
    for position in range(len(payload)):
        flipped = bytearray(payload)
        flipped[position] ^= 0x80
        with pytest.raises(PeerError):
            pair.client.done(0, ConMode.SECURE, payload[:position])
        try:
            pair.client.done(0, ConMode.SECURE, bytes(flipped))
        except PeerError:
            continue
        assert position > 4 + 16, "the blocks with magic and nonce must not go unnoticed"


@given(st.binary(max_size=200))
def test_random_challenges_and_replies(payload: bytes) -> None:
    pair = Pair()
    pair.challenge()
    with pytest.raises(PeerError):
        pair.client.more(payload)
    with pytest.raises(PeerError):
        pair.client.done(0, ConMode.CRC, payload)


def test_endless_challenges() -> None:
    pair = Pair()
    challenge = pair.challenge()
    pair.client.more(challenge)
    with not_genuine("challenged twice"):
        pair.client.more(challenge)


def test_garbage_instead_of_a_challenge() -> None:
    pair = Pair()
    pair.challenge()
    with not_genuine("challenge: aes ciphertext of 3 bytes"):
        pair.client.more(b"abc")


def test_refusals() -> None:
    pair = Pair()
    pair.challenge()
    with denied("cephx refused with EACCES; the peer allows cephx"):
        pair.client.bad_method(-13, [2])
    with pytest.raises(AuthError, match=r"no common .*EOPNOTSUPP; the peer allows none, method 9") as raised:
        pair.client.bad_method(-95, [1, 9])
    assert raised.value.reason is FaultReason.AUTH_METHOD


# ---- misuse


def test_exchange_not_started() -> None:
    for use in (
        lambda client: client.more(b""),
        lambda client: client.done(0, ConMode.CRC, b""),
        lambda client: client.bad_method(-13, []),
    ):
        with pytest.raises(LocalError, match=r"begins with start\(\)"):
            use(Pair().client)


def test_no_key_to_mint_with() -> None:
    with denied("client.admin has no service key to make tickets for mds; it holds: osd"):
        Pair(peer=EntityType.MDS).challenge()


def _service(key: CryptoKey) -> object:
    return CephxService(OSD, {1: key})


def _minter(key: CryptoKey) -> object:
    return MintingClient(ADMIN, 1, {OSD: ServiceKey(1, key)})


@pytest.mark.parametrize("build", [_service, _minter])
def test_unsupported_keys_are_refused_at_once(build: Callable[[CryptoKey], object]) -> None:
    with pytest.raises(LocalError, match="service key of osd: keys of type 77"):
        build(CryptoKey(77, bytes(32)))


def test_challenge_is_readable_with_the_session_key() -> None:
    pair = Pair()
    challenge = pair.challenge()
    session_key = open_authorizer(pair.first, {OSD: {3: KEY}}).info.session_key
    answer = pair.client.more(challenge)
    opened = open_authorizer(answer, {OSD: {3: KEY}})
    assert opened.authorize.server_challenge_plus_one == open_challenge(session_key, challenge) + 1
