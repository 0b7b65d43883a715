"""Login over msgr v1, by messages (docs/protocol.md §5.6, §6.2)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U32, U64, Blob
from messenger.messages.layout import Codec, Fields, Paxos
from messenger.messages.types import MessageType


def _encode_epoch(encoder: Encoder, epoch: int, _features: int) -> None:
    encoder.u32(epoch)


def _decode_epoch(decoder: Decoder, _features: int) -> int:
    return decoder.u32() if decoder.remaining else 0


OptionalEpoch = Annotated[int, Codec(_encode_epoch, _decode_epoch, 0)]
"""The epoch of a monmap at the end of a front; the front may end before it."""


@dataclass(slots=True)
class MAuth(Fields):
    """A request of the client in the login."""

    TYPE: ClassVar = MessageType.AUTH
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    protocol: U32
    """The authentication method; 0 in the first request, which offers several."""
    auth_payload: Blob
    monmap_epoch: OptionalEpoch = 0
    """Epoch of the client's monmap; the monitor sends its own if that is newer. Omitted by Linux's client."""


@dataclass(slots=True)
class MAuthReply(Fields):
    """The monitor's reply in the login."""

    TYPE: ClassVar = MessageType.AUTH_REPLY
    COMPAT_VERSION: ClassVar = 1

    protocol: U32
    result: I32
    """0 continues the login; a negative Linux error number ends it."""
    global_id: U64
    result_bl: Blob = b""
    """Payload of the authentication method."""
    result_msg: str = ""
