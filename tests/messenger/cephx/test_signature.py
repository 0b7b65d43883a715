"""Signatures of v1 messages (docs/protocol.md §3.7; the vectors are those of §10)."""

import hmac
from random import Random

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthResult
from messenger.cephx.signature import aes256k_signer, aes_signer, legacy_signer, message_signer
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.errors import LocalError

K1, K2 = bytes(range(16)), bytes(range(32))
VECTOR = (0x11111111, 0x22222222, 0x20, 0, 0, 0x33333333, 0x30, 0x100000005)
U32 = st.integers(0, (1 << 32) - 1)
VALUES = st.tuples(U32, U32, U32, U32, U32, U32, U32, st.integers(0, (1 << 64) - 1))


@pytest.mark.parametrize(
    ("maker", "secret", "signature"),
    [
        (aes_signer, K1, 0xEB64B4F87CD3E4FA),
        (aes256k_signer, K2, 0xAF77D234A7E96138),
        (legacy_signer, K1, 0xEF0EEF4808B52EAD),
    ],
)
def test_vectors(maker, secret: bytes, signature: int) -> None:
    sign = maker(secret)
    assert [sign(*VECTOR) for _ in range(3)] == [signature] * 3


def words(data: bytes) -> int:
    result = 0
    for start in range(0, 32, 8):
        result ^= int.from_bytes(data[start : start + 8], "little")
    return result


@given(st.binary(min_size=16, max_size=16), st.lists(VALUES, min_size=1, max_size=5))
def test_messages_do_not_influence_each_other(secret: bytes, messages: list[tuple[int, ...]]) -> None:
    sign = aes_signer(secret)
    for values in messages:
        block = b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for value in values)
        cipher = Cipher(algorithms.AES(secret), modes.CBC(b"cephsageyudagreg")).encryptor()
        assert sign(*values) == words(cipher.update(block + bytes([16]) * 16))


@given(st.binary(min_size=32, max_size=32), VALUES)
def test_aes256k(secret: bytes, values: tuple[int, ...]) -> None:
    block = b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for value in values)
    assert aes256k_signer(secret)(*values) == words(hmac.digest(secret, block, "sha256"))


@pytest.mark.parametrize("maker", [aes_signer, aes256k_signer])
def test_every_value_counts(maker) -> None:
    sign = maker(Random(5).randbytes(32 if maker is aes256k_signer else 16))
    signatures = {sign(*VECTOR)}
    for place in range(len(VECTOR)):
        signatures.add(sign(*(value ^ (place == here) for here, value in enumerate(VECTOR))))
    assert len(signatures) == len(VECTOR) + 1
    assert sign(*VECTOR[:-1], 5) == sign(*VECTOR), "of seq the low 32 bits"


@pytest.mark.parametrize(
    ("key_type", "secret", "features", "signature"),
    [
        (KeyType.AES, K1, ALL_FEATURES, 0xEB64B4F87CD3E4FA),
        (KeyType.AES, K1, ALL_FEATURES & ~Feature.CEPHX_V2, 0xEF0EEF4808B52EAD),
        (KeyType.AES256KRB5, K2, ALL_FEATURES, 0xAF77D234A7E96138),
    ],
)
def test_form_by_key_type_and_feature(key_type: KeyType, secret: bytes, features: int, signature: int) -> None:
    sign = message_signer(AuthResult(1, secret, session_key_type=key_type), features)
    assert sign is not None
    assert sign(*VECTOR) == signature


def test_messages_are_not_signed_without_a_session_key() -> None:
    assert message_signer(AuthResult(1), ALL_FEATURES) is None


def test_unsupported_key_type() -> None:
    with pytest.raises(LocalError, match="do not sign"):
        message_signer(AuthResult(1, b"key"), ALL_FEATURES)
