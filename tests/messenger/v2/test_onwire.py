"""The stream cipher of secure mode: which nonce for which byte (docs/protocol.md §4.6, §10)."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.v2.onwire import (
    GCM_TAG_SIZE,
    Rev0Cipher,
    StreamCipher,
    finish_decrypt,
    rev0_ciphers,
    stream_ciphers,
)
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


@given(parts=st.lists(st.binary(max_size=40), max_size=5))
def test_parts_are_sealed_as_their_whole(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    for cipher in StreamCipher(KEY, NONCE_A), Rev0Cipher(KEY, NONCE_A):
        buffer = bytearray(len(whole) + GCM_TAG_SIZE)
        cipher.encrypt_into(parts, memoryview(buffer))
        assert buffer == StreamCipher(KEY, NONCE_A).encrypt(whole)
        assert cipher.used_nonces == 1


@pytest.mark.parametrize("operation", ["decrypt", "decrypt_in_place"])
def test_changed_ciphertext_is_refused(operation: str) -> None:
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


# ---- msgr 2.0


def test_rev0_steps_the_first_word() -> None:
    cipher = Rev0Cipher(KEY, NONCE_A)
    cipher.encrypt(b"first")
    after_one = bytes.fromhex("111112131415161718191a1b")
    assert cipher.encrypt(b"second") == AESGCM(KEY).encrypt(after_one, b"second", None)


def test_rev0_wraps_within_its_32_bits() -> None:
    cipher = Rev0Cipher(KEY, b"\xff" * 4 + b"\1" * 8)
    cipher.encrypt(b"")
    assert cipher.encrypt(b"x") == AESGCM(KEY).encrypt(bytes(4) + b"\1" * 8, b"x", None)


@pytest.mark.parametrize("operation", [lambda cipher: cipher.encrypt(b""), Rev0Cipher.begin_decrypt])
def test_rev0_uses_no_nonce_twice(operation: Callable[[Rev0Cipher], object]) -> None:
    """After 2^32 operations the next one would repeat the first nonce (§4.6)."""
    cipher = Rev0Cipher(KEY, NONCE_A)
    operation(cipher)
    cipher._fixed = cipher._initial_fixed  # 2^32 - 1 operations later
    with pytest.raises(PeerError) as caught:
        operation(cipher)
    assert caught.value.reason is FaultReason.NONCE_EXHAUSTED


@pytest.mark.parametrize("connector", [False, True])
def test_rev0_uses_the_same_nonces_per_direction(*, connector: bool) -> None:
    receiving, sending = rev0_ciphers(CONNECTION_SECRET, connector=connector)
    theirs, mine = (NONCE_A, NONCE_B) if connector else (NONCE_B, NONCE_A)
    assert sending.encrypt(b"out") == AESGCM(KEY).encrypt(mine, b"out", None)
    assert receiving.decrypt(memoryview(AESGCM(KEY).encrypt(theirs, b"in", None))) == b"in"


@given(plain=st.binary(min_size=1, max_size=100), cut=st.integers(0, 100))
def test_decrypting_piece_by_piece_agrees_with_at_once(plain: bytes, cut: int) -> None:
    sealed = memoryview(Rev0Cipher(KEY, NONCE_A).encrypt(plain))
    context = Rev0Cipher(KEY, NONCE_A).begin_decrypt()
    text, tag = sealed[:-GCM_TAG_SIZE], sealed[-GCM_TAG_SIZE:]
    assert context.update(text[:cut]) + context.update(text[cut:]) == plain
    finish_decrypt(context, tag)


def test_a_wrong_tag_is_found_at_the_end() -> None:
    context = Rev0Cipher(KEY, NONCE_A).begin_decrypt()
    context.update(b"never sealed")
    with pytest.raises(PeerError) as caught:
        finish_decrypt(context, memoryview(bytes(GCM_TAG_SIZE)))
    assert caught.value.reason is FaultReason.AUTH_TAG


@pytest.mark.parametrize("kind", [StreamCipher, Rev0Cipher])
def test_a_long_life_can_be_skipped(kind: type[StreamCipher]) -> None:
    sending, receiving = kind(bytes(16), bytes(12)), kind(bytes(16), bytes(12))
    first = sending.encrypt(b"first")
    for cipher in sending, receiving:
        cipher.use_up(left=2)
    for plain in b"last but one", b"last":
        assert receiving.decrypt(memoryview(sending.encrypt(plain))) == plain
    for operation in (lambda: sending.encrypt(b"again"), lambda: receiving.decrypt(memoryview(first))):
        with pytest.raises(PeerError) as caught:
            operation()
        assert caught.value.reason is FaultReason.NONCE_EXHAUSTED
    assert sending.used_nonces == (1 << 64 if kind is StreamCipher else 1 << 32)


def test_no_more_of_the_connection_secret_is_needed_than_is_used() -> None:
    _, sending = stream_ciphers(CONNECTION_SECRET[:40], connector=True)
    assert sending.encrypt(b"out") == AESGCM(KEY).encrypt(NONCE_B, b"out", None)
