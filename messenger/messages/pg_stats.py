"""MPGStats: an OSD's report about placement groups, disk and peers to the manager (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import I32, I64, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import Enveloped, Fields, Paxos
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgStat
from messenger.messages.types import MessageType


@dataclass(frozen=True, slots=True)
class StoreStats(Enveloped):
    """Space usage of a store, in bytes (store_statfs_t)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "store_statfs_t"

    total_bytes: I64 = 0
    available_bytes: I64 = 0
    internally_reserved_bytes: I64 = 0
    allocated_bytes: I64 = 0
    data_stored_bytes: I64 = 0
    """Size for users, before compression."""
    data_compressed_bytes: I64 = 0
    data_compressed_allocated_bytes: I64 = 0
    data_compressed_original_bytes: I64 = 0
    omap_allocated_bytes: I64 = 0
    internal_metadata_bytes: I64 = 0


@dataclass(frozen=True, slots=True)
class Histogram(Enveloped):
    """Counts by powers of two."""

    VERSION: ClassVar = 1

    counts: list[I32] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoreLatency(Enveloped):
    """Mean latencies of the store; version 1 has milliseconds only."""

    VERSION: ClassVar = 2
    OLDEST: ClassVar = 1

    commit_ms: U32 = 0
    apply_ms: U32 = 0
    commit_ns: Annotated[U64, Since(2)] = 0
    apply_ns: Annotated[U64, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class PingTimes(Fields):
    """Round-trip times to a peer over one network: mean, least and most of 1, 5 and 15 minutes, and the last."""

    mean_1_us: U32 = 0
    mean_5_us: U32 = 0
    mean_15_us: U32 = 0
    least_1_us: U32 = 0
    least_5_us: U32 = 0
    least_15_us: U32 = 0
    most_1_us: U32 = 0
    most_5_us: U32 = 0
    most_15_us: U32 = 0
    last_us: U32 = 0


_NO_TIMES = PingTimes()


@dataclass(frozen=True, slots=True)
class PeerPings(Fields):
    """Round-trip times to a peer."""

    last_update: U32 = 0
    """Unix time."""
    back: PingTimes = _NO_TIMES
    front: PingTimes = _NO_TIMES


@dataclass(frozen=True, slots=True)
class OsdStat(Enveloped):
    """Counters of one OSD (osd_stat_t)."""

    VERSION: ClassVar = 14
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 14
    WHAT: ClassVar = "osd_stat_t"

    kb: I64 = 0
    """Sizes in units of 1024 bytes."""
    kb_used: I64 = 0
    kb_avail: I64 = 0
    snap_trim_queue_len: I32 = 0
    num_snap_trimming: I32 = 0
    hb_peers: list[I32] = field(default_factory=list)
    """OSDs that it pings."""
    retired: list[I32] = field(default_factory=list)
    op_queue_age_hist: Histogram = field(default_factory=Histogram)
    os_perf_stat: StoreLatency = field(default_factory=StoreLatency)
    up_from: U32 = 0
    seq: U64 = 0
    num_pgs: U32 = 0
    kb_used_data: I64 = 0
    kb_used_omap: I64 = 0
    kb_used_meta: I64 = 0
    statfs: StoreStats = field(default_factory=StoreStats)
    os_alerts: dict[I32, dict[str, str]] = field(default_factory=dict)
    num_shards_repaired: U64 = 0
    num_osds: U32 = 0
    num_per_pool_osds: U32 = 0
    num_per_pool_omap_osds: U32 = 0
    hb_pingtime: dict[I32, PeerPings] = field(default_factory=dict)


@dataclass(slots=True)
class MPGStats(Fields):
    """An OSD's counters for the manager."""

    TYPE: ClassVar = MessageType.PGSTATS
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    osd_stat: OsdStat = field(default_factory=OsdStat)
    pg_stat: dict[PgId, PgStat] = field(default_factory=dict)
    epoch: U32 = 0
    retired: UTime = EPOCH
    pool_stat: Annotated[dict[I64, StoreStats], Since(2)] = field(default_factory=dict)


@dataclass(slots=True)
class MPGStatsAck(Fields):
    """Acknowledges an MPGStats."""

    TYPE: ClassVar = MessageType.PGSTATSACK
    COMPAT_VERSION: ClassVar = 1

    pg_stat: dict[PgId, tuple[U64, U32]] = field(default_factory=dict)
    """Number of the report and epoch of each placement group."""
