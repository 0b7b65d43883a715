"""States of a session, and the table of changes between them (docs/protocol.md §3.9, §4.11).

>>> TRANSITIONS[SessionState.READY, Change.REST]
<SessionState.STANDBY: 'STANDBY'>
>>> (SessionState.CLOSED, Change.DIAL) in TRANSITIONS
False
"""

from collections.abc import Mapping
from enum import StrEnum


class SessionState(StrEnum):
    """State of a session."""

    CONNECTING = "CONNECTING"
    """This side dials, runs the handshake, or backs off before the next dial."""
    ESTABLISHING = "ESTABLISHING"
    """The peer dialled and gets a new session; the answer is not written yet."""
    REPLACING = "REPLACING"
    """A new link of the peer replaces the old one; the answer is not written yet."""
    READY = "READY"
    """A link carries the session."""
    STANDBY = "STANDBY"
    """There is no link and none is needed; a message to send or the peer's dial ends this state."""
    WAIT = "WAIT"
    """This side lost a connection race and expects the peer to dial."""
    CLOSED = "CLOSED"
    """The session has ended; no change is possible."""


class Change(StrEnum):
    """What changes the state of a session."""

    DIAL = "this side dials, at once or after a pause"
    OPEN = "the handshake has succeeded"
    TAKE_OVER = "a link of the peer takes over"
    LOSE_RACE = "the peer answers WAIT"
    REST = "a fault, with nothing to send or where only the peer can dial"
    CLOSE = "the session ends"


_DIALS = (
    SessionState.CONNECTING,
    SessionState.ESTABLISHING,
    SessionState.REPLACING,
    SessionState.READY,
    SessionState.STANDBY,
    SessionState.WAIT,
)
_OPENS = (SessionState.CONNECTING, SessionState.ESTABLISHING, SessionState.REPLACING)
_IS_TAKEN_OVER = (
    SessionState.CONNECTING,
    SessionState.ESTABLISHING,
    SessionState.READY,
    SessionState.STANDBY,
    SessionState.WAIT,
)
_RESTS = (SessionState.CONNECTING, SessionState.ESTABLISHING, SessionState.REPLACING, SessionState.READY)

TRANSITIONS: Mapping[tuple[SessionState, Change], SessionState] = {
    **{(state, Change.DIAL): SessionState.CONNECTING for state in _DIALS},
    **{(state, Change.OPEN): SessionState.READY for state in _OPENS},
    **{(state, Change.TAKE_OVER): SessionState.REPLACING for state in _IS_TAKEN_OVER},
    (SessionState.CONNECTING, Change.LOSE_RACE): SessionState.WAIT,
    **{(state, Change.REST): SessionState.STANDBY for state in _RESTS},
    **{(state, Change.CLOSE): SessionState.CLOSED for state in SessionState if state is not SessionState.CLOSED},
}
"""The next state for each state and change; a change without a row is impossible in that state."""
