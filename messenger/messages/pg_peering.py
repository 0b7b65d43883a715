"""Peering: the OSDs of a placement group agree on its state (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import ClassVar

from messenger.denc.layout import U32
from messenger.messages.layout import Fields
from messenger.messages.osd_objects import ShardedPgId
from messenger.messages.pg_info import PastIntervals, PgInfo, PgLease, PgLeaseAck, PgNotify, PgQuery
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MOSDPGNotify(Fields):
    """Infos about copies, for their primary; up to Nautilus."""

    TYPE: ClassVar = MessageType.OSD_PG_NOTIFY
    VERSION: ClassVar = 6
    COMPAT_VERSION: ClassVar = 6
    OLDEST: ClassVar = 6

    epoch: U32
    pgs: list[tuple[PgNotify, PastIntervals]] = field(default_factory=list)


@dataclass(slots=True)
class MOSDPGQuery(Fields):
    """The primary queries copies; up to Nautilus."""

    TYPE: ClassVar = MessageType.OSD_PG_QUERY
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    epoch: U32
    retired: U32 = field(default=0, kw_only=True)
    """The count of a list that is always empty."""
    pgs: list[tuple[ShardedPgId, PgQuery]] = field(default_factory=list)


@dataclass(slots=True)
class MOSDPGInfo(Fields):
    """The state that the primary has determined, or the new state of a copy; up to Nautilus."""

    TYPE: ClassVar = MessageType.OSD_PG_INFO
    VERSION: ClassVar = 5
    COMPAT_VERSION: ClassVar = 5
    OLDEST: ClassVar = 5

    epoch: U32
    pgs: list[tuple[PgNotify, PastIntervals]] = field(default_factory=list)


@dataclass(slots=True)
class MOSDPGNotify2(Fields):
    """Info about a copy, for its primary; from Octopus on."""

    TYPE: ClassVar = MessageType.OSD_PG_NOTIFY2
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    notify: PgNotify


@dataclass(slots=True)
class MOSDPGQuery2(Fields):
    """The primary queries a copy; from Octopus on."""

    TYPE: ClassVar = MessageType.OSD_PG_QUERY2
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    query: PgQuery


@dataclass(slots=True)
class MOSDPGInfo2(Fields):
    """The state that the primary has determined, or the new state of a copy; from Octopus on."""

    TYPE: ClassVar = MessageType.OSD_PG_INFO2
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    epoch_sent: U32
    min_epoch: U32
    info: PgInfo
    lease: PgLease | None = None
    lease_ack: PgLeaseAck | None = None


@dataclass(slots=True)
class MOSDPGLease(Fields):
    """The primary extends the time for which copies may be read."""

    TYPE: ClassVar = MessageType.OSD_PG_LEASE
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    pgid: ShardedPgId
    lease: PgLease


@dataclass(slots=True)
class MOSDPGLeaseAck(Fields):
    """A copy acknowledges an MOSDPGLease."""

    TYPE: ClassVar = MessageType.OSD_PG_LEASE_ACK
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    pgid: ShardedPgId
    lease_ack: PgLeaseAck
