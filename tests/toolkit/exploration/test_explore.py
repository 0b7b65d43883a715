"""Small scopes, exhaustively (LP-25): what they must reach, and that nothing is wrong in them."""

from dataclasses import replace

import pytest

from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.session.policy import LOSSLESS_PEER
from toolkit.exploration.explore import explore
from toolkit.exploration.replay import parse_choices, replay
from toolkit.exploration.scope import PAIRINGS, FaultKind, Grain, Scope
from toolkit.exploration.search import Explorer
from toolkit.exploration.world import ExplorationStep

V1, V2 = Protocol.V1, Protocol.V2
PEERS = Scope(pairing="lossless_peer", grain=Grain.SESSION, overtakes=0)
ONE = Scope(pairing="lossless_peer-one", grain=Grain.SESSION)
CLIENT = Scope(pairing="lossless_client", grain=Grain.SESSION)
LOSSY = Scope(pairing="lossy_client", grain=Grain.SESSION)
ALL_KINDS = tuple(FaultKind)


@pytest.mark.parametrize(
    ("scope", "states"),
    [
        (PEERS, 6000),
        (replace(PEERS, protocol=V1), 20_000),
        (ONE, 1200),
        (replace(ONE, protocol=V1), 2500),
        (replace(CLIENT, faults=2), 1500),
        (replace(CLIENT, protocol=V1, faults=2), 2500),
        (replace(CLIENT, grain=Grain.FRAME), 1200),
        (replace(CLIENT, protocol=V1, grain=Grain.FRAME), 1000),
        (replace(CLIENT, messages=(2, 2)), 1800),
        (replace(CLIENT, kinds=ALL_KINDS), 1000),
        (replace(CLIENT, protocol=V1, kinds=ALL_KINDS), 1500),
        (replace(LOSSY, kinds=ALL_KINDS), 700),
        (replace(LOSSY, protocol=V1, kinds=ALL_KINDS), 1000),
    ],
    ids=str,
)
def test_every_schedule_ends_well(scope: Scope, states: int) -> None:
    result = explore(scope, most_violations=3)
    assert [(violation.text, violation.choices) for violation in result.violations] == []
    assert result.is_complete
    assert result.states >= states
    assert result.transitions > result.states
    assert result.terminals > 0


# Both sides take each other's CLIENT_IDENT, and one of A's comes once more when messages have been exchanged.
LATE_IDENT = (
    "a:connect arrive0 forth0 b:send break0 notice0@a notice0@b arrive0 forth0 back0 a:send arrive0 forth0 break0 "
    "notice0@a notice0@b arrive1 a:timer arrive0 forth1 forth2"
)
TWICE = " back1 back1 forth0 forth0 arrive1 forth1 back0 back0"


def test_late_ident_delivers_no_message_twice() -> None:
    scope = replace(ONE, faults=2)
    assert replay(scope, parse_choices(LATE_IDENT), to_rest=True).wrong == []


def test_a_late_ident_delivers_twice_where_only_the_clients_cookie_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolkit.exploration.node.OPTIONS", {"reconnect_cookies": "client"})
    wrong = replay(replace(ONE, faults=2), parse_choices(LATE_IDENT + TWICE)).wrong
    assert "b: message 1 is delivered after message 1" in wrong


# A server's idle link is given up, after 900 s, while its answer on the next one is on its way.
LATE_ANSWER = (
    "a:connect arrive0 forth0 back0 a:send b:send half-open0 a:timer a:crash "
    "a:connect arrive1 forth1 b:timer back0"
)


def test_a_pause_that_overtakes_frames_makes_no_handshake_too_long() -> None:
    scope = replace(LOSSY, faults=2, kinds=ALL_KINDS)
    found = replay(scope, parse_choices(LATE_ANSWER))
    assert found.is_at_rest
    assert found.wrong == []


def test_explored_paths_replay_to_rest_on_real_endpoints() -> None:
    explorer = Explorer(replace(ONE, faults=2), max_states=3000, most_ends=40)
    result = explorer.run()
    for way in result.ends:
        assert replay(result.scope, way).is_at_rest


def test_interrupted_search_is_reported() -> None:
    result = explore(CLIENT, max_states=50)
    assert not result.is_complete
    assert 50 <= result.states < 70


def test_the_same_scope_gives_the_same_figures() -> None:
    first, second = (explore(CLIENT).as_json() | {"seconds": 0} for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "text", ["a:connect", "arrive0", "forth12", "back1", "notice0@b", "half-open0", "b:crash"]
)
def test_steps_are_read_as_they_are_written(text: str) -> None:
    assert str(ExplorationStep.parse(text)) == text


@pytest.mark.parametrize("text", ["c:send", "forth", "forth1 @", "7", ":"])
def test_replay_refuses_invalid_choices(text: str) -> None:
    with pytest.raises(LocalError):
        replay(CLIENT, parse_choices(text))


def test_a_step_that_is_not_possible_is_refused_with_those_that_are() -> None:
    with pytest.raises(LocalError, match=r"^step 2 cannot be forth0; possible are arrive0 a:send refuse0"):
        replay(CLIENT, parse_choices("a:connect forth0"))


def test_a_scope_must_make_sense() -> None:
    with pytest.raises(LocalError, match="unknown policy 'best_effort'"):
        Scope(pairing="best_effort")
    with pytest.raises(LocalError, match="must be 0 or more"):
        Scope(faults=-1)
    assert PAIRINGS["lossless_peer"].policies == (LOSSLESS_PEER, LOSSLESS_PEER)
