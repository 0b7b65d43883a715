"""Keys of type aes256k: RFC 8009 encryption, and both cephx flows with them (docs/protocol.md §5.2, §10)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.ciphers import CIPHERS, KeyType, KeyUsage, SealError
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthDone, AuthMethod, AuthMore, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.service import CephxService
from messenger.cephx.structures import Authorize
from messenger.cephx.tickets import ServiceKey
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.denc.utime import UTime
from messenger.errors import LocalError

NOW_S = 1_700_000_000.0
ADMIN = AuthName(EntityType.CLIENT, "admin")
K2 = CryptoKey(KeyType.AES256KRB5, bytes(range(32)), UTime(1_700_000_000))
CIPHER = CIPHERS[KeyType.AES256KRB5]


@pytest.mark.parametrize("kind", [kind for kind in KeyType if kind is not KeyType.NONE])
def test_a_type_of_keys_is_found_by_its_name(kind: KeyType) -> None:
    assert KeyType.from_label(kind.label) is kind


def test_a_key_of_no_type_cannot_be_used() -> None:
    with pytest.raises(LocalError, match=r"unknown cipher 'none'; known: aes, aes256k$"):
        KeyType.from_label("none")


class Confounder:
    """A source of randomness that gives what a test vector was made with."""

    def __init__(self, confounder: bytes) -> None:
        self._confounder = confounder

    def randbytes(self, size: int) -> bytes:
        assert size == len(self._confounder)
        return self._confounder

    def getrandbits(self, bits: int) -> int:
        raise AssertionError(bits)


def test_rfc_8009_vector() -> None:
    secret = bytes.fromhex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52")
    rng = Confounder(bytes.fromhex("B80D3251C1F6471494256FFE712D0B9A"))
    sealed = CIPHER.encrypt(secret, 2, bytes(range(6)), rng)  # type: ignore[arg-type]
    assert sealed.hex() == (
        "4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2"
    )
    assert CIPHER.decrypt(secret, 2, sealed) == bytes(range(6))  # type: ignore[arg-type]


def test_authorize_vector() -> None:
    sealed = K2.seal(
        KeyUsage.AUTHORIZE, encoded(Authorize(0x0102030405060708)), Confounder(bytes(range(0x10, 0x20)))
    )
    assert sealed.hex() == (
        "01cb08af5bf7d352da8b59b325810133d072e09523618bf35f7125b864ed7a54fbb05cec8820057be57d043021c9d64a"
        "215ec377d341632fa1b636dbcdb69fc4a1e538"
    )


def test_challenge_vector_and_text_form() -> None:
    assert K2.challenge_response(0x1122334455667788, 0x99AABBCCDDEEFF00) == 0x52460FB091FF144A
    assert K2.to_base64() == "AgAA8VNlAAAAACAAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@given(st.binary(max_size=100), st.sampled_from(KeyUsage), st.integers(0, 1 << 32))
def test_round_trip_and_length(plaintext: bytes, usage: KeyUsage, seed: int) -> None:
    sealed = CIPHER.encrypt(K2.secret, usage, plaintext, random.Random(seed))
    assert len(sealed) == 16 + len(plaintext) + 24
    assert CIPHER.decrypt(K2.secret, usage, sealed) == plaintext


@given(st.binary(max_size=40), st.data())
def test_every_change_is_noticed(plaintext: bytes, data: st.DataObject) -> None:
    sealed = bytearray(CIPHER.encrypt(K2.secret, KeyUsage.AUTHORIZE, plaintext, random.Random(1)))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealError, match="MAC"):
        CIPHER.decrypt(K2.secret, KeyUsage.AUTHORIZE, bytes(sealed))


@given(st.binary(max_size=100))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(SealError):
        CIPHER.decrypt(K2.secret, KeyUsage.AUTHORIZE, noise)


def test_another_use_is_another_key() -> None:
    sealed = CIPHER.encrypt(K2.secret, KeyUsage.AUTHORIZE, b"x", random.Random(1))
    with pytest.raises(SealError, match="MAC"):
        CIPHER.decrypt(K2.secret, KeyUsage.AUTHORIZE_REPLY, sealed)


@pytest.mark.parametrize("con_mode", [ConMode.CRC, ConMode.SECURE])
def test_authorizer_flow(con_mode: ConMode) -> None:
    rng = random.Random(1)
    client = MintingClient(ADMIN, 4101, {EntityType.OSD: ServiceKey(3, K2)}).exchange(EntityType.OSD, NOW_S, rng)
    server = CephxService(EntityType.OSD, {3: K2}).exchange(EntityType.CLIENT, NOW_S, rng)
    first = client.start().payload
    more = server.start(AuthMethod.CEPHX, con_mode, first)
    assert isinstance(more, AuthMore)
    done = server.more(client.more(more.payload))
    assert isinstance(done, AuthDone)
    result = client.done(done.result.global_id, con_mode, done.payload)
    assert len(result.session_key) == 32
    assert result.session_key == done.result.session_key
    assert result.connection_secret == done.result.connection_secret
    # What a real 20.2 cluster exchanges has these sizes (§5.5).
    assert len(more.payload) == 58
    assert len(done.payload) == (130 if con_mode is ConMode.SECURE else 62)


def test_monitor_flow(monitor) -> None:
    monitor.principals[ADMIN] = K2
    monitor.service_keys = {service: ServiceKey(5, K2) for service in monitor.service_keys}
    client = CephxClient(ADMIN, K2)
    result = monitor.admit(client, ConMode.SECURE)
    assert len(result.session_key) == 32
    assert client.tickets.keys() >= {EntityType.AUTH, EntityType.OSD}
    assert monitor.admit(client, ConMode.CRC).global_id == result.global_id, "reclaimed with the old ticket"
