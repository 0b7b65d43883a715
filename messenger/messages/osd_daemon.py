"""Reports and requests of OSDs to the monitors (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.layout import I32, I64, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import F64, Enveloped, Fields, Paxos
from messenger.messages.mdsmap import CompatSet
from messenger.messages.osd_info import NO_UUID
from messenger.messages.pg import PgId
from messenger.messages.types import MessageType


@dataclass(frozen=True, slots=True)
class OsdSuperblock(Enveloped):
    """What an OSD stores about itself on its disk (OSDSuperblock)."""

    VERSION: ClassVar = 11
    COMPAT: ClassVar = 5
    OLDEST: ClassVar = 8
    WHAT: ClassVar = "superblock"

    cluster_fsid: UUID
    whoami: I32
    current_epoch: U32 = 0
    oldest_map: U32 = 0
    newest_map: U32 = 0
    weight: F64 = 0.0
    compat_features: CompatSet = field(default_factory=CompatSet)
    clean_thru: U32 = 0
    """Epoch in which it last stopped cleanly."""
    mounted: U32 = 0
    """Epoch in which it last started."""
    osd_fsid: UUID = NO_UUID
    last_map_marked_full: U32 = 0
    pool_last_map_marked_full: dict[I64, U32] = field(default_factory=dict)
    purged_snaps_last: Annotated[U32, Since(9)] = 0
    last_purged_snaps_scrub: Annotated[UTime, Since(9)] = EPOCH
    cluster_osdmap_trim_lower_bound: Annotated[U32, Since(10)] = 0
    maps: Annotated[dict[U32, U32], Since(11)] = field(default_factory=dict)
    """Ranges of epochs whose maps it has: first epoch to count."""


@dataclass(slots=True)
class MOSDBoot(Fields):
    """A started OSD asks to be marked up; its client addresses are those of the connection."""

    TYPE: ClassVar = MessageType.OSD_BOOT
    VERSION: ClassVar = 7
    COMPAT_VERSION: ClassVar = 7
    OLDEST: ClassVar = 7

    map_version: Paxos = field(default=0, kw_only=True)
    """Epoch of the map that the OSD has; the same in the other messages of this module."""
    superblock: OsdSuperblock
    hb_back_addrs: AddrVec
    cluster_addrs: AddrVec
    boot_epoch: U32
    """Epoch in which this process was marked up before; 0: never."""
    hb_front_addrs: AddrVec
    metadata: dict[str, str] = field(default_factory=dict)
    """Properties that ``ceph osd metadata`` shows."""
    osd_features: U64 = 0


@dataclass(slots=True)
class MOSDAlive(Fields):
    """An OSD requests a new ``up_thru`` in the map, which it needs before it accepts writes."""

    TYPE: ClassVar = MessageType.OSD_ALIVE
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    want: U32
    """The lowest acceptable ``up_thru``."""


@dataclass(slots=True)
class MOSDBeacon(Fields):
    """Keepalive of an OSD for the monitors."""

    TYPE: ClassVar = MessageType.OSD_BEACON
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    pgs: list[PgId] = field(default_factory=list)
    """Placement groups of which it is the primary."""
    min_last_epoch_clean: U32 = 0
    last_purged_snaps_scrub: Annotated[UTime, Since(2)] = EPOCH
    report_interval_s: Annotated[I32, Since(3)] = 0


@dataclass(slots=True)
class MOSDPGTemp(Fields):
    """A primary requests other OSDs to serve placement groups temporarily."""

    TYPE: ClassVar = MessageType.OSD_PGTEMP
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    map_epoch: U32
    pg_temp: dict[PgId, list[I32]] = field(default_factory=dict)
    """An empty list requests the mapping of CRUSH."""
    forced: Annotated[bool, Since(2)] = False


@dataclass(slots=True)
class MOSDFull(Fields):
    """An OSD requests a change of its full bits in the map."""

    TYPE: ClassVar = MessageType.OSD_FULL
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    map_epoch: U32
    state: U32 = 0
    """State bits of the map: 0x10 full, 0x20 nearly full, 0x40 too full for a backfill."""
