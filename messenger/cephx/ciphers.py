"""What the types of keys can do: encryption and challenge responses (protocol.md §5.1, §5.2, §5.4).

A key type is one class here and one line in the table at the end; nothing else depends on the type.
"""

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from types import MappingProxyType
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from messenger.errors import DecodeError
from messenger.randomness import RandomSource


class KeyType(IntEnum):
    """Types of keys by their numbers in encodings (§5.1)."""

    NONE = 0
    AES = 1
    AES256KRB5 = 2

    @property
    def label(self) -> str:
        """The name Ceph's tools print."""
        return "aes256k" if self is KeyType.AES256KRB5 else self.name.lower()


class KeyUsage(IntEnum):
    """What a ciphertext is for; newer key types derive a separate key per usage (§5.2)."""

    AUTH_CONNECTION_SECRET = 0x03
    SERVICE_TICKET = 0x04
    TICKET_BLOB = 0x05
    AUTHORIZE = 0x10
    AUTHORIZE_CHALLENGE = 0x11
    AUTHORIZE_REPLY = 0x12
    ROTATING_SECRETS = 0x20
    TICKET_INFO = 0x30


class SealError(DecodeError):
    """Ciphertext that does not open: made with another key, tampered with, or not ciphertext at all."""


_ENVELOPE = Struct("<BQ")
_ENVELOPE_VERSION = 1
_ENVELOPE_MAGIC = 0xFF009CAD8826AA55


def wrap(content: bytes) -> bytes:
    """The plaintext that is encrypted for ``content``: version, magic, content (§5.2)."""
    return _ENVELOPE.pack(_ENVELOPE_VERSION, _ENVELOPE_MAGIC) + content


def unwrap(plaintext: bytes) -> bytes:
    """The content of a decrypted plaintext.

    Raises:
        SealError: the magic is not there, so this is the wrong key. The version is not looked at, as in Ceph.
    """
    if len(plaintext) < _ENVELOPE.size or _ENVELOPE.unpack_from(plaintext)[1] != _ENVELOPE_MAGIC:
        raise SealError("decrypts to a wrong magic number: encrypted with another key, or tampered with")
    return plaintext[_ENVELOPE.size :]


class KeyCipher(Protocol):
    """The operations of one key type, on raw secrets."""

    secret_size: int
    """Bytes of a secret."""

    def encrypt(self, secret: bytes, usage: KeyUsage, plaintext: bytes, rng: RandomSource, /) -> bytes:
        """Ciphertext of ``plaintext``; ``rng`` gives the confounder where the type has one."""

    def decrypt(self, secret: bytes, usage: KeyUsage, ciphertext: bytes, /) -> bytes:
        """Plaintext of ``ciphertext``; raises SealError where the type can tell that it is not genuine."""

    def challenge_response(self, secret: bytes, server_challenge: int, client_challenge: int, /) -> int:
        """The u64 that proves possession of ``secret`` to the monitor (§5.4)."""


_BLOCK_SIZE = 16
_AES_IV = b"cephsageyudagreg"
_U32 = Struct("<I")
_TWO_U64 = Struct("<QQ")
_FOUR_U64 = Struct("<QQQQ")


class AesCipher:
    """AES-128-CBC with one fixed initialisation vector: no randomness, no usages, no integrity (§5.2)."""

    secret_size = 16

    def encrypt(self, secret: bytes, _usage: KeyUsage, plaintext: bytes, _rng: RandomSource) -> bytes:
        """Ciphertext, padded with 1 to 16 bytes after PKCS#7."""
        return self._encrypt(secret, plaintext)

    def decrypt(self, secret: bytes, _usage: KeyUsage, ciphertext: bytes) -> bytes:
        """Plaintext; the padding is cut off but not checked, as in Ceph.

        Raises:
            SealError: the length is not a positive multiple of the block size.
        """
        if not ciphertext or len(ciphertext) % _BLOCK_SIZE:
            raise SealError(f"aes ciphertext of {len(ciphertext)} bytes, not whole blocks of {_BLOCK_SIZE}")
        decryptor = Cipher(algorithms.AES(secret), modes.CBC(_AES_IV)).decryptor()
        padded = decryptor.update(ciphertext) + decryptor.finalize()
        return padded[: len(padded) - min(padded[-1], _BLOCK_SIZE)]

    def challenge_response(self, secret: bytes, server_challenge: int, client_challenge: int) -> int:
        """XOR over the encrypted pair of challenges, taken from its length prefix on (§5.4)."""
        sealed = self._encrypt(secret, wrap(_TWO_U64.pack(server_challenge, client_challenge)))
        # The four words start at the u32 length prefix, so the last 4 of the 36 bytes stay out.
        a, b, c, d = _FOUR_U64.unpack_from(_U32.pack(len(sealed)) + sealed)
        return int(a ^ b ^ c ^ d)

    @staticmethod
    def _encrypt(secret: bytes, plaintext: bytes) -> bytes:
        padding = _BLOCK_SIZE - len(plaintext) % _BLOCK_SIZE
        encryptor = Cipher(algorithms.AES(secret), modes.CBC(_AES_IV)).encryptor()
        return encryptor.update(plaintext + bytes([padding]) * padding) + encryptor.finalize()


CIPHERS: Mapping[int, KeyCipher] = MappingProxyType({KeyType.AES: AesCipher()})
"""The supported key types."""
