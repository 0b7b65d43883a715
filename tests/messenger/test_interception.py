"""Breakpoints at every point of the grid: whatever happens there, nothing is lost and nothing comes twice."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason, LocalError
from messenger.interception import BLOCK_LIMIT_S, Action, Custom, Point, Way, grid
from messenger.link import Link, Protocol
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from messenger.v2.wire import Tag
from tests.support.network import Pair
from tests.support.node import B_ADDR

GRID = grid([tag.name for tag in Tag])
NEVER_PASSED = {
    "AUTH_BAD_METHOD",
    "IDENT_MISSING_FEATURES",
    "SESSION_RETRY",
    "SESSION_RETRY_GLOBAL",
    "SESSION_RESET",
    "WAIT",
}
"""Frames of a conversation that does not run smoothly; their own tests are below."""
SMOOTH = [point for point in GRID if point.tag not in NEVER_PASSED]


class Stop:
    """Answers one action at one point, the n-th time it is passed, and CONTINUE otherwise."""

    def __init__(self, point: Point, action: Action, at_pass: int = 1) -> None:
        self.point = point
        self.action = action
        self.at_pass = at_pass
        self.passed: list[tuple[Point, int]] = []
        self.links: list[int] = []
        """Where the action was taken."""
        self.armed = True

    def intercept(self, link: Link, point: Point, passes: int) -> Action:
        self.passed.append((point, passes))
        if not self.armed or point != self.point or passes < self.at_pass:
            return Action.CONTINUE
        self.armed = False
        self.links.append(link.id)
        return self.action


def converse(
    stop: Stop,
    side: str,
    mode: ConMode = ConMode.CRC,
    auth: str = "cephx",
    protocol: Protocol = Protocol.V2,
) -> Pair:
    """A session with a reconnect in the middle, keepalives, and messages both ways, with a stop at one side."""
    sides = {"a": "interceptor", "b": "peer_interceptor"}
    pair = Pair(mode=mode, auth=auth, protocol=protocol, **{sides[side]: stop})  # type: ignore[arg-type]
    node = getattr(pair, side)

    def settle() -> None:
        pair.pass_time(0.1)
        for link_id in stop.links:
            node.endpoint.unblock(link_id, pair.clock.now)
        pair.pass_time(20.0)

    mine = pair.connect()
    pair.a.send(mine, 1, 2)
    settle()
    theirs = pair.b.endpoint.registry.lookup(pair.a.endpoint.addrs)
    assert theirs is not None
    pair.b.send(theirs, 3)
    settle()
    pair.a.endpoint.send_keepalive(mine, pair.clock.now)
    settle()
    if pair.wire.open:
        pair.wire.cut()
    pair.a.send(mine, 4)
    settle()
    pair.b.send(theirs, 5)
    settle()
    # The last frame of v1 is an ack; a side that loses the link with it has no reason to dial again.
    resting = {SessionState.READY} if protocol is Protocol.V2 else {SessionState.READY, SessionState.STANDBY}
    assert {mine.state, theirs.state} <= resting
    return pair


def test_the_grid_has_49_points() -> None:
    """Those of crimson, and the two frames of the compression exchange, which it does not have."""
    assert len(GRID) == len(set(GRID)) == 49


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("action", [Action.FAULT, Action.BLOCK, Action.STALL])
@pytest.mark.parametrize("point", SMOOTH, ids=str)
def test_no_message_is_lost_at_any_point(point: Point, action: Action, side: str) -> None:
    stop = Stop(point, Action.CONTINUE if point.tag == Custom.SOCKET_ACCEPTED else action)
    pair = converse(stop, side)
    assert pair.b.tids == [1, 2, 4]
    assert pair.a.tids == [3, 5]
    assert not {EventKind.RESET, EventKind.REMOTE_RESET} & {*pair.a.kinds, *pair.b.kinds}


def test_the_smooth_points_are_all_passed() -> None:
    passed = set()
    for side in "ab":
        stop = Stop(Point("NOWHERE"), Action.CONTINUE)
        converse(stop, side)
        passed |= {point for point, _ in stop.passed}
    assert passed == set(SMOOTH)


@pytest.mark.parametrize("action", [Action.FAULT, Action.BLOCK, Action.STALL])
@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("at_pass", [1, 2, 3])
def test_stop_applies_at_its_pass_number(at_pass: int, way: Way, action: Action) -> None:
    side = "a" if way is Way.WRITE else "b"
    stop = Stop(Point("MESSAGE", way), action, at_pass)
    pair = converse(stop, side, ConMode.SECURE)
    assert len(stop.links) == 1
    assert pair.b.tids == [1, 2, 4]


def test_blocked_link_waits_and_then_continues() -> None:
    stop = Stop(Point("SERVER_IDENT", Way.WRITE), Action.BLOCK)
    pair = Pair(peer_interceptor=stop)
    mine = pair.connect()
    pair.pass_time(5.0)
    theirs = pair.b.endpoint.sessions[0]
    assert (mine.state, theirs.state) == (SessionState.CONNECTING, SessionState.ESTABLISHING)
    assert "SERVER_IDENT" not in pair.b.frames("tx")
    assert pair.b.kinds == [EventKind.ACCEPT]  # raised before the answer is written (docs/protocol.md §4.9)
    pair.b.endpoint.unblock(stop.links[0], pair.clock.now)
    pair.drive()
    assert mine.state is theirs.state is SessionState.READY
    assert pair.b.kinds == [EventKind.ACCEPT]
    assert len(pair.wires) == 1


@pytest.mark.parametrize(
    ("policy", "peer_policy", "kinds"),
    [
        (LOSSLESS_CLIENT, STATEFUL_SERVER, [EventKind.ACCEPT] * 2),
        (LOSSLESS_PEER, LOSSLESS_PEER, [EventKind.ACCEPT, EventKind.CONNECT]),
        (LOSSY_CLIENT, STATELESS_SERVER, [EventKind.ACCEPT, EventKind.RESET, EventKind.ACCEPT]),
    ],
)
def test_a_session_whose_answer_is_lost_is_known_to_the_application(
    policy: Policy, peer_policy: Policy, kinds: list[EventKind]
) -> None:
    """A lossless one stays the same object, and what it was given to send is not lost; a lossy one is reset."""
    stop = Stop(Point("SERVER_IDENT", Way.WRITE), Action.BLOCK)
    pair = Pair(policy, peer_policy, peer_interceptor=stop)
    mine = pair.connect()
    pair.pass_time(1.0)
    (theirs,) = pair.b.endpoint.sessions
    pair.b.send(theirs, 1)
    pair.wire.cut()
    pair.b.endpoint.unblock(stop.links[0], pair.clock.now)
    pair.pass_time(5.0)
    assert mine.state is SessionState.READY
    assert pair.b.kinds == kinds
    assert (pair.b.endpoint.sessions == [theirs]) == (not policy.lossy)
    assert pair.a.tids == ([] if policy.lossy else [1])


def test_a_blocked_link_is_given_up_in_the_end() -> None:
    stop = Stop(Point("MESSAGE", Way.READ), Action.BLOCK)
    pair = Pair(peer_interceptor=stop)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.pass_time(BLOCK_LIMIT_S + 1)
    assert pair.b.faults == [FaultReason.INTERCEPTED]
    pair.pass_time(1.0)
    assert pair.b.tids == [1]


def test_a_takeover_in_progress_is_seen_by_others() -> None:
    """A third link that asks while RECONNECT_OK is blocked gets RETRY_GLOBAL until the takeover ends (§4.9)."""
    stop = Stop(Point("SESSION_RECONNECT_OK", Way.WRITE), Action.BLOCK)
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, peer_interceptor=stop)
    mine, theirs = pair.established()
    pair.wire.cut()
    pair.a.send(mine, 1)
    pair.pass_time(0.5)
    assert theirs.state is SessionState.REPLACING
    pair.wire.cut(pair.a)  # only the client notices, and dials again
    pair.pass_time(0.5)
    assert "SESSION_RETRY_GLOBAL" in pair.b.frames("tx")
    assert theirs.state is SessionState.REPLACING
    pair.b.endpoint.unblock(stop.links[0], pair.clock.now)
    pair.pass_time(5.0)
    assert pair.b.tids == [1]


@pytest.mark.parametrize("action", [Action.FAULT, Action.STALL])
def test_a_stop_ends_lossy_sessions(action: Action) -> None:
    stop = Stop(Point("MESSAGE", Way.READ), action)
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER, peer_interceptor=stop)
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.pass_time(0.1)
    if stop.action is Action.STALL:
        pair.b.endpoint.unblock(stop.links[0], pair.clock.now)
        pair.pass_time(0.1)
    assert mine.state is SessionState.CLOSED
    assert pair.b.tids == ([] if action is Action.FAULT else [1])


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("tag", ["SESSION_RESET", "CLIENT_IDENT"])
@pytest.mark.parametrize("action", [Action.FAULT, Action.BLOCK, Action.STALL])
def test_a_reset_that_is_interrupted_is_still_a_reset(action: Action, tag: str, side: str) -> None:
    way = Way.WRITE if (side == "b") == (tag == "SESSION_RESET") else Way.READ
    stop = Stop(Point(tag, way), action)
    stop.armed = False
    pair = Pair(**{"a": {"interceptor": stop}, "b": {"peer_interceptor": stop}}[side])  # type: ignore[arg-type]
    mine, _ = pair.established()
    stop.armed = True
    pair.restart_b()
    pair.a.send(mine, 1)
    pair.pass_time(0.5)
    for link_id in stop.links:
        getattr(pair, side).endpoint.unblock(link_id, pair.clock.now)
    pair.pass_time(30.0)
    assert pair.a.kinds.count(EventKind.REMOTE_RESET) == 1
    pair.a.send(mine, 2)
    pair.pass_time(1.0)
    assert mine.state is SessionState.READY
    assert pair.b.tids == [2]  # the reset took message 1


@pytest.mark.parametrize("action", [Action.FAULT, Action.BLOCK, Action.STALL])
def test_socket_accepted_allows_only_continue(action: Action) -> None:
    stop = Stop(Point(Custom.SOCKET_ACCEPTED), action)
    pair = Pair(peer_interceptor=stop)
    pair.connect()
    with pytest.raises(LocalError, match="CONTINUE"):
        pair.drive()


def test_unblocking_an_unblocked_link_has_no_effect() -> None:
    pair = Pair()
    mine, _ = pair.established()
    assert mine.link is not None
    pair.a.endpoint.unblock(mine.link.id, 0.0)
    pair.a.endpoint.unblock(12345, 0.0)
    assert mine.state is SessionState.READY


def test_a_dial_can_be_held_before_it_starts() -> None:
    stop = Stop(Point(Custom.SOCKET_CONNECTING), Action.BLOCK)
    pair = Pair(interceptor=stop)
    mine = pair.a.connect(B_ADDR, policy=LOSSLESS_PEER)
    pair.pass_time(1.0)
    assert not pair.wires
    pair.a.endpoint.unblock(stop.links[0], pair.clock.now)
    pair.drive()
    assert mine.state is SessionState.READY
