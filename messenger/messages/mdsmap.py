"""Maps for file system clients, and MDS reports to the monitors (MMDSMap, MMDSBeacon)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, I64, U8, U16, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Enveloped, Fields, Inside, Paxos, Rest, layout_of
from messenger.messages.types import MessageType

NO_RANK = -1


class MdsState(IntEnum):
    """Values of :attr:`MdsInfo.state`."""

    DOWN_DAMAGED = 15
    STOPPED = 0
    BOOT = -4
    STANDBY = -5
    CREATING = -6
    STARTING = -7
    STANDBY_REPLAY = -8
    REPLAY = 8
    RESOLVE = 9
    RECONNECT = 10
    REJOIN = 11
    CLIENTREPLAY = 12
    ACTIVE = 13
    STOPPING = 14


@dataclass(frozen=True, slots=True)
class MdsInfo(Enveloped):
    """One MDS daemon (mds_info_t); its features are in the tail."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "MDS"

    global_id: U64
    name: str
    rank: I32 = NO_RANK
    """The rank that it serves."""
    inc: I32 = 0
    """Epoch in which it took over the rank."""
    state: I32 = MdsState.STANDBY
    """A :class:`MdsState`."""
    state_seq: U64 = 0
    addrs: AddrVec = field(default_factory=AddrVec)
    laggy_since: UTime = EPOCH
    """Time since which it is laggy; 0 if it is not."""
    standby_for_rank: I32 = NO_RANK
    standby_for_name: str = ""
    export_targets: set[I32] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class MDSMap(Enveloped):
    """One file system, as its clients see it."""

    VERSION: ClassVar = 5
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "MDS map"

    epoch: U32
    flags: U32
    last_failure: U32
    root: I32
    """The rank that has the root directory."""
    session_timeout_s: U32
    """Capabilities that are not renewed for this time may be revoked."""
    session_autoclose_s: U32
    max_file_size_bytes: U64
    max_mds: I32
    mds_info: dict[U64, MdsInfo]
    """MDS daemons by global id."""
    data_pools: list[I64]
    cas_pool: I64
    rest: Rest
    """Fields that a mounting client does not need, uninterpreted: ranks, features, file system name."""

    def active(self) -> dict[int, MdsInfo]:
        """The daemons that serve clients, by rank."""
        return {info.rank: info for info in self.mds_info.values() if info.state == MdsState.ACTIVE}


@dataclass(slots=True)
class MMDSMap(Fields):
    """Carries an MDS map, still encoded; :meth:`MDSMap.decode` decodes it."""

    TYPE: ClassVar = MessageType.MDS_MAP
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    epoch: U32
    encoded: Annotated[bytes, Inside(lambda data: MDSMap.decode(Decoder(data)))]
    map_fs_name: Annotated[str, Since(2)] = ""


@dataclass(frozen=True, slots=True)
class FileSystemName(Enveloped):
    """Id and name of one file system."""

    VERSION: ClassVar = 1

    cid: I32
    name: str


@dataclass(frozen=True, slots=True)
class FSMapUser(Enveloped):
    """The list of file systems, for clients that mount by name."""

    VERSION: ClassVar = 1

    epoch: U32
    legacy_client_fscid: I32 = -1
    """The file system of clients that name none."""
    filesystems: list[FileSystemName] = field(default_factory=list)


@dataclass(slots=True)
class MFSMapUser(Fields):
    """Carries the list of file systems."""

    TYPE: ClassVar = MessageType.FS_MAP_USER
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    fsmap: FSMapUser


@dataclass(frozen=True, slots=True)
class FeatureSet(Fields):
    """Features of the file system's format: a mask, and the names of its bits."""

    mask: U64 = 0
    names: dict[U64, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompatSet(Fields):
    """Features that a daemon needs to use the file system at all, to read it, and to change it."""

    compat: FeatureSet = FeatureSet()
    ro_compat: FeatureSet = FeatureSet()
    incompat: FeatureSet = FeatureSet()


@dataclass(frozen=True, slots=True)
class MdsHealthMetric(Enveloped):
    """One health problem of an MDS."""

    VERSION: ClassVar = 1

    type: U16
    severity: U8
    message: str
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MdsHealth(Enveloped):
    """All health problems of an MDS."""

    VERSION: ClassVar = 1

    metrics: list[MdsHealthMetric] = field(default_factory=list)


@dataclass(slots=True)
class MMDSBeacon(Fields):
    """Keepalive and state of an MDS daemon for the monitors; the leader answers with the same message."""

    TYPE: ClassVar = MessageType.MDS_BEACON
    VERSION: ClassVar = 8
    COMPAT_VERSION: ClassVar = 6
    OLDEST: ClassVar = 6

    map_version: Paxos = field(default=0, kw_only=True)
    """Epoch of the file system map that the daemon has."""
    fsid: UUID
    global_id: U64
    state: I32
    """Current or requested state: a :class:`MdsState`."""
    seq: U64
    name: str
    standby_for_rank: I32 = NO_RANK
    standby_for_name: str = ""
    compat: CompatSet = CompatSet()
    health: MdsHealth = field(default_factory=MdsHealth)
    sys_info: dict[str, str] = field(default_factory=dict)
    """Properties shown by ``ceph mds metadata``; only sent in state BOOT."""
    mds_features: U64 = 0
    standby_for_fscid: I32 = -1
    standby_replay: Annotated[bool, Since(7)] = False
    fs: Annotated[str, Since(8)] = ""
    """The file system that the daemon prefers to serve."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the front; ``sys_info`` only in state BOOT."""
        for item in layout_of(MMDSBeacon):
            if item.name != "sys_info" or self.state == MdsState.BOOT:
                item.codec.encode(encoder, getattr(self, item.name), features)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode the front.

        Raises:
            DecodeError: the bytes are too short or malformed, or from before Nautilus.
        """
        if version < cls.OLDEST:
            raise DecodeError(f"MMDSBeacon of version {version}, at least {cls.OLDEST} is known")
        values: dict[str, Any] = {}
        for item in layout_of(cls):
            if version >= item.since and (item.name != "sys_info" or values["state"] == MdsState.BOOT):
                values[item.name] = item.codec.decode(decoder, features)
        return cls(**values)
