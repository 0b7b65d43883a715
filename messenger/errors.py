"""Errors of the messenger: caller's mistakes, peer's mistakes, and the typed reason of each broken link.

A peer's bytes never make the core raise: the receiving side turns a :class:`PeerError` into a :class:`Fault`.
A caller's mistake raises :class:`LocalError` at the call.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import UnionType

_DETAIL_CHARS = 200
"""Most characters of a peer's data that an error quotes."""


class FaultReason(StrEnum):
    """Why a link ended. Logs, histories and counters show the value."""

    # the byte stream itself
    REFUSED = "connection refused"
    SOCKET = "socket error"
    EOF = "peer closed the connection"
    READY_TIMEOUT = "handshake not finished in time"
    IDLE_TIMEOUT = "no traffic for too long"
    FRAME_TIMEOUT = "rest of a frame not received in time"
    CROWDED_OUT = "too many links that are not open yet"
    SHORT_LIVED = "links break as soon as they open"
    KEEPALIVE_TIMEOUT = "no answer to keepalives"
    # banner (docs/protocol.md §4.2)
    V1_PEER = "peer speaks msgr v1"
    V2_PEER = "peer speaks msgr v2"
    NOT_MSGR = "peer does not speak the Ceph messenger protocol"
    BANNER = "malformed banner"
    BANNER_FEATURES = "required msgr2 feature missing"
    # frames (docs/protocol.md §4.4, §4.5)
    PREAMBLE_CRC = "bad preamble crc"
    SEGMENT_CRC = "bad segment crc"
    AUTH_TAG = "bad authentication tag"
    HEADER_CRC = "bad message header crc"
    MESSAGE_SIGNATURE = "bad message signature"
    ABORTED = "message aborted by its sender"
    OVERSIZE = "frame larger than the limit"
    FRAME = "malformed frame"
    COMPRESSION = "compressed segment cannot be restored"
    NONCE_EXHAUSTED = "out of nonces"
    # protocol
    UNKNOWN_TAG = "unknown frame tag"
    UNEXPECTED_FRAME = "frame not expected in this state"
    MALFORMED = "malformed payload"
    BAD_MESSAGE = "message cannot be decoded"
    UNKNOWN_MESSAGE = "message of an unknown type"
    SKIPPED_SEQ = "message missing"
    UNSENT_SEQ = "peer claims to have what was never sent"
    PEER_TYPE = "unexpected peer entity type"
    WRONG_TARGET = "peer is not the dialled one"
    PEER_IDENTITY = "peer is not that of the session"
    PEER_NUMBER = "peer has another number than before"
    PROTOCOL_VERSION = "protocol version not accepted"
    MISSING_FEATURES = "required features missing"
    STALE = "stale connection attempt"
    RACE = "lost a connection race"
    REPLACED = "replaced by a newer link"
    PEER_CLOSED = "peer ended the session"
    # authentication (docs/protocol.md §4.7, §5)
    AUTH_METHOD = "no common authentication method or mode"
    AUTH_DENIED = "authentication refused"
    AUTH_BUSY = "authentication service not ready"
    AUTH_REPLY = "authentication reply not genuine"
    AUTH_SIGNATURE = "bad authentication signature"
    # local decisions
    LOCAL = "local code failed"
    MEMORY = "out of memory"
    STANDBY_TIMEOUT = "in STANDBY for too long"
    QUEUE_LIMIT = "too much queued"
    INTERCEPTED = "broken by an interceptor"
    MARKED_DOWN = "marked down"
    SHUTDOWN = "messenger shut down"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a link broke: the reason, details of what was received, and the state of the handshake or session."""

    reason: FaultReason
    detail: str = ""
    state: str = ""

    def __str__(self) -> str:
        where = f" in {self.state}" if self.state else ""
        return f"{self.reason.value}{where}" + (f": {self.detail}" if self.detail else "")


def _one_line(detail: str) -> str:
    """Make the text fit for one line of a log: escape unprintable characters, and limit the length."""
    shown = detail[:_DETAIL_CHARS]
    if not shown.isprintable():
        escaped = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
        shown = "".join(escaped)[:_DETAIL_CHARS]
    return shown if len(detail) <= _DETAIL_CHARS else f"{shown}..."


def describe(error: BaseException) -> str:
    """Describe an exception in one line, for histories and faults."""
    return _one_line(f"{type(error).__name__}: {error}")


class MsgrError(Exception):
    """Base class of all errors that this package raises."""


class LocalError(MsgrError):
    """A mistake of the caller: an argument, or a call in this state, is not acceptable."""


def check_kind(argument: str, value: object, kind: type | UnionType, example: str) -> None:
    """Raise if an argument has the wrong type.

    Args:
        argument: name of the argument.
        value: its value; the error shows only the type, because the value may be a secret.
        kind: the accepted type.
        example: what to give instead, for the error message.

    Raises:
        LocalError: ``value`` is of another type.
    """
    if not isinstance(value, kind):
        raise LocalError(f"{argument} is of type {type(value).__name__}: give {example}")


def check_seconds(argument: str, value: object) -> None:
    """Check that a time is a number; NaN is none, since it would put the timers of an event loop out of order.

    Raises:
        LocalError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise LocalError(f"{argument} = {value!r}: give a number of seconds")


class DieError(MsgrError):
    """An event that an option ``ms_die_on_*`` makes fatal; the messenger cannot be used any more."""

    def __init__(self, option: str, detail: str) -> None:
        super().__init__(f"{option}: {detail}")
        self.option = option
        self.detail = detail


class PeerError(MsgrError):
    """The peer violated the protocol. Carries the typed reason; the core turns it into a :class:`Fault`."""

    def __init__(self, reason: FaultReason, detail: str = "") -> None:
        detail = _one_line(detail)
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail


class DecodeError(PeerError):
    """Bytes that cannot be decoded as the expected structure: too short, too new, or a value out of range."""

    def __init__(self, detail: str) -> None:
        super().__init__(FaultReason.MALFORMED, detail)


class AuthError(PeerError):
    """Authentication failed. ``errno`` is the positive Linux error number that is sent to the peer (§4.7)."""

    def __init__(self, reason: FaultReason, detail: str = "", errno: int = 13) -> None:
        super().__init__(reason, detail)
        self.errno = errno


class FaultError(MsgrError):
    """Raised to a caller that waits for a connection which has ended; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault
