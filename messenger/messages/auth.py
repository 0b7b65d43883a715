"""The login of msgr v1, which is a conversation of messages (docs/protocol.md §5.6, §6.2)."""

from dataclasses import dataclass, field
from typing import ClassVar

from messenger.denc.layout import I32, U32, U64, Blob
from messenger.messages.layout import Fields, Paxos
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MAuth(Fields):
    """A step towards the monitor."""

    TYPE: ClassVar = MessageType.AUTH
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    protocol: U32
    """The authentication method; 0 in the first step, which offers several."""
    auth_payload: Blob
    monmap_epoch: U32 = 0
    """What the client has; the monitor sends its map if that is newer."""


@dataclass(slots=True)
class MAuthReply(Fields):
    """A step back."""

    TYPE: ClassVar = MessageType.AUTH_REPLY
    COMPAT_VERSION: ClassVar = 1

    protocol: U32
    result: I32
    """0 goes on, anything else ends it: a negative Linux error number."""
    global_id: U64
    result_bl: Blob = b""
    """What the method answers."""
    result_msg: str = ""
