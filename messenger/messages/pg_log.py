"""MOSDPGLog and related messages: the log of a placement group, and missing objects (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.messages.layout import I8, Enveloped, Fields
from messenger.messages.osd_objects import NO_SHARD, NO_VERSION, EVersion, HObject, RequestId, ShardedPgId
from messenger.messages.osd_repop import PgLogEntry
from messenger.messages.pg import PgId
from messenger.messages.pg_info import CleanRegions, PastIntervals, PgInfo, PgLease
from messenger.messages.types import MessageType

_MARK = EVersion((1 << 64) - 1, (1 << 32) - 1)
"""Marks a :class:`MissingItem` with clean regions; encoded before its fields."""


@dataclass(frozen=True, slots=True)
class OpReturn(Fields):
    """Result and output of one operation of a request (pg_log_op_return_item_t)."""

    result: I32 = 0
    output: bytes = b""


@dataclass(frozen=True, slots=True)
class PgLogDup(Enveloped):
    """A request that was applied, but whose log entry is trimmed (pg_log_dup_t)."""

    VERSION: ClassVar = 2

    reqid: RequestId = field(default_factory=RequestId)
    version: EVersion = NO_VERSION
    user_version: U64 = 0
    return_code: I32 = 0
    op_returns: Annotated[list[OpReturn], Since(2)] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PgLog(Enveloped):
    """The log of one placement group, complete or in part (pg_log_t)."""

    VERSION: ClassVar = 7
    COMPAT: ClassVar = 3
    OLDEST: ClassVar = 7
    WHAT: ClassVar = "pg_log_t"

    head: EVersion = NO_VERSION
    """Version of the newest entry."""
    log_tail: EVersion = NO_VERSION
    """Version of the newest trimmed entry."""
    entries: list[PgLogEntry] = field(default_factory=list)
    can_rollback_to: EVersion = NO_VERSION
    rollback_info_trimmed_to: EVersion = NO_VERSION
    dups: list[PgLogDup] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MissingItem:
    """The version of an object that a copy needs (pg_missing_item)."""

    need: EVersion = NO_VERSION
    have: EVersion = NO_VERSION
    """Zero if the copy does not have the object."""
    flags: U8 = 0
    """1 if the object must be deleted."""
    clean_regions: CleanRegions | None = None
    """None in messages to and from releases before Octopus."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the form that the peer's release supports."""
        NO_VERSION.encode(encoder, features)
        regions = self.clean_regions
        if regions is not None and has_feature(features, Feature.SERVER_OCTOPUS):
            _MARK.encode(encoder, features)
        else:
            regions = None
        self.need.encode(encoder, features)
        self.have.encode(encoder, features)
        encoder.u8(self.flags)
        if regions is not None:
            regions.encode(encoder, features)

    @classmethod
    def decode(cls, decoder: Decoder, features: int) -> Self:
        """Decode either form, or that of releases before Luminous, which has no flags.

        Raises:
            DecodeError: the bytes are too short or malformed.
        """
        first, second = (EVersion.decode(decoder, 1, features) for _ in range(2))
        if first != NO_VERSION:
            return cls(first, second)
        marked = second == _MARK
        need = EVersion.decode(decoder, 1, features) if marked else second
        have = EVersion.decode(decoder, 1, features)
        flags = decoder.u8()
        return cls(need, have, flags, CleanRegions.decode(decoder, features) if marked else None)


@dataclass(frozen=True, slots=True)
class PgMissing(Enveloped):
    """Objects that a copy lacks, or has in an older version (pg_missing_t)."""

    VERSION: ClassVar = 5
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "pg_missing_t"

    objects: list[tuple[HObject, MissingItem]] = field(default_factory=list)
    may_include_deletes: bool = False


_NOTHING_MISSING = PgMissing()
_NO_PAST = PastIntervals()


@dataclass(slots=True)
class MOSDPGLog(Fields):
    """The log of an OSD's copy, for the primary that queried it or for a replica that becomes active."""

    TYPE: ClassVar = MessageType.OSD_PG_LOG
    VERSION: ClassVar = 6
    COMPAT_VERSION: ClassVar = 6
    OLDEST: ClassVar = 5

    epoch: U32
    info: PgInfo
    log: PgLog = field(default_factory=PgLog)
    missing: PgMissing = _NOTHING_MISSING
    query_epoch: U32 = 0
    past_intervals: PastIntervals = _NO_PAST
    to: I8 = NO_SHARD
    sender: I8 = NO_SHARD
    lease: Annotated[PgLease | None, Since(6)] = None


@dataclass(slots=True)
class MOSDPGTrim(Fields):
    """The version up to which the log of a placement group may be trimmed."""

    TYPE: ClassVar = MessageType.OSD_PG_TRIM
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    epoch: U32
    pgid: PgId
    trim_to: EVersion = NO_VERSION
    shard: I8 = NO_SHARD


@dataclass(slots=True)
class MOSDPGPCT(Fields):
    """The primary announces to its replicas up to which version all copies have committed writes."""

    TYPE: ClassVar = MessageType.OSD_PG_PCT
    COMPAT_VERSION: ClassVar = 1

    map_epoch: U32
    min_epoch: U32
    pgid: ShardedPgId
    pg_committed_to: EVersion = NO_VERSION


@dataclass(slots=True)
class MOSDPGUpdateLogMissing(Fields):
    """The primary appends entries to the logs of its replicas without a write."""

    TYPE: ClassVar = MessageType.OSD_PG_UPDATE_LOG_MISSING
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 3

    map_epoch: U32
    pgid: ShardedPgId
    sender: I8 = NO_SHARD
    """Shard of the sender."""
    rep_tid: U64 = 0
    entries: list[PgLogEntry] = field(default_factory=list)
    min_epoch: U32 = 0
    pg_trim_to: EVersion = NO_VERSION
    pg_roll_forward_to: EVersion = NO_VERSION


@dataclass(slots=True)
class MOSDPGUpdateLogMissingReply(Fields):
    """A replica acknowledges that it has appended the entries."""

    TYPE: ClassVar = MessageType.OSD_PG_UPDATE_LOG_MISSING_REPLY
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 3

    map_epoch: U32
    pgid: ShardedPgId
    sender: I8 = NO_SHARD
    rep_tid: U64 = 0
    min_epoch: U32 = 0
    last_complete_ondisk: EVersion = NO_VERSION
