"""The subjects of messages to and between OSDs: object, placement group, operations and result, without JSON."""

from dataclasses import dataclass
from enum import IntEnum

from messenger.errors import PeerError
from messenger.messages.message import Message
from messenger.messages.osd_objects import NO_SHARD, NOSNAP, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import RequestFlag
from messenger.messages.osd_repop import LogOp, MOSDRepOp, MOSDRepOpReply
from messenger.messages.pg_log import MOSDPGLog
from messenger.messages.registry import decode_payload
from toolkit.dissect.fields import bit_names
from toolkit.dissect.frames import DecodedFrame

_PARTS = 4
_MOST_POOLS = 1 << 63


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of one message; fields that the message does not have are None."""

    object: str | None = None
    """The object's name."""
    pool: int | None = None
    pg: str | None = None
    """The placement group, as ``1.0``; in an erasure-coded pool with its shard."""
    snap: int | None = None
    """The snapshot that is read or was cloned; None for the current state of the object."""
    op: str | None = None
    """The operations in order, as ``CREATE+SETXATTR``; of a replicated write those of its log, as ``MODIFY``."""
    result: int | None = None
    """Result of a reply: a negative Linux error number, or 0 and above."""
    flags: str | None = None
    """Names of the flags of a request or its reply, as ``ONDISK+WRITE``."""


NOTHING = Subject()


def subject_of(frame: DecodedFrame) -> Subject:
    """Return the subject of the message in a frame; empty for other frames and undecodable payloads."""
    info = frame.message
    if info is None or len(frame.segments) != _PARTS:
        return NOTHING
    message = Message(info.type, frame.segments[1], version=info.version, compat_version=info.compat_version)
    try:
        return _subject(decode_payload(message, frame.features))
    except (PeerError, ValueError, OverflowError, RecursionError):
        return NOTHING


def _subject(payload: object) -> Subject:
    match payload:
        case MOSDOp():
            codes = [op.code for op in payload.ops]
            return Subject(
                payload.oid, *_place(payload.pgid), _snap(payload.snapid), _names(codes), None, _flags(payload)
            )
        case MOSDOpReply():
            codes = [op.code for op in payload.ops]
            return Subject(
                payload.oid, *_place(payload.pgid), None, _names(codes), payload.result, _flags(payload)
            )
        case MOSDRepOp():
            changes = [LogOp(entry.op) if entry.op in _LOG_OPS else entry.op for entry in payload.log]
            poid = payload.poid
            return Subject(poid.oid, *_place(payload.pgid), _snap(poid.snap), _names(changes))
        case MOSDRepOpReply():
            return Subject(None, *_place(payload.pgid), None, None, payload.result)
        case MOSDPGLog():
            return Subject(None, *_place(ShardedPgId(payload.info.pgid, payload.to)))
    return _group_of(payload)


def _group_of(payload: object) -> Subject:
    """The placement group of other messages; older ones have the shard in a field of its own."""
    pgid = getattr(payload, "pgid", None)
    if isinstance(pgid, PgId):
        pgid = ShardedPgId(pgid, getattr(payload, "shard", NO_SHARD))
    return Subject(None, *_place(pgid)) if isinstance(pgid, ShardedPgId) else NOTHING


_LOG_OPS = frozenset(LogOp)


def _place(pgid: PgId | ShardedPgId) -> tuple[int | None, str]:
    plain = pgid.pgid if isinstance(pgid, ShardedPgId) else pgid
    return (plain.pool if plain.pool < _MOST_POOLS else None), str(pgid)


def _flags(payload: MOSDOp | MOSDOpReply) -> str:
    return "+".join(bit_names(payload.flags, RequestFlag))


def _snap(snap: int) -> int | None:
    return None if snap == NOSNAP else snap


def _names(codes: list[int]) -> str:
    return "+".join(code.name if isinstance(code, IntEnum) else hex(code) for code in codes)
