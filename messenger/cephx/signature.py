"""Message signatures of msgr v1: a u64 in each footer, made with the session key (docs/protocol.md §3.7).

They cover the checksums and lengths of a message, so the checksums must be computed first. A signer is created
once for each connection, and called for every message in either direction.
"""

import hmac
from collections.abc import Callable
from struct import Struct
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from messenger.cephx.ciphers import AES_BLOCK_SIZE, AES_IV, KeyType
from messenger.cephx.exchange import AuthResult
from messenger.denc.features import Feature, has_feature
from messenger.errors import LocalError

_COVERED = Struct("<8I")
_COVERED_LEGACY = Struct("<BQI3s")
"""The first cipher block of the legacy form's 29 bytes; the other blocks do not affect the signature."""
_FOUR_U64 = Struct("<4Q")
_U32 = Struct("<I")
_LEGACY_VERSION = 1
_LEGACY_MAGIC = 0xFF009CAD8826AA55
_LEGACY_LENGTH = 16
_U32_MASK = 0xFFFFFFFF
_IV = int.from_bytes(AES_IV, "little")


class MessageSigner(Protocol):
    """Computes the signature of one message, a u64; the same call signs and verifies."""

    def __call__(
        self,
        header_crc: int,
        front_crc: int,
        front_len: int,
        middle_crc: int,
        middle_len: int,
        data_crc: int,
        data_len: int,
        seq: int,
        /,
    ) -> int:
        """The arguments are the values of header and footer; only the low 32 bits of ``seq`` are signed."""


def message_signer(result: AuthResult, features: int) -> MessageSigner | None:
    """The signer for a connection; None if there is no session key, so messages are not signed.

    Args:
        result: result of the authentication; auth none and clients of monitors have no session key with v1.
        features: the negotiated features; CEPHX_V2 selects the form.

    Raises:
        LocalError: a session key of a type that cannot sign.
    """
    if not result.session_key:
        return None
    makers: dict[int, Callable[[bytes], MessageSigner]] = {
        KeyType.AES: aes_signer if has_feature(features, Feature.CEPHX_V2) else legacy_signer,
        KeyType.AES256KRB5: aes256k_signer,
    }
    maker = makers.get(result.session_key_type)
    if maker is None:
        raise LocalError(f"session keys of type {result.session_key_type} do not sign messages")
    return maker(result.session_key)


def aes_signer(secret: bytes) -> MessageSigner:
    """Signer for aes keys with CEPHX_V2: the checksums, lengths and seq, encrypted and folded into 8 bytes."""
    # Creating a cipher for each message would take four times as long. CBC allows reusing one: an xor with the
    # last ciphertext block of the previous message and the initial vector starts the chain afresh.
    # the initial vector starts it afresh. Making a cipher per message takes four times as long.
    encrypt = Cipher(algorithms.AES(secret), modes.CBC(bytes(AES_BLOCK_SIZE))).encryptor().update
    restart = _IV

    def sign(
        header_crc: int,
        front_crc: int,
        front_len: int,
        middle_crc: int,
        middle_len: int,
        data_crc: int,
        data_len: int,
        seq: int,
        /,
    ) -> int:
        nonlocal restart
        covered = _COVERED.pack(
            header_crc, front_crc, front_len, middle_crc, middle_len, data_crc, data_len, seq & _U32_MASK
        )
        a, b, c, d = _FOUR_U64.unpack(
            encrypt((int.from_bytes(covered, "little") ^ restart).to_bytes(_COVERED.size, "little"))
        )
        restart = _IV ^ c ^ d << 64
        return int(a ^ b ^ c ^ d)

    return sign


def aes256k_signer(secret: bytes) -> MessageSigner:
    """Signer for aes256k keys: HMAC-SHA256 over the same values, folded into 8 bytes."""
    digest = hmac.digest

    def sign(
        header_crc: int,
        front_crc: int,
        front_len: int,
        middle_crc: int,
        middle_len: int,
        data_crc: int,
        data_len: int,
        seq: int,
        /,
    ) -> int:
        covered = _COVERED.pack(
            header_crc, front_crc, front_len, middle_crc, middle_len, data_crc, data_len, seq & _U32_MASK
        )
        a, b, c, d = _FOUR_U64.unpack(digest(secret, covered, "sha256"))
        return int(a ^ b ^ c ^ d)

    return sign


def legacy_signer(secret: bytes) -> MessageSigner:
    """Signer for aes keys and peers without CEPHX_V2.

    Of the four checksums in its 29 bytes, only the first three bytes of the header's are in the first cipher
    block, whose first half is the signature. This weakness is the reason for the other form of CEPHX_V2.
    """
    encrypt = Cipher(algorithms.AES(secret), modes.ECB()).encryptor().update  # noqa: S305 - one block

    def sign(
        header_crc: int,
        _front_crc: int,
        _front_len: int,
        _middle_crc: int,
        _middle_len: int,
        _data_crc: int,
        _data_len: int,
        _seq: int,
        /,
    ) -> int:
        covered = _COVERED_LEGACY.pack(_LEGACY_VERSION, _LEGACY_MAGIC, _LEGACY_LENGTH, _U32.pack(header_crc)[:3])
        block = (int.from_bytes(covered, "little") ^ _IV).to_bytes(AES_BLOCK_SIZE, "little")
        return int.from_bytes(encrypt(block)[:8], "little")

    return sign
