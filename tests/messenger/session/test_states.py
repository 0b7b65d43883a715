"""The table of a session's states: it performs each change, and refuses what it does not have."""

from itertools import product

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.session.policy import LOSSLESS_PEER
from messenger.session.registry import Registry
from messenger.session.session import Session
from messenger.session.states import TRANSITIONS, Change, SessionState

PEER = AddrVec.parse("v2:10.0.0.2:6802/2")
WAY: dict[SessionState, tuple[Change, ...]] = {
    SessionState.CONNECTING: (),
    SessionState.READY: (Change.OPEN,),
    SessionState.STANDBY: (Change.OPEN, Change.REST),
    SessionState.WAIT: (Change.LOSE_RACE,),
    SessionState.REPLACING: (Change.OPEN, Change.TAKE_OVER),
    SessionState.CLOSED: (Change.CLOSE,),
}
"""How a session comes to each state; ESTABLISHING is where an accepted one begins."""


def session_in(state: SessionState) -> Session:
    accepted = state is SessionState.ESTABLISHING
    session = Registry().new(EntityType.OSD, PEER, PEER.front, LOSSLESS_PEER, accepted=accepted)
    for change in WAY.get(state, ()):
        session.change(change)
    assert session.state is state
    return session


@pytest.mark.parametrize(("state", "change"), list(product(SessionState, Change)))
def test_change_follows_the_table_or_is_refused(state: SessionState, change: Change) -> None:
    session = session_in(state)
    if (state, change) in TRANSITIONS:
        session.change(change)
        assert session.state is TRANSITIONS[state, change]
    else:
        with pytest.raises(LocalError, match=f"{state}>: impossible in this state: {change}"):
            session.change(change)
        assert session.state is state


def test_table_has_no_forbidden_transitions() -> None:
    """Each of these would send, keep or deliver what belongs to another session, or to none."""
    assert not [state for state, _ in TRANSITIONS if state is SessionState.CLOSED]
    assert (SessionState.READY, Change.OPEN) not in TRANSITIONS
    assert (SessionState.STANDBY, Change.OPEN) not in TRANSITIONS
    assert (SessionState.REPLACING, Change.TAKE_OVER) not in TRANSITIONS
    assert (SessionState.READY, Change.LOSE_RACE) not in TRANSITIONS


def test_every_state_but_the_end_can_be_left_and_every_state_can_be_closed() -> None:
    for state in set(SessionState) - {SessionState.CLOSED}:
        assert TRANSITIONS[state, Change.CLOSE] is SessionState.CLOSED
        assert {target for (source, _), target in TRANSITIONS.items() if source is state} - {state}
