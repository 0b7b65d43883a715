"""Backfill of placement groups, and reservations for backfill and recovery (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import I64, U8, U32, Since
from messenger.messages.layout import I8, Fields
from messenger.messages.osd_objects import NO_SHARD, EVersion, HObject, ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgShard, PgStat
from messenger.messages.pools import ObjectStatCollection
from messenger.messages.types import MessageType

_NO_OBJECT = HObject()
_SOME_OSD = PgShard(0)


class ScanOp(IntEnum):
    """Values of :attr:`MOSDPGScan.op`."""

    GET_DIGEST = 1
    DIGEST = 2


class BackfillOp(IntEnum):
    """Values of :attr:`MOSDPGBackfill.op`."""

    PROGRESS = 2
    FINISH = 3
    FINISH_ACK = 4


class BackfillReserveType(IntEnum):
    """Values of :attr:`MBackfillReserve.type`."""

    REQUEST = 0
    GRANT = 1
    REJECT_TOOFULL = 2
    RELEASE = 3
    REVOKE_TOOFULL = 4
    REVOKE = 5


class RecoveryReserveType(IntEnum):
    """Values of :attr:`MRecoveryReserve.type`."""

    REQUEST = 0
    GRANT = 1
    RELEASE = 2
    REVOKE = 3


@dataclass(slots=True)
class MOSDPGScan(Fields):
    """The primary requests a list of the objects of a range; the replica's reply has it in the data segment."""

    TYPE: ClassVar = MessageType.OSD_PG_SCAN
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    op: U32
    """A :class:`ScanOp`."""
    map_epoch: U32
    query_epoch: U32
    pgid: PgId
    begin: HObject = _NO_OBJECT
    end: HObject = _NO_OBJECT
    sender: PgShard = _SOME_OSD
    shard: I8 = NO_SHARD


@dataclass(slots=True)
class MOSDPGBackfill(Fields):
    """The primary reports the progress of a backfill to its target."""

    TYPE: ClassVar = MessageType.OSD_PG_BACKFILL
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    op: U32
    """A :class:`BackfillOp`."""
    map_epoch: U32
    query_epoch: U32
    pgid: PgId
    last_backfill: HObject = _NO_OBJECT
    counts: ObjectStatCollection = field(default_factory=ObjectStatCollection)
    """A part of ``stats``, for older readers."""
    stats: PgStat = field(default_factory=PgStat)
    shard: I8 = NO_SHARD


@dataclass(slots=True)
class MOSDPGBackfillRemove(Fields):
    """The primary requests a backfill target to remove objects that no longer exist."""

    TYPE: ClassVar = MessageType.OSD_PG_BACKFILL_REMOVE
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    map_epoch: U32
    objects: list[tuple[HObject, EVersion]] = field(default_factory=list)


@dataclass(slots=True)
class MBackfillReserve(Fields):
    """A primary's reservation of a backfill slot at the target, and the target's answer."""

    TYPE: ClassVar = MessageType.OSD_BACKFILL_RESERVE
    VERSION: ClassVar = 5
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    pgid: PgId
    query_epoch: U32
    type: U32
    """A :class:`BackfillReserveType`."""
    priority: U32 = 0
    shard: I8 = NO_SHARD
    primary_bytes: Annotated[I64, Since(5)] = 0
    shard_bytes: Annotated[I64, Since(5)] = 0


@dataclass(slots=True)
class MRecoveryReserve(Fields):
    """A primary's reservation of a recovery slot at a replica, and the replica's answer."""

    TYPE: ClassVar = MessageType.OSD_RECOVERY_RESERVE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    pgid: PgId
    query_epoch: U32
    type: U32
    """A :class:`RecoveryReserveType`."""
    shard: I8 = NO_SHARD
    priority: Annotated[U32, Since(3)] = 0


@dataclass(slots=True)
class MOSDForceRecovery(Fields):
    """The manager changes the priority of recovery or backfill of placement groups."""

    TYPE: ClassVar = MessageType.OSD_FORCE_RECOVERY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    fsid: UUID
    pgs: list[ShardedPgId] = field(default_factory=list)
    options: U8 = 0
    """1 recovery, 2 backfill, 4 cancel."""
