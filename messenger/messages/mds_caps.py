"""What a file system client may cache and change: capabilities, leases, snapshots (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U8, U16, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Fields, LayoutField, layout_of, raw_codec
from messenger.messages.types import MessageType

_PEER_PADDING_SIZE = 63
_PeerPadding = Annotated[bytes, raw_codec(_PEER_PADDING_SIZE)]


class CapOp(IntEnum):
    """Values of :attr:`CapsHead.op`."""

    GRANT = 0
    REVOKE = 1
    TRUNC = 2
    EXPORT = 3
    IMPORT = 4
    UPDATE = 5
    DROP = 6
    FLUSH = 7
    FLUSH_ACK = 8
    FLUSHSNAP = 9
    FLUSHSNAP_ACK = 10
    RELEASE = 11
    RENEW = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsHead(Fields):
    """The inode, its capabilities, and some of its attributes (ceph_mds_caps_head)."""

    op: U32
    """A :class:`CapOp`."""
    ino: U64
    realm: U64 = 0
    """The inode whose snapshots apply."""
    cap_id: U64 = 0
    seq: U32 = 0
    issue_seq: U32 = 0
    caps: U32 = 0
    """Capabilities, as bits."""
    wanted: U32 = 0
    dirty: U32 = 0
    migrate_seq: U32 = 0
    snap_follows: U64 = 0
    snap_trace_bytes: U32 = 0
    """Length of :attr:`MClientCaps.snap_trace`; computed on encoding."""
    uid: U32 = 0
    gid: U32 = 0
    mode: U32 = 0
    nlink: U32 = 0
    xattr_bytes: U32 = 0
    """Length of the extended attributes, which are the middle segment."""
    xattr_version: U64 = 0


@dataclass(frozen=True, slots=True)
class LegacyLayout(Fields):
    """Striping of a file over objects (ceph_file_layout)."""

    stripe_unit: U32 = 0
    stripe_count: U32 = 0
    object_size: U32 = 0
    cas_hash: U32 = 0
    object_stripe_unit: U32 = 0
    unused: U32 = 0
    pool: U32 = 0


_NO_LAYOUT = LegacyLayout()


@dataclass(frozen=True, slots=True)
class CapsFile(Fields):
    """Size and times of a file."""

    size: U64 = 0
    max_size: U64 = 0
    """The client may write up to this offset."""
    truncate_size: U64 = 0
    truncate_seq: U32 = 0
    mtime: UTime = EPOCH
    atime: UTime = EPOCH
    ctime: UTime = EPOCH
    layout: LegacyLayout = _NO_LAYOUT
    time_warp_seq: U32 = 0


@dataclass(frozen=True, slots=True)
class CapsPeer(Fields):
    """The same capability at another MDS (ceph_mds_cap_peer)."""

    cap_id: U64 = 0
    issue_seq: U32 = 0
    migrate_seq: U32 = 0
    mds: U32 = 0
    """Rank of that MDS."""
    flags: U8 = 0


@dataclass(frozen=True, slots=True)
class CapsMoved(Fields):
    """Replaces :class:`CapsFile` while an inode moves between MDSs."""

    peer: CapsPeer = CapsPeer()
    padding: _PeerPadding = bytes(_PEER_PADDING_SIZE)


@dataclass(slots=True)
class MClientCaps(Fields):
    """Capabilities of one inode: granted or revoked by the MDS, updated or released by the client."""

    TYPE: ClassVar = MessageType.CLIENT_CAPS
    VERSION: ClassVar = 12
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 9

    head: CapsHead
    file: CapsFile = CapsFile()
    """Not in EXPORT and IMPORT."""
    moved: CapsMoved = CapsMoved()
    """Only in EXPORT and IMPORT."""
    snap_trace: bytes = b""
    """Encoded snapshot realms, uninterpreted."""
    flocks: bytes = b""
    """Encoded file locks, uninterpreted."""
    peer: CapsPeer = CapsPeer()
    """Only in IMPORT."""
    inline_version: U64 = 0
    inline_data: bytes = b""
    osd_epoch_barrier: U32 = 0
    """The client needs at least this epoch of the OSD map before it writes."""
    oldest_flush_tid: U64 = 0
    caller_uid: U32 = 0
    caller_gid: U32 = 0
    pool_namespace: str = ""
    btime: UTime = EPOCH
    change_attr: U64 = 0
    flags: Annotated[U32, Since(10)] = 0
    nfiles: Annotated[U64, Since(11)] = 0
    nsubdirs: Annotated[U64, Since(11)] = 0
    fscrypt_auth: Annotated[bytes, Since(12)] = b""
    fscrypt_file: Annotated[bytes, Since(12)] = b""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the fields that the operation has."""
        head = replace(self.head, snap_trace_bytes=len(self.snap_trace))
        head.encode(encoder, features)
        for item in _caps_layout(head.op, self.VERSION):
            if item.name == "snap_trace":
                encoder.raw(self.snap_trace)
            else:
                item.codec.encode(encoder, getattr(self, item.name), features)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode the fields that the operation has; raises as :meth:`Fields.decode`."""
        if version < cls.OLDEST:
            raise DecodeError(f"{cls.__name__} of version {version}, at least {cls.OLDEST} is known")
        head = CapsHead.decode(decoder, 1, features)
        values: dict[str, Any] = {}
        for item in _caps_layout(head.op, version):
            if item.name == "snap_trace":
                values[item.name] = decoder.raw(head.snap_trace_bytes)
            else:
                values[item.name] = item.codec.decode(decoder, features)
        return cls(head, **values)


def _caps_layout(op: int, version: int) -> list[LayoutField]:
    """The fields after the head."""
    moves = op in {CapOp.EXPORT, CapOp.IMPORT}
    absent = {"head", "file" if moves else "moved"} | (set() if op == CapOp.IMPORT else {"peer"})
    return [item for item in layout_of(MClientCaps) if version >= item.since and item.name not in absent]


@dataclass(slots=True)
class MClientLease(Fields):
    """A lease on the name of a directory entry."""

    TYPE: ClassVar = MessageType.CLIENT_LEASE
    COMPAT_VERSION: ClassVar = 1

    action: U8
    """1 revoke, 2 release, 3 renew, 4 revoke acknowledged."""
    mask: U16 = 0
    ino: U64 = 0
    """Inode of the directory."""
    first: U64 = 0
    """First and last snapshot."""
    last: U64 = 0
    seq: U32 = 0
    duration_ms: U32 = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class ReleasedCap(Fields):
    """A capability that a client returns (ceph_mds_cap_item)."""

    ino: U64
    cap_id: U64 = 0
    migrate_seq: U32 = 0
    seq: U32 = 0


@dataclass(slots=True)
class MClientCapRelease(Fields):
    """Returns capabilities that a client no longer needs."""

    TYPE: ClassVar = MessageType.CLIENT_CAPRELEASE
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    caps: list[ReleasedCap] = field(default_factory=list)
    osd_epoch_barrier: Annotated[U32, Since(2)] = 0


@dataclass(slots=True)
class MClientRequestForward(Fields):
    """An MDS has forwarded a request to another MDS, or redirects the client to it."""

    TYPE: ClassVar = MessageType.CLIENT_REQUEST_FORWARD
    COMPAT_VERSION: ClassVar = 1

    dest_mds: I32
    num_fwd: I32 = 0
    client_must_resend: bool = False
