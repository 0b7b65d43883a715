"""MOSDOpReply: an OSD's reply to MOSDOp (docs/protocol.md §6.4.2)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError
from messenger.messages.layout import Bits
from messenger.messages.message import Message
from messenger.messages.osd_objects import NO_VERSION, EVersion, PgId, RequestRedirect
from messenger.messages.osd_operations import OP_SIZE, OsdOp, RequestFlag, join_data, split_data
from messenger.messages.types import MessageType

_OLDEST_VERSION = 6
_OPTIONAL_REDIRECT_VERSION = 7
_TRACE_VERSION = 8
_TRACE_SIZE = 24
_NO_REDIRECT = RequestRedirect()


@dataclass(slots=True)
class MOSDOpReply:
    """Result of a request; the message header has the tid of the request."""

    TYPE: ClassVar = MessageType.OSD_OPREPLY
    VERSION: ClassVar = _TRACE_VERSION
    COMPAT_VERSION: ClassVar = 2

    oid: str
    pgid: PgId
    flags: Annotated[int, Bits(RequestFlag)]
    """:class:`RequestFlag` bits."""
    result: int
    """A negative Linux error number, or 0 or more."""
    osdmap_epoch: int
    """Epoch of the OSD's map."""
    ops: list[OsdOp]
    return_values: list[int]
    """Result of each operation: a negative error number, or 0 or more."""
    retry_attempt: int = 0
    """``retry_attempt`` of the request that this answers; negative if unknown."""
    replay_version: EVersion = NO_VERSION
    user_version: int = 0
    """The object's version, as applications see it."""
    bad_replay_version: EVersion = NO_VERSION
    redirect: RequestRedirect | None = None
    """If not None, nothing was done: send the request to this object."""

    def message(self, tid: int) -> Message:
        """Create the message, data segment included."""
        return Message.of(self, data=join_data(self.ops), tid=tid)

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the front."""
        encoder.string(self.oid)
        self.pgid.encode(encoder)
        encoder.u64(self.flags)
        encoder.i32(self.result)
        self.bad_replay_version.encode(encoder, features)
        encoder.u32(self.osdmap_epoch)
        encoder.sequence(self.ops, lambda op: op.encode(encoder))
        encoder.i32(self.retry_attempt)
        for value in self.return_values:
            encoder.i32(value)
        self.replay_version.encode(encoder, features)
        encoder.u64(self.user_version)
        encoder.boolean(self.redirect is not None)
        if self.redirect is not None:
            self.redirect.encode(encoder, features)
        encoder.raw(bytes(_TRACE_SIZE))

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode the front of version 6 or later; :meth:`take_data` adds the data segment."""
        if version < _OLDEST_VERSION:
            raise DecodeError(f"osd_opreply of version {version}, at least {_OLDEST_VERSION} is known")
        oid, pgid, flags, result = decoder.string(), PgId.decode(decoder), decoder.u64(), decoder.i32()
        bad_replay_version, epoch = EVersion.decode(decoder, 1, features), decoder.u32()
        ops = decoder.sequence(lambda: OsdOp.decode(decoder), OP_SIZE)
        retry_attempt = decoder.i32()
        return_values = [decoder.i32() for _ in ops]
        replay_version, user_version = EVersion.decode(decoder, 1, features), decoder.u64()
        redirect = _decode_redirect(decoder, version)
        if version >= _TRACE_VERSION:
            decoder.skip(_TRACE_SIZE)
        return cls(
            oid=oid,
            pgid=pgid,
            flags=flags,
            result=result,
            osdmap_epoch=epoch,
            ops=ops,
            return_values=return_values,
            retry_attempt=retry_attempt,
            replay_version=replay_version,
            user_version=user_version,
            bad_replay_version=bad_replay_version,
            redirect=redirect,
        )

    def take_data(self, message: Message) -> None:
        """Assign to each operation its part of the message's data segment; raises DecodeError."""
        split_data(self.ops, message.data)


def _decode_redirect(decoder: Decoder, version: int) -> RequestRedirect | None:
    """Decode the redirect; version 6 always has one, which is empty if there is none."""
    if version >= _OPTIONAL_REDIRECT_VERSION and not decoder.boolean():
        return None
    redirect = RequestRedirect.decode(decoder)
    return None if version < _OPTIONAL_REDIRECT_VERSION and redirect == _NO_REDIRECT else redirect
