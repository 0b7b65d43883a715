"""Messages with which MDSs agree on their caches after a restart (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import I32, I64, U8, U32, U64, Blob, Since
from messenger.messages.layout import I8, Codec, Enveloped, Fields
from messenger.messages.mds_client import MetricSpec
from messenger.messages.mds_peer import DirFrag, MetaRequestId
from messenger.messages.mds_session import CapReconnect
from messenger.messages.mon_health import EntityInst
from messenger.messages.types import MessageType

_NO_METRICS = MetricSpec()
_NO_REQUEST = MetaRequestId()


def _encode_alternate_name(encoder: Encoder, name: str, features: int) -> None:
    if has_feature(features, Feature.SERVER_PACIFIC):
        encoder.string(name)


def _decode_alternate_name(decoder: Decoder, features: int) -> str:
    return decoder.string() if has_feature(features, Feature.SERVER_PACIFIC) else ""


AlternateName = Annotated[str, Codec(_encode_alternate_name, _decode_alternate_name, 0)]
"""A second name of a directory entry, which MDSs since Pacific encode."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest(Enveloped):
    """A request in which another MDS takes part."""

    VERSION: ClassVar = 1

    inode_caps: bytes = b""
    """Exported capabilities of an inode, encoded."""
    committing: bool = False


@dataclass(frozen=True, slots=True)
class TableClient(Fields):
    """Commits of a table of which the sender does not know the result."""

    type: U8 = 0
    """0 anchor table, 1 snapshot table."""
    pending_commits: list[U64] = field(default_factory=list)


@dataclass(slots=True)
class MMDSResolve(Fields):
    """A recovering MDS announces its directories, and the changes that were not complete."""

    TYPE: ClassVar = MessageType.MDS_RESOLVE
    COMPAT_VERSION: ClassVar = 1

    subtrees: list[tuple[DirFrag, list[DirFrag]]] = field(default_factory=list)
    """Directories of the sender, each with those below that are not its own."""
    ambiguous_imports: list[tuple[DirFrag, list[DirFrag]]] = field(default_factory=list)
    """Directories whose import may be complete, in the same form."""
    peer_requests: list[tuple[MetaRequestId, ResolvedRequest]] = field(default_factory=list)
    table_clients: list[TableClient] = field(default_factory=list)


@dataclass(slots=True)
class MMDSResolveAck(Fields):
    """Which requests of an :class:`MMDSResolve` to commit, and which to abort."""

    TYPE: ClassVar = MessageType.MDS_RESOLVEACK
    COMPAT_VERSION: ClassVar = 1

    commit: list[tuple[MetaRequestId, bytes]] = field(default_factory=list)
    abort: list[MetaRequestId] = field(default_factory=list)


class RejoinOp(IntEnum):
    """Values of :attr:`MMDSCacheRejoin.op`."""

    WEAK = 1
    STRONG = 2
    ACK = 3


@dataclass(frozen=True, slots=True)
class VInode(Fields):
    """An inode at a snapshot (vinodeno_t)."""

    ino: U64 = 0
    snap: U64 = 0


@dataclass(frozen=True, slots=True)
class NameAtSnap(Enveloped):
    """A name in a directory, up to a snapshot (string_snap_t)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "name at a snapshot"

    name: str = ""
    snap: U64 = 0


@dataclass(frozen=True, slots=True)
class InodeStrong(Fields):
    """A replica's state of an inode, with the states of its locks."""

    nonce: U32 = 0
    caps_wanted: I32 = 0
    filelock: I32 = 0
    nestlock: I32 = 0
    dftlock: I32 = 0


@dataclass(frozen=True, slots=True)
class DirFragStrong(Fields):
    """A replica's state of a directory fragment."""

    nonce: U32 = 0
    dir_rep: I8 = 0
    """0 no replicas, 1 at all MDSs, 2 at some."""


@dataclass(frozen=True, slots=True)
class DentryStrong(Fields):
    """A replica's state of a directory entry."""

    first: U64 = 0
    """First snapshot."""
    ino: U64 = 0
    """The inode, if its primary link is this entry."""
    remote_ino: U64 = 0
    """The inode, if this entry is another hard link of it."""
    remote_d_type: U8 = 0
    nonce: U32 = 0
    lock: I32 = 0
    alternate_name: AlternateName = ""


@dataclass(frozen=True, slots=True)
class ReferentDentry(Enveloped):
    """A replica's state of a directory entry, with the inode that stands for a hard link."""

    VERSION: ClassVar = 1

    first: U64 = 0
    ino: U64 = 0
    remote_ino: U64 = 0
    remote_d_type: U8 = 0
    nonce: U32 = 0
    lock: I32 = 0
    alternate_name: str = ""
    referent_ino: U64 = 0


@dataclass(frozen=True, slots=True)
class DentryWeak(Fields):
    """An entry of a directory of which a replica has no more than the name."""

    first: U64 = 0
    ino: U64 = 0


@dataclass(frozen=True, slots=True)
class ScatterLocks(Fields):
    """Encoded states of the locks of an inode that several MDSs may change at a time."""

    file: bytes = b""
    nest: bytes = b""
    dft: bytes = b""


@dataclass(frozen=True, slots=True)
class PeerRequestId(Fields):
    """An attempt of a request that holds an authority pin or a lock."""

    reqid: MetaRequestId = _NO_REQUEST
    attempt: U32 = 0


@dataclass(frozen=True, slots=True)
class ClientMetadata(Enveloped):
    """Properties of a client (client_metadata_t)."""

    VERSION: ClassVar = 3

    metadata: dict[str, str] = field(default_factory=dict)
    features: Annotated[Blob, Since(2)] = b""
    """File system features as a bit set, lowest bit first."""
    metric_spec: Annotated[MetricSpec, Since(3)] = _NO_METRICS


@dataclass(slots=True)
class MMDSCacheRejoin(Fields):
    """What a recovering MDS has in its cache, or the authoritative MDS's answer to it."""

    TYPE: ClassVar = MessageType.MDS_CACHEREJOIN
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    op: I32
    """A :class:`RejoinOp`."""
    strong_inodes: list[tuple[VInode, InodeStrong]] = field(default_factory=list)
    inode_base: bytes = b""
    """Encoded inodes, uninterpreted."""
    inode_locks: bytes = b""
    """Encoded locks, uninterpreted."""
    inode_scatterlocks: dict[U64, ScatterLocks] = field(default_factory=dict)
    authpinned_inodes: list[tuple[VInode, list[PeerRequestId]]] = field(default_factory=list)
    frozen_authpin_inodes: list[tuple[VInode, PeerRequestId]] = field(default_factory=list)
    xlocked_inodes: list[tuple[VInode, dict[I32, PeerRequestId]]] = field(default_factory=list)
    """By type of the lock; so in the next field."""
    wrlocked_inodes: list[tuple[VInode, dict[I32, list[PeerRequestId]]]] = field(default_factory=list)
    cap_exports: dict[U64, dict[I64, CapReconnect]] = field(default_factory=dict)
    """By inode and client."""
    client_map: dict[I64, EntityInst] = field(default_factory=dict)
    imported_caps: bytes = b""
    """Encoded capabilities, uninterpreted."""
    strong_dirfrags: list[tuple[DirFrag, DirFragStrong]] = field(default_factory=list)
    dirfrag_bases: list[tuple[DirFrag, bytes]] = field(default_factory=list)
    weak: dict[U64, list[tuple[NameAtSnap, DentryWeak]]] = field(default_factory=dict)
    """Entries by inode of their directory."""
    weak_dirfrags: list[DirFrag] = field(default_factory=list)
    weak_inodes: list[VInode] = field(default_factory=list)
    strong_dentries: list[tuple[DirFrag, list[tuple[NameAtSnap, DentryStrong]]]] = field(default_factory=list)
    authpinned_dentries: list[tuple[DirFrag, list[tuple[NameAtSnap, list[PeerRequestId]]]]] = field(
        default_factory=list
    )
    xlocked_dentries: list[tuple[DirFrag, list[tuple[NameAtSnap, PeerRequestId]]]] = field(default_factory=list)
    client_metadata: Annotated[dict[I64, ClientMetadata], Since(2)] = field(default_factory=dict)
    referent_dentries: Annotated[list[tuple[DirFrag, list[tuple[NameAtSnap, ReferentDentry]]]], Since(3)] = field(
        default_factory=list
    )
    """``strong_dentries`` again, with one more field."""
