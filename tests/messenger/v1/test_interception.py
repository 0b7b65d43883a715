"""Breakpoints at every point of a v1 conversation: nothing is lost and nothing comes twice (V1-11)."""

import pytest

from messenger.interception import Action, Custom, Point, Way, grid
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_PEER
from messenger.session.session import SessionState
from messenger.v1.wire import Piece
from tests.messenger.test_endpoint_races import Race
from tests.messenger.test_interception import Stop, converse
from tests.support.network import Pair

GRID = grid([piece.value for piece in Piece if piece is not Piece.BANNER])
NEVER_PASSED = {Custom.BANNER_PAYLOAD_READ, "KEEPALIVE", "CLOSE"}
"""The banner of v1 has no payload; both sides have MSGR_KEEPALIVE2, and CLOSE is only received, never sent."""
SMOOTH = [point for point in GRID if point.tag not in NEVER_PASSED]

by_action = pytest.mark.parametrize("action", [Action.FAULT, Action.BLOCK, Action.STALL])


@pytest.mark.parametrize("side", ["a", "b"])
@by_action
@pytest.mark.parametrize("point", SMOOTH, ids=str)
@pytest.mark.parametrize("at_pass", [1, 2, 3])
def test_no_message_is_lost_at_any_point(point: Point, action: Action, side: str, at_pass: int) -> None:
    stop = Stop(point, Action.CONTINUE if point.tag == Custom.SOCKET_ACCEPTED else action, at_pass)
    pair = converse(stop, side, protocol=Protocol.V1)
    assert pair.b.tids == [1, 2, 4]
    assert pair.a.tids == [3, 5]
    assert not {EventKind.RESET, EventKind.REMOTE_RESET} & {*pair.a.kinds, *pair.b.kinds}


def test_the_smooth_points_are_all_passed() -> None:
    passed = set()
    for side in "ab":
        stop = Stop(Point("NOWHERE"), Action.CONTINUE)
        converse(stop, side, protocol=Protocol.V1)
        passed |= {point for point, _ in stop.passed}
    assert passed == set(SMOOTH)


@pytest.mark.parametrize("at_pass", [1, 2])
@by_action
def test_a_message_that_is_stopped_is_counted_once(action: Action, at_pass: int) -> None:
    stop = Stop(Point("MSG", Way.READ), action, at_pass)
    converse(stop, "b", protocol=Protocol.V1)
    passes = [number for point, number in stop.passed if point == Point("MSG", Way.READ)]
    assert passes == list(range(1, len(passes) + 1))


@pytest.mark.parametrize("side", ["a", "b"])
@by_action
@pytest.mark.parametrize(
    "point", [Point("CONNECT", Way.READ), Point("CONNECT_REPLY", Way.WRITE), Point("SEQ", Way.READ)], ids=str
)
def test_a_race_that_is_stopped_ends_with_one_session(point: Point, action: Action, side: str) -> None:
    stop = Stop(point, action)
    sides = {"a": "interceptor", "b": "peer_interceptor"}
    pair = Race(LOSSLESS_PEER, protocol=Protocol.V1, **{sides[side]: stop})  # type: ignore[arg-type]
    pair.dial_both()
    pair.pass_time(0.5)
    for link_id in stop.links:
        getattr(pair, side).endpoint.unblock(link_id, pair.clock.now)
    pair.check()


def test_a_session_is_ready_once_its_last_reply_is_written() -> None:
    stop = Stop(Point("CONNECT_REPLY", Way.WRITE), Action.BLOCK)
    pair = Pair(peer_interceptor=stop, protocol=Protocol.V1)
    mine = pair.connect()
    pair.pass_time(5.0)
    (theirs,) = pair.b.endpoint.sessions
    assert (mine.state, theirs.state) == (SessionState.CONNECTING, SessionState.ESTABLISHING)
    assert pair.b.kinds == [EventKind.ACCEPT]  # the application could still refuse it
    pair.b.endpoint.unblock(stop.links[0], pair.clock.now)
    pair.drive()
    assert mine.state is theirs.state is SessionState.READY
    assert len(pair.wires) == 1
