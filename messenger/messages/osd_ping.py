"""MOSDPing: heartbeats between OSDs (docs/protocol.md §6.4)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, Self
from uuid import UUID

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U8, U32, Since
from messenger.denc.utime import UTime
from messenger.messages.layout import Fields
from messenger.messages.types import MessageType

HEARTBEAT_MIN_SIZE_BYTES = 2000
"""Ceph's default of ``osd_heartbeat_min_size``: pings of this length detect paths with a small MTU."""
_SIZE_BEFORE_PAD_LENGTH = 29


def pad_bytes_for(min_size_bytes: int) -> int:
    """Number of zeros that make a ping that long, not counting the fields after their number (§6.4)."""
    return max(0, min_size_bytes - _SIZE_BEFORE_PAD_LENGTH)


class PingOp(IntEnum):
    """Values of :attr:`MOSDPing.op`."""

    HEARTBEAT = 0
    START_HEARTBEAT = 1
    YOU_DIED = 2
    STOP_HEARTBEAT = 3
    PING = 4
    PING_REPLY = 5


_DEFAULT_PAD_BYTES = pad_bytes_for(HEARTBEAT_MIN_SIZE_BYTES)


@dataclass(frozen=True, slots=True)
class SignedSpan(Fields):
    """A duration that may be negative."""

    sec: I32 = 0
    nsec: I32 = 0


@dataclass(slots=True)
class MOSDPing(Fields):
    """A heartbeat of an OSD, or the answer to one."""

    TYPE: ClassVar = MessageType.OSD_PING
    VERSION: ClassVar = 5
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    fsid: UUID
    map_epoch: U32
    op: U8
    """A :class:`PingOp`."""
    ping_stamp: UTime
    """Clock of the pinging OSD; the reply repeats it."""
    pad_bytes: U32 = _DEFAULT_PAD_BYTES
    """Number of zeros at the end."""
    up_from: Annotated[U32, Since(5)] = 0
    """Epoch since which the sender is up."""
    mono_ping_stamp: Annotated[SignedSpan, Since(5)] = SignedSpan()
    """Uptime of the pinging OSD; the reply repeats it."""
    mono_send_stamp: Annotated[SignedSpan, Since(5)] = SignedSpan()
    """Uptime of the sender."""
    delta_ub: Annotated[SignedSpan | None, Since(5)] = None
    """The sender's upper bound for the receiver's uptime minus its own; None if it has none."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the fields and the padding."""
        Fields.encode(self, encoder, features)
        encoder.raw(bytes(self.pad_bytes))

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode either version; the padding must be complete.

        Raises:
            DecodeError: the bytes are too short or malformed, or from before Nautilus.
        """
        ping = super(MOSDPing, cls).decode(decoder, version, features)
        decoder.skip(ping.pad_bytes)
        return ping
