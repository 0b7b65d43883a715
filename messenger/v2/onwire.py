"""AES-128-GCM of secure mode: key, direction nonces and their counters (protocol.md §4.6)."""

from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from messenger.errors import DecodeError, FaultReason, PeerError

GCM_TAG_SIZE = 16
_SECRET_USED = 40
_NONCE = Struct("<IQ")
_COUNTER_MASK = (1 << 64) - 1


class StreamCipher:
    """One direction of a secure link: every operation uses the current nonce, then steps it.

    A nonce is u32 ``fixed`` followed by u64 ``counter``; msgr 2.1 steps the counter.
    """

    __slots__ = ("_aes", "_counter", "_fixed", "_initial_counter", "_started")

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._aes = AESGCM(key)
        self._fixed, self._counter = _NONCE.unpack(nonce)
        self._initial_counter = self._counter
        self._started = False

    def _next_nonce(self) -> bytes:
        counter = self._counter
        if self._started and counter == self._initial_counter:
            raise PeerError(FaultReason.NONCE_EXHAUSTED)
        self._started = True
        self._counter = (counter + 1) & _COUNTER_MASK
        return _NONCE.pack(self._fixed, counter)

    def encrypt(self, plain: bytes) -> bytes:
        """Ciphertext and tag in a new buffer."""
        return self._aes.encrypt(self._next_nonce(), plain, None)

    def encrypt_in_place(self, buffer: memoryview) -> None:
        """Encrypt all but the last 16 bytes of ``buffer``, which receive the tag."""
        self._aes.encrypt_into(self._next_nonce(), buffer[:-GCM_TAG_SIZE], None, buffer)

    def decrypt(self, sealed: memoryview) -> bytes:
        """Plaintext in a new buffer.

        Raises:
            PeerError: AUTH_TAG, the bytes are not what the peer sealed.
        """
        try:
            return self._aes.decrypt(self._next_nonce(), sealed, None)
        except InvalidTag:
            raise PeerError(FaultReason.AUTH_TAG, f"{len(sealed)} bytes") from None

    def decrypt_in_place(self, sealed: memoryview) -> memoryview:
        """Plaintext written over the ciphertext it came from; raises as :meth:`decrypt`."""
        plain = sealed[:-GCM_TAG_SIZE]
        try:
            self._aes.decrypt_into(self._next_nonce(), sealed, None, plain)
        except InvalidTag:
            raise PeerError(FaultReason.AUTH_TAG, f"{len(sealed)} bytes") from None
        return plain


def stream_ciphers(connection_secret: bytes, *, connector: bool) -> tuple[StreamCipher, StreamCipher]:
    """The receiving and the sending cipher of one end: server to client uses nonce A, the other way B.

    Raises:
        DecodeError: the secret is too short to hold a key and two nonces.
    """
    if len(connection_secret) < _SECRET_USED:
        raise DecodeError(f"connection secret has {len(connection_secret)} bytes, {_SECRET_USED} are needed")
    key = connection_secret[:16]
    from_server = StreamCipher(key, connection_secret[16:28])
    from_client = StreamCipher(key, connection_secret[28:40])
    return (from_server, from_client) if connector else (from_client, from_server)
