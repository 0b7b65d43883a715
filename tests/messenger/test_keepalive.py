"""Regular keepalives (docs/protocol.md §7.3, §9 item 20; family KA)."""

import pytest

from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, STATEFUL_SERVER, STATELESS_SERVER
from messenger.session.session import SessionState
from tests.support.network import Pair


def watched(lossy: bool = False, **options: object) -> Pair:  # noqa: FBT001, FBT002 - a switch of tests
    policies = (LOSSY_CLIENT, STATELESS_SERVER) if lossy else (LOSSLESS_CLIENT, STATEFUL_SERVER)
    pair = Pair(*policies, **options)
    mine, _ = pair.established()
    pair.a.endpoint.keep_alive(mine, 10.0, 30.0, pair.clock.now)
    return pair


def asked(pair: Pair) -> int:
    return pair.a.frames("tx").count("KEEPALIVE2")


def test_the_peer_is_asked_at_every_interval() -> None:
    pair = watched()
    pair.pass_time(9.9)
    assert asked(pair) == 0
    pair.pass_time(90.2)
    assert asked(pair) == 10
    assert pair.a.faults == []


def test_silence_breaks_the_link_of_a_lossless_session_which_dials_again() -> None:
    """KA-04: TCP alive, the peer does not answer."""
    pair = watched()
    pair.pass_time(25.0)
    pair.wire.hold()
    (session,) = pair.a.endpoint.sessions
    pair.pass_time(20.0)
    assert pair.a.faults == []
    pair.pass_time(20.0)
    assert pair.a.faults == [FaultReason.KEEPALIVE_TIMEOUT]
    assert session.state is SessionState.READY
    assert len(pair.wires) == 2
    pair.pass_time(100.0)
    assert len(pair.wires) == 2


def test_time_for_which_the_messenger_did_not_run_is_no_silence() -> None:
    """An application that blocks, or a stopped process: nothing was sent, so nothing could be answered."""
    pair = watched()
    pair.pass_time(25.0)
    pair.clock.now += 100.0
    pair.wire.hold()
    pair.pass_time(15.0)
    pair.wire.release()
    pair.pass_time(50.0)
    assert pair.a.faults == []
    pair.wire.hold()
    pair.pass_time(45.0)
    assert pair.a.faults == [FaultReason.KEEPALIVE_TIMEOUT]


def test_silence_resets_a_lossy_session() -> None:
    pair = watched(lossy=True)
    pair.wire.hold()
    pair.pass_time(60.0)
    assert pair.a.kinds == [EventKind.CONNECT, EventKind.RESET]
    assert pair.a.endpoint.keepalives == {}
    pair.wire.release()
    before = asked(pair)
    pair.pass_time(60.0)
    assert asked(pair) == before


def test_a_peer_that_never_answered_has_as_long_as_any_other() -> None:
    """A fresh connection has no answer yet; that is not an old one."""
    pair = watched()
    pair.wire.hold()
    pair.pass_time(39.0)
    assert pair.a.faults == []
    pair.pass_time(12.0)
    assert pair.a.faults == [FaultReason.KEEPALIVE_TIMEOUT]


def test_links_do_not_break_without_a_timeout() -> None:
    pair = watched()
    (session,) = pair.a.endpoint.sessions
    pair.a.endpoint.keep_alive(session, 10.0, 0.0, pair.clock.now)
    pair.wire.hold()
    pair.pass_time(500.0)
    assert pair.a.faults == []


def test_keepalives_end_on_request_and_with_the_session() -> None:
    pair = watched()
    (session,) = pair.a.endpoint.sessions
    pair.a.endpoint.keep_alive(session, 0.0, 0.0, pair.clock.now)
    pair.pass_time(50.0)
    assert asked(pair) == 0
    pair.a.endpoint.keep_alive(session, 1.0, 0.0, pair.clock.now)
    pair.a.mark_down(session)
    pair.drive()
    assert pair.a.endpoint.next_deadline() is None


@pytest.mark.parametrize("outage_s", [5.0, 50.0])
def test_while_a_session_dials_it_is_not_watched(outage_s: float) -> None:
    pair = watched()
    pair.crash(pair.b)
    pair.pass_time(outage_s)
    assert FaultReason.KEEPALIVE_TIMEOUT not in pair.a.faults


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_setting_the_wall_clock_changes_nothing(jump_s: float) -> None:
    """KA-06: silence is counted on the monotonic clock."""
    pair = watched()
    pair.pass_time(25.0)
    pair.a.endpoint.wall_offset_s += jump_s
    pair.pass_time(100.0)
    assert pair.a.faults == []
    pair.wire.hold()
    pair.pass_time(45.0)
    assert pair.a.faults == [FaultReason.KEEPALIVE_TIMEOUT]


def test_an_answer_from_the_future_is_no_younger_than_now() -> None:
    """KA-05: answers without a keepalive do not keep a link alive for ever."""
    pair = watched()
    (session,) = pair.a.endpoint.sessions
    now = pair.clock.now
    session.keepalive_acked(1e12, pair.a.endpoint.wall_time_s(now), now)
    pair.wire.hold()
    pair.pass_time(60.0)
    assert pair.a.faults == [FaultReason.KEEPALIVE_TIMEOUT]
