"""Summaries that monitors and the active manager send to each other."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder
from messenger.denc.layout import I32, I64, U8, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import F32, Enveloped, Fields, Inside, Paxos
from messenger.messages.mgrmap import ServiceMap
from messenger.messages.pg_stats import OsdStat
from messenger.messages.pool import Intervals
from messenger.messages.pools import PoolStats
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MMgrDigest(Fields):
    """Status of the cluster that the maps do not contain, for the manager."""

    TYPE: ClassVar = MessageType.MGR_DIGEST
    COMPAT_VERSION: ClassVar = 1

    mon_status_json: str
    """What ``ceph mon_status`` prints."""
    health_json: str
    """What ``ceph health detail`` prints."""


class HealthStatus(IntEnum):
    """Values of :attr:`HealthCheck.severity`."""

    ERR = 0
    WARN = 1
    OK = 2


@dataclass(frozen=True, slots=True)
class HealthCheck(Enveloped):
    """One health problem of the cluster."""

    VERSION: ClassVar = 2

    severity: U8
    """A :class:`HealthStatus`."""
    summary: str
    detail: list[str] = field(default_factory=list)
    count: Annotated[I64, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class HealthChecks(Enveloped):
    """All health problems by code."""

    VERSION: ClassVar = 1

    checks: dict[str, HealthCheck] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProgressEvent(Enveloped):
    """A long operation in progress."""

    VERSION: ClassVar = 1

    message: str
    progress: F32 = 0.0
    """0 to 1."""


@dataclass(frozen=True, slots=True)
class OsdPgCount(Fields):
    """Number of placement groups of one OSD."""

    acting: I32 = 0
    up_not_acting: I32 = 0
    primary: I32 = 0


@dataclass(frozen=True, slots=True)
class PgMapDigest(Enveloped):
    """Sums over all placement groups and OSDs, for ``ceph status`` and ``ceph df`` (PGMapDigest).

    The fields of versions after 4, which Tentacle sends, are in the tail.
    """

    VERSION: ClassVar = 4
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "placement group digest"

    num_pg: I64 = 0
    num_pg_active: I64 = 0
    num_pg_unknown: I64 = 0
    num_osd: I64 = 0
    pg_pool_sum: dict[I32, PoolStats] = field(default_factory=dict)
    """By pool number."""
    pg_sum: PoolStats = field(default_factory=PoolStats)
    osd_sum: OsdStat = field(default_factory=OsdStat)
    num_pg_by_state: dict[U64, I32] = field(default_factory=dict)
    """By the 64 bits of the state (``PgStat.state`` and ``top_state``)."""
    num_pg_by_osd: dict[I32, OsdPgCount] = field(default_factory=dict)
    num_pg_by_pool: dict[I64, I64] = field(default_factory=dict)
    osd_last_seq: list[U64] = field(default_factory=list)
    """Newest ``OsdStat.seq`` of each OSD; the index is the number of the OSD."""
    per_pool_sum_delta: dict[I64, tuple[PoolStats, UTime]] = field(default_factory=dict)
    """Changes, and the time in which they happened; ``ceph status`` shows rates from them."""
    per_pool_sum_deltas_stamps: dict[I64, UTime] = field(default_factory=dict)
    pg_sum_delta: PoolStats = field(default_factory=PoolStats)
    stamp_delta: UTime = EPOCH
    avail_space_by_rule: dict[I32, I64] = field(default_factory=dict)
    purged_snaps: dict[I64, Intervals] = field(default_factory=dict)
    osd_sum_by_class: dict[str, OsdStat] = field(default_factory=dict)


@dataclass(slots=True)
class MMonMgrReport(Fields):
    """The manager's report about the cluster; a :class:`PgMapDigest` is in the data segment."""

    TYPE: ClassVar = MessageType.MON_MGR_REPORT
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    health_checks: HealthChecks = field(default_factory=HealthChecks)
    service_map: Annotated[bytes, Inside(lambda data: ServiceMap.decode(Decoder(data)))] = b""
    """An encoded :class:`ServiceMap`; empty if it has not changed."""
    progress_events: Annotated[dict[str, ProgressEvent], Since(2)] = field(default_factory=dict)
    gid: Annotated[U64, Since(3)] = 0
    """Global id of the manager."""
