"""Creation, removal and merges of placement groups (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.layout import I32, U32, U64, Since
from messenger.denc.utime import UTime
from messenger.messages.layout import Enveloped, Fields, Paxos
from messenger.messages.osd_objects import NO_VERSION, EVersion, ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PastIntervals, PgHistory
from messenger.messages.types import MessageType

_NO_PG = PgId(0, 0)


@dataclass(slots=True)
class MOSDPGCreate2(Fields):
    """A monitor requests an OSD to create placement groups."""

    TYPE: ClassVar = MessageType.OSD_PG_CREATE2
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    pgs: list[tuple[ShardedPgId, tuple[U32, UTime]]] = field(default_factory=list)
    """Placement groups, each with the epoch and the time of creation."""
    histories: Annotated[list[tuple[ShardedPgId, tuple[PgHistory, PastIntervals]]], Since(2)] = field(
        default_factory=list
    )


@dataclass(slots=True)
class MOSDPGCreated(Fields):
    """A primary reports to the monitors that it has created a placement group."""

    TYPE: ClassVar = MessageType.OSD_PG_CREATED
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    pgid: PgId


@dataclass(slots=True)
class MOSDPGRemove(Fields):
    """A primary requests an OSD to remove copies that are no longer needed."""

    TYPE: ClassVar = MessageType.OSD_PG_REMOVE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    epoch: U32
    pgs: list[ShardedPgId] = field(default_factory=list)


@dataclass(slots=True)
class MOSDPGReadyToMerge(Fields):
    """A primary reports to the monitors whether a placement group can be merged."""

    TYPE: ClassVar = MessageType.OSD_PG_READY_TO_MERGE
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    pgid: PgId
    source_version: EVersion = NO_VERSION
    target_version: EVersion = NO_VERSION
    last_epoch_started: U32 = 0
    last_epoch_clean: U32 = 0
    ready: bool = True


@dataclass(frozen=True, slots=True)
class PgCreation(Enveloped):
    """A placement group to create (pg_create_t)."""

    VERSION: ClassVar = 1

    created: U32 = 0
    """Epoch of the creation."""
    parent: PgId = _NO_PG
    """Retired, as is the next field."""
    split_bits: I32 = 0


@dataclass(slots=True)
class MOSDPGCreate(Fields):
    """A monitor requests an OSD to create placement groups, before :class:`MOSDPGCreate2`."""

    TYPE: ClassVar = MessageType.OSD_PG_CREATE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    epoch: U64
    pgs: dict[PgId, PgCreation] = field(default_factory=dict)
    ctimes: dict[PgId, UTime] = field(default_factory=dict)
    """Times of creation."""
