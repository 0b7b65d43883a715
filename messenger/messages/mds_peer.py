"""Messages between MDSs: locks, discovery, tables, and export of directories (docs/protocol.md §6.1)."""

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
    """The client request that caused a message between MDSs (metareqid_t)."""

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
    """0 for a directory entry, which the next two fields name."""
    dirfrag: DirFrag = _NO_FRAG
    name: str = ""
    snap: U64 = 0


_NO_CACHE_OBJECT = CacheObject()


@dataclass(slots=True)
class MLock(Fields):
    """Requests a change of an object's lock, or answers such a request."""

    TYPE: ClassVar = MessageType.MDS_LOCK
    COMPAT_VERSION: ClassVar = 1

    asker: I32
    """Rank of the requesting MDS."""
    action: I32
    reqid: MetaRequestId = _NO_REQUEST
    lock_type: U16 = 0
    object: CacheObject = _NO_CACHE_OBJECT
    lock_data: bytes = b""
    """Encoded state of the lock, uninterpreted."""


@dataclass(slots=True)
class MMDSTableRequest(Fields):
    """Request to the server of the anchor or snapshot table, or its answer."""

    TYPE: ClassVar = MessageType.MDS_TABLE_REQUEST
    COMPAT_VERSION: ClassVar = 1

    table: U16
    op: I16
    reqid: U64 = 0
    body: bytes = b""


@dataclass(slots=True)
class MGatherCaps(Fields):
    """A replica of an inode requests its authoritative MDS to gather capabilities."""

    TYPE: ClassVar = MessageType.MDS_GATHERCAPS
    COMPAT_VERSION: ClassVar = 1

    ino: U64


@dataclass(slots=True)
class MMDSPing(Fields):
    """Rank 0 requests metrics of their clients from the other MDSs."""

    TYPE: ClassVar = MessageType.MDS_PING
    COMPAT_VERSION: ClassVar = 1

    seq: U64


@dataclass(slots=True)
class MMDSLoadTargets(Fields):
    """Reports to the monitors the ranks to which an MDS exports directories."""

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
    """Requests the path of an inode from another MDS."""

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
    """Requests replicas of a path from another MDS."""

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
    """Announces a new directory entry to the MDSs with a replica of the directory."""

    TYPE: ClassVar = MessageType.MDS_DENTRYLINK
    COMPAT_VERSION: ClassVar = 1

    subtree: DirFrag
    dirfrag: DirFrag = _NO_FRAG
    name: str = ""
    is_primary: bool = False
    inode: bytes = b""
    """The encoded inode, uninterpreted."""


@dataclass(slots=True)
class MDentryUnlink(Fields):
    """Announces that a directory entry was removed."""

    TYPE: ClassVar = MessageType.MDS_DENTRYUNLINK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    name: str = ""
    stray: bytes = b""
    """The new location of the inode, encoded."""


@dataclass(slots=True)
class MExportDirDiscover(Fields):
    """Announces the export of a directory to the importing MDS."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRDISCOVER
    COMPAT_VERSION: ClassVar = 1

    sender: I32
    dirfrag: DirFrag = _NO_FRAG
    path: FilePath = _NO_PATH


@dataclass(slots=True)
class MExportDirDiscoverAck(Fields):
    """The importer's answer: whether it has found the directory."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRDISCOVERACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    success: bool = True


@dataclass(slots=True)
class MExportDirPrep(Fields):
    """Describes the directory to export, and its bounds."""

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
    """The importer's answer: whether it is ready."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRPREPACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    success: bool = True


@dataclass(slots=True)
class MExportDir(Fields):
    """The contents of the exported directory."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIR
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    bounds: list[DirFrag] = field(default_factory=list)
    export_data: bytes = b""
    client_map: bytes = b""


@dataclass(slots=True)
class MExportDirAck(Fields):
    """The importer has written the directory to its journal."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    imported_caps: bytes = b""


@dataclass(slots=True)
class MExportDirFinish(Fields):
    """The export is complete: the importer may serve the directory."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRFINISH
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    last: bool = False
