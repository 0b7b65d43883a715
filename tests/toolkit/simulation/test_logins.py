"""Lives with a monitor: what is drawn, and what a wrong login costs a seed."""

from collections import Counter
from dataclasses import replace

import pytest

from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.negotiation import ClientAuth
from messenger.cephx.refusal import Refusal
from toolkit.simulation.draws import Login, Options
from toolkit.simulation.login_lab import MONITOR
from toolkit.simulation.schedule import Operation, Plan
from toolkit.simulation.swarm import CALLS, LIVENESS, Outcome, draw, live, live_plan

_DRAWN = 600
_TTL_S = 600.0


def _first(login: Login, protocol: str) -> tuple[int, Options, Plan]:
    """The first seed that draws such a login for a protocol in crc mode."""
    for seed in range(1, 20 * _DRAWN):
        options, plan = draw(seed)
        way = options.way
        if options.login == login and way.protocol.value == protocol and way.mode == "crc":
            return seed, options, plan
    raise AssertionError(f"no seed draws {login} on {protocol} in crc mode")


def _quiet_life(login: Login, protocol: str, *more: Operation, seed: int | None = None) -> Outcome:
    """A life whose nodes log in, and then do no more than these operations."""
    drawn, options, _ = _first(login, protocol)
    seed = drawn if seed is None else seed
    nodes = tuple(replace(node, options={}) for node in options.nodes)
    options = replace(options, nodes=nodes, injections={}, motif=None, both_protocols=False)
    plan = (*(Operation(0.0, "login", (node.name,)) for node in nodes), *more)
    return live_plan(seed, options, plan, plan)


_CEPHX = Login("cephx", ("cephx",), 2 * _TTL_S, _TTL_S)
_BOTH = Login("cephx", ("none", "cephx"), 2 * _TTL_S, _TTL_S)


def test_one_seed_of_six_has_a_monitor_and_all_that_may_happen_to_logins_is_drawn() -> None:
    verbs: Counter[str] = Counter()
    methods: Counter[tuple[str, bool]] = Counter()
    for seed in range(_DRAWN):
        options, plan = draw(seed)
        if options.login is not None:
            methods[options.login.method, len(options.login.offers) > 1] += 1
            verbs.update(operation.verb for operation in plan if operation.verb in _VERBS)
            verbs.update(operation.verb for operation in plan if MONITOR in operation.args)
    assert 0.1 < methods.total() / _DRAWN < 0.22
    assert verbs.keys() >= {*_VERBS, "cut", "half_open", "mark_down", "partition", "freeze"}
    assert len(methods) == 4


_VERBS = {"login", "renew", "rotate_services", "ready"}


@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_nodes_log_in_and_daemons_have_service_keys(protocol: str) -> None:
    outcome = _quiet_life(_CEPHX, protocol)
    assert outcome.passed, outcome.failures
    monitors = {record["peer"] for record in outcome.history.of("event") if record.node == MONITOR}
    assert monitors == {node.name for node in outcome.options.nodes}


@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_monitor_that_refuses_for_good_is_a_failure(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messenger.cephx.mon_server.MonAuthServer.require_ready", _refuse)
    outcome = _quiet_life(_CEPHX, protocol)
    assert [failure.id for failure in outcome.failures[:1]] == [LIVENESS]
    assert "not logged in" in outcome.failures[0].text


def _refuse(self: object) -> None:
    raise Refusal.REFUSED.error("out of quorum")


def test_method_that_the_login_did_not_agree_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _quiet_life(_BOTH, "v2").passed
    monkeypatch.setattr(ClientAuth, "agree", lambda self, method: None)
    failures = _quiet_life(_BOTH, "v2").failures
    assert [failure.id for failure in failures] == [CALLS]
    assert failures[0].text.endswith("uses method none after a login by cephx")


def test_ticket_that_is_not_renewed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    late = [Operation(at_s, "renew", (name,)) for at_s in (0.8 * _TTL_S, 1.6 * _TTL_S) for name in "ab"]
    assert _quiet_life(_CEPHX, "v2", *late).passed
    monkeypatch.setattr(MonAuthClient, "_session_key_request", lambda self, cephx, needed: None)
    # Half of the nodes log in anew after the faults, which gives them a new ticket.
    outcomes = [_quiet_life(_CEPHX, "v2", *late, seed=seed) for seed in range(6)]
    assert LIVENESS in {failure.id for outcome in outcomes for failure in outcome.failures}


def test_method_none_is_drawn_in_crc_mode_only() -> None:
    drawn = [options for options, _ in map(draw, range(2000)) if options.login]
    assert {options.way.mode for options in drawn if options.login and options.login.method == "none"} == {"crc"}


def test_same_seed_gives_the_same_life() -> None:
    seed, _, _ = _first(_BOTH, "v2")
    assert live(seed).digest == live(seed).digest
