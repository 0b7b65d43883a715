"""Headers of RoCEv2, after the UDP header (InfiniBand Architecture, volume 1, chapter 9)."""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from messenger.errors import DecodeError

_BASE = Struct(">BBHII")
BASE_BYTES = _BASE.size
ICRC_BYTES = 4
"""Length of the invariant crc after the payload."""
PSN_MASK = QPN_MASK = (1 << 24) - 1
_ACK_REQUEST = 1 << 31
_PAD_SHIFT, _PAD_MASK = 4, 3
_KIND_SHIFT, _KIND_MASK = 5, 3
_VALUE_MASK = 31
_DEFAULT_PARTITION = 0xFFFF


class Opcode(IntEnum):
    """Operations of a reliable connection."""

    SEND_FIRST = 0
    SEND_MIDDLE = 1
    SEND_LAST = 2
    SEND_LAST_IMMEDIATE = 3
    SEND_ONLY = 4
    SEND_ONLY_IMMEDIATE = 5
    WRITE_FIRST = 6
    WRITE_MIDDLE = 7
    WRITE_LAST = 8
    WRITE_LAST_IMMEDIATE = 9
    WRITE_ONLY = 10
    WRITE_ONLY_IMMEDIATE = 11
    READ_REQUEST = 12
    READ_RESPONSE_FIRST = 13
    READ_RESPONSE_MIDDLE = 14
    READ_RESPONSE_LAST = 15
    READ_RESPONSE_ONLY = 16
    ACKNOWLEDGE = 17
    ATOMIC_ACKNOWLEDGE = 18
    COMPARE_SWAP = 19
    FETCH_ADD = 20
    SEND_LAST_INVALIDATE = 22
    SEND_ONLY_INVALIDATE = 23


class Answer(IntEnum):
    """Kind of an acknowledgement."""

    ACK = 0
    RNR_NAK = 1
    """The receiver has no buffer posted; the sender must retry later."""
    RESERVED = 2
    NAK = 3
    """Refused; with value 0, a packet before this one is missing."""


PSN_SEQUENCE_ERROR = 0
"""Value of a NAK that requests lost packets again."""

STARTS = frozenset({Opcode.SEND_FIRST, Opcode.SEND_ONLY, Opcode.SEND_ONLY_IMMEDIATE, Opcode.SEND_ONLY_INVALIDATE})
"""Packets that begin a SEND."""
FULL = frozenset({Opcode.SEND_FIRST, Opcode.SEND_MIDDLE})
"""Packets of a SEND that have the full path MTU, since others follow."""
SENDS = STARTS | FULL | {Opcode.SEND_LAST, Opcode.SEND_LAST_IMMEDIATE, Opcode.SEND_LAST_INVALIDATE}
ENDS = SENDS - FULL
"""Packets that end a SEND."""
RESPONSES = frozenset(
    {
        Opcode.READ_RESPONSE_FIRST,
        Opcode.READ_RESPONSE_MIDDLE,
        Opcode.READ_RESPONSE_LAST,
        Opcode.READ_RESPONSE_ONLY,
        Opcode.ACKNOWLEDGE,
        Opcode.ATOMIC_ACKNOWLEDGE,
    }
)
"""Packets whose sequence number belongs to the other direction."""
_ANSWERING = RESPONSES - {Opcode.READ_RESPONSE_MIDDLE}
_ANSWER_BYTES, _IMMEDIATE_BYTES, _ADDRESS_BYTES, _ATOMIC_BYTES = 4, 4, 16, 28
_EXTRA_BYTES = {
    **dict.fromkeys(_ANSWERING, _ANSWER_BYTES),
    Opcode.ATOMIC_ACKNOWLEDGE: _ANSWER_BYTES + 8,
    Opcode.SEND_LAST_IMMEDIATE: _IMMEDIATE_BYTES,
    Opcode.SEND_ONLY_IMMEDIATE: _IMMEDIATE_BYTES,
    Opcode.SEND_LAST_INVALIDATE: _IMMEDIATE_BYTES,
    Opcode.SEND_ONLY_INVALIDATE: _IMMEDIATE_BYTES,
    Opcode.WRITE_FIRST: _ADDRESS_BYTES,
    Opcode.WRITE_ONLY: _ADDRESS_BYTES,
    Opcode.WRITE_LAST_IMMEDIATE: _IMMEDIATE_BYTES,
    Opcode.WRITE_ONLY_IMMEDIATE: _ADDRESS_BYTES + _IMMEDIATE_BYTES,
    Opcode.READ_REQUEST: _ADDRESS_BYTES,
    Opcode.COMPARE_SWAP: _ATOMIC_BYTES,
    Opcode.FETCH_ADD: _ATOMIC_BYTES,
}


@dataclass(frozen=True, slots=True)
class RoceHeader:
    """Base transport header of a reliable connection, with what an acknowledgement adds.

    >>> RoceHeader(Opcode.SEND_ONLY, qpn=0x12, psn=7, padding_bytes=3).encode().hex()
    '0430ffff0000001200000007'
    """

    opcode: Opcode
    qpn: int
    """Number of the receiver's queue pair, 24 bits."""
    psn: int
    """Packet sequence number, 24 bits; in an acknowledgement, that of the acknowledged packet."""
    padding_bytes: int = 0
    """Padding after the payload, 0 to 3 bytes."""
    asks_ack: bool = False
    """True if the sender requests an acknowledgement."""
    answer: Answer | None = None
    """Kind of an acknowledgement or response; None for other packets."""
    value: int = 0
    """Credits of an ACK, timer of a RNR NAK, reason of a NAK; 5 bits."""
    message_number: int = 0
    """Number of messages that the sender of an acknowledgement has completed, 24 bits."""

    @property
    def size_bytes(self) -> int:
        """Length of all headers before the payload."""
        return BASE_BYTES + _EXTRA_BYTES.get(self.opcode, 0)

    def encode(self) -> bytes:
        """Encode the header; addresses, immediate data and keys are zero."""
        flags = self.padding_bytes << _PAD_SHIFT
        psn = self.psn | (_ACK_REQUEST if self.asks_ack else 0)
        raw = _BASE.pack(self.opcode, flags, _DEFAULT_PARTITION, self.qpn, psn)
        if self.answer is not None:
            syndrome = self.answer << _KIND_SHIFT | self.value
            raw += (syndrome << 24 | self.message_number).to_bytes(4, "big")
        return raw.ljust(self.size_bytes, b"\0")

    @classmethod
    def decode(cls, raw: memoryview | bytes) -> "RoceHeader":
        """Decode the header at the beginning of ``raw``.

        Raises:
            DecodeError: ``raw`` is too short, or its header is not of a reliable connection.
        """
        if len(raw) < BASE_BYTES:
            raise DecodeError(f"{len(raw)} bytes are no RoCE header of {BASE_BYTES}")
        code, flags, _, qpn, psn = _BASE.unpack_from(raw)
        opcode = _OPCODES.get(code)
        if opcode is None or flags & 0x0F:
            raise DecodeError(f"no header of a reliable connection: opcode {code:#04x}, version {flags & 15}")
        answer, value, number = None, 0, 0
        if opcode in _ANSWERING:
            if len(raw) < BASE_BYTES + _ANSWER_BYTES:
                raise DecodeError(f"{len(raw)} bytes are no RoCE acknowledgement of {BASE_BYTES + _ANSWER_BYTES}")
            syndrome = raw[BASE_BYTES]
            answer, value = _ANSWERS[syndrome >> _KIND_SHIFT & _KIND_MASK], syndrome & _VALUE_MASK
            number = int.from_bytes(raw[BASE_BYTES + 1 : BASE_BYTES + _ANSWER_BYTES], "big")
        padding, asks = flags >> _PAD_SHIFT & _PAD_MASK, bool(psn & _ACK_REQUEST)
        return cls(opcode, qpn & QPN_MASK, psn & PSN_MASK, padding, asks, answer, value, number)


_OPCODES = {int(opcode): opcode for opcode in Opcode}
_ANSWERS = tuple(Answer)
