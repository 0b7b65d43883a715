"""Nonces of secure frames, found without a handshake.

The preamble of a sealed frame has a crc (docs/protocol.md §4.4), and 32 bytes of the key stream of counter mode
uncover it (§4.6). So a place in a stream is tried with each nonce that its direction may have used.
"""

from collections import OrderedDict
from struct import Struct

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from messenger.crc import crc32c
from messenger.v2.preamble import PREAMBLE_SIZE
from toolkit.dissect.direction import Direction

MOST_NONCES = 1 << 21
"""Nonces of a direction that are tried; a message takes two or three."""
_MOST_TRIALS = 1 << 35
"""Pairs of place and nonce that are tried for a capture: half a minute."""
_MOST_TABLES = 16
_CHUNK = 1 << 20
_NONCE = Struct("<IQ")
_CRC = Struct("<I")
_BLOCKS = np.dtype([("fixed", "<u4"), ("counter", "<u8"), ("block", ">u4")])
_BLOCK_SIZE = 16
_FLAGS, _RESERVED = 26, 27
"""Offsets in a preamble of its flags, 0 or 1, and of the reserved byte, which is 0."""
_MOST_TAG, _MOST_SEGMENTS = 22, 4

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]


class NonceTables:
    """Tables of key streams, by secret and direction. The links of a capture share one object."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[bytes, Direction], Words] = OrderedDict()
        self._trials_left = _MOST_TRIALS

    @property
    def exhausted(self) -> bool:
        """True once the effort for the capture is spent."""
        return self._trials_left <= 0

    def nonce(self, secret: bytes, sender: Direction, head: bytes) -> int | None:
        """Return the number of the nonce under which ``head`` is a preamble; None if no nonce makes it one.

        Args:
            secret: the connection secret.
            sender: the direction whose nonces are tried.
            head: the first 32 bytes of what may be a frame.
        """
        self._trials_left -= MOST_NONCES
        # Both bytes as one number: a right reserved byte leaves 0 or 1, the flags.
        hidden = np.uint16(int.from_bytes(head[_FLAGS : _RESERVED + 1], "little"))
        numbers = np.flatnonzero((self._table(secret, sender) ^ hidden) < 2)
        streams = np.hstack([_key_stream(secret, sender, numbers, block) for block in (0, 1)])
        for number, plain in zip(numbers.tolist(), streams ^ np.frombuffer(head, np.uint8), strict=True):
            if 0 < plain[0] <= _MOST_TAG and 0 < plain[1] <= _MOST_SEGMENTS:
                raw = plain.tobytes()
                if crc32c(raw[:-4], 0) == _CRC.unpack_from(raw, PREAMBLE_SIZE - 4)[0]:
                    return int(number)
        return None

    def _table(self, secret: bytes, sender: Direction) -> Words:
        """Return what hides flags and reserved byte of a preamble, for each nonce."""
        table = self._tables.pop((secret, sender), None)
        if table is None:
            at = _FLAGS - _BLOCK_SIZE
            parts = [
                _key_stream(secret, sender, np.arange(first, first + _CHUNK), 1)[:, at : at + 2].copy()
                for first in range(0, MOST_NONCES, _CHUNK)
            ]
            table = np.concatenate(parts).view("<u2").ravel()
            while len(self._tables) >= _MOST_TABLES:
                self._tables.popitem(last=False)
        self._tables[secret, sender] = table
        return table


def _key_stream(secret: bytes, sender: Direction, numbers: npt.NDArray[np.integer], block: int) -> Bytes:
    """Return 16 bytes of the key stream for each nonce; ``block`` counts from the first one that hides bytes."""
    at = 16 if sender is Direction.TO_CLIENT else 28
    fixed, counter = _NONCE.unpack_from(secret, at)
    blocks = np.empty(len(numbers), _BLOCKS)
    blocks["fixed"] = fixed
    blocks["counter"] = np.uint64(counter) + numbers.astype(np.uint64)
    blocks["block"] = 2 + block  # of GCM: block 1 seals the tag
    sealed = Cipher(AES(secret[:16]), ECB()).encryptor().update(blocks.tobytes())  # noqa: S305 - part of counter mode
    return np.frombuffer(sealed, np.uint8).reshape(-1, _BLOCK_SIZE)
