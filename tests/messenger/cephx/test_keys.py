"""Keys and what is sealed with them, against the vectors of docs/protocol.md §10."""

import random

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.ciphers import KeyType, KeyUsage, SealError, wrap
from messenger.cephx.keys import CryptoKey, hmac_sha256
from messenger.cephx.structures import Authorize
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import encoded
from messenger.denc.utime import UTime
from messenger.errors import DecodeError, LocalError

CREATED = UTime(1_700_000_000)
K1 = CryptoKey(KeyType.AES, bytes(range(16)), CREATED)
K2 = CryptoKey(KeyType.AES256KRB5, bytes(range(32)), CREATED)
K1_TEXT = "AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw=="
K2_TEXT = "AgAA8VNlAAAAACAAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
CHALLENGES = (0x1122334455667788, 0x99AABBCCDDEEFF00)
RNG = random.Random(0)


def seal(content: bytes, key: CryptoKey = K1) -> bytes:
    return key.seal(KeyUsage.AUTHORIZE, content, RNG)


def unseal(sealed: bytes, key: CryptoKey = K1) -> bytes:
    return key.unseal(KeyUsage.AUTHORIZE, sealed, Decoder.rest)


@pytest.mark.parametrize(("key", "text"), [(K1, K1_TEXT), (K2, K2_TEXT)])
def test_text_form(key: CryptoKey, text: str) -> None:
    assert key.to_base64() == text
    assert CryptoKey.from_base64(text) == key


def test_sealed_challenges() -> None:
    content = b"".join(value.to_bytes(8, "little") for value in CHALLENGES)
    expected = "5e4c58eba0ea931c02ef662853edc6c29f2f6fbccbaae9ce9354fc30c472810b"
    assert seal(content).hex() == expected


def test_sealed_authorize() -> None:
    expected = "867fbb5b689f99b0850f6ee0a15e449219676ccadf876fe048b0d1aee2159a6d"
    sealed = seal(encoded(Authorize(0x0102030405060708)))
    assert sealed.hex() == expected
    assert K1.unseal(KeyUsage.AUTHORIZE, sealed, Authorize.decode) == Authorize(0x0102030405060708)


def test_challenge_response() -> None:
    assert K1.challenge_response(*CHALLENGES) == 0x4FADD85010BCAD18


def test_hmac() -> None:
    expected = "591f3d32559a8a7ffced12bdcd6f6ae8f9061950b0dd113d95106460d27228aa"
    assert hmac_sha256(K1.secret, b"ceph v2\n").hex() == expected


@given(st.binary(max_size=200))
def test_seal_roundtrip(content: bytes) -> None:
    sealed = seal(content)
    assert len(sealed) == 16 * ((len(content) + 9) // 16 + 1)
    assert unseal(sealed) == content


@given(st.binary(max_size=100))
def test_anything_else_does_not_open(sealed: bytes) -> None:
    with pytest.raises(SealError):
        unseal(sealed)


def test_another_key_does_not_open() -> None:
    with pytest.raises(SealError, match="another key"):
        unseal(seal(b"content", CryptoKey(KeyType.AES, bytes(16))))


def test_sealed_content_that_does_not_decode() -> None:
    with pytest.raises(SealError, match="malformed: u64 needs 8 bytes"):
        K1.unseal(KeyUsage.AUTHORIZE, seal(b"\2short"), Authorize.decode)


@pytest.mark.parametrize(
    ("tail", "content"),
    [(b"abcdzz\3", b"abcd"), (b"abcdef\0", b"abcdef\0"), (b"." * 22 + b"\xff", b"." * 7)],
)
def test_padding_is_cut_but_not_judged(tail: bytes, content: bytes) -> None:
    # Ceph takes the last byte, up to 16, for the length of the padding, whatever the other padding bytes are.
    encryptor = Cipher(algorithms.AES(K1.secret), modes.CBC(b"cephsageyudagreg")).encryptor()
    sealed = encryptor.update(wrap(tail)) + encryptor.finalize()
    assert unseal(sealed) == content


def test_unsupported_type_gives_one_clear_error() -> None:
    strange = CryptoKey(77, b"")
    message = "keys of type 77 are not supported; supported: aes, aes256k"
    with pytest.raises(LocalError, match=f"client.admin: {message}"):
        strange.require_usable("client.admin")
    for use in (
        lambda: seal(b"", strange),
        lambda: unseal(b"", strange),
        lambda: strange.challenge_response(*CHALLENGES),
    ):
        with pytest.raises(SealError, match=message):
            use()
    with pytest.raises(LocalError, match=r"keys of type 0 \(none\) are not supported"):
        CryptoKey.generate(RNG, 0.0, KeyType.NONE)


def test_generate() -> None:
    key = CryptoKey.generate(random.Random(1), 1.5)
    assert (key.type, len(key.secret), key.created) == (KeyType.AES, 16, UTime(1, 500_000_000))
    assert key == CryptoKey.generate(random.Random(1), 1.5)


def test_secret_stays_out_of_repr() -> None:
    assert "secret" not in repr(K1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AQ", "not base64"),
        ("schl\u00fcssel", "not base64"),
        ("AQAA8VNl", "something else: u32 needs 4 bytes"),
        ("AQAA8VNlAAAAAAIAAAE=", "aes key of 2 bytes, 16 are needed"),
        (K1_TEXT[:-4] + "Dg8AAA==", "3 bytes too many"),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        CryptoKey.from_base64(text)


@given(st.integers(3, 0xFFFF), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=99))
def test_unknown_types_pass_through(key_type: int, sec: int, nsec: int, secret: bytes) -> None:
    encoder = Encoder()
    CryptoKey(key_type, secret, UTime(sec, nsec)).encode(encoder)
    decoded = CryptoKey.decode(Decoder(encoder.getvalue()))
    assert decoded == CryptoKey(key_type, secret, UTime(sec, nsec))
    for size in range(len(encoder)):
        with pytest.raises(DecodeError):
            CryptoKey.decode(Decoder(encoder.getvalue()[:size]))
