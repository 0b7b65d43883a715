"""Deliberate bugs, each of a class that real messengers have had: the explorer must find each, by a short way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from messenger.core import Core
from messenger.denc.address import EntityAddr
from messenger.errors import Fault
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session import faults
from messenger.session.existing import Decision, Verdict
from messenger.session.queue import OutQueue
from messenger.session.session import Session, SessionState
from messenger.session.states import Change
from messenger.v1 import acceptor as v1_acceptor
from messenger.v1.existing import Verdict as V1Verdict
from messenger.v2 import acceptor as v2_acceptor
from toolkit.exploration.explore import explore
from toolkit.exploration.scope import FaultKind, Grain, Scope

ONE = Scope(pairing="lossless_peer-one", grain=Grain.SESSION)
CLIENT = Scope(pairing="lossless_client", grain=Grain.SESSION)
RACE = Scope(pairing="lossless_peer", grain=Grain.SESSION)

Patch = Callable[[pytest.MonkeyPatch], None]


def replay_bound(patch: pytest.MonkeyPatch) -> None:
    """Drop one more message from the replay than the peer has."""
    right = OutQueue.discard_requeued_up_to

    patch.setattr(OutQueue, "discard_requeued_up_to", lambda self, seq: right(self, seq + bool(self.requeued)))


def early_ack(patch: pytest.MonkeyPatch) -> None:
    """One message more than was acknowledged is forgotten."""
    right = OutQueue.acknowledge
    patch.setattr(OutQueue, "acknowledge", lambda self, seq: right(self, seq + 1))


def not_requeued(patch: pytest.MonkeyPatch) -> None:
    """Do not queue again what was sent on a link that broke."""
    patch.setattr(Session, "requeue_sent", lambda _self: None)


def no_accept_event(patch: pytest.MonkeyPatch) -> None:
    """Leave out the application's event for an accepted session."""
    right = Core.session_event

    def silent(self: Core, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        if kind is not EventKind.ACCEPT:
            right(self, session, kind, fault, now)

    patch.setattr(Core, "session_event", silent)


def forgotten_session(patch: pytest.MonkeyPatch) -> None:
    """A side that waits for its client drops the session instead: SERVER_IDENT may have been lost."""
    right = Core.change_session

    def forget(self: Core, session: Session, change: Change, why: str, now: float) -> None:
        right(self, session, change, why, now)
        if change is Change.REST and session.policy.server:
            self.registry._unregister(session)

    patch.setattr(Core, "change_session", forget)


def reversed_race(patch: pytest.MonkeyPatch) -> None:
    """The higher address believes that it wins races, and so does the lower one."""
    right_v2, right_v1 = v2_acceptor.judge_client_ident, v1_acceptor.judge_connect

    def twist(decision: Any, my_addr: EntityAddr, wait: Any) -> Any:
        loses = my_addr.port == 6802 and decision.why.startswith("connection race: the peer's")
        return replace(decision, verdict=wait) if loses else decision

    def v2(existing: Any, ident: Any, my_addr: EntityAddr, *args: Any, **named: Any) -> Decision:
        return twist(right_v2(existing, ident, my_addr, *args, **named), my_addr, Verdict.WAIT)

    def v1(*args: Any, my_addr: EntityAddr, **named: Any) -> Any:
        return twist(right_v1(*args, my_addr=my_addr, **named), my_addr, V1Verdict.WAIT)

    patch.setattr(v2_acceptor, "judge_client_ident", v2)
    patch.setattr(v1_acceptor, "judge_connect", v1)


def waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    """The side that got WAIT sets no timer of its own, and the winner does not dial for it."""
    patch.setattr(Core, "send_keepalive", lambda _self, _session, _now: None)
    right = faults._back_off

    def patient(endpoint: Core, session: Session, why: str, now: float) -> None:
        if session.state is not SessionState.WAIT:
            right(endpoint, session, why, now)

    patch.setattr(faults, "_back_off", patient)


def stuck_replacing(patch: pytest.MonkeyPatch) -> None:
    """A takeover whose link breaks stays one."""
    right = faults.session_fault

    def stuck(endpoint: Core, session: Session, fault: Fault, now: float, **named: Any) -> None:
        if session.state is not SessionState.REPLACING:
            right(endpoint, session, fault, now, **named)

    patch.setattr("messenger.core.session_fault", stuck)


def stale_in_seq(patch: pytest.MonkeyPatch) -> None:
    """A new session counts the peer's messages from where the old one was."""
    patch.setattr(Session, "forget_peer_state", lambda self: self.discard_requeued_up_to(0))


def counts_while_connecting(patch: pytest.MonkeyPatch) -> None:
    """connect_seq grows with every dial that fails, as if the session had been open."""
    right = faults._back_off

    def counting(endpoint: Core, session: Session, why: str, now: float) -> None:
        session.connect_seq += 1
        right(endpoint, session, why, now)

    patch.setattr(faults, "_back_off", counting)
    patch.setattr("messenger.v1.connector.session_reset", _as_if_it_was_open)


def _as_if_it_was_open(endpoint: Core, session: Session, why: str, now: float) -> None:
    endpoint.reset_session(session, why, now)


V2, V1 = Protocol.V2, Protocol.V1
CRASH = (FaultKind.CRASH,)


@pytest.mark.parametrize(
    ("canary", "scope", "longest"),
    [
        (replay_bound, CLIENT, 20),
        (replay_bound, replace(CLIENT, protocol=V1), 20),
        (early_ack, replace(CLIENT, messages=(2, 0)), 20),
        (not_requeued, ONE, 20),
        (not_requeued, replace(ONE, protocol=V1), 20),
        (no_accept_event, replace(CLIENT, faults=0), 10),
        (forgotten_session, CLIENT, 20),
        (forgotten_session, replace(CLIENT, protocol=V1), 20),
        (reversed_race, replace(RACE, faults=0), 20),
        (reversed_race, replace(RACE, protocol=V1, faults=0), 20),
        (waits_for_ever, replace(RACE, messages=(0, 1)), 25),
        (stuck_replacing, replace(RACE, protocol=V1, messages=(1, 0)), 25),
        (stale_in_seq, replace(CLIENT, kinds=CRASH), 30),
        (counts_while_connecting, replace(ONE, protocol=V1), 20),
    ],
)
def test_a_deliberate_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, canary: Patch, scope: Scope, longest: int
) -> None:
    canary(monkeypatch)
    result = explore(scope, max_states=20_000)
    assert result.violations, f"{result.states} states, and nothing wrong"
    violation = result.violations[0]
    assert violation.is_confirmed
    assert len(violation.steps) <= longest
