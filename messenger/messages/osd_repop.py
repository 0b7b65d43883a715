"""MOSDRepOp and MOSDRepOpReply: replication of writes from the primary to its replicas (docs/protocol.md §6.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Codec, Enveloped, Fields, Rest, codec_of, layout_of, raw_codec
from messenger.messages.osd_objects import NO_VERSION, EVersion, HObject, RequestId, ShardedPgId
from messenger.messages.pg_info import CleanRegions, HitSetHistory, ObjectModification, PgShard, PgStat
from messenger.messages.types import MessageType

_TRACE_SIZE = 24
_NO_OBJECT = HObject()
_SOME_OSD = PgShard(0)
Trace = Annotated[bytes, raw_codec(_TRACE_SIZE)]
"""Trace ids of blkin; zeros, because no release is built with it."""


class LogOp(IntEnum):
    """Values of :attr:`PgLogEntry.op`."""

    MODIFY = 1
    CLONE = 2
    DELETE = 3
    LOST_REVERT = 5
    LOST_DELETE = 6
    LOST_MARK = 7
    PROMOTE = 8
    CLEAN = 9
    ERROR = 10


@dataclass(frozen=True, slots=True)
class PgLogEntry(Enveloped):
    """One change of one object (pg_log_entry_t)."""

    VERSION: ClassVar = 14
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 12
    WHAT: ClassVar = "entry of the log"

    op: I32
    """A :class:`LogOp`."""
    soid: HObject
    version: EVersion
    prior_version: EVersion = NO_VERSION
    """In LOST_REVERT: the version to which the object is reverted."""
    reqid: RequestId = field(default_factory=RequestId)
    mtime: UTime = EPOCH
    reverted: EVersion = NO_VERSION
    """Only in LOST_REVERT: the version before it."""
    snaps: bytes = b""
    user_version: U64 = 0
    modification: ObjectModification = field(default_factory=ObjectModification)
    extra_reqids: list[tuple[RequestId, U64]] = field(default_factory=list)
    error: I32 = 0
    """Only in ERROR: the result that the client gets."""
    extra_return_codes: dict[U32, I32] = field(default_factory=dict)
    """Only if there are ``extra_reqids``."""
    clean_regions: Annotated[CleanRegions, Since(13)] = field(default_factory=CleanRegions)
    return_code: Annotated[I32, Since(14)] = 0
    """Not in ERROR."""
    op_returns: Annotated[Rest, Since(14)] = bytes(4)
    """Results of operations, and fields of newer versions, uninterpreted; by default none."""

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields that this kind of entry has."""
        values = {item.name: getattr(self, item.name) for item in layout_of(type(self))}
        for item in layout_of(type(self)):
            if version >= item.since and _has(values, item.name):
                item.codec.encode(encoder, values[item.name], features)

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The values of the fields that this kind of entry has."""
        values: dict[str, Any] = {}
        for item in layout_of(cls):
            if body.struct_v >= item.since and _has(values, item.name):
                values[item.name] = item.codec.decode(body, features)
        return values


def _has(values: Mapping[str, Any], name: str) -> bool:
    """True if an entry with these values has the field."""
    if name == "reverted":
        return bool(values["op"] == LogOp.LOST_REVERT)
    if name == "error":
        return bool(values["op"] == LogOp.ERROR)
    if name == "return_code":
        return bool(values["op"] != LogOp.ERROR)
    return name != "extra_return_codes" or bool(values["extra_reqids"])


_ENTRIES = codec_of(list[PgLogEntry])


def _encode_log(encoder: Encoder, entries: list[PgLogEntry], features: int) -> None:
    inner = Encoder()
    _ENTRIES.encode(inner, entries, features)
    encoder.blob(inner.getvalue())


def _decode_log(decoder: Decoder, features: int) -> list[PgLogEntry]:
    inner = Decoder(decoder.blob())
    entries: list[PgLogEntry] = _ENTRIES.decode(inner, features)
    if inner.remaining:
        raise DecodeError(f"{inner.remaining} bytes behind the entries of the log")
    return entries


LogEntries = Annotated[list[PgLogEntry], Codec(_encode_log, _decode_log, 8)]
"""Log entries inside a blob."""


@dataclass(slots=True)
class MOSDRepOp(Fields):
    """A write for a replica. The transaction is in the data segment, in Tentacle partly in the middle segment."""

    TYPE: ClassVar = MessageType.OSD_REPOP
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    map_epoch: U32
    min_epoch: U32
    """The replica needs at least this epoch of the map."""
    trace: Trace = field(default=bytes(_TRACE_SIZE), kw_only=True)
    reqid: RequestId
    """Id of the client's request."""
    pgid: ShardedPgId
    poid: HObject
    """The object."""
    acks_wanted: U8
    version: EVersion
    log: LogEntries
    pg_stats: PgStat
    pg_trim_to: EVersion = NO_VERSION
    new_temp_oid: HObject = _NO_OBJECT
    discard_temp_oid: HObject = _NO_OBJECT
    sender: PgShard = _SOME_OSD
    updated_hit_set_history: HitSetHistory | None = None
    pg_committed_to: EVersion = NO_VERSION
    """Version up to which all replicas have written; in version 2: up to which entries cannot be rolled back."""


@dataclass(slots=True)
class MOSDRepOpReply(Fields):
    """A replica acknowledges a write."""

    TYPE: ClassVar = MessageType.OSD_REPOPREPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1
    OLDEST: ClassVar = 2

    map_epoch: U32
    min_epoch: U32
    trace: Trace = field(default=bytes(_TRACE_SIZE), kw_only=True)
    reqid: RequestId
    pgid: ShardedPgId
    ack_type: U8
    result: I32 = 0
    """0, or a negative Linux error number."""
    last_complete_ondisk: EVersion = NO_VERSION
    sender: PgShard = _SOME_OSD
