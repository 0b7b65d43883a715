"""Messages between MDSs: locks, discovery, tables, and the move of a directory (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from typing import ClassVar

from messenger.denc.layout import I32, I64, U8, U16, U32, U64
from messenger.messages.layout import I16, Enveloped, Fields, Paxos
from messenger.messages.mds_client import FilePath
from messenger.messages.types import MessageType

_NO_PATH = FilePath()


@dataclass(frozen=True, slots=True)
class DirFrag(Fields):
    """A fragment of a directory (dirfrag_t)."""

    ino: U64 = 0
    frag: U32 = 0


@dataclass(frozen=True, slots=True)
class MetaRequestId(Fields):
    """The request of a client that causes a message between MDSs (metareqid_t)."""

    type: U8 = 0
    num: I64 = 0
    tid: U64 = 0


_NO_FRAG = DirFrag()
_NO_REQUEST = MetaRequestId()


@dataclass(frozen=True, slots=True)
class CacheObject(Enveloped):
    """An inode or a directory entry in the caches of MDSs (MDSCacheObjectInfo)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2

    ino: U64 = 0
    """0: a directory entry, which the next two name."""
    dirfrag: DirFrag = _NO_FRAG
    name: str = ""
    snap: U64 = 0


_NO_CACHE_OBJECT = CacheObject()


@dataclass(slots=True)
class MLock(Fields):
    """An MDS asks for a change of a lock on an object, or answers."""

    TYPE: ClassVar = MessageType.MDS_LOCK
    COMPAT_VERSION: ClassVar = 1

    asker: I32
    """Rank of the MDS that asks."""
    action: I32
    reqid: MetaRequestId = _NO_REQUEST
    lock_type: U16 = 0
    object: CacheObject = _NO_CACHE_OBJECT
    lock_data: bytes = b""
    """Encoded state of the lock, uninterpreted."""


@dataclass(slots=True)
class MMDSTableRequest(Fields):
    """An MDS asks the server of the anchor or snapshot table for a change, or the answer."""

    TYPE: ClassVar = MessageType.MDS_TABLE_REQUEST
    COMPAT_VERSION: ClassVar = 1

    table: U16
    op: I16
    reqid: U64 = 0
    body: bytes = b""


@dataclass(slots=True)
class MGatherCaps(Fields):
    """A replica of an inode asks the MDS that has it to gather capabilities."""

    TYPE: ClassVar = MessageType.MDS_GATHERCAPS
    COMPAT_VERSION: ClassVar = 1

    ino: U64


@dataclass(slots=True)
class MMDSPing(Fields):
    """Rank 0 asks the other MDSs for metrics of their clients."""

    TYPE: ClassVar = MessageType.MDS_PING
    COMPAT_VERSION: ClassVar = 1

    seq: U64


@dataclass(slots=True)
class MMDSLoadTargets(Fields):
    """An MDS reports to the monitors to which others it moves directories."""

    TYPE: ClassVar = MessageType.MDS_OFFLOAD_TARGETS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    global_id: U64
    targets: set[I32] = field(default_factory=set)
    """Ranks."""


@dataclass(slots=True)
class MMDSSnapUpdate(Fields):
    """An MDS announces a change of a snapshot realm."""

    TYPE: ClassVar = MessageType.MDS_SNAPUPDATE
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    snap_op: I16 = 0
    snap_blob: bytes = b""


@dataclass(slots=True)
class MMDSFindIno(Fields):
    """An MDS asks for the path of an inode."""

    TYPE: ClassVar = MessageType.MDS_FINDINO
    COMPAT_VERSION: ClassVar = 1

    tid: U64
    ino: U64 = 0


@dataclass(slots=True)
class MMDSFindInoReply(Fields):
    """The path of an inode."""

    TYPE: ClassVar = MessageType.MDS_FINDINOREPLY
    COMPAT_VERSION: ClassVar = 1

    tid: U64
    path: FilePath = _NO_PATH


@dataclass(slots=True)
class MDiscover(Fields):
    """An MDS asks another one for replicas of a path."""

    TYPE: ClassVar = MessageType.MDS_DISCOVER
    COMPAT_VERSION: ClassVar = 1

    base_ino: U64
    base_dir_frag: U32 = 0
    snap: U64 = 0
    want: FilePath = _NO_PATH
    want_base_dir: bool = True
    path_locked: bool = False


@dataclass(slots=True)
class MDentryLink(Fields):
    """An MDS announces a new entry of a directory to those that have a replica."""

    TYPE: ClassVar = MessageType.MDS_DENTRYLINK
    COMPAT_VERSION: ClassVar = 1

    subtree: DirFrag
    dirfrag: DirFrag = _NO_FRAG
    name: str = ""
    is_primary: bool = False
    inode: bytes = b""
    """Encoded, uninterpreted."""


@dataclass(slots=True)
class MDentryUnlink(Fields):
    """An MDS announces that an entry of a directory is gone."""

    TYPE: ClassVar = MessageType.MDS_DENTRYUNLINK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    name: str = ""
    stray: bytes = b""
    """The inode's new place, encoded."""


@dataclass(slots=True)
class MExportDirDiscover(Fields):
    """An MDS offers a directory to another one."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRDISCOVER
    COMPAT_VERSION: ClassVar = 1

    sender: I32
    dirfrag: DirFrag = _NO_FRAG
    path: FilePath = _NO_PATH


@dataclass(slots=True)
class MExportDirDiscoverAck(Fields):
    """The importer has found the directory, or has not."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRDISCOVERACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    success: bool = True


@dataclass(slots=True)
class MExportDirPrep(Fields):
    """The exporter describes the directory and its bounds."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRPREP
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    basedir: bytes = b""
    bounds: list[DirFrag] = field(default_factory=list)
    traces: list[bytes] = field(default_factory=list)
    bystanders: set[I32] = field(default_factory=set)
    """Ranks of other MDSs with replicas."""


@dataclass(slots=True)
class MExportDirPrepAck(Fields):
    """The importer is ready, or is not."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRPREPACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    success: bool = True


@dataclass(slots=True)
class MExportDir(Fields):
    """The content of the directory."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIR
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    bounds: list[DirFrag] = field(default_factory=list)
    export_data: bytes = b""
    client_map: bytes = b""


@dataclass(slots=True)
class MExportDirAck(Fields):
    """The importer has the directory in its journal."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    imported_caps: bytes = b""


@dataclass(slots=True)
class MExportDirFinish(Fields):
    """The importer may serve the directory."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRFINISH
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    last: bool = False
