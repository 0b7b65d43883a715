"""Decisions about an existing session, in the order of docs/protocol.md §4.9; LP-22, RS-01 to RS-07."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.link import Protocol
from messenger.rules import RuleOptions
from messenger.session.existing import Decision, Verdict, judge_client_ident, judge_reconnect
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    Policy,
)
from messenger.session.session import Session, SessionState
from messenger.v2.wire import ClientIdent, SessionReconnect
from tests.support.node import new_node

LOW = AddrVec.parse("v2:10.0.0.1:6801/1")
HIGH = AddrVec.parse("v2:10.0.0.2:6802/2")


def session(
    state: SessionState, policy: Policy = LOSSLESS_PEER, *, peer: AddrVec = HIGH, **values: int
) -> Session:
    """A session with ``peer``; cookies 7 and 8 and peer_global_seq 5 unless given."""
    existing = Session(1, EntityType.OSD, peer, peer.front, policy)
    existing.state = state
    for name, value in ({"client_cookie": 7, "server_cookie": 8, "peer_global_seq": 5} | values).items():
        setattr(existing, name, value)
    return existing


def ident(*, cookie: int = 7, global_seq: int = 6, addrs: AddrVec = HIGH) -> ClientIdent:
    return ClientIdent(addrs, LOW.front, 2, global_seq, 0, 0, 0, cookie)


def reconnect(*, cookie: int = 7, global_seq: int = 6, connect_seq: int = 1, msg_seq: int = 0) -> SessionReconnect:
    return SessionReconnect(HIGH, cookie, 8, global_seq, connect_seq, msg_seq)


def on_ident(existing: Session | None, frame: ClientIdent, me: AddrVec = LOW) -> Verdict:
    decision = judge_client_ident(existing, frame, me.front)
    assert decision.why
    return decision.verdict


def on_reconnect(
    existing: Session | None, frame: SessionReconnect, me: AddrVec = LOW, *, resetcheck: bool = False
) -> Decision:
    decision = judge_reconnect(existing, frame, me.front, resetcheck=resetcheck)
    assert decision.why
    return decision


# ---- CLIENT_IDENT


@pytest.mark.parametrize("existing", [None, session(SessionState.CLOSED)])
def test_an_unknown_peer_gets_a_session(existing: Session | None) -> None:
    assert on_ident(existing, ident()) is Verdict.OPEN


@pytest.mark.parametrize(
    "state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING, SessionState.WAIT]
)
@pytest.mark.parametrize("policy", [LOSSLESS_PEER_REUSE, LOSSY_CLIENT, STATEFUL_SERVER])
def test_outdated_attempt_is_dropped_in_every_state(state: SessionState, policy: Policy) -> None:
    assert on_ident(session(state, policy), ident(global_seq=4)) is Verdict.CLOSE_INCOMING
    assert on_ident(session(state, policy), ident(global_seq=5)) is not Verdict.CLOSE_INCOMING


COOKIES = pytest.mark.parametrize(("mine", "theirs"), [(7, 9), (7, 7), (7, 0), (0, 9), (0, 0)])


@COOKIES
@pytest.mark.parametrize("sent_later", [False, True])
@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING])
def test_which_attempts_are_outdated(state: SessionState, mine: int, theirs: int, *, sent_later: bool) -> None:
    """Every setting of restarted_peer."""
    existing, frame = session(state, client_cookie=mine), ident(cookie=theirs, global_seq=4)
    as_if_newer = on_ident(existing, ident(cookie=theirs, global_seq=6))
    proven = sent_later and (mine != theirs or theirs == 0)
    guessed = state is SessionState.CONNECTING and mine != theirs and 0 not in {mine, theirs}
    for setting, verdict in {
        "proven": as_if_newer if proven else Verdict.CLOSE_INCOMING,
        "stale": Verdict.CLOSE_INCOMING,
        "guess": Verdict.STOP_EXISTING if guessed else Verdict.CLOSE_INCOMING,
    }.items():
        rules = RuleOptions(restarted_peer=setting)  # type: ignore[arg-type]
        assert judge_client_ident(existing, frame, LOW.front, rules, sent_later=sent_later).verdict is verdict
        assert judge_client_ident(existing, ident(cookie=theirs), LOW.front, rules).verdict is as_if_newer


@pytest.mark.parametrize("setting", ["yields", "insists"])
@pytest.mark.parametrize("dial_failed", [False, True])
@pytest.mark.parametrize("reconnecting", [False, True])
def test_winner_yields_only_by_rule_after_its_dial_failed(
    setting: str, *, dial_failed: bool, reconnecting: bool
) -> None:
    existing = session(SessionState.CONNECTING, server_cookie=8 if reconnecting else 0)
    existing.connect_seq = 1
    existing.race_dial_failed = dial_failed
    rules = RuleOptions(race_winner=setting)  # type: ignore[arg-type]
    decision = (
        judge_reconnect(existing, reconnect(), LOW.front, rules, resetcheck=True)
        if reconnecting
        else judge_client_ident(existing, ident(cookie=9), LOW.front, rules)
    )
    assert decision.verdict is (Verdict.REUSE if setting == "yields" and dial_failed else Verdict.WAIT)


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.CONNECTING])
def test_a_lossy_session_is_replaced(state: SessionState) -> None:
    assert (
        on_ident(session(state, LOSSY_CLIENT, client_cookie=0, server_cookie=0), ident()) is Verdict.STOP_EXISTING
    )


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING])
def test_a_restarted_peer_resets_the_session_if_its_policy_checks(state: SessionState) -> None:
    frame = ident(cookie=99)
    assert on_ident(session(state, LOSSLESS_PEER_REUSE), frame) is Verdict.REUSE_RESET
    assert on_ident(session(state, LOSSLESS_PEER), frame) is Verdict.REUSE


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.CONNECTING, SessionState.WAIT])
@pytest.mark.parametrize("server_cookie", [0, 8])
def test_the_same_cookie_continues_an_interrupted_establishment(state: SessionState, server_cookie: int) -> None:
    existing = session(state, LOSSLESS_PEER_REUSE, server_cookie=server_cookie)
    assert on_ident(existing, ident(cookie=7), HIGH) is Verdict.REUSE


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY])
def test_a_session_that_is_not_being_established_is_taken_over(state: SessionState) -> None:
    assert on_ident(session(state, server_cookie=0, peer=LOW), ident(cookie=9, addrs=HIGH), LOW) is Verdict.REUSE


@pytest.mark.parametrize("state", [SessionState.CONNECTING, SessionState.WAIT])
def test_a_race_goes_to_the_dial_from_the_lower_address(state: SessionState) -> None:
    from_high = session(state, server_cookie=0, peer=HIGH)
    assert on_ident(from_high, ident(cookie=9, addrs=HIGH), LOW) is Verdict.WAIT
    from_low = session(state, server_cookie=0, peer=LOW)
    assert on_ident(from_low, ident(cookie=9, addrs=LOW), HIGH) is Verdict.REUSE


def test_a_server_never_wins_a_race_since_it_does_not_dial() -> None:
    existing = session(SessionState.CONNECTING, STATEFUL_SERVER, server_cookie=0, peer=HIGH)
    assert on_ident(existing, ident(cookie=9), LOW) is Verdict.REUSE


# ---- SESSION_RECONNECT


@pytest.mark.parametrize("existing", [None, session(SessionState.CLOSED)])
def test_a_session_that_is_not_here_is_reset_fully(existing: Session | None) -> None:
    decision = on_reconnect(existing, reconnect())
    assert (decision.verdict, decision.full) == (Verdict.RESET, True)


@pytest.mark.parametrize("resetcheck", [False, True])
def test_another_cookie_resets_fully_only_with_resetcheck(*, resetcheck: bool) -> None:
    decision = on_reconnect(session(SessionState.STANDBY), reconnect(cookie=99), resetcheck=resetcheck)
    assert (decision.verdict, decision.full) == (Verdict.RESET, resetcheck)


def test_a_session_whose_server_ident_was_never_seen_is_reset_gently() -> None:
    decision = on_reconnect(session(SessionState.CONNECTING, server_cookie=0), reconnect(), resetcheck=True)
    assert (decision.verdict, decision.full) == (Verdict.RESET, False)


def test_server_cookie_of_the_frame_is_compared_unless_a_rule_differs() -> None:
    frame = reconnect()
    frame.server_cookie = 12345
    existing = session(SessionState.STANDBY)
    decision = on_reconnect(existing, frame)
    assert (decision.verdict, decision.full) == (Verdict.RESET, False)
    rules = RuleOptions(reconnect_cookies="client")
    assert judge_reconnect(existing, frame, LOW.front, rules, resetcheck=True).verdict is Verdict.REUSE


@pytest.mark.parametrize("dial_failed", [False, True])
def test_of_two_dials_under_different_server_cookies_the_one_from_the_lower_address_begins_anew(
    *, dial_failed: bool
) -> None:
    """If each side reset the other, both would take each other over again."""
    frame = reconnect()
    frame.server_cookie = 12345
    for existing, me in (
        (session(SessionState.CONNECTING, peer=HIGH), LOW),
        (
            session(SessionState.CONNECTING, peer=LOW),
            HIGH,
        ),
    ):
        assert on_reconnect(existing, frame, me).verdict is Verdict.RESET  # between two dials
        existing.link = new_node().endpoint.new_link(Protocol.V2, connector=True)
        existing.race_dial_failed = dial_failed
        wins = me is LOW and not dial_failed
        assert on_reconnect(existing, frame, me).verdict is (Verdict.WAIT if wins else Verdict.RESET)


def test_outdated_attempts_get_a_retry_with_the_number_to_exceed() -> None:
    assert on_reconnect(session(SessionState.STANDBY), reconnect(global_seq=4)).verdict is Verdict.RETRY_GLOBAL
    behind = session(SessionState.STANDBY, connect_seq=3)
    assert on_reconnect(behind, reconnect(connect_seq=2)).verdict is Verdict.RETRY
    assert on_reconnect(behind, reconnect(connect_seq=2, global_seq=4)).verdict is Verdict.RETRY_GLOBAL


def test_newer_attempt_continues_with_either_order_of_addresses() -> None:
    existing = session(SessionState.CONNECTING, connect_seq=1)
    for me in LOW, HIGH:
        assert on_reconnect(existing, reconnect(connect_seq=2), me).verdict is Verdict.REUSE


def test_equal_attempts_race_by_address() -> None:
    assert on_reconnect(session(SessionState.CONNECTING, connect_seq=1), reconnect(), LOW).verdict is Verdict.WAIT
    from_low = session(SessionState.CONNECTING, connect_seq=1, peer=LOW)
    assert on_reconnect(from_low, reconnect(), HIGH).verdict is Verdict.REUSE
    server = session(SessionState.STANDBY, STATEFUL_SERVER, connect_seq=1)
    assert on_reconnect(server, reconnect(), LOW).verdict is Verdict.REUSE


# ---- both sides agree

ADDRS = st.builds(
    lambda ip, port, nonce: AddrVec((EntityAddr.from_host(ip, port, nonce=nonce),)),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "2.0.0.10", "fd00::1", "fd00::2"]),
    st.sampled_from([1, 256, 6800, 6801]),
    st.sampled_from([0, 1, 256, 2**32 - 1]),
)


@given(st.tuples(ADDRS, ADDRS).filter(lambda pair: pair[0] != pair[1]))
def test_exactly_one_of_two_dials_wins_any_race(pair: tuple[AddrVec, AddrVec]) -> None:
    """Whatever the addresses, both sides compute the same winner."""
    a, b = pair
    at_a = session(SessionState.CONNECTING, LOSSLESS_CLIENT, server_cookie=0, client_cookie=1, peer=b)
    at_b = session(SessionState.CONNECTING, LOSSLESS_CLIENT, server_cookie=0, client_cookie=2, peer=a)
    verdicts = {on_ident(at_a, ident(cookie=2, addrs=b), a), on_ident(at_b, ident(cookie=1, addrs=a), b)}
    assert verdicts == {Verdict.REUSE, Verdict.WAIT}
    at_a, at_b = (
        session(SessionState.CONNECTING, connect_seq=1, peer=b),
        session(SessionState.CONNECTING, connect_seq=1, peer=a),
    )
    verdicts = {on_reconnect(at_a, reconnect(), a).verdict, on_reconnect(at_b, reconnect(), b).verdict}
    assert verdicts == {Verdict.REUSE, Verdict.WAIT}
