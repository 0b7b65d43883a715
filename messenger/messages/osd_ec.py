"""Sub-operations of erasure-coded pools, between the primary and the shards (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U32, U64, Since
from messenger.messages.layout import Enveloped, Fields, LayoutField, RawEnvelope, layout_of
from messenger.messages.osd_objects import NO_VERSION, EVersion, HObject, RequestId, ShardedPgId
from messenger.messages.osd_repop import PgLogEntry, Trace
from messenger.messages.pg_info import HitSetHistory, PgShard, PgStat
from messenger.messages.types import MessageType

_NO_OBJECT = HObject()
_SOME_OSD = PgShard(0)
_NO_TRACE = bytes(24)
_NO_ENVELOPE = b"\1\1" + bytes(4)


@dataclass(frozen=True, slots=True)
class EcWrite(Enveloped):
    """A write for one shard (ECSubWrite)."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 1
    OLDEST: ClassVar = 4

    sender: PgShard = _SOME_OSD
    tid: U64 = 0
    reqid: RequestId = field(default_factory=RequestId)
    soid: HObject = _NO_OBJECT
    stats: PgStat = field(default_factory=PgStat)
    transaction: RawEnvelope = _NO_ENVELOPE
    """An encoded transaction of the object store, uninterpreted."""
    at_version: EVersion = NO_VERSION
    trim_to: EVersion = NO_VERSION
    log: list[PgLogEntry] = field(default_factory=list)
    temp_added: list[HObject] = field(default_factory=list)
    temp_removed: list[HObject] = field(default_factory=list)
    updated_hit_set_history: HitSetHistory | None = None
    roll_forward_to: EVersion = NO_VERSION
    backfill_or_async_recovery: bool = False


@dataclass(frozen=True, slots=True)
class EcWriteReply(Enveloped):
    """The result of a shard's write (ECSubWriteReply)."""

    VERSION: ClassVar = 1

    sender: PgShard = _SOME_OSD
    tid: U64 = 0
    last_complete: EVersion = NO_VERSION
    committed: bool = False
    applied: bool = False


@dataclass(frozen=True, slots=True)
class EcExtent(Fields):
    """A range of a shard to read."""

    offset: U64 = 0
    length: U64 = 0
    flags: U32 = 0


SubChunks = list[tuple[I32, I32]]
"""First and count of each run of sub-chunks."""


@dataclass(frozen=True, slots=True)
class EcRead(Enveloped):
    """A read from one shard (ECSubRead)."""

    VERSION: ClassVar = 3
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2

    sender: PgShard = _SOME_OSD
    tid: U64 = 0
    to_read: list[tuple[HObject, list[EcExtent]]] = field(default_factory=list)
    attrs_to_read: list[HObject] = field(default_factory=list)
    subchunks: list[tuple[HObject, SubChunks]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EcReadReply(Enveloped):
    """The result of a shard's read (ECSubReadReply)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2

    sender: PgShard = _SOME_OSD
    tid: U64 = 0
    buffers_read: list[tuple[HObject, list[tuple[U64, bytes]]]] = field(default_factory=list)
    """Offset and bytes of each range; in version 1."""
    ranges_read: Annotated[list[tuple[HObject, list[tuple[U64, U32]]]], Since(2)] = field(default_factory=list)
    """Offset and length of each range, whose bytes are in the data segment; from version 2 on."""
    attrs_read: list[tuple[HObject, dict[str, bytes]]] = field(default_factory=list)
    errors: list[tuple[HObject, I32]] = field(default_factory=list)

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields of ``version``."""
        for item in _read_reply_layout(version):
            item.codec.encode(encoder, getattr(self, item.name), features)

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The values of the fields that the envelope's version has."""
        return {item.name: item.codec.decode(body, features) for item in _read_reply_layout(body.struct_v)}


def _read_reply_layout(version: int) -> list[LayoutField]:
    """The fields of ``version``; version 2 moved the bytes to the data segment."""
    moved = "buffers_read" if version > 1 else "ranges_read"
    return [item for item in layout_of(EcReadReply) if item.name != moved]


_NO_WRITE = EcWrite()
_NO_WRITE_REPLY = EcWriteReply()
_NO_READ = EcRead()
_NO_READ_REPLY = EcReadReply()


@dataclass(slots=True)
class MOSDECSubOpWrite(Fields):
    """The primary sends a write to a shard."""

    TYPE: ClassVar = MessageType.OSD_EC_WRITE
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    pgid: ShardedPgId
    map_epoch: U32
    op: EcWrite = _NO_WRITE
    min_epoch: U32 = 0
    trace: Trace = field(default=_NO_TRACE, kw_only=True)


@dataclass(slots=True)
class MOSDECSubOpWriteReply(Fields):
    """A shard acknowledges a write."""

    TYPE: ClassVar = MessageType.OSD_EC_WRITE_REPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    pgid: ShardedPgId
    map_epoch: U32
    op: EcWriteReply = _NO_WRITE_REPLY
    min_epoch: U32 = 0
    trace: Trace = field(default=_NO_TRACE, kw_only=True)


@dataclass(slots=True)
class MOSDECSubOpRead(Fields):
    """The primary requests a read from a shard."""

    TYPE: ClassVar = MessageType.OSD_EC_READ
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 3

    pgid: ShardedPgId
    map_epoch: U32
    op: EcRead = _NO_READ
    min_epoch: U32 = 0
    trace: Trace = field(default=_NO_TRACE, kw_only=True)
    cost_bytes: Annotated[U64, Since(4)] = 0


@dataclass(slots=True)
class MOSDECSubOpReadReply(Fields):
    """A shard returns the bytes of a read."""

    TYPE: ClassVar = MessageType.OSD_EC_READ_REPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    pgid: ShardedPgId
    map_epoch: U32
    op: EcReadReply = _NO_READ_REPLY
    min_epoch: U32 = 0
    trace: Trace = field(default=_NO_TRACE, kw_only=True)
