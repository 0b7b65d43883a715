"""Scrubbing of placement groups (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import I32, U32, Since
from messenger.messages.layout import I8, Fields
from messenger.messages.osd_objects import NO_SHARD, NO_VERSION, EVersion, HObject, ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgShard
from messenger.messages.types import MessageType

_NO_OBJECT = HObject()
_SOME_OSD = PgShard(0)


class ScrubReserveType(IntEnum):
    """Values of :attr:`MOSDScrubReserve.type`."""

    REQUEST = 0
    GRANT = 1
    RELEASE = 2
    REJECT = 3


@dataclass(slots=True)
class MOSDScrub(Fields):
    """The manager requests an OSD to scrub placement groups, before :class:`MOSDScrub2`."""

    TYPE: ClassVar = MessageType.OSD_SCRUB
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    fsid: UUID
    pgs: list[PgId] = field(default_factory=list)
    """Empty: all of which the OSD is the primary."""
    repair: bool = False
    deep: bool = False


@dataclass(slots=True)
class MOSDScrub2(Fields):
    """The manager requests a primary to scrub placement groups."""

    TYPE: ClassVar = MessageType.OSD_SCRUB2
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    epoch: U32
    pgs: list[ShardedPgId] = field(default_factory=list)
    repair: bool = False
    deep: bool = False


@dataclass(slots=True)
class MOSDScrubReserve(Fields):
    """A primary's reservation of a scrub slot at a replica, and the replica's answer."""

    TYPE: ClassVar = MessageType.OSD_SCRUB_RESERVE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    pgid: ShardedPgId
    map_epoch: U32
    type: I32
    """A :class:`ScrubReserveType`."""
    sender: PgShard = _SOME_OSD
    reservation_nonce: Annotated[U32, Since(2)] = 0
    wait_for_resources: Annotated[bool, Since(3)] = False
    """True if the replica queues the request while it has no free slot."""


@dataclass(slots=True)
class MOSDRepScrub(Fields):
    """A primary requests the scrub map of a range of objects from a replica."""

    TYPE: ClassVar = MessageType.OSD_REP_SCRUB
    VERSION: ClassVar = 9
    COMPAT_VERSION: ClassVar = 6
    OLDEST: ClassVar = 9

    pgid: PgId
    scrub_from: EVersion = NO_VERSION
    scrub_to: EVersion = NO_VERSION
    map_epoch: U32 = 0
    chunky: bool = True
    start: HObject = _NO_OBJECT
    end: HObject = _NO_OBJECT
    deep: bool = False
    shard: I8 = NO_SHARD
    seed: U32 = (1 << 32) - 1
    """Retired."""
    min_epoch: U32 = 0
    allow_preemption: bool = False
    priority: I32 = 0
    high_priority: bool = False


@dataclass(slots=True)
class MOSDRepScrubMap(Fields):
    """A replica's reply; the scrub map is in the data segment."""

    TYPE: ClassVar = MessageType.OSD_REP_SCRUBMAP
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    pgid: ShardedPgId
    map_epoch: U32
    sender: PgShard = _SOME_OSD
    preempted: bool = False
