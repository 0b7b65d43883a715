"""The record that both ends exchange over TCP before they connect their queue pairs (docs/protocol.md §8)."""

import re
from dataclasses import dataclass

from messenger.errors import DecodeError

RECORD_BYTES = 65
"""64 characters and a NUL."""
_RECORD = re.compile(rb"([0-9a-f]{4}):([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{32})\0", re.IGNORECASE)
_OTHER_BYTES = re.compile(rb"[^0-9a-fA-F:\0]")


@dataclass(frozen=True, slots=True)
class Record:
    r"""A queue pair as its peer must address it.

    >>> Record(0, 0x11, 0xabcdef, 0, bytes(10) + bytes.fromhex("ffff0a090001")).encode()
    b'0000:00000011:00abcdef:00000000:00000000000000000000ffff0a090001\x00'
    """

    lid: int
    """Local identifier of the port, 16 bits; 0 on Ethernet."""
    qpn: int
    """Number of the sender's queue pair."""
    psn: int
    """First packet sequence number of the sender, 24 bits."""
    peer_qpn: int
    """Number of the receiver's queue pair; 0 in the first record of a connection."""
    gid: bytes
    """Global identifier of the port, 16 bytes."""

    def encode(self) -> bytes:
        """Encode the record."""
        head = f"{self.lid:04x}:{self.qpn:08x}:{self.psn:08x}:{self.peer_qpn:08x}:"
        return head.encode() + self.gid.hex().encode() + b"\0"

    @classmethod
    def decode(cls, raw: bytes) -> "Record":
        """Decode a record of :data:`RECORD_BYTES` bytes.

        Raises:
            DecodeError: the bytes are not a record.
        """
        if (match := _RECORD.fullmatch(raw)) is None:
            raise DecodeError(f"no record of a queue pair: {raw!r}")
        lid, qpn, psn, peer_qpn, gid = match.groups()
        return cls(int(lid, 16), int(qpn, 16), int(psn, 16), int(peer_qpn, 16), bytes.fromhex(gid.decode()))


def can_begin(raw: bytes) -> bool:
    """True if these bytes may be the beginning of a record; False for the banner of a messenger."""
    return _OTHER_BYTES.search(raw) is None
