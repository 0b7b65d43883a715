"""State of a placement group on an OSD: history, counters, and the OSDs that had it (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import I8, Enveloped
from messenger.messages.osd_objects import NO_SHARD, NO_VERSION, HObject
from messenger.messages.osd_ping import SignedSpan
from messenger.messages.pg import PgId
from messenger.messages.pool import EVersion, Intervals
from messenger.messages.pools import ObjectStatCollection

_NO_SPAN = SignedSpan()
_NO_OBJECT = HObject()
_NO_PG = PgId(0, 0)
_COMPACT = 2


@dataclass(frozen=True, slots=True, order=True)
class PgShard(Enveloped):
    """An OSD and, in an erasure-coded pool, the shard of the placement group on it (pg_shard_t)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "pg_shard_t"

    osd: I32
    shard: I8 = NO_SHARD

    def __str__(self) -> str:
        return str(self.osd) if self.shard == NO_SHARD else f"{self.osd}({self.shard})"


@dataclass(frozen=True, slots=True)
class PgHistory(Enveloped):
    """Epochs of a placement group's history (pg_history_t)."""

    VERSION: ClassVar = 10
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 9
    WHAT: ClassVar = "pg_history_t"

    epoch_created: U32 = 0
    last_epoch_started: U32 = 0
    last_epoch_clean: U32 = 0
    last_epoch_split: U32 = 0
    same_interval_since: U32 = 0
    same_up_since: U32 = 0
    same_primary_since: U32 = 0
    last_scrub: EVersion = NO_VERSION
    last_scrub_stamp: UTime = EPOCH
    last_deep_scrub: EVersion = NO_VERSION
    last_deep_scrub_stamp: UTime = EPOCH
    last_clean_scrub_stamp: UTime = EPOCH
    last_epoch_marked_full: U32 = 0
    last_interval_started: U32 = 0
    last_interval_clean: U32 = 0
    epoch_pool_created: U32 = 0
    prior_readable_until_ub: Annotated[SignedSpan, Since(10)] = _NO_SPAN
    """Time for which an earlier primary may still serve reads."""


@dataclass(frozen=True, slots=True)
class PgStat(Enveloped):
    """State and counters of a placement group, as its primary reports them (pg_stat_t).

    The fields of versions after 26, mostly times of scrubs, are in the tail.
    """

    VERSION: ClassVar = 26
    COMPAT: ClassVar = 22
    OLDEST: ClassVar = 26
    WHAT: ClassVar = "pg_stat_t"

    version: EVersion = NO_VERSION
    reported_seq: U64 = 0
    reported_epoch: U32 = 0
    state: U32 = 0
    """The lower 32 bits of the state; ``top_state`` has the others."""
    log_start: EVersion = NO_VERSION
    ondisk_log_start: EVersion = NO_VERSION
    created: U32 = 0
    last_epoch_clean: U32 = 0
    parent: PgId = _NO_PG
    parent_split_bits: U32 = 0
    last_scrub: EVersion = NO_VERSION
    last_scrub_stamp: UTime = EPOCH
    stats: ObjectStatCollection = field(default_factory=ObjectStatCollection)
    log_size: U64 = 0
    ondisk_log_size: U64 = 0
    up: list[I32] = field(default_factory=list)
    acting: list[I32] = field(default_factory=list)
    last_fresh: UTime = EPOCH
    last_change: UTime = EPOCH
    last_active: UTime = EPOCH
    last_clean: UTime = EPOCH
    last_unstale: UTime = EPOCH
    mapping_epoch: U32 = 0
    last_deep_scrub: EVersion = NO_VERSION
    last_deep_scrub_stamp: UTime = EPOCH
    stats_invalid: bool = False
    last_clean_scrub_stamp: UTime = EPOCH
    last_became_active: UTime = EPOCH
    dirty_stats_invalid: bool = False
    up_primary: I32 = -1
    acting_primary: I32 = -1
    omap_stats_invalid: bool = False
    hitset_stats_invalid: bool = False
    blocked_by: list[I32] = field(default_factory=list)
    last_undegraded: UTime = EPOCH
    last_fullsized: UTime = EPOCH
    hitset_bytes_stats_invalid: bool = False
    last_peered: UTime = EPOCH
    last_became_peered: UTime = EPOCH
    pin_stats_invalid: bool = False
    snaptrimq_len: U32 = 0
    top_state: U32 = 0
    purged_snaps: Intervals = field(default_factory=dict)
    manifest_stats_invalid: bool = False
    avail_no_missing: list[PgShard] = field(default_factory=list)
    object_location_counts: list[tuple[set[PgShard], I32]] = field(default_factory=list)
    """Number of objects whose copies are on exactly these OSDs."""


@dataclass(frozen=True, slots=True)
class HitSetInfo(Enveloped):
    """One hit set of a cache tier, and the time that it covers."""

    VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    begin: UTime = EPOCH
    end: UTime = EPOCH
    version: EVersion = NO_VERSION
    using_gmt: bool = True


_NO_HIT_SET = HitSetInfo()


@dataclass(frozen=True, slots=True)
class HitSetHistory(Enveloped):
    """Hit sets of a cache tier's placement group."""

    VERSION: ClassVar = 1

    current_last_update: EVersion = NO_VERSION
    retired: UTime = EPOCH
    current_info: HitSetInfo = _NO_HIT_SET
    history: list[HitSetInfo] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PgInfo(Enveloped):
    """One OSD's copy of a placement group (pg_info_t); partial writes, since Tentacle, are in the tail."""

    VERSION: ClassVar = 32
    COMPAT: ClassVar = 26
    OLDEST: ClassVar = 32
    WHAT: ClassVar = "pg_info_t"

    pgid: PgId
    last_update: EVersion = NO_VERSION
    last_complete: EVersion = NO_VERSION
    """Version up to which no object is missing."""
    log_tail: EVersion = NO_VERSION
    retired: HObject = _NO_OBJECT
    """``last_backfill`` in the order of releases before Jewel."""
    stats: PgStat = field(default_factory=PgStat)
    history: PgHistory = field(default_factory=PgHistory)
    purged_snaps: Intervals = field(default_factory=dict)
    last_epoch_started: U32 = 0
    last_user_version: U64 = 0
    hit_set: HitSetHistory = field(default_factory=HitSetHistory)
    shard: I8 = NO_SHARD
    last_backfill: HObject = _NO_OBJECT
    """All objects before this one have been copied."""
    last_backfill_bitwise: bool = True
    last_interval_started: U32 = 0


@dataclass(frozen=True, slots=True)
class PastInterval(Enveloped):
    """Range of epochs in which the placement group may have accepted writes, and its OSDs at that time."""

    VERSION: ClassVar = 1

    first: U32
    last: U32
    acting: set[PgShard] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class CompactIntervals(Enveloped):
    """Intervals since the placement group was last clean."""

    VERSION: ClassVar = 1

    first: U32
    last: U32
    all_participants: set[PgShard] = field(default_factory=set)
    intervals: list[PastInterval] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PastIntervals(Enveloped):
    """The OSDs that must be queried during peering (PastIntervals)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "past intervals"

    intervals: CompactIntervals | None = None

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:  # noqa: ARG002 - as its base
        """Append the kind of list, and the list."""
        encoder.u8(0 if self.intervals is None else _COMPACT)
        if self.intervals is not None:
            self.intervals.encode(encoder, features)

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The list; None if there is none or it is of the retired kind, which stays in the tail."""
        return {"intervals": CompactIntervals.decode(body, features) if body.u8() == _COMPACT else None}


_NO_PAST = PastIntervals()


@dataclass(frozen=True, slots=True)
class PgNotify(Enveloped):
    """Info about a copy, for its primary (pg_notify_t)."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "pg_notify_t"

    query_epoch: U32
    epoch_sent: U32
    info: PgInfo
    to: I8 = NO_SHARD
    sender: I8 = NO_SHARD
    past_intervals: Annotated[PastIntervals, Since(3)] = _NO_PAST
    pg_features: Annotated[U64, Since(4)] = 0


class PgQueryType(IntEnum):
    """Values of :attr:`PgQuery.type`."""

    INFO = 0
    LOG = 1
    MISSING = 4
    FULLLOG = 5


@dataclass(frozen=True, slots=True)
class PgQuery(Enveloped):
    """The primary's query for a copy (pg_query_t)."""

    VERSION: ClassVar = 3
    COMPAT: ClassVar = 3
    OLDEST: ClassVar = 3
    WHAT: ClassVar = "pg_query_t"

    type: I32
    """A :class:`PgQueryType`."""
    since: EVersion = NO_VERSION
    history: PgHistory = field(default_factory=PgHistory)
    epoch_sent: U32 = 0
    to: I8 = NO_SHARD
    sender: I8 = NO_SHARD


@dataclass(frozen=True, slots=True)
class PgLease(Enveloped):
    """Time until which a copy may be read, as uptime of the primary (pg_lease_t)."""

    VERSION: ClassVar = 1

    readable_until: SignedSpan = _NO_SPAN
    readable_until_ub: SignedSpan = _NO_SPAN
    """Upper bound for all copies."""
    interval: SignedSpan = _NO_SPAN


@dataclass(frozen=True, slots=True)
class PgLeaseAck(Enveloped):
    """The bound that a copy has accepted (pg_lease_ack_t)."""

    VERSION: ClassVar = 1

    readable_until_ub: SignedSpan = _NO_SPAN


@dataclass(frozen=True, slots=True)
class ObjectModification(Enveloped):
    """How a log entry can be rolled back (ObjectModDesc)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 1

    can_local_rollback: bool = False
    rollback_info_completed: U8 = 0
    steps: bytes = b""
    """Encoded steps, uninterpreted."""


@dataclass(frozen=True, slots=True)
class CleanRegions(Enveloped):
    """Parts of an object that a log entry did not change (ObjectCleanRegions)."""

    VERSION: ClassVar = 1

    clean_offsets: Intervals = field(default_factory=dict)
    clean_omap: bool = True
    new_object: bool = False
