"""The outputs of the core: what its driver has to do, as plain values (see endpoint.py).

A driver drains them after each input and carries them out in order.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.errors import Fault
from messenger.keylog import LinkSecrets
from messenger.messages.message import Message
from messenger.session.events import EventKind

if TYPE_CHECKING:
    from messenger.calls import ToHome, ToShard
    from messenger.session.session import Session

__all__ = [
    "CallHome",
    "CallShard",
    "CloseLink",
    "Deliver",
    "Escaped",
    "EventKind",
    "LogKeys",
    "MoveLink",
    "OpenLink",
    "Output",
    "PauseLink",
    "SessionEvent",
    "SettleDelayed",
    "ShutLink",
    "TraceRecord",
    "WriteLink",
]


@dataclass(slots=True)
class OpenLink:
    """Dial ``addr``, then call link_opened or link_failed."""

    link_id: int
    addr: EntityAddr


@dataclass(slots=True)
class WriteLink:
    """Write the buffers in order, and call link_written as bytes leave."""

    link_id: int
    buffers: list[Buffer]
    size_bytes: int


@dataclass(slots=True)
class CloseLink:
    """Close the byte stream; nothing more is read from or written to it."""

    link_id: int


@dataclass(slots=True)
class ShutLink:
    """Shut the byte stream down in both directions, after what was written; the link stays until it is closed."""

    link_id: int


@dataclass(slots=True)
class PauseLink:
    """Pause reading, because a throttle is full or the link is held; with ``paused`` False, resume it."""

    link_id: int
    paused: bool


@dataclass(slots=True)
class MoveLink:
    """Hand the byte stream, with its unwritten bytes, to another shard; nothing is read until it is there."""

    link_id: int
    shard: int


@dataclass(slots=True)
class CallShard:
    """Pass a call to shard ``shard`` (IoShard.call); calls may overtake each other."""

    shard: int
    call: "ToShard"


@dataclass(slots=True)
class CallHome:
    """Pass a call to the home shard (Endpoint.shard_call); calls may overtake each other."""

    call: "ToHome"


@dataclass(slots=True)
class Deliver:
    """Deliver messages to the application, in order. Their ``size_bytes`` are held until released."""

    session: "Session"
    messages: list[Message]
    size_bytes: int


@dataclass(slots=True)
class SettleDelayed:
    """Deliver or drop the messages of a session that an injector delays. Does not leave the core."""

    session: "Session"
    deliver: bool


@dataclass(slots=True)
class SessionEvent:
    """Raise a session event; ``fault`` is its cause, None for an opening."""

    session: "Session"
    kind: EventKind
    fault: Fault | None = None


@dataclass(slots=True)
class TraceRecord:
    """A record of the history: time in seconds, kind, and the kind's fields as JSON values."""

    time_s: float
    kind: str
    fields: dict[str, object]


@dataclass(slots=True)
class LogKeys:
    """Write the keys of an authenticated link to the key log; emitted only if the endpoint logs keys."""

    secrets: LinkSecrets


@dataclass(slots=True)
class Escaped:
    """Report an exception of code outside the core: an authenticator, an interceptor, a message's encoder."""

    error: Exception
    where: str


Output = (
    OpenLink
    | WriteLink
    | ShutLink
    | CloseLink
    | PauseLink
    | MoveLink
    | CallShard
    | CallHome
    | Deliver
    | SettleDelayed
    | SessionEvent
    | TraceRecord
    | LogKeys
    | Escaped
)
