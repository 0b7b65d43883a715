"""Export between MDSs: messages to bystanders, and capabilities (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.layout import I32, I64, U64, Since
from messenger.messages.layout import Fields
from messenger.messages.mds_peer import DirFrag
from messenger.messages.mds_recovery import ClientMetadata
from messenger.messages.mon_health import EntityInst
from messenger.messages.types import MessageType

_UNKNOWN_RANKS = (-1, -2)


@dataclass(slots=True)
class MExportDirCancel(Fields):
    """The exporter gives up an export."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRCANCEL
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag


@dataclass(slots=True)
class MExportDirNotify(Fields):
    """Announces an export to other MDSs with replicas of the directory."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRNOTIFY
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    ack_wanted: bool = False
    old_auth: tuple[I32, I32] = _UNKNOWN_RANKS
    """The authoritative rank, and a second one while the export is not complete."""
    new_auth: tuple[I32, I32] = _UNKNOWN_RANKS
    bounds: list[DirFrag] = field(default_factory=list)
    """Directories below that are not exported."""


@dataclass(slots=True)
class MExportDirNotifyAck(Fields):
    """Acknowledges an MExportDirNotify."""

    TYPE: ClassVar = MessageType.MDS_EXPORTDIRNOTIFYACK
    COMPAT_VERSION: ClassVar = 1

    dirfrag: DirFrag
    new_auth: tuple[I32, I32] = _UNKNOWN_RANKS


@dataclass(slots=True)
class MExportCaps(Fields):
    """Hands the capabilities of an inode to its authoritative MDS."""

    TYPE: ClassVar = MessageType.MDS_EXPORTCAPS
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    caps: bytes = b""
    """Encoded capabilities, uninterpreted."""
    client_map: dict[I64, EntityInst] = field(default_factory=dict)
    client_metadata: Annotated[dict[I64, ClientMetadata], Since(2)] = field(default_factory=dict)


@dataclass(slots=True)
class MExportCapsAck(Fields):
    """The authoritative MDS has the capabilities."""

    TYPE: ClassVar = MessageType.MDS_EXPORTCAPSACK
    COMPAT_VERSION: ClassVar = 1

    ino: U64
    caps: bytes = b""
    """Encoded capabilities, uninterpreted."""
