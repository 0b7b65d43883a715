"""What OSDs tell clients unasked: to hold back, and that something was noted (protocol.md §6.4)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.messages.osd_objects import HObject, ShardedPgId
from messenger.messages.types import MessageType

_RETURN_CODE_VERSION = 2
_NOTIFIER_VERSION = 3


class BackoffOp(IntEnum):
    """What a MOSDBackoff says."""

    BLOCK = 1
    """OSD to client: send nothing for these objects until told."""
    ACK_BLOCK = 2
    """Client to OSD: understood."""
    UNBLOCK = 3
    """OSD to client: send again."""


@dataclass(slots=True)
class MOSDBackoff:
    """Requests for the objects from ``begin`` up to, but not including, ``end`` have to wait."""

    TYPE: ClassVar = MessageType.OSD_BACKOFF
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    map_epoch: int
    op: int
    """A :class:`BackoffOp`."""
    id: int
    begin: HObject
    end: HObject
    """If equal to ``begin``, that one object is meant."""

    def covers(self, target: HObject) -> bool:
        """Whether requests for an object have to wait."""
        begin, end, key = self.begin.sort_key(), self.end.sort_key(), target.sort_key()
        return key == begin if begin == end else begin <= key < end

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        self.pgid.encode(encoder)
        encoder.u32(self.map_epoch)
        encoder.u8(self.op)
        encoder.u64(self.id)
        self.begin.encode(encoder)
        self.end.encode(encoder)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        return cls(
            ShardedPgId.decode(decoder),
            decoder.u32(),
            decoder.u8(),
            decoder.u64(),
            HObject.decode(decoder),
            HObject.decode(decoder),
        )


class NotifyOp(IntEnum):
    """What a MWatchNotify says."""

    NOTIFY = 1
    """To a watcher: somebody notifies, acknowledge."""
    NOTIFY_COMPLETE = 2
    """To the notifier: every watcher acknowledged or timed out."""
    DISCONNECT = 3
    """To a watcher: its watch has ended."""


@dataclass(slots=True)
class MWatchNotify:
    """Word of a watch or of a notification, to whoever registered ``cookie``."""

    TYPE: ClassVar = MessageType.WATCH_NOTIFY
    VERSION: ClassVar = _NOTIFIER_VERSION
    COMPAT_VERSION: ClassVar = 1

    opcode: int
    """A :class:`NotifyOp`."""
    cookie: int
    notify_id: int
    payload: bytes = b""
    return_code: int = 0
    """Of NOTIFY_COMPLETE: a negative Linux error number, or 0."""
    notifier_gid: int = 0
    """Global id of whoever notifies."""
    ver: int = 0

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encoder.u8(1)
        encoder.u8(self.opcode)
        encoder.u64(self.cookie)
        encoder.u64(self.ver)
        encoder.u64(self.notify_id)
        encoder.blob(self.payload)
        encoder.i32(self.return_code)
        encoder.u64(self.notifier_gid)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, _features: int) -> Self:
        """Read the front."""
        message_version, opcode, cookie = decoder.u8(), decoder.u8(), decoder.u64()
        ver, notify_id = decoder.u64(), decoder.u64()
        return cls(
            opcode=opcode,
            cookie=cookie,
            notify_id=notify_id,
            payload=decoder.blob() if message_version >= 1 else b"",
            return_code=decoder.i32() if version >= _RETURN_CODE_VERSION else 0,
            notifier_gid=decoder.u64() if version >= _NOTIFIER_VERSION else 0,
            ver=ver,
        )
