"""Replicas, fragments, lookups, and requests in which several MDSs take part (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U8, U16, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import I8, I16, Codec, Enveloped, Fields
from messenger.messages.mds_client import FilePath
from messenger.messages.mds_peer import CacheObject, DirFrag, MetaRequestId
from messenger.messages.mds_recovery import VInode
from messenger.messages.types import MessageType

_NO_FRAG = DirFrag()
_NO_PATH = FilePath()
_NO_OBJECT = CacheObject()
_NO_SNAP = (1 << 64) - 2
_NO_RANK = -1


def _encode_last_text(encoder: Encoder, text: str, _features: int) -> None:
    encoder.string(text)


def _decode_last_text(decoder: Decoder, _features: int) -> str:
    return decoder.string() if decoder.remaining else ""


OptionalText = Annotated[str, Codec(_encode_last_text, _decode_last_text, 0)]
"""A text at the end of a front; the front may end before it."""


@dataclass(slots=True)
class MDiscoverReply(Fields):
    """Replicas for an MDS that has sent an MDiscover."""

    TYPE: ClassVar = MessageType.MDS_DISCOVERREPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    base_ino: U64
    base_dir_frag: U32 = 0
    wanted_base_dir: bool = False
    path_locked: bool = False
    wanted_snap: U64 = _NO_SNAP
    dentry_missing: bool = False
    """True if ``error_dentry`` does not exist."""
    not_a_directory: bool = False
    error_dentry: str = ""
    dir_auth_hint: I32 = _NO_RANK
    """The rank that is probably authoritative."""
    unsolicited: bool = False
    starts_with: U8 = 0
    """The first replica in the trace: 0 directory, 1 entry, 2 inode."""
    trace: bytes = b""
    """Encoded directories, entries and inodes, uninterpreted."""


@dataclass(slots=True)
class MDirUpdate(Fields):
    """An MDS announces at which ranks a directory is replicated."""

    TYPE: ClassVar = MessageType.MDS_DIRUPDATE
    COMPAT_VERSION: ClassVar = 1

    sender: I32
    dirfrag: DirFrag = _NO_FRAG
    dir_rep: I32 = 0
    """0 nowhere, 1 at all MDSs, 2 at those of ``ranks``."""
    discover: I32 = 0
    """If not 0, the receiver requests a replica."""
    ranks: set[I32] = field(default_factory=set)
    path: FilePath = _NO_PATH


@dataclass(frozen=True, slots=True)
class ExpiredRealm(Fields):
    """Replicas below one directory; each has the nonce of the replica."""

    inodes: list[tuple[VInode, U32]] = field(default_factory=list)
    dirs: list[tuple[DirFrag, U32]] = field(default_factory=list)
    dentries: list[tuple[DirFrag, list[tuple[tuple[str, U64], U32]]]] = field(default_factory=list)
    """By directory, name and last snapshot."""


@dataclass(slots=True)
class MCacheExpire(Fields):
    """An MDS has removed replicas from its cache."""

    TYPE: ClassVar = MessageType.MDS_CACHEEXPIRE
    COMPAT_VERSION: ClassVar = 1

    sender: I32
    realms: list[tuple[DirFrag, ExpiredRealm]] = field(default_factory=list)


@dataclass(slots=True)
class MMDSFragmentNotify(Fields):
    """A directory was split into more fragments, or fragments were merged."""

    TYPE: ClassVar = MessageType.MDS_FRAGMENTNOTIFY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    bits: I8 = 0
    """The fragment is split into 2**bits; negative: it is merged from as many."""
    base: bytes = b""
    """Encoded state of the fragments, uninterpreted."""
    ack_wanted: Annotated[bool, Since(2)] = False


@dataclass(slots=True)
class MMDSFragmentNotifyAck(Fields):
    """Acknowledges an MMDSFragmentNotify."""

    TYPE: ClassVar = MessageType.MDS_FRAGMENTNOTIFYACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    bits: I8 = 0


@dataclass(frozen=True, slots=True)
class BackPointer(Enveloped):
    """A directory and the name of an entry in it (inode_backpointer_t)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "back pointer"

    dir_ino: U64 = 0
    name: str = ""
    version: U64 = 0


@dataclass(slots=True)
class MMDSOpenIno(Fields):
    """Requests another MDS to open an inode."""

    TYPE: ClassVar = MessageType.MDS_OPENINO
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    ancestors: list[BackPointer] = field(default_factory=list)
    """The path to the inode, from its end."""


@dataclass(slots=True)
class MMDSOpenInoReply(Fields):
    """Whether another MDS has opened an inode, and where else to ask."""

    TYPE: ClassVar = MessageType.MDS_OPENINOREPLY
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    ancestors: list[BackPointer] = field(default_factory=list)
    hint: I32 = _NO_RANK
    """The rank that is probably authoritative."""
    error: I32 = 0


@dataclass(slots=True)
class MInodeFileCaps(Fields):
    """A replica of an inode reports to the authoritative MDS which capabilities its clients want."""

    TYPE: ClassVar = MessageType.MDS_INODEFILECAPS
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    caps: U32 = 0


@dataclass(slots=True)
class MMDSPeerRequest(Fields):
    """One step of a request in which several MDSs take part."""

    TYPE: ClassVar = MessageType.MDS_PEER_REQUEST
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    reqid: MetaRequestId
    attempt: U32 = 0
    op: I16 = 0
    """1 lock exclusively, 2 unlock, 3 pin, 4 prepare link, 5 unlink, 7 rename, 10 rmdir, 8 lock for writing, 9
    unlock, 11 drop locks, 12 announce rename, 17 finish, 20 abort; negative: acknowledged; -18 committed."""
    flags: U16 = 0
    lock_type: U16 = 0
    object: CacheObject = _NO_OBJECT
    """The object to lock."""
    authpins: list[CacheObject] = field(default_factory=list)
    src_path: FilePath = _NO_PATH
    dest_path: FilePath = _NO_PATH
    witnesses: set[I32] = field(default_factory=set)
    """Ranks that must take part in the rename."""
    op_stamp: UTime = EPOCH
    inode_export: bytes = b""
    """Encoded inode, or state of a lock, uninterpreted."""
    inode_export_version: U64 = 0
    src_auth: I32 = _NO_RANK
    stray: bytes = b""
    """Encoded directory and entry of an inode without a name, uninterpreted."""
    src_snap: bytes = b""
    dest_snap: bytes = b""
    alternate_name: OptionalText = ""
    """Missing before Pacific."""
    referent_ino: Annotated[U64, Since(2)] = 0
