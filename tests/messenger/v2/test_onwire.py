"""The stream cipher of secure mode: which nonce for which byte (protocol.md §4.6, §10)."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.v2.onwire import GCM_TAG_SIZE, StreamCipher, stream_ciphers
from tests.support.frames import CONNECTION_SECRET

KEY = CONNECTION_SECRET[:16]
NONCE_A = CONNECTION_SECRET[16:28]
NONCE_B = CONNECTION_SECRET[28:40]


def test_the_counter_steps_once_per_operation() -> None:
    cipher = StreamCipher(KEY, NONCE_A)
    cipher.encrypt(b"first")
    after_one = bytes.fromhex("101112131515161718191a1b")
    assert cipher.encrypt(b"second") == AESGCM(KEY).encrypt(after_one, b"second", None)


def test_the_counter_wraps_within_its_64_bits() -> None:
    cipher = StreamCipher(KEY, b"\1\2\3\4" + b"\xff" * 8)
    cipher.encrypt(b"")
    assert cipher.encrypt(b"x") == AESGCM(KEY).encrypt(b"\1\2\3\4" + bytes(8), b"x", None)


@pytest.mark.parametrize("connector", [False, True])
def test_server_to_client_uses_nonce_a(*, connector: bool) -> None:
    receiving, sending = stream_ciphers(CONNECTION_SECRET, connector=connector)
    theirs, mine = (NONCE_A, NONCE_B) if connector else (NONCE_B, NONCE_A)
    assert sending.encrypt(b"out") == AESGCM(KEY).encrypt(mine, b"out", None)
    assert receiving.decrypt(memoryview(AESGCM(KEY).encrypt(theirs, b"in", None))) == b"in"


@pytest.mark.parametrize("size", [0, 16, 39])
def test_a_short_connection_secret_is_the_peers_mistake(size: int) -> None:
    with pytest.raises(DecodeError):
        stream_ciphers(bytes(size), connector=True)


@given(plain=st.binary(max_size=100))
def test_in_place_and_copying_operations_agree(plain: bytes) -> None:
    sealed = StreamCipher(KEY, NONCE_A).encrypt(plain)
    buffer = bytearray(plain + bytes(GCM_TAG_SIZE))
    StreamCipher(KEY, NONCE_A).encrypt_in_place(memoryview(buffer))
    assert buffer == sealed
    assert StreamCipher(KEY, NONCE_A).decrypt_in_place(memoryview(buffer)) == plain


@pytest.mark.parametrize("operation", ["decrypt", "decrypt_in_place"])
def test_what_was_not_sealed_so_is_refused(operation: str) -> None:
    sealed = bytearray(StreamCipher(KEY, NONCE_A).encrypt(b"sixteen bytes..."))
    sealed[3] ^= 1
    with pytest.raises(PeerError) as caught:
        getattr(StreamCipher(KEY, NONCE_A), operation)(memoryview(sealed))
    assert caught.value.reason is FaultReason.AUTH_TAG


def test_no_nonce_is_used_twice() -> None:
    """After 2^64 operations the next one would repeat the first nonce (§4.6)."""
    cipher = StreamCipher(KEY, NONCE_A)
    cipher.encrypt(b"")
    cipher._counter = cipher._initial_counter  # 2^64 - 1 operations later
    with pytest.raises(PeerError) as caught:
        cipher.encrypt(b"one too many")
    assert caught.value.reason is FaultReason.NONCE_EXHAUSTED
