"""Sessions of file system clients with an MDS, and requests (MClientSession, MClientRequest, MClientReply).

The parts that depend on the operation (arguments, inodes, capabilities) stay uninterpreted.
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U8, U16, U32, U64, Blob, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Enveloped, Fields, RawEnvelope, encode_fields, layout_of, raw_codec
from messenger.messages.types import MessageType

_U64_MAX = (1 << 64) - 1
_U32_MAX = (1 << 32) - 1
_ARGUMENTS_SIZE = 56
_NEWEST_HEAD_VERSION = 3
_NEWEST_HEAD_SIZE = 118


class SessionOp(IntEnum):
    """Values of :attr:`MClientSession.op`."""

    REQUEST_OPEN = 0
    OPEN = 1
    REQUEST_CLOSE = 2
    CLOSE = 3
    REQUEST_RENEWCAPS = 4
    RENEWCAPS = 5
    STALE = 6
    RECALL_STATE = 7
    FLUSHMSG = 8
    FLUSHMSG_ACK = 9
    FORCE_RO = 10
    REJECT = 11
    REQUEST_FLUSH_MDLOG = 12


class MdsRequestOp(IntEnum):
    """Some values of :attr:`RequestHead.op`; operations that change the file system have bit 0x1000."""

    LOOKUP = 0x00100
    GETATTR = 0x00101
    SETXATTR = 0x01105
    SETATTR = 0x01108
    MKNOD = 0x01201
    LINK = 0x01202
    UNLINK = 0x01203
    RENAME = 0x01204
    MKDIR = 0x01220
    RMDIR = 0x01221
    SYMLINK = 0x01222
    CREATE = 0x01301
    OPEN = 0x00302
    READDIR = 0x00305


@dataclass(frozen=True, slots=True)
class MetricSpec(Enveloped):
    """The metrics that a client collects."""

    VERSION: ClassVar = 1

    metric_flags: Blob = b""
    """A bit set, lowest bit first."""


@dataclass(slots=True)
class MClientSession(Fields):
    """Opens, renews and closes a session, in both directions."""

    TYPE: ClassVar = MessageType.CLIENT_SESSION
    VERSION: ClassVar = 7
    COMPAT_VERSION: ClassVar = 1

    op: U32
    """A :class:`SessionOp`."""
    seq: U64 = 0
    """Number of the message, counted over those about capabilities."""
    stamp: UTime = EPOCH
    max_caps: U32 = 0
    """In RECALL_STATE: number of capabilities that the client may keep."""
    max_leases: U32 = 0
    metadata: Annotated[dict[str, str], Since(2)] = field(default_factory=dict)
    """Properties of the client, as ``ceph tell mds.N session ls`` shows them."""
    supported_features: Annotated[Blob, Since(3)] = b""
    """File system features as a bit set, lowest bit first."""
    metric_spec: Annotated[MetricSpec, Since(4)] = MetricSpec()
    flags: Annotated[U32, Since(5)] = 0
    """1: the client is blocklisted."""
    cap_auths: Annotated[list[RawEnvelope], Since(6)] = field(default_factory=list)
    """What the client may do on which paths, uninterpreted."""
    oldest_client_tid: Annotated[U64, Since(7)] = _U64_MAX


@dataclass(frozen=True, slots=True)
class FilePath(Fields):
    """A path relative to an inode."""

    struct_v: U8 = 1
    ino: U64 = 0
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead(Fields):
    """Head of every request (ceph_mds_request_head), with a version of its own."""

    version: U16 = 2
    oldest_client_tid: U64 = 0
    mdsmap_epoch: U32 = 0
    flags: U32 = 0
    """1 replayed, 2 wants the dentry, 4 asynchronous."""
    num_retry: U8 = 0
    num_fwd: U8 = 0
    num_releases: U16 = 0
    """Number of releases in the request; computed on encoding."""
    op: U32
    """A :class:`MdsRequestOp`, or another operation."""
    caller_uid: U32 = 0
    caller_gid: U32 = 0
    ino: U64 = 0
    """Inode number of a replayed creation."""
    arguments: Annotated[bytes, raw_codec(_ARGUMENTS_SIZE)] = bytes(_ARGUMENTS_SIZE)
    """A union by operation, uninterpreted."""
    ext_num_retry: Annotated[U32, Since(2)] = 0
    ext_num_fwd: Annotated[U32, Since(2)] = 0
    struct_bytes: Annotated[U32, Since(3)] = _NEWEST_HEAD_SIZE
    """Length of the head."""
    owner_uid: Annotated[U32, Since(3)] = _U32_MAX
    """Owner of the new inode; 2**32 - 1: the caller."""
    owner_gid: Annotated[U32, Since(3)] = _U32_MAX

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the head in its own version."""
        encode_fields(self, encoder, self.version, features)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, features: int) -> Self:
        """Decode a head of any version from 1 on.

        Raises:
            DecodeError: the bytes are too short, or have another version.
        """
        version = decoder.u16()
        if not 1 <= version <= _NEWEST_HEAD_VERSION:
            raise DecodeError(f"request head of version {version}, 1 to {_NEWEST_HEAD_VERSION} are known")
        known = [item for item in layout_of(cls)[1:] if version >= item.since]
        return cls(version=version, **{item.name: item.codec.decode(decoder, features) for item in known})


@dataclass(frozen=True, slots=True)
class CapRelease(Fields):
    """Returns capabilities, and possibly a dentry lease, together with a request."""

    ino: U64
    cap_id: U64
    caps: U32 = 0
    wanted: U32 = 0
    seq: U32 = 0
    issue_seq: U32 = 0
    mseq: U32 = 0
    dname_seq: U32 = 0
    dname: str = ""


@dataclass(slots=True)
class MClientRequest(Fields):
    """One operation on the file system."""

    TYPE: ClassVar = MessageType.CLIENT_REQUEST
    VERSION: ClassVar = 6
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 4

    head: RequestHead
    path: FilePath = FilePath()
    path2: FilePath = FilePath()
    """Second path of operations with two paths; the target of a link."""
    releases: list[CapRelease] = field(default_factory=list)
    stamp: UTime = EPOCH
    gid_list: list[U64] = field(default_factory=list)
    alternate_name: Annotated[str, Since(5)] = ""
    fscrypt_auth: Annotated[Blob, Since(6)] = b""
    fscrypt_file: Annotated[Blob, Since(6)] = b""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the front, with the number of releases in the head."""
        replace(self.head, num_releases=len(self.releases)).encode(encoder, features)
        for item in layout_of(MClientRequest)[1:]:
            if item.name == "releases":
                for release in self.releases:
                    release.encode(encoder, features)
            else:
                item.codec.encode(encoder, getattr(self, item.name), features)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode the front.

        Raises:
            DecodeError: the bytes are too short or malformed, or from a client without birth times.
        """
        if version < cls.OLDEST:
            raise DecodeError(f"MClientRequest of version {version}, at least {cls.OLDEST} is known")
        head = RequestHead.decode(decoder, 0, features)
        values: dict[str, Any] = {}
        for item in layout_of(cls)[1:]:
            if item.name == "releases":
                values[item.name] = [CapRelease.decode(decoder, 0, features) for _ in range(head.num_releases)]
            elif version >= item.since:
                values[item.name] = item.codec.decode(decoder, features)
        return cls(head, **values)


@dataclass(slots=True)
class MClientReply(Fields):
    """Result of a request, with inodes and capabilities for the client."""

    TYPE: ClassVar = MessageType.CLIENT_REPLY
    COMPAT_VERSION: ClassVar = 1

    op: U32
    result: I32
    """0, or a negative Linux error number."""
    mdsmap_epoch: U32 = 0
    safe: bool = True
    """True if the change is on disk; False: a second reply with True follows."""
    is_dentry: bool = False
    """True if ``trace`` contains a dentry."""
    is_target: bool = False
    """True if ``trace`` contains an inode."""
    trace: Blob = b""
    """Inodes on the path, uninterpreted."""
    extra: Blob = b""
    """Depends on the operation: directory entries, the number of a new inode and so on, uninterpreted."""
    snap: Blob = b""
    """Snapshot realms, uninterpreted."""
