"""MFSMap: the map of all file systems, for managers and MDS daemons."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import Codec, Enveloped, Fields
from messenger.messages.mdsmap import CompatSet, MdsInfo, MDSMap
from messenger.messages.types import MessageType


def _encode_mds_map(encoder: Encoder, mds_map: MDSMap, features: int) -> None:
    inner = Encoder()
    mds_map.encode(inner, features)
    encoder.blob(inner.getvalue())


def _decode_mds_map(decoder: Decoder, features: int) -> MDSMap:
    return MDSMap.decode(Decoder(decoder.blob()), features)


MdsMapBlob = Annotated[MDSMap, Codec(_encode_mds_map, _decode_mds_map, 10)]
"""An MDS map inside a blob."""


@dataclass(frozen=True, slots=True)
class FileSystem(Enveloped):
    """One file system; its mirroring settings are in the tail."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "file system"

    fscid: I32
    mds_map: MdsMapBlob


@dataclass(frozen=True, slots=True)
class FSMap(Enveloped):
    """All file systems, and the standby MDS daemons."""

    VERSION: ClassVar = 8
    COMPAT: ClassVar = 6
    OLDEST: ClassVar = 7
    WHAT: ClassVar = "file system map"

    epoch: U32 = 0
    next_filesystem_id: U64 = 1
    legacy_client_fscid: I32 = -1
    """The file system of clients that name none."""
    default_compat: CompatSet = field(default_factory=CompatSet)
    enable_multiple: bool = False
    filesystems: list[FileSystem] = field(default_factory=list)
    mds_roles: dict[U64, I32] = field(default_factory=dict)
    """File systems, by the global ids of the MDS daemons that serve them."""
    standby_daemons: dict[U64, MdsInfo] = field(default_factory=dict)
    standby_epochs: dict[U64, U32] = field(default_factory=dict)
    ever_enabled_multiple: bool = False
    btime: Annotated[UTime, Since(8)] = EPOCH
    """Time of creation."""


@dataclass(slots=True)
class MFSMap(Fields):
    """Carries the map of all file systems."""

    TYPE: ClassVar = MessageType.FS_MAP
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    fsmap: FSMap
