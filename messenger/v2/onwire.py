"""AES-128-GCM of secure mode: key, direction nonces and their counters (docs/protocol.md §4.6)."""

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import AEADDecryptionContext, Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

from messenger.compat import override
from messenger.denc.codec import Buffer
from messenger.errors import DecodeError, FaultReason, PeerError

if TYPE_CHECKING:
    import cython  # types of the compiled form alone (docs/compiled.md)

GCM_TAG_SIZE = 16
_SECRET_USED = 40
_NONCE = Struct("<IQ")
_COUNTERS = 1 << 64
_COUNTER_MASK = _COUNTERS - 1
_pack_nonce = _NONCE.pack
_FIXED_MASK = (1 << 32) - 1


class StreamCipher:
    """One direction of a secure link: every operation uses the current nonce, then advances it.

    A nonce is u32 ``fixed``, then u64 ``counter``; msgr 2.1 advances the counter.
    """

    __slots__ = ("_aes", "_counter", "_fixed", "_initial_counter", "_key", "_started")

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._aes = AESGCM(key)
        self._key = key
        self._fixed, self._counter = _NONCE.unpack(nonce)
        self._initial_counter = self._counter
        self._started = False

    def _next_nonce(self) -> bytes:
        counter: cython.ulonglong = self._counter
        if self._started and counter == self._initial_counter:
            raise PeerError(FaultReason.NONCE_EXHAUSTED)
        self._started = True
        self._counter = (counter + 1) & _COUNTER_MASK
        return _pack_nonce(self._fixed, counter)

    @property
    def first_nonce(self) -> bytes:
        """The nonce of the first operation."""
        return _NONCE.pack(self._fixed, self._initial_counter)

    @property
    def used_nonces(self) -> int:
        """Number of operations so far."""
        used = int(self._counter - self._initial_counter) & _COUNTER_MASK
        return used or _COUNTERS * self._started

    def use_up(self, left: int) -> None:
        """Advance the nonce until only ``left`` nonces remain, for tests of their exhaustion."""
        self._started = True
        self._counter = (self._initial_counter - left) & _COUNTER_MASK

    def encrypt(self, plain: bytes) -> bytes:
        """Encrypt into a new buffer; returns ciphertext and tag."""
        return self._aes.encrypt(self._next_nonce(), plain, None)

    def encrypt_in_place(self, buffer: memoryview) -> None:
        """Encrypt all but the last 16 bytes of ``buffer``, into which the tag is written."""
        self._aes.encrypt_into(self._next_nonce(), buffer[:-GCM_TAG_SIZE], None, buffer)

    def encrypt_into(self, parts: Iterable[Buffer], buffer: memoryview) -> None:
        """Encrypt consecutive parts into ``buffer``, which has 16 more bytes for the tag, without a copy.

        The setup costs more than a copy of the parts below about half a MiB.
        """
        encryptor = Cipher(AES(self._key), GCM(self._next_nonce())).encryptor()
        at = 0
        for part in parts:
            at += encryptor.update_into(part, buffer[at:])
        encryptor.finalize()
        buffer[at:] = encryptor.tag

    def decrypt(self, sealed: memoryview) -> bytes:
        """Decrypt into a new buffer.

        Raises:
            PeerError: AUTH_TAG: the bytes are not those that the peer encrypted.
        """
        try:
            return self._aes.decrypt(self._next_nonce(), sealed, None)
        except InvalidTag:
            raise PeerError(FaultReason.AUTH_TAG, f"{len(sealed)} bytes") from None

    def decrypt_in_place(self, sealed: memoryview) -> memoryview:
        """Decrypt, overwriting the ciphertext; returns the plaintext, raises as :meth:`decrypt`."""
        plain = sealed[:-GCM_TAG_SIZE]
        try:
            self._aes.decrypt_into(self._next_nonce(), sealed, None, plain)
        except InvalidTag:
            raise PeerError(FaultReason.AUTH_TAG, f"{len(sealed)} bytes") from None
        return plain


class Rev0Cipher(StreamCipher):
    """One direction of a secure link of msgr 2.0, which advances ``fixed`` and so has only 2^32 nonces."""

    __slots__ = ("_initial_fixed",)

    def __init__(self, key: bytes, nonce: bytes) -> None:
        super().__init__(key, nonce)
        self._initial_fixed = self._fixed

    def _next_nonce(self) -> bytes:
        fixed = self._fixed
        if self._started and fixed == self._initial_fixed:
            raise PeerError(FaultReason.NONCE_EXHAUSTED)
        self._started = True
        self._fixed = (fixed + 1) & _FIXED_MASK
        return _NONCE.pack(fixed, self._counter)

    @property
    @override
    def first_nonce(self) -> bytes:
        return _NONCE.pack(self._initial_fixed, self._counter)

    @property
    @override
    def used_nonces(self) -> int:
        used = int(self._fixed - self._initial_fixed) & _FIXED_MASK
        return used or (_FIXED_MASK + 1) * self._started

    @override
    def use_up(self, left: int) -> None:
        self._started = True
        self._fixed = (self._initial_fixed - left) & _FIXED_MASK

    def begin_decrypt(self) -> AEADDecryptionContext:
        """Start an incremental decryption; do not trust its output before :func:`finish_decrypt`."""
        return Cipher(AES(self._key), GCM(self._next_nonce())).decryptor()


def finish_decrypt(context: AEADDecryptionContext, tag: memoryview) -> None:
    """Check the tag of an incremental decryption; raises as :meth:`StreamCipher.decrypt`."""
    try:
        context.finalize_with_tag(bytes(tag))
    except InvalidTag:
        raise PeerError(FaultReason.AUTH_TAG, "frame of msgr 2.0") from None


_AnyCipher = TypeVar("_AnyCipher", bound=StreamCipher)


def stream_ciphers(connection_secret: bytes, *, connector: bool) -> tuple[StreamCipher, StreamCipher]:
    """The receiving and the sending cipher of one end: server to client uses nonce A, client to server B.

    Raises:
        DecodeError: the secret is too short for a key and two nonces.
    """
    return _ciphers(StreamCipher, connection_secret, connector=connector)


def rev0_ciphers(connection_secret: bytes, *, connector: bool) -> tuple[Rev0Cipher, Rev0Cipher]:
    """As :func:`stream_ciphers`, for msgr 2.0."""
    return _ciphers(Rev0Cipher, connection_secret, connector=connector)


def _ciphers(kind: type[_AnyCipher], secret: bytes, *, connector: bool) -> tuple[_AnyCipher, _AnyCipher]:
    if len(secret) < _SECRET_USED:
        raise DecodeError(f"connection secret has {len(secret)} bytes, {_SECRET_USED} are needed")
    key = secret[:16]
    from_server, from_client = kind(key, secret[16:28]), kind(key, secret[28:40])
    return (from_server, from_client) if connector else (from_client, from_server)
