"""Secret keys: their encoding and text form, and sealing with them (docs/protocol.md §5.1, §5.2).

"Sealing" is the encryption of one encoded structure inside Ceph's wrapper: ``RAWW`` of §5.2. ``ENCW``, the same
after a length, is ``encoder.blob(key.seal(...))``.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from messenger.cephx.ciphers import CIPHERS, KeyCipher, KeyType, KeyUsage, SealError, unwrap, wrap
from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError, LocalError
from messenger.randomness import RandomSource

T = TypeVar("T")


def hmac_sha256(secret: bytes, data: Buffer) -> bytes:
    """HMAC-SHA256 keyed with the raw secret of a key of any type, as in AUTH_SIGNATURE (§4.7)."""
    return hmac.digest(secret, data, hashlib.sha256)


def same_u64(a: int, b: int) -> bool:
    """True if two u64 are equal; compares in constant time."""
    return hmac.compare_digest(a.to_bytes(8, "little"), b.to_bytes(8, "little"))


@dataclass(frozen=True, slots=True)
class CryptoKey:
    """A secret key. Keys of unsupported types can still be decoded, printed and encoded."""

    type: int
    """A :class:`KeyType`, or the number of an unknown type."""
    secret: bytes = field(repr=False)
    created: UTime = EPOCH

    @classmethod
    def generate(cls, rng: RandomSource, wall_time_s: float, key_type: KeyType = KeyType.AES) -> Self:
        """Create a random key with creation time ``wall_time_s``.

        Raises:
            LocalError: the type is not supported.
        """
        if key_type not in CIPHERS:
            raise LocalError(_unsupported(key_type))
        secret = rng.randbytes(CIPHERS[key_type].secret_size)
        return cls(key_type, secret, UTime.from_seconds(wall_time_s))

    def encode(self, encoder: Encoder) -> None:
        """Append u16 type, utime_t created, u16 length, secret."""
        encoder.u16(self.type)
        self.created.encode(encoder)
        encoder.u16(len(self.secret))
        encoder.raw(self.secret)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode one key.

        Raises:
            DecodeError: the bytes are too short, or the secret does not have the length of its type.
        """
        key_type = decoder.u16()
        created = UTime.decode(decoder)
        secret = decoder.raw(decoder.u16())
        cipher = CIPHERS.get(key_type)
        if cipher is not None and len(secret) != cipher.secret_size:
            label = KeyType(key_type).label
            raise DecodeError(f"{label} key of {len(secret)} bytes, {cipher.secret_size} are needed")
        return cls(key_type, secret, created)

    def to_base64(self) -> str:
        """The text form of keyrings."""
        encoder = Encoder()
        self.encode(encoder)
        return base64.b64encode(encoder.getvalue()).decode("ascii")

    @classmethod
    def from_base64(cls, text: str) -> Self:
        """Parse the text form of a key.

        Raises:
            LocalError: it is not base64, or not exactly one key.
        """
        try:
            decoder = Decoder(base64.b64decode(text, validate=True))
            key = cls.decode(decoder)
        except ValueError as error:
            raise LocalError(f"key is not base64: {error}") from None
        except DecodeError as error:
            raise LocalError(f"key is base64 of something else: {error.detail}") from None
        if decoder.remaining:
            raise LocalError(f"{decoder.remaining} bytes too many in a key")
        return key

    def require_usable(self, owner: str) -> None:
        """Check that a key of the caller can be used.

        Raises:
            LocalError: the type is not supported; the error names ``owner``.
        """
        if self.type not in CIPHERS:
            raise LocalError(f"{owner}: {_unsupported(self.type)}")

    def seal(self, usage: KeyUsage, content: bytes, rng: RandomSource) -> bytes:
        """Encrypt ``content`` in its wrapper; raises SealError for an unsupported type."""
        return self._cipher().encrypt(self.secret, usage, wrap(content), rng)

    def unseal(self, usage: KeyUsage, sealed: bytes, decode: Callable[[Decoder], T]) -> T:
        """Decrypt ``sealed``, and decode its content with ``decode``.

        Raises:
            SealError: the key does not open it, the content cannot be decoded (in both cases the bytes are not
                genuine: aes has no integrity check), or the type of the key is not supported.
        """
        content = unwrap(self._cipher().decrypt(self.secret, usage, sealed))
        try:
            return decode(Decoder(content))
        except DecodeError as error:
            raise SealError(f"decrypts to something malformed: {error.detail}") from None

    def challenge_response(self, server_challenge: int, client_challenge: int) -> int:
        """The u64 that proves possession of this key to the monitor (§5.4)."""
        return self._cipher().challenge_response(self.secret, server_challenge, client_challenge)

    def _cipher(self) -> KeyCipher:
        cipher = CIPHERS.get(self.type)
        if cipher is None:
            raise SealError(_unsupported(self.type))
        return cipher


def _unsupported(key_type: int) -> str:
    known = KeyType._value2member_map_.get(key_type)
    label = f" ({known.label})" if isinstance(known, KeyType) else ""
    supported = ", ".join(KeyType(supported).label for supported in CIPHERS)
    return f"keys of type {key_type}{label} are not supported; supported: {supported}"
