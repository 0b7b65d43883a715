"""Pool operations of the monitors, and space usage of pools and the cluster (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import I32, I64, U8, U32, U64, Since
from messenger.messages.layout import I16, Enveloped, Fields, Paxos, raw_codec
from messenger.messages.types import MessageType


class PoolOpCode(IntEnum):
    """Values of :attr:`MPoolOp.op`."""

    CREATE = 0x01
    DELETE = 0x02
    AUID_CHANGE = 0x03
    CREATE_SNAP = 0x11
    DELETE_SNAP = 0x12
    CREATE_UNMANAGED_SNAP = 0x21
    DELETE_UNMANAGED_SNAP = 0x22


@dataclass(slots=True)
class MPoolOp(Fields):
    """Requests to create or delete a pool or a snapshot of one."""

    TYPE: ClassVar = MessageType.POOLOP
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    pool: U32
    op: U32
    """A :class:`PoolOpCode`."""
    auid: U64 = 0
    """Retired."""
    snapid: U64 = 0
    """The unmanaged snapshot to delete."""
    name: str = ""
    """Name of the pool or the pool snapshot."""
    pad: U8 = 0
    crush_rule: I16 = 0


@dataclass(slots=True)
class MPoolOpReply(Fields):
    """Result of an MPoolOp."""

    TYPE: ClassVar = MessageType.POOLOP_REPLY
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    reply_code: U32
    """0, or a negative Linux error number as two's complement."""
    epoch: U32
    """Epoch of the first OSD map that contains the change."""
    response_data: bytes | None = None
    """In the reply to CREATE_UNMANAGED_SNAP the new snapid, a u64."""


@dataclass(slots=True)
class MStatfs(Fields):
    """Requests the space usage of the cluster."""

    TYPE: ClassVar = MessageType.STATFS
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    data_pool: Annotated[I64 | None, Since(2)] = None
    """If not None, limits the result to what this pool can use."""


@dataclass(slots=True)
class MStatfsReply(Fields):
    """Space usage of the cluster."""

    TYPE: ClassVar = MessageType.STATFS_REPLY
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    version: U64
    kb: U64
    """Sizes in units of 1024 bytes."""
    kb_used: U64
    kb_avail: U64
    num_objects: U64


@dataclass(slots=True)
class MGetPoolStats(Fields):
    """Requests the space usage of pools."""

    TYPE: ClassVar = MessageType.GETPOOLSTATS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    pools: list[str]


_OTHER_COUNTERS_SIZE = 216


@dataclass(frozen=True, slots=True)
class ObjectStats(Enveloped):
    """Counters of objects and of accesses to them (object_stat_sum_t)."""

    VERSION: ClassVar = 20
    COMPAT: ClassVar = 14
    OLDEST: ClassVar = 20
    WHAT: ClassVar = "object counters"

    num_bytes: I64 = 0
    num_objects: I64 = 0
    num_object_clones: I64 = 0
    num_object_copies: I64 = 0
    num_objects_missing_on_primary: I64 = 0
    num_objects_degraded: I64 = 0
    num_objects_unfound: I64 = 0
    num_rd: I64 = 0
    num_rd_kb: I64 = 0
    num_wr: I64 = 0
    num_wr_kb: I64 = 0
    other: Annotated[bytes, raw_codec(_OTHER_COUNTERS_SIZE)] = bytes(_OTHER_COUNTERS_SIZE)
    """Counters of scrubs, recovery, cache tiering and omaps, uninterpreted."""


@dataclass(frozen=True, slots=True)
class ObjectStatCollection(Enveloped):
    """Counters of objects; the counters by category are retired (object_stat_collection_t)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2

    sum: ObjectStats = field(default_factory=ObjectStats)
    categories: dict[str, ObjectStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreStatfs(Enveloped):
    """Space usage reported by object stores, in bytes (store_statfs_t)."""

    VERSION: ClassVar = 1

    total: U64 = 0
    available: U64 = 0
    internally_reserved: U64 = 0
    allocated: I64 = 0
    data_stored: I64 = 0
    data_compressed: I64 = 0
    data_compressed_allocated: I64 = 0
    data_compressed_original: I64 = 0
    omap_allocated: I64 = 0
    internal_metadata: I64 = 0


@dataclass(frozen=True, slots=True)
class PoolStats(Enveloped):
    """Space usage of a pool (pool_stat_t)."""

    VERSION: ClassVar = 7
    COMPAT: ClassVar = 5
    OLDEST: ClassVar = 5

    stats: ObjectStatCollection = field(default_factory=ObjectStatCollection)
    log_size: I64 = 0
    ondisk_log_size: I64 = 0
    up: Annotated[I32, Since(6)] = 0
    acting: Annotated[I32, Since(6)] = 0
    store_stats: Annotated[StoreStatfs, Since(7)] = field(default_factory=StoreStatfs)
    num_store_stats: Annotated[I32, Since(7)] = 0


@dataclass(slots=True)
class MGetPoolStatsReply(Fields):
    """Space usage of pools."""

    TYPE: ClassVar = MessageType.GETPOOLSTATSREPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    pool_stats: dict[str, PoolStats]
    """By pool name."""
    per_pool: Annotated[bool, Since(2)] = False
    """True if every OSD reports its space usage by pool."""
