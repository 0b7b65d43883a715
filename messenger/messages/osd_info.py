"""One OSD in the OSD map (docs/protocol.md §6.6)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.layout import U8, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import Enveloped, Fields

DEFAULT_PRIMARY_AFFINITY = 0x10000
"""16.16 fixed point: no change of the probability that this OSD is the primary of a placement group."""
NO_UUID = UUID(int=0)


class OsdState(IntEnum):
    """Bits of :attr:`Osd.state`."""

    EXISTS = 1 << 0
    UP = 1 << 1
    AUTOOUT = 1 << 2
    NEW = 1 << 3
    FULL = 1 << 4
    NEARFULL = 1 << 5
    BACKFILLFULL = 1 << 6
    DESTROYED = 1 << 7
    NOUP = 1 << 8
    NODOWN = 1 << 9
    NOIN = 1 << 10
    NOOUT = 1 << 11
    STOP = 1 << 12


@dataclass(frozen=True, slots=True)
class OsdInfo(Fields):
    """Epochs of an OSD's history (osd_info_t); 0: never."""

    struct_v: U8 = 1
    last_clean_begin: U32 = 0
    """The last range of epochs in which it was up and which it ended cleanly."""
    last_clean_end: U32 = 0
    up_from: U32 = 0
    up_thru: U32 = 0
    """Epoch up to which it is known to have been up."""
    down_at: U32 = 0
    lost_at: U32 = 0


@dataclass(frozen=True, slots=True)
class OsdXInfo(Enveloped):
    """More about an OSD, for the monitors (osd_xinfo_t)."""

    VERSION: ClassVar = 4

    down_stamp: UTime = EPOCH
    laggy_probability: U32 = 0
    """As a fraction of 2**32 - 1."""
    laggy_interval_s: U32 = 0
    features: Annotated[U64, Since(2)] = 0
    """Features of the OSD's messenger."""
    old_weight: Annotated[U32, Since(3)] = 0
    """Its weight before it was marked out automatically."""
    last_purged_snaps_scrub: Annotated[UTime, Since(4)] = EPOCH
    dead_epoch: Annotated[U32, Since(4)] = 0


@dataclass(frozen=True, slots=True)
class Osd:
    """One OSD. The fields that only monitors and OSDs need come last."""

    state: int = 0
    """:class:`OsdState` bits."""
    weight: int = 0
    """16.16 fixed point: 0 is out, 0x10000 fully in."""
    client_addrs: AddrVec = field(default_factory=AddrVec)
    cluster_addrs: AddrVec = field(default_factory=AddrVec)
    hb_back_addrs: AddrVec = field(default_factory=AddrVec)
    hb_front_addrs: AddrVec = field(default_factory=AddrVec)
    uuid: UUID = NO_UUID
    info: OsdInfo = OsdInfo()
    xinfo: OsdXInfo = OsdXInfo()

    @property
    def exists(self) -> bool:
        """True if the id is in use."""
        return bool(self.state & OsdState.EXISTS)

    @property
    def is_up(self) -> bool:
        """True if the OSD is marked up."""
        return self.exists and bool(self.state & OsdState.UP)

    @property
    def is_in(self) -> bool:
        """True if the OSD is marked in, so that data is placed on it."""
        return self.exists and self.weight > 0
