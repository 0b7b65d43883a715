"""Opens frames of secure mode out of order, by any nonce, and malformed ones (docs/protocol.md §4.6).

GCM is built on counter mode, so a frame that does not authenticate can still be read. It is shown, but never
counts as good.
"""

from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from messenger.denc.codec import Buffer
from messenger.v2.framing import ABORTED, INLINE_SIZE, SECURE_HEAD_SIZE, FrameCaches, RawReader, SecureReader
from messenger.v2.onwire import GCM_TAG_SIZE, Rev0Cipher, StreamCipher
from messenger.v2.preamble import PREAMBLE_SIZE, padded
from messenger.v2.rev0 import Rev0SecureReader
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import Verdict
from toolkit.dissect.links.borders import Broken

_NONCE = Struct("<IQ")
_FIXED_MASK = (1 << 32) - 1
_COUNTER_MASK = (1 << 64) - 1
_FIRST_BLOCK = b"\0\0\0\2"
_SECOND_BLOCK = b"\0\0\0\3"
_EPILOGUE_SIZE = 16
_COMPLETE = 0x0E
_STATUS_MASK = 0x0F
_ABORTED = 0x01
MOST_NONCES = 3
"""Maximum number of nonces in one frame of msgr 2.1."""


class SealedFrames:
    """Opens the frames of one direction.

    Args:
        secret: the connection secret.
        direction: the direction.
        rev1: True for msgr 2.1.
        caches: frame caches for readers.
        start: offset of the first sealed frame in the direction; None if it is unknown.
    """

    def __init__(
        self, secret: bytes, direction: Direction, *, rev1: bool, caches: FrameCaches, start: int | None
    ) -> None:
        self._key = secret[:16]
        self._fixed, self._counter = _NONCE.unpack(
            secret[16:28] if direction is Direction.TO_CLIENT else secret[28:40]
        )
        self._gcm = AESGCM(self._key)
        self._caches = caches
        self.rev1 = rev1
        self.start = start
        self.started = 0
        """Number of nonces used before the current reader was made."""

    def nonce(self, number: int) -> bytes:
        """Return the nonce used as the ``number``-th, from 0."""
        if self.rev1:
            return _NONCE.pack(self._fixed, (self._counter + number) & _COUNTER_MASK)
        return _NONCE.pack((self._fixed + number) & _FIXED_MASK, self._counter)

    def reader(self, number: int, limit_bytes: int) -> RawReader:
        """Return a reader whose first frame begins with that nonce."""
        reader: RawReader
        if self.rev1:
            reader = SecureReader(StreamCipher(self._key, self.nonce(number)), limit_bytes, self._caches)
        else:
            reader = Rev0SecureReader(Rev0Cipher(self._key, self.nonce(number)), limit_bytes)
        reader.allow_compressed()
        return reader

    def key_streams(self, first: int, count: int) -> bytes:
        """Return, for each of ``count`` nonces, the 32 bytes of key stream that encrypt a preamble."""
        blocks = b"".join(
            self.nonce(number) + block
            for number in range(first, first + count)
            for block in (_FIRST_BLOCK, _SECOND_BLOCK)
        )
        return Cipher(AES(self._key), ECB()).encryptor().update(blocks)  # noqa: S305 - what counter mode is made of

    def peek(self, sealed: Buffer, number: int) -> bytes:
        """Decrypt a ciphertext without its tag, unauthenticated."""
        return Cipher(AES(self._key), CTR(self.nonce(number) + _FIRST_BLOCK)).decryptor().update(sealed)

    def opened(self, sealed: memoryview, number: int) -> bytes | None:
        """Decrypt a ciphertext with its tag; None if it does not authenticate."""
        try:
            return self._gcm.decrypt(self.nonce(number), sealed, None)
        except InvalidTag:
            return None

    def first_nonce(self, view: memoryview, at: int, used: int) -> int:
        """Return the first nonce of the frame at ``at``, in which a reader failed after ``used`` nonces."""
        if self.rev1:
            head = view[at : at + SECURE_HEAD_SIZE]
            for number in range(used - 1, max(used - 1 - MOST_NONCES, -1), -1):
                if self.opened(head, number) is not None:
                    return number
        return max(used - 1, 0)

    def length(self, view: memoryview, at: int, first: int, reader: RawReader) -> int:
        """Return the length of the frame at ``at``, if its preamble still fits its own crc.

        Raises:
            PeerError: the preamble does not fit its crc.
        """
        return reader.layout(self.peek(view[at : at + PREAMBLE_SIZE], first))[-1]

    def read(self, view: memoryview, at: int, first: int, reader: RawReader) -> tuple[Broken, int]:
        """Read the frame at ``at`` and verify each of its tags; returns also the number of nonces it used."""
        tag, used, *lengths, total = reader.layout(self.peek(view[at : at + PREAMBLE_SIZE], first))
        whole = view[at : at + total]
        wrong: list[str] = []
        if self.rev1:
            parts, status, nonces = self._read_rev1(whole, first, used, lengths, wrong)
            aborted = status & _STATUS_MASK == _ABORTED
            if not aborted and status & _STATUS_MASK != _COMPLETE:
                wrong.append(f"late status 0x{status:02x}")
        else:
            plain = self._part(whole, first, "the frame", wrong)
            parts = _cut(plain[PREAMBLE_SIZE:], lengths)
            status, nonces = plain[-_EPILOGUE_SIZE], 1
            aborted = bool(status & _ABORTED)
        auth = Verdict.BAD if any(line.startswith("authentication") for line in wrong) else Verdict.OK
        s0, s1, s2, s3 = parts
        frame = (at + total, ABORTED if aborted else tag, s0, s1, s2, s3)
        return Broken(frame, Verdict.OK, auth, ", ".join(wrong) or None), nonces

    def _read_rev1(
        self, whole: memoryview, first: int, used: int, lengths: list[int], wrong: list[str]
    ) -> tuple[list[bytes], int, int]:
        number = first
        head = self._part(whole[:SECURE_HEAD_SIZE], number, "the preamble", wrong)
        body, number = SECURE_HEAD_SIZE, number + 1
        s0 = head[PREAMBLE_SIZE:]
        if lengths[0] > INLINE_SIZE:
            rest = body + padded(lengths[0]) - INLINE_SIZE + GCM_TAG_SIZE
            s0 += self._part(whole[body:rest], number, "segment 0", wrong)
            body, number = rest, number + 1
        parts = [s0[: lengths[0]], b"", b"", b""]
        status = _COMPLETE
        if used > 1:
            plain = self._part(whole[body:], number, f"segments 1 to {used - 1}", wrong)
            parts[1:] = _cut(plain, lengths[1:])
            status, number = plain[-_EPILOGUE_SIZE], number + 1
        return parts, status, number - first

    def _part(self, sealed: memoryview, number: int, what: str, wrong: list[str]) -> bytes:
        plain = self.opened(sealed, number)
        if plain is None:
            wrong.append(f"authentication tag of {what} does not fit")
            plain = self.peek(sealed[:-GCM_TAG_SIZE], number)
        return plain


def _cut(plain: bytes, lengths: list[int]) -> list[bytes]:
    """Return the segments without their padding."""
    parts, at = [], 0
    for length in lengths:
        parts.append(plain[at : at + length])
        at += padded(length)
    return parts
