"""What MAuth and MAuthReply carry, between clients and monitors (docs/protocol.md §5.6).

Clients and servers of this conversation take and return these values; sending them as messages is their caller's.
"""

from dataclasses import dataclass
from typing import Annotated

from messenger.cephx.exchange import AuthMethod, AuthResult
from messenger.cephx.refusal import Refusal
from messenger.denc.entity import AuthName
from messenger.denc.layout import U64, Kind, Structure

_MethodSet = Annotated[
    frozenset[int],
    Kind(
        lambda e, v: e.sequence(sorted(v), e.u32),
        lambda d: frozenset(d.sequence(d.u32, 4)),
    ),
]


@dataclass(frozen=True, slots=True)
class Introduction(Structure):
    """The payload of a client's first MAuth, whose protocol is 0."""

    methods: _MethodSet
    """Those the client can do."""
    name: AuthName
    global_id: U64
    """0 asks for a new one."""


@dataclass(frozen=True, slots=True)
class MAuthRequest:
    """What goes into an MAuth."""

    protocol: int
    """0 in the first one, the method afterwards."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class MAuthAnswer:
    """What goes into an MAuthReply."""

    protocol: AuthMethod
    result: int
    """0, or a negative errno."""
    global_id: int
    payload: bytes = b""
    done: AuthResult | None = None
    """With the reply that makes the entity authenticated, and with every renewal of its AUTH ticket."""
    refusal: Refusal | None = None
    """Why, when the result is an errno; not to be sent."""
    detail: str = ""
    """The same in words for the monitor's own log."""
