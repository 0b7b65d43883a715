"""Messengers with a bug put in on purpose: the table finds each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from messenger.core import Core
from messenger.errors import Fault, FaultReason
from messenger.outputs import EventKind
from messenger.session import faults as session_faults
from messenger.session.existing import Decision, Verdict
from messenger.session.session import Session, SessionState
from messenger.v1 import acceptor as v1_acceptor
from messenger.v1.existing import Verdict as V1Verdict
from messenger.v2 import acceptor
from toolkit.errors import ScenarioFailed
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.scenarios.crimson.model import Function
from toolkit.scenarios.crimson.play import Play
from toolkit.scenarios.crimson.table import TABLE, V1_TABLE

Patch = Callable[[pytest.MonkeyPatch], None]


def tie_break_reversed(patch: pytest.MonkeyPatch) -> None:
    """The higher address wins a race."""
    for name in "judge_client_ident", "judge_reconnect":
        judge = getattr(acceptor, name)

        def reversed_(*args: Any, judge: Any = judge, **named: Any) -> Decision:
            decision: Decision = judge(*args, **named)
            if "race" not in decision.why:
                return decision
            other = Verdict.REUSE if decision.verdict is Verdict.WAIT else Verdict.WAIT
            return replace(decision, verdict=other)

        patch.setattr(acceptor, name, reversed_)


def accept_event_missing(patch: pytest.MonkeyPatch) -> None:
    """Leave out the event of a takeover."""
    original = Core.session_event

    def silent(core: Core, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        if kind is not EventKind.ACCEPT or session.state is not SessionState.REPLACING:
            original(core, session, kind, fault, now)

    patch.setattr(Core, "session_event", silent)


def replaced_by_a_fresh_one(patch: pytest.MonkeyPatch) -> None:
    """Instead of taking over the session there is, the link of a new CLIENT_IDENT opens another."""
    judge = acceptor.judge_client_ident

    def fresh(*args: Any, **named: Any) -> Decision:
        decision = judge(*args, **named)
        reuses = decision.verdict in {Verdict.REUSE, Verdict.REUSE_RESET}
        return replace(decision, verdict=Verdict.STOP_EXISTING) if reuses else decision

    patch.setattr(acceptor, "judge_client_ident", fresh)


def reset_event_missing(patch: pytest.MonkeyPatch) -> None:
    """A lossy session that breaks ends silently."""
    patch.setattr(Core, "stop_session", Core.end_session)


def lossy_dials_again(patch: pytest.MonkeyPatch) -> None:
    """A lossy session that was open tries again as if it still were dialling."""
    fault = session_faults.session_fault

    def kinder(core: Core, session: Session, why: Fault, now: float, *, dialling: bool = False) -> None:
        fault(core, session, why, now, dialling=dialling or why.reason is FaultReason.INTERCEPTED)

    patch.setattr("messenger.core.session_fault", kinder)


def reset_is_always_full(patch: pytest.MonkeyPatch) -> None:
    """Send a full reset whenever SERVER_IDENT was never received."""
    judge = acceptor.judge_reconnect

    def full(*args: Any, **named: Any) -> Decision:
        return replace(judge(*args, **named), full=True)

    patch.setattr(acceptor, "judge_reconnect", full)


def stands_by_with_a_queue(patch: pytest.MonkeyPatch) -> None:
    """A session with something to send waits for the peer."""
    patch.setattr(Session, "has_output", property(lambda _session: False))


FOUND_BY = {
    tie_break_reversed: ("CF22", "CF23", "CF24", "CF25"),
    accept_event_missing: ("CF13", "CF14", "CF20", "CF31"),
    replaced_by_a_fresh_one: ("CF13", "CF18", "CF36", "CF38"),
    reset_event_missing: ("CF03", "CF07", "CF33", "CF34"),
    lossy_dials_again: ("CF03",),
    reset_is_always_full: ("CF26", "CF28"),
    stands_by_with_a_queue: ("CF19",),
}


@pytest.mark.parametrize(("bug", "function"), [(bug, name) for bug, names in FOUND_BY.items() for name in names])
def test_the_table_finds_the_bug(bug: Patch, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = TABLE.functions[function]
    _play_last(found)
    bug(monkeypatch)
    with pytest.raises(ScenarioFailed):
        _play_last(found)


@pytest.mark.parametrize("function", ["CF24", "CF25"])
def test_the_table_finds_a_tie_break_reversed_on_v1(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = V1_TABLE.functions[function]
    _play_last(found, "v1")
    judge = v1_acceptor.judge_connect

    def reversed_(*args: Any, **named: Any) -> Any:
        decision = judge(*args, **named)
        if "race" not in decision.why:
            return decision
        other = V1Verdict.REPLACE if decision.verdict is V1Verdict.WAIT else V1Verdict.WAIT
        return replace(decision, verdict=other)

    monkeypatch.setattr(v1_acceptor, "judge_connect", reversed_)
    with pytest.raises(ScenarioFailed):
        _play_last(found, "v1")


def _play_last(function: Function, way: str = "v2-crc") -> None:
    Play.of(SimLab(way, 1), function, function.runs[-1], function.orders(function.runs[-1])[0]).play()
