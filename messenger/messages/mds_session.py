"""Sessions of file system clients: reconnection, reclaim, snapshots and quotas (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, I64, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Enveloped, Fields
from messenger.messages.types import MessageType

_INO_SIZE = 8
_NO_ADDRS = AddrVec()


@dataclass(slots=True)
class MClientReclaim(Fields):
    """A client that has restarted reclaims the state of its former session."""

    TYPE: ClassVar = MessageType.CLIENT_RECLAIM
    COMPAT_VERSION: ClassVar = 1

    uuid: str
    """The identity that the former session registered."""
    flags: U32 = 0
    """0x80000000: the reclaim is complete, and the former session ends."""


@dataclass(slots=True)
class MClientReclaimReply(Fields):
    """Result of a reclaim, with the addresses of the former client."""

    TYPE: ClassVar = MessageType.CLIENT_RECLAIM_REPLY
    COMPAT_VERSION: ClassVar = 1

    result: I32
    """0, or a negative Linux error number."""
    epoch: U32 = 0
    """The client needs at least this epoch of the OSD map, in which its former addresses are blocked."""
    addrs: AddrVec = _NO_ADDRS


@dataclass(frozen=True, slots=True)
class CapReconnect(Enveloped):
    """A capability that a client has when it reconnects (cap_reconnect_t)."""

    VERSION: ClassVar = 2

    path: str = ""
    cap_id: U64 = 0
    wanted: U32 = 0
    issued: U32 = 0
    realm: U64 = 0
    """The inode whose snapshots apply."""
    path_base: U64 = 0
    """The inode to which ``path`` is relative."""
    flocks: bytes = b""
    """Encoded file locks, uninterpreted."""
    snap_follows: Annotated[U64, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class RealmReconnect(Enveloped):
    """A snapshot realm that a client knows when it reconnects (snaprealm_reconnect_t)."""

    VERSION: ClassVar = 1

    ino: U64 = 0
    seq: U64 = 0
    parent: U64 = 0


@dataclass(slots=True)
class ReconnectState(Fields):
    """What the data segment of an :class:`MClientReconnect` contains, of the version of its header."""

    VERSION: ClassVar = 5
    OLDEST: ClassVar = 4

    caps: dict[U64, CapReconnect] = field(default_factory=dict)
    """By inode."""
    realms: list[RealmReconnect] = field(default_factory=list)
    more: Annotated[bool, Since(5)] = False
    """True if another message with more of the state follows."""


@dataclass(slots=True)
class MClientReconnect(Fields):
    """A client's capabilities, for an MDS that has restarted; a `ReconnectState` is in the data segment."""

    TYPE: ClassVar = MessageType.CLIENT_RECONNECT
    VERSION: ClassVar = 5
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4


@dataclass(frozen=True, slots=True)
class SnapHead(Fields):
    """Head of an :class:`MClientSnap` (ceph_mds_snap_head)."""

    op: U32 = 0
    """0 update, 1 create, 2 destroy, 3 split."""
    split: U64 = 0
    """The inode of the new realm, in a split."""
    num_split_inos: U32 = 0
    """Lengths of the three parts that follow; computed on encoding."""
    num_split_realms: U32 = 0
    trace_bytes: U32 = 0


@dataclass(slots=True)
class MClientSnap(Fields):
    """The MDS announces changes of snapshot realms to a client."""

    TYPE: ClassVar = MessageType.CLIENT_SNAP
    COMPAT_VERSION: ClassVar = 1

    head: SnapHead = SnapHead()
    split_inos: list[U64] = field(default_factory=list)
    """Inodes that move to the new realm."""
    split_realms: list[U64] = field(default_factory=list)
    """Realms that become children of the new realm."""
    trace: bytes = b""
    """Encoded snapshot realms, uninterpreted."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the front, with the lengths in the head."""
        inos, realms = len(self.split_inos), len(self.split_realms)
        head = replace(self.head, num_split_inos=inos, num_split_realms=realms, trace_bytes=len(self.trace))
        head.encode(encoder, features)
        for ino in (*self.split_inos, *self.split_realms):
            encoder.u64(ino)
        encoder.raw(self.trace)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode the front; raises as :meth:`Fields.decode`."""
        if version < cls.OLDEST:
            raise DecodeError(f"{cls.__name__} of version {version}, at least {cls.OLDEST} is known")
        head = SnapHead.decode(decoder, version, features)
        if (head.num_split_inos + head.num_split_realms) * _INO_SIZE > decoder.remaining:
            raise DecodeError(f"{head.num_split_inos} + {head.num_split_realms} inodes do not fit into the front")
        inos = [decoder.u64() for _ in range(head.num_split_inos)]
        realms = [decoder.u64() for _ in range(head.num_split_realms)]
        return cls(head, inos, realms, decoder.raw(head.trace_bytes))


@dataclass(frozen=True, slots=True)
class QuotaInfo(Enveloped):
    """Quota of a directory; 0 is no limit (quota_info_t)."""

    VERSION: ClassVar = 1

    max_bytes: I64 = 0
    max_files: I64 = 0


@dataclass(slots=True)
class MClientQuota(Fields):
    """The MDS announces the quota of a directory, and how much of it is used."""

    TYPE: ClassVar = MessageType.CLIENT_QUOTA
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    rctime: UTime = EPOCH
    """Newest change below the directory."""
    rbytes: I64 = 0
    rfiles: I64 = 0
    rsubdirs: I64 = 0
    quota: QuotaInfo = QuotaInfo()
