"""Recovery of objects between the OSDs of a placement group: push, pull, delete (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.layout import U32, U64, Since
from messenger.messages.layout import I8, Enveloped, Fields, RawEnvelope
from messenger.messages.osd_objects import NO_SHARD, NO_VERSION, EVersion, HObject, ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgShard
from messenger.messages.pool import Intervals
from messenger.messages.types import MessageType

_NO_OBJECT = HObject()
_SOME_OSD = PgShard(0)
_NO_ENVELOPE = b"\1\1" + bytes(4)


@dataclass(frozen=True, slots=True)
class RecoveryInfo(Enveloped):
    """The object to recover (ObjectRecoveryInfo)."""

    VERSION: ClassVar = 3
    COMPAT: ClassVar = 1
    OLDEST: ClassVar = 2

    soid: HObject = _NO_OBJECT
    version: EVersion = NO_VERSION
    size: U64 = 0
    object_info: RawEnvelope = _NO_ENVELOPE
    """An encoded object_info_t, uninterpreted."""
    snapset: RawEnvelope = _NO_ENVELOPE
    """An encoded SnapSet, uninterpreted."""
    copy_subset: Intervals = field(default_factory=dict)
    """Ranges of bytes to copy."""
    clone_subset: list[tuple[HObject, Intervals]] = field(default_factory=list)
    """Ranges of bytes that are the same in these clones."""
    object_exist: Annotated[bool, Since(3)] = True
    """True if the receiver has an older version of the object."""


@dataclass(frozen=True, slots=True)
class RecoveryProgress(Enveloped):
    """Progress of an object's recovery (ObjectRecoveryProgress)."""

    VERSION: ClassVar = 1

    first: bool = True
    data_complete: bool = False
    data_recovered_to: U64 = 0
    omap_recovered_to: str = ""
    omap_complete: bool = False


_NO_INFO = RecoveryInfo()
_NO_PROGRESS = RecoveryProgress()


@dataclass(frozen=True, slots=True)
class PushOp(Enveloped):
    """One object, or a part of a large one, with its attributes (PushOp)."""

    VERSION: ClassVar = 1

    soid: HObject = _NO_OBJECT
    version: EVersion = NO_VERSION
    data: bytes = b""
    data_included: Intervals = field(default_factory=dict)
    """Ranges of the object that ``data`` contains, one after the other."""
    omap_header: bytes = b""
    omap_entries: dict[str, bytes] = field(default_factory=dict)
    attributes: dict[str, bytes] = field(default_factory=dict)
    recovery_info: RecoveryInfo = _NO_INFO
    after_progress: RecoveryProgress = _NO_PROGRESS
    before_progress: RecoveryProgress = _NO_PROGRESS


@dataclass(frozen=True, slots=True)
class PullOp(Enveloped):
    """An object that the primary requests (PullOp)."""

    VERSION: ClassVar = 1

    soid: HObject = _NO_OBJECT
    recovery_info: RecoveryInfo = _NO_INFO
    recovery_progress: RecoveryProgress = _NO_PROGRESS


@dataclass(frozen=True, slots=True)
class PushReplyOp(Enveloped):
    """An object that has been stored (PushReplyOp)."""

    VERSION: ClassVar = 1

    soid: HObject = _NO_OBJECT


@dataclass(slots=True)
class MOSDPGPush(Fields):
    """Objects for a copy that lacks them."""

    TYPE: ClassVar = MessageType.OSD_PG_PUSH
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 3

    pgid: PgId
    map_epoch: U32
    pushes: list[PushOp] = field(default_factory=list)
    cost: U64 = 0
    shard: I8 = NO_SHARD
    sender: PgShard = _SOME_OSD
    min_epoch: U32 = 0
    is_repair: Annotated[bool, Since(4)] = False


@dataclass(slots=True)
class MOSDPGPull(Fields):
    """The primary requests objects from a copy because it lacks them."""

    TYPE: ClassVar = MessageType.OSD_PG_PULL
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 3

    pgid: PgId
    map_epoch: U32
    pulls: list[PullOp] = field(default_factory=list)
    cost: U64 = 0
    shard: I8 = NO_SHARD
    sender: PgShard = _SOME_OSD
    min_epoch: U32 = 0


@dataclass(slots=True)
class MOSDPGPushReply(Fields):
    """Acknowledges that the objects of an MOSDPGPush are stored."""

    TYPE: ClassVar = MessageType.OSD_PG_PUSH_REPLY
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 3

    pgid: PgId
    map_epoch: U32
    replies: list[PushReplyOp] = field(default_factory=list)
    cost: U64 = 0
    shard: I8 = NO_SHARD
    sender: PgShard = _SOME_OSD
    min_epoch: U32 = 0


@dataclass(slots=True)
class MOSDPGRecoveryDelete(Fields):
    """The primary requests a copy to delete objects whose deletion it has missed."""

    TYPE: ClassVar = MessageType.OSD_PG_RECOVERY_DELETE
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    sender: PgShard
    pgid: ShardedPgId
    map_epoch: U32 = 0
    min_epoch: U32 = 0
    cost: U64 = 0
    objects: list[tuple[HObject, EVersion]] = field(default_factory=list)


@dataclass(slots=True)
class MOSDPGRecoveryDeleteReply(Fields):
    """Acknowledges that the objects of an MOSDPGRecoveryDelete are deleted."""

    TYPE: ClassVar = MessageType.OSD_PG_RECOVERY_DELETE_REPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    pgid: PgId
    map_epoch: U32
    min_epoch: U32
    objects: list[tuple[HObject, EVersion]] = field(default_factory=list)
    shard: I8 = NO_SHARD
    sender: PgShard = _SOME_OSD
