"""Unsolicited messages from OSDs to clients: backoffs and watch notifications (docs/protocol.md §6.4)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.messages.layout import Fields
from messenger.messages.osd_objects import HObject, ShardedPgId
from messenger.messages.types import MessageType


class BackoffOp(IntEnum):
    """Values of :attr:`MOSDBackoff.op`."""

    BLOCK = 1
    """OSD to client: send no requests for these objects until the OSD unblocks them."""
    ACK_BLOCK = 2
    """Client to OSD: acknowledges BLOCK."""
    UNBLOCK = 3
    """OSD to client: requests may be sent again."""


@dataclass(slots=True)
class MOSDBackoff(Fields):
    """Delays requests for the objects from ``begin`` up to, but not including, ``end``."""

    TYPE: ClassVar = MessageType.OSD_BACKOFF
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    map_epoch: U32
    op: U8
    """A :class:`BackoffOp`."""
    id: U64
    begin: HObject
    end: HObject
    """If equal to ``begin``, the backoff is for that object only."""

    def covers(self, target: HObject) -> bool:
        """True if requests for an object are delayed."""
        begin, end, key = self.begin.sort_key(), self.end.sort_key(), target.sort_key()
        return key == begin if begin == end else begin <= key < end


class NotifyOp(IntEnum):
    """Values of :attr:`MWatchNotify.opcode`."""

    NOTIFY = 1
    """To a watcher: a client has notified the object; acknowledge."""
    NOTIFY_COMPLETE = 2
    """To the notifier: every watcher has acknowledged or timed out. Their replies are in the data segment."""
    DISCONNECT = 3
    """To a watcher: its watch has ended."""


@dataclass(slots=True)
class MWatchNotify(Fields):
    """An event of a watch or a notification, for the client that registered ``cookie``."""

    TYPE: ClassVar = MessageType.WATCH_NOTIFY
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    message_version: U8
    """1: version of the layout, in addition to that of the message."""
    opcode: U8
    """A :class:`NotifyOp`."""
    cookie: U64
    ver: U64
    """Retired."""
    notify_id: U64
    payload: bytes = b""
    return_code: Annotated[I32, Since(2)] = 0
    """In NOTIFY_COMPLETE: a negative Linux error number, or 0."""
    notifier_gid: Annotated[U64, Since(3)] = 0
    """Global id of the notifying client."""
