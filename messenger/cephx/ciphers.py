"""Operations of the key types: encryption and challenge responses (docs/protocol.md §5.1, §5.2, §5.4).

A key type is one class here and one row in the table at the end; no other code depends on the type.
"""

import hmac
from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from types import MappingProxyType
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from messenger.errors import DecodeError, LocalError
from messenger.randomness import RandomSource


class KeyType(IntEnum):
    """Types of keys by their numbers in encodings (§5.1)."""

    NONE = 0
    AES = 1
    AES256KRB5 = 2

    @property
    def label(self) -> str:
        """The name that Ceph's tools print."""
        return "aes256k" if self is KeyType.AES256KRB5 else self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "KeyType":
        """The type with this name in Ceph's tools.

        Raises:
            LocalError: there is no usable type of that name.
        """
        usable = {kind.label: kind for kind in cls if kind is not cls.NONE}
        if label not in usable:
            raise LocalError(f"unknown cipher {label!r}; known: {', '.join(usable)}")
        return usable[label]


class KeyUsage(IntEnum):
    """Purpose of a ciphertext; newer key types derive a separate key for each usage (§5.2)."""

    AUTH_CONNECTION_SECRET = 0x03
    SERVICE_TICKET = 0x04
    TICKET_BLOB = 0x05
    AUTHORIZE = 0x10
    AUTHORIZE_CHALLENGE = 0x11
    AUTHORIZE_REPLY = 0x12
    ROTATING_SECRETS = 0x20
    TICKET_INFO = 0x30


class SealError(DecodeError):
    """Ciphertext that cannot be decrypted: made with another key, tampered with, or not ciphertext at all."""


_ENVELOPE = Struct("<BQ")
_ENVELOPE_VERSION = 1
_ENVELOPE_MAGIC = 0xFF009CAD8826AA55


def wrap(content: bytes) -> bytes:
    """The plaintext that is encrypted for ``content``: version, magic, content (§5.2)."""
    return _ENVELOPE.pack(_ENVELOPE_VERSION, _ENVELOPE_MAGIC) + content


def unwrap(plaintext: bytes) -> bytes:
    """The content of a decrypted plaintext.

    Raises:
        SealError: the magic is wrong, so the key is wrong. The version is ignored, as in Ceph.
    """
    if len(plaintext) < _ENVELOPE.size or _ENVELOPE.unpack_from(plaintext)[1] != _ENVELOPE_MAGIC:
        raise SealError("decrypts to a wrong magic number: encrypted with another key, or tampered with")
    return plaintext[_ENVELOPE.size :]


class KeyCipher(Protocol):
    """The operations of one key type, on raw secrets."""

    secret_size: int
    """Length of a secret in bytes."""

    def encrypt(self, secret: bytes, usage: KeyUsage, plaintext: bytes, rng: RandomSource, /) -> bytes:
        """Encrypt ``plaintext``; ``rng`` supplies the confounder if the type has one."""

    def decrypt(self, secret: bytes, usage: KeyUsage, ciphertext: bytes, /) -> bytes:
        """Decrypt ``ciphertext``; raises SealError if the key type detects that it is not genuine."""

    def challenge_response(self, secret: bytes, server_challenge: int, client_challenge: int, /) -> int:
        """The u64 that proves possession of ``secret`` to the monitor (§5.4)."""


AES_BLOCK_SIZE = 16
AES_IV = b"cephsageyudagreg"
_U32 = Struct("<I")
_BE32 = Struct(">I")
_TWO_U64 = Struct("<QQ")
_FOUR_U64 = Struct("<QQQQ")


class AesCipher:
    """AES-128-CBC with one fixed initialisation vector: no randomness, no usages, no integrity (§5.2)."""

    secret_size = 16

    def encrypt(self, secret: bytes, _usage: KeyUsage, plaintext: bytes, _rng: RandomSource) -> bytes:
        """Encrypt, with PKCS#7 padding of 1 to 16 bytes."""
        return self._encrypt(secret, plaintext)

    def decrypt(self, secret: bytes, _usage: KeyUsage, ciphertext: bytes) -> bytes:
        """Decrypt; the padding is removed but not checked, as in Ceph.

        Raises:
            SealError: the length is not a positive multiple of the block size.
        """
        if not ciphertext or len(ciphertext) % AES_BLOCK_SIZE:
            raise SealError(f"aes ciphertext of {len(ciphertext)} bytes, not whole blocks of {AES_BLOCK_SIZE}")
        decryptor = Cipher(algorithms.AES(secret), modes.CBC(AES_IV)).decryptor()
        padded = decryptor.update(ciphertext) + decryptor.finalize()
        return padded[: len(padded) - min(padded[-1], AES_BLOCK_SIZE)]

    def challenge_response(self, secret: bytes, server_challenge: int, client_challenge: int) -> int:
        """XOR over the encrypted pair of challenges, starting at its length prefix (§5.4)."""
        sealed = self._encrypt(secret, wrap(_TWO_U64.pack(server_challenge, client_challenge)))
        # The four words start at the u32 length prefix, so the last 4 of the 36 bytes are not used.
        a, b, c, d = _FOUR_U64.unpack_from(_U32.pack(len(sealed)) + sealed)
        return int(a ^ b ^ c ^ d)

    @staticmethod
    def _encrypt(secret: bytes, plaintext: bytes) -> bytes:
        padding = AES_BLOCK_SIZE - len(plaintext) % AES_BLOCK_SIZE
        encryptor = Cipher(algorithms.AES(secret), modes.CBC(AES_IV)).encryptor()
        return encryptor.update(plaintext + bytes([padding]) * padding) + encryptor.finalize()


_CONFOUNDER_SIZE = 16
_MAC_SIZE = 24
_ZERO_IV = bytes(AES_BLOCK_SIZE)
_INTEGRITY_SIZE = 24
_ENCRYPTION_SIZE = 32


class Aes256Krb5Cipher:
    """RFC 8009's aes256-cts-hmac-sha384-192: a key for each usage, a random confounder, and a MAC (§5.2)."""

    secret_size = 32

    def encrypt(self, secret: bytes, usage: int, plaintext: bytes, rng: RandomSource) -> bytes:
        """Encrypt: 16 bytes of encrypted confounder, the encrypted plaintext, 24 bytes of MAC."""
        sealed = _encrypt_cts(
            _derive(secret, usage, 0xAA, _ENCRYPTION_SIZE), rng.randbytes(_CONFOUNDER_SIZE) + plaintext
        )
        return sealed + self._mac(secret, usage, sealed)

    def decrypt(self, secret: bytes, usage: int, ciphertext: bytes) -> bytes:
        """Check the MAC and decrypt; raises SealError if the MAC is wrong."""
        if len(ciphertext) < _CONFOUNDER_SIZE + _MAC_SIZE:
            raise SealError(f"aes256k ciphertext of {len(ciphertext)} bytes, at least 40 are needed")
        sealed, mac = ciphertext[:-_MAC_SIZE], ciphertext[-_MAC_SIZE:]
        if not hmac.compare_digest(mac, self._mac(secret, usage, sealed)):
            raise SealError("wrong MAC: encrypted with another key or for another use, or tampered with")
        return _decrypt_cts(_derive(secret, usage, 0xAA, _ENCRYPTION_SIZE), sealed)[_CONFOUNDER_SIZE:]

    def challenge_response(self, secret: bytes, server_challenge: int, client_challenge: int) -> int:
        """XOR over the words of an HMAC of the two challenges (§5.4)."""
        digest = hmac.digest(secret, _TWO_U64.pack(server_challenge, client_challenge), "sha256")
        a, b, c, d = _FOUR_U64.unpack(digest)
        return int(a ^ b ^ c ^ d)

    @staticmethod
    def _mac(secret: bytes, usage: int, sealed: bytes) -> bytes:
        return hmac.digest(_derive(secret, usage, 0x55, _INTEGRITY_SIZE), _ZERO_IV + sealed, "sha384")[:_MAC_SIZE]


def _derive(secret: bytes, usage: int, purpose: int, size: int) -> bytes:
    """RFC 8009's KDF-HMAC-SHA2: a key of ``size`` bytes for one purpose of one usage."""
    label = _BE32.pack(1) + _BE32.pack(usage) + bytes([purpose, 0]) + _BE32.pack(size * 8)
    return hmac.digest(secret, label, "sha384")[:size]


def _encrypt_cts(key: bytes, plaintext: bytes) -> bytes:
    """CBC with ciphertext stealing, the last two blocks always swapped (CS3); at least one block."""
    encryptor = Cipher(algorithms.AES(key), modes.CBC(_ZERO_IV)).encryptor()
    blocks = encryptor.update(plaintext + bytes(-len(plaintext) % AES_BLOCK_SIZE)) + encryptor.finalize()
    if len(blocks) == AES_BLOCK_SIZE:
        return blocks
    head, before_last, last = (
        blocks[: -2 * AES_BLOCK_SIZE],
        blocks[-2 * AES_BLOCK_SIZE : -AES_BLOCK_SIZE],
        blocks[-AES_BLOCK_SIZE:],
    )
    return (head + last + before_last)[: len(plaintext)]


def _decrypt_cts(key: bytes, sealed: bytes) -> bytes:
    """Invert :func:`_encrypt_cts`."""
    decrypt_block = Cipher(algorithms.AES(key), modes.ECB()).decryptor()  # noqa: S305 - one block, chained below
    if len(sealed) == AES_BLOCK_SIZE:
        return decrypt_block.update(sealed)
    tail_size = len(sealed) % AES_BLOCK_SIZE or AES_BLOCK_SIZE
    head, last, stolen = (
        sealed[: -AES_BLOCK_SIZE - tail_size],
        sealed[-AES_BLOCK_SIZE - tail_size : -tail_size],
        sealed[-tail_size:],
    )
    mixed = decrypt_block.update(last)
    before_last = stolen + mixed[tail_size:]
    decryptor = Cipher(algorithms.AES(key), modes.CBC(_ZERO_IV)).decryptor()
    plain = decryptor.update(head + before_last) + decryptor.finalize()
    return plain + bytes(a ^ b for a, b in zip(mixed, stolen, strict=False))


CIPHERS: Mapping[int, KeyCipher] = MappingProxyType(
    {KeyType.AES: AesCipher(), KeyType.AES256KRB5: Aes256Krb5Cipher()}
)
"""The supported key types."""
