"""The payloads of MAuth and MAuthReply, between clients and monitors (docs/protocol.md §5.6).

The client's and the server's side take and return these values; their callers send them as messages.
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
    """The methods that the client supports."""
    name: AuthName
    global_id: U64
    """0 requests a new one."""


@dataclass(frozen=True, slots=True)
class MAuthRequest:
    """The contents of an MAuth."""

    protocol: int
    """0 in the first one, later the method."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class MAuthAnswer:
    """The contents of an MAuthReply."""

    protocol: AuthMethod
    result: int
    """0, or a negative errno."""
    global_id: int
    payload: bytes = b""
    done: AuthResult | None = None
    """The result of the authentication; also set with every renewal of the AUTH ticket, else None."""
    refusal: Refusal | None = None
    """The reason if ``result`` is an errno; not sent."""
    detail: str = ""
    """The reason in words, for the monitor's log."""
