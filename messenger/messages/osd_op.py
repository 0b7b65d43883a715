"""MOSDOp: a client's request to an OSD (docs/protocol.md §6.4.1)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Bits
from messenger.messages.message import Message
from messenger.messages.osd_objects import NO_REQUEST_ID, NOSNAP, ObjectLocator, RequestId, ShardedPgId
from messenger.messages.osd_operations import OP_SIZE, OsdOp, RequestFlag, join_data, split_data
from messenger.messages.types import MessageType

OP_PRIORITY = 63
"""Priority of client requests, ``osd_client_op_priority``."""

_OLDEST_VERSION = 8
_OTEL_VERSION = 9
_TRACE_SIZE = 24


@dataclass(slots=True)
class MOSDOp:
    """A request with operations on one object, executed all or none; its tid is in the message header."""

    TYPE: ClassVar = MessageType.OSD_OP
    VERSION: ClassVar = _OTEL_VERSION
    COMPAT_VERSION: ClassVar = 3

    pgid: ShardedPgId
    """The current placement group, after splits."""
    hash: int
    """All 32 bits of the hash of the object's name."""
    osdmap_epoch: int
    """Epoch of the map from which the target was computed."""
    flags: Annotated[int, Bits(RequestFlag)]
    """:class:`RequestFlag` bits."""
    locator: ObjectLocator
    oid: str
    ops: list[OsdOp]
    mtime: UTime = EPOCH
    """Modification time that a write gives to the object; 0 in reads."""
    retry_attempt: int = 0
    """Number of earlier transmissions of this request."""
    snapid: int = NOSNAP
    snap_seq: int = 0
    snaps: list[int] = field(default_factory=list)
    reqid: RequestId = NO_REQUEST_ID
    client_inc: int = 0
    features: int = 0
    """Features of a received request's sender; on encoding, those of the connection are used."""

    def message(self, tid: int) -> Message:
        """Create the message, data segment included."""
        return Message.of(self, data=join_data(self.ops), tid=tid, priority=OP_PRIORITY)

    @staticmethod
    def version_for(features: int) -> int:
        """9 for peers from Squid on, else 8, which they all support."""
        return _OTEL_VERSION if has_feature(features, Feature.SERVER_SQUID) else _OLDEST_VERSION

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the front in the version of :meth:`version_for`."""
        self.pgid.encode(encoder, features)
        encoder.u32(self.hash)
        encoder.u32(self.osdmap_epoch)
        encoder.u32(self.flags)
        self.reqid.encode(encoder, features)
        encoder.raw(bytes(_TRACE_SIZE))
        if self.version_for(features) >= _OTEL_VERSION:
            with encoder.versioned(1, 1):
                encoder.boolean(False)
        encoder.u32(self.client_inc)
        self.mtime.encode(encoder)
        self.locator.encode(encoder, features)
        encoder.string(self.oid)
        encoder.u16(len(self.ops))
        for op in self.ops:
            op.encode(encoder)
        encoder.u64(self.snapid)
        encoder.u64(self.snap_seq)
        encoder.sequence(self.snaps, encoder.u64)
        encoder.i32(self.retry_attempt)
        encoder.u64(features)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, _features: int) -> Self:
        """Decode the front of version 8 or later; :meth:`take_data` adds the data segment."""
        if version < _OLDEST_VERSION:
            raise DecodeError(f"osd_op of version {version}, at least {_OLDEST_VERSION} is known")
        pgid = ShardedPgId.decode(decoder)
        name_hash, epoch, flags = decoder.u32(), decoder.u32(), decoder.u32()
        reqid = RequestId.decode(decoder)
        decoder.skip(_TRACE_SIZE)
        if version >= _OTEL_VERSION:
            decoder.versioned(1)
        client_inc, mtime = decoder.u32(), UTime.decode(decoder)
        locator, oid = ObjectLocator.decode(decoder), decoder.string()
        ops = _decode_ops(decoder)
        return cls(
            pgid=pgid,
            hash=name_hash,
            osdmap_epoch=epoch,
            flags=flags,
            locator=locator,
            oid=oid,
            ops=ops,
            mtime=mtime,
            snapid=decoder.u64(),
            snap_seq=decoder.u64(),
            snaps=decoder.sequence(decoder.u64, 8),
            retry_attempt=decoder.i32(),
            reqid=reqid,
            client_inc=client_inc,
            features=decoder.u64(),
        )

    def take_data(self, message: Message) -> None:
        """Assign to each operation its part of the message's data segment; raises DecodeError."""
        split_data(self.ops, message.data)


def _decode_ops(decoder: Decoder) -> list[OsdOp]:
    count = decoder.u16()
    if count * OP_SIZE > decoder.remaining:
        raise DecodeError(f"{count} operations need {count * OP_SIZE} bytes, {decoder.remaining} left")
    return [OsdOp.decode(decoder) for _ in range(count)]
