"""Health, clocks and removed snapshots: messages to and between monitors (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from typing import ClassVar

from messenger.denc.address import BLANK, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.layout import I32, I64, U32, U64
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import F64, Enveloped, Fields, Paxos
from messenger.messages.mgr_digest import HealthChecks
from messenger.messages.pool import Intervals
from messenger.messages.types import MessageType

_SOME_CLIENT = EntityName(EntityType.CLIENT)


@dataclass(frozen=True, slots=True)
class EntityInst(Fields):
    """An entity of the messenger layer with its address (entity_inst_t)."""

    name: EntityName = _SOME_CLIENT
    addr: EntityAddr = BLANK


@dataclass(frozen=True, slots=True)
class MonStoreStats(Enveloped):
    """Size of a monitor's store, in bytes (LevelDBStoreStats)."""

    VERSION: ClassVar = 1

    bytes_total: U64 = 0
    bytes_sst: U64 = 0
    bytes_log: U64 = 0
    bytes_misc: U64 = 0
    last_update: UTime = EPOCH


@dataclass(frozen=True, slots=True)
class MonDataStats(Enveloped):
    """Space on the file system that has a monitor's store (DataStats)."""

    VERSION: ClassVar = 3
    OLDEST: ClassVar = 3
    WHAT: ClassVar = "data stats"

    bytes_total: U64 = 0
    bytes_used: U64 = 0
    bytes_avail: U64 = 0
    avail_percent: I32 = 0
    last_update: UTime = EPOCH
    store_stats: MonStoreStats = MonStoreStats()


@dataclass(slots=True)
class MMonHealth(Fields):
    """Space of a monitor, for the other monitors."""

    TYPE: ClassVar = MessageType.MON_HEALTH
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    """Epoch of the election."""
    round: U64 = 0
    service_type: I32 = 0
    service_op: I32 = 0
    data_stats: MonDataStats = MonDataStats()


@dataclass(slots=True)
class MMonHealthChecks(Fields):
    """To the leader: the problems that a monitor has found on its own host."""

    TYPE: ClassVar = MessageType.MON_HEALTH_CHECKS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    health_checks: HealthChecks = field(default_factory=HealthChecks)


@dataclass(slots=True)
class MMonMetadata(Fields):
    """Properties of a monitor, for the leader; releases from 14.2 on send them in elections instead."""

    TYPE: ClassVar = MessageType.MON_METADATA
    COMPAT_VERSION: ClassVar = 1

    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class MTimeCheck(Fields):
    """The measurement of the monitors' clocks before :class:`MTimeCheck2`; by addresses instead of ranks."""

    TYPE: ClassVar = MessageType.TIMECHECK
    COMPAT_VERSION: ClassVar = 1

    op: I32
    """1 ping, 2 pong, 3 report."""
    epoch: U64 = 0
    round: U64 = 0
    timestamp: UTime = EPOCH
    skews_s: list[tuple[EntityInst, F64]] = field(default_factory=list)
    """Clock skews by monitor."""
    latencies_s: list[tuple[EntityInst, F64]] = field(default_factory=list)


@dataclass(slots=True)
class MMonGetPurgedSnaps(Fields):
    """An OSD requests the snapshots that were purged in a range of epochs."""

    TYPE: ClassVar = MessageType.MON_GET_PURGED_SNAPS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    start: U32
    last: U32


@dataclass(slots=True)
class MMonGetPurgedSnapsReply(Fields):
    """The purged snapshots of a range of epochs, which may end before the requested one."""

    TYPE: ClassVar = MessageType.MON_GET_PURGED_SNAPS_REPLY
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    start: U32
    last: U32
    purged_snaps: dict[U32, dict[I64, Intervals]] = field(default_factory=dict)
    """By epoch and pool."""


@dataclass(slots=True)
class MRemoveSnaps(Fields):
    """An MDS requests the monitors to remove snapshots of data pools, and gets the same message as the answer."""

    TYPE: ClassVar = MessageType.REMOVE_SNAPS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    snaps: dict[I32, list[U64]] = field(default_factory=dict)
    """Snapshot ids by pool."""
