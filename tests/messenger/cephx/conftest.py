"""A small monitor made of the package's own pure functions, after docs/protocol.md §5.5 and §5.10."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient
from messenger.cephx.connection_secret import new_connection_secret
from messenger.cephx.exchange import AuthResult, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.session_reply import SessionReply, encode_session_reply
from messenger.cephx.structures import (
    Authenticate,
    AuthMode,
    Prelude,
    RequestHeader,
    RequestType,
    ServerChallenge,
)
from messenger.cephx.tickets import ServiceKey, mint_ticket, open_ticket
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import AuthError, FaultReason
from messenger.randomness import nonzero_u64

NOW_S = 1_700_000_000.0
ADMIN = AuthName(EntityType.CLIENT, "admin")
ADMIN_KEY = CryptoKey(KeyType.AES, bytes(range(16)))


def service_key(number: int) -> ServiceKey:
    return ServiceKey(number, CryptoKey(KeyType.AES, bytes([number]) * 16))


@dataclass
class Monitor:
    """One monitor of a cluster that knows one client."""

    rng: random.Random
    principals: dict[AuthName, CryptoKey] = field(default_factory=lambda: {ADMIN: ADMIN_KEY})
    caps: dict[EntityType, str] = field(
        default_factory=lambda: {EntityType.MON: "allow *", EntityType.OSD: "allow *"}
    )
    service_keys: dict[EntityType, ServiceKey] = field(
        default_factory=lambda: {
            service: service_key(number)
            for number, service in enumerate(
                (EntityType.AUTH, EntityType.MON, EntityType.OSD, EntityType.MGR), start=2
            )
        }
    )
    next_global_id: int = 4100
    auth_ttl_s: float = 72 * 3600.0
    service_ttl_s: float = 3600.0

    def challenge(self, request: bytes) -> bytes:
        prelude = Prelude.decode(Decoder(request))
        assert prelude.mode == AuthMode.MON
        self.name, self.claimed_id = prelude.name, prelude.global_id
        self.global_id = prelude.global_id or self.next_global_id
        self.server_challenge = nonzero_u64(self.rng)
        return encoded(ServerChallenge(self.server_challenge))

    def judge(self, request: bytes, con_mode: ConMode, now_s: float) -> tuple[bytes, bytes, bytes]:
        """AUTH_DONE payload, session key and connection secret."""
        decoder = Decoder(request)
        assert RequestHeader.decode(decoder).request_type == RequestType.GET_AUTH_SESSION_KEY
        authenticate = Authenticate.decode(decoder)
        assert not decoder.remaining
        self.authenticate = authenticate
        key = self.principals[self.name]
        expected = key.challenge_response(self.server_challenge, authenticate.client_challenge)
        if authenticate.key != expected:
            raise AuthError(FaultReason.AUTH_DENIED, "wrong key")
        old_session_key = self._check_claim(authenticate)
        self.next_global_id = max(self.next_global_id, self.global_id + 1)
        auth = self._mint(EntityType.AUTH, "", self.auth_ttl_s, now_s)
        wanted = [s for s in self.service_keys if s & authenticate.other_keys and s is not EntityType.AUTH]
        services = [self._mint(s, self.caps.get(s, ""), self.service_ttl_s, now_s) for s in wanted]
        secret = new_connection_secret(con_mode, self.rng)
        reply = SessionReply(auth, secret, tuple(services))
        payload = encode_session_reply(reply, key, self.rng, old_session_key)
        return payload, auth.ticket.session_key.secret, secret

    def _check_claim(self, authenticate: Authenticate) -> CryptoKey | None:
        if not self.claimed_id:
            assert not authenticate.old_ticket.blob
            assert not authenticate.old_ticket.secret_id
            return None
        secret = self.service_keys[EntityType.AUTH]
        info = open_ticket(authenticate.old_ticket, {secret.secret_id: secret.key})
        if (info.ticket.global_id, info.ticket.name) != (self.claimed_id, self.name):
            raise AuthError(FaultReason.AUTH_DENIED, "old ticket of somebody else")
        return info.session_key

    def _mint(self, service: EntityType, caps: str, validity_s: float, now_s: float):
        return mint_ticket(
            self.service_keys[service],
            service,
            self.name,
            self.global_id,
            caps=caps,
            validity_s=validity_s,
            wall_time_s=now_s,
            rng=self.rng,
        )

    def admit(self, client: CephxClient, con_mode: ConMode = ConMode.CRC, now_s: float = NOW_S) -> AuthResult:
        """The whole exchange with ``client``; both sides must agree on keys and id."""
        exchange = client.exchange(EntityType.MON, now_s, self.rng)
        answer = exchange.more(self.challenge(exchange.start().payload))
        payload, session_key, secret = self.judge(answer, con_mode, now_s)
        result = exchange.done(self.global_id, con_mode, payload)
        assert (result.global_id, result.session_key, result.connection_secret) == (
            self.global_id,
            session_key,
            secret,
        )
        return result


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)


@pytest.fixture
def monitor(rng: random.Random) -> Monitor:
    return Monitor(rng)


@pytest.fixture
def new_client() -> Callable[[], CephxClient]:
    return lambda: CephxClient(ADMIN, ADMIN_KEY)
