"""States of a session, and the table of the changes between them (docs/protocol.md §3.9, §4.11).

>>> TRANSITIONS[SessionState.READY, Change.REST]
<SessionState.STANDBY: 'STANDBY'>
>>> (SessionState.CLOSED, Change.DIAL) in TRANSITIONS
False
"""

from collections.abc import Mapping
from enum import StrEnum


class SessionState(StrEnum):
    """Where a session stands between links."""

    CONNECTING = "CONNECTING"
    """Dialling, shaking hands, or pausing before the next dial."""
    ESTABLISHING = "ESTABLISHING"
    """The peer dialled and gets a fresh session; the answer is not written yet."""
    REPLACING = "REPLACING"
    """The peer's new link takes the place of the old one; the answer is not written yet."""
    READY = "READY"
    """A link carries it."""
    STANDBY = "STANDBY"
    """No link and no wish for one; something to send, or the peer, wakes it."""
    WAIT = "WAIT"
    """Lost a race; the peer's dial is expected."""
    CLOSED = "CLOSED"
    """Over; nothing happens to it any more."""


class Change(StrEnum):
    """What happens to a session."""

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
"""The state that follows; a change that has no row in a state is refused."""
