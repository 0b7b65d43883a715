"""What the core asks of its driver, as plain values (the other half of the contract of endpoint.py).

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
    """Dial ``addr``; report link_opened or link_failed."""

    link_id: int
    addr: EntityAddr


@dataclass(slots=True)
class WriteLink:
    """Write the buffers, in order; report link_written as bytes leave."""

    link_id: int
    buffers: list[Buffer]
    size_bytes: int


@dataclass(slots=True)
class CloseLink:
    """Close the byte stream; nothing more is read from or written to it."""

    link_id: int


@dataclass(slots=True)
class ShutLink:
    """Shut the byte stream down both ways, behind what was written; the link itself stays until it is closed."""

    link_id: int


@dataclass(slots=True)
class PauseLink:
    """Stop reading (the dispatch throttle is full) or, with ``paused`` false, go on."""

    link_id: int
    paused: bool


@dataclass(slots=True)
class MoveLink:
    """Hand the byte stream to another shard, with what is not written yet; nothing is read until it is there."""

    link_id: int
    shard: int


@dataclass(slots=True)
class CallShard:
    """Let shard ``shard`` have the call (IoShard.call); calls may overtake each other."""

    shard: int
    call: "ToShard"


@dataclass(slots=True)
class CallHome:
    """Let the home shard have the call (Endpoint.shard_call); calls may overtake each other."""

    call: "ToHome"


@dataclass(slots=True)
class Deliver:
    """Messages for the application, in order. Their ``size_bytes`` are held until released."""

    session: "Session"
    messages: list[Message]
    size_bytes: int


@dataclass(slots=True)
class SettleDelayed:
    """Of what an injector delays: deliver all of a session now, or drop it. Does not leave the core."""

    session: "Session"
    deliver: bool


@dataclass(slots=True)
class SessionEvent:
    """A session event; ``fault`` says why where something went wrong."""

    session: "Session"
    kind: EventKind
    fault: Fault | None = None


@dataclass(slots=True)
class TraceRecord:
    """One line of the history: time in seconds, kind, and the kind's fields as JSON values."""

    time_s: float
    kind: str
    fields: dict[str, object]


@dataclass(slots=True)
class LogKeys:
    """A link has authenticated: its keys, for a key log. Comes only if the endpoint was asked for them."""

    secrets: LinkSecrets


@dataclass(slots=True)
class Escaped:
    """Code around the core raised: an authoriser, an interceptor, the encoder of a message. Report it."""

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
