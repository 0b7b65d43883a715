"""Both sides dial at once (docs/protocol.md §4.9; family LP)."""

from collections.abc import Iterator

import pytest

from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, LOSSY_CLIENT, Policy
from messenger.session.session import Session, SessionState
from messenger.v2.wire import Wait
from tests.support.network import Dial, Pair, Wire
from tests.support.node import A_ADDR, B_ADDR, Node, new_endpoint
from tests.support.raw_peer import RawPeer, meet

PEERS = [LOSSLESS_PEER, LOSSLESS_PEER_REUSE]
SWAPPED_ADDR = "v2:10.0.0.3:6801/3"
"""For ``a`` to have the higher address of the two."""
SETTLE_WITHIN_S = 40.0

by_policy = pytest.mark.parametrize("policy", PEERS, ids=lambda policy: policy.name)
by_addr = pytest.mark.parametrize("addr", [A_ADDR, SWAPPED_ADDR], ids=["a lower", "a higher"])


class Race(Pair):
    """Two peers that send to each other: ``a`` the messages 1 and 2, ``b`` 11 and 12."""

    def dial_both(self) -> tuple[Session, Session]:
        mine, theirs = self.connect(), self.b.connect(str(self.a.endpoint.addrs))
        self.a.send(mine, 1, 2)
        self.b.send(theirs, 11, 12)
        return mine, theirs

    def check(self) -> None:
        """One session, every message once and in order, no event of a loss."""

        def done() -> bool:
            return (self.a.tids, self.b.tids) == ([11, 12], [1, 2])

        assert self.run_until(done, SETTLE_WITHIN_S), (self.a.tids, self.b.tids, self.states)
        self.pass_time(40.0)
        assert done()
        assert self.states == ["READY", "READY"]
        for node in self.nodes:
            assert not {EventKind.RESET, EventKind.REMOTE_RESET} & set(node.kinds)
            assert (node.endpoint.link_count, len(node.endpoint.sessions)) == (1, 1)

    @property
    def states(self) -> list[str]:
        return [session.state.value for node in self.nodes for session in node.endpoint.sessions]


def surviving(pair: Pair) -> list[Wire]:
    return [wire for wire in pair.wires if wire.open]


def limited(wire_number: int, direction: int, position: int, pair: Pair, attribute: str = "limit") -> None:
    """Let one of the first wires stop at a position, or break."""

    def tap(wire: Wire) -> None:
        if len(pair.wires) == wire_number:
            setattr(wire.pipes[direction], attribute, position)

    pair.opened = tap


def unlimit(pair: Pair) -> None:
    """Remove all limits of the wires."""
    pair.opened = lambda _wire: None
    for wire in pair.wires:
        for pipe in wire.pipes:
            pipe.limit = None


# ---- a race of first dials


@by_policy
@by_addr
def test_the_dial_from_the_lower_address_wins(policy: Policy, addr: str) -> None:
    pair = Race(policy, addr=addr)
    pair.dial_both()
    pair.check()
    winner = pair.a if addr == A_ADDR else pair.b
    loser = pair.b if winner is pair.a else pair.a
    (wire,) = surviving(pair)
    assert wire.connector is winner
    assert (winner.kinds, loser.kinds) == ([EventKind.CONNECT], [EventKind.ACCEPT])


@by_policy
@by_addr
@pytest.mark.parametrize("wire_number", [1, 2])
@pytest.mark.parametrize("direction", [0, 1])
def test_race_settles_with_one_dial_held_up_at_any_point(
    policy: Policy, addr: str, wire_number: int, direction: int
) -> None:
    """Once released, the late dial takes over, loses and doubles nothing (LP-02, LP-03, LP-08 to LP-12)."""
    for position in range(0, 560, 9):
        pair = Race(policy, addr=addr)
        limited(wire_number, direction, position, pair)
        pair.dial_both()
        pair.drive()
        unlimit(pair)
        pair.check()


@by_policy
@by_addr
def test_one_dial_is_held_up_until_its_own_timeout(policy: Policy, addr: str) -> None:
    for wire_number, direction, position in cases(step=53):
        pair = Race(policy, addr=addr)
        limited(wire_number, direction, position, pair)
        pair.dial_both()
        pair.pass_time(11.0)
        unlimit(pair)
        pair.check()


@by_policy
@by_addr
def test_one_wire_is_cut_anywhere_during_a_race(policy: Policy, addr: str) -> None:
    for wire_number, direction, position in cases(step=9):
        pair = Race(policy, addr=addr)

        def tap(
            wire: Wire, pair: Race = pair, n: int = wire_number, d: int = direction, p: int = position
        ) -> None:
            if len(pair.wires) == n:
                wire.pipes[d].cut_at = p

        pair.opened = tap
        pair.dial_both()
        pair.check()


def cases(step: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of a wire, a direction and a number of bytes."""
    for wire_number in 1, 2:
        for direction in 0, 1:
            for position in range(0, 560, step):
                yield wire_number, direction, position


@by_policy
def test_the_second_dial_starts_at_any_moment_of_the_first(policy: Policy) -> None:
    for steps in range(25):
        pair = Race(policy)
        pair.a.send(pair.connect(), 1, 2)
        pair.drive_bounded(steps)
        theirs = pair.b.connect(A_ADDR)
        pair.b.send(theirs, 11, 12)
        pair.check()


# ---- a race of reconnects


@by_policy
@by_addr
@pytest.mark.parametrize("wire_number", [2, 3])
@pytest.mark.parametrize("direction", [0, 1])
def test_a_race_of_reconnects(policy: Policy, addr: str, wire_number: int, direction: int) -> None:
    """The link breaks while both have something on the way; one of the new dials is held up (LP-04, LP-05)."""
    for position in range(0, 480, 11):
        pair = Race(policy, addr=addr)
        pair.established()
        pair.wire.hold()
        pair.dial_both()
        pair.drive()
        limited(wire_number, direction, position, pair)
        pair.wire.cut()
        pair.drive()
        unlimit(pair)
        pair.check()
        assert all(len(node.endpoint.sessions) == 1 for node in pair.nodes)


@by_policy
@by_addr
def test_a_dial_against_a_reconnect(policy: Policy, addr: str) -> None:
    """``a`` never saw SERVER_IDENT; ``b`` has a session and dials back with it (LP-06)."""
    gentle_resets = 0
    for position in range(0, 480, 11):
        pair = Race(policy, addr=addr)
        limited(1, 1, 300, pair)
        mine = pair.connect()
        pair.a.send(mine, 1, 2)
        pair.drive()
        (theirs,) = pair.b.endpoint.sessions
        pair.b.send(theirs, 11, 12)
        pair.drive()
        limited(2, 0, position, pair)
        pair.wire.cut()
        pair.drive()
        unlimit(pair)
        pair.check()
        gentle_resets += "SESSION_RESET" in pair.b.frames("rx")
    assert gentle_resets


# ---- losers and winners


@by_policy
def test_a_loser_that_waits_is_served_even_if_the_winner_breaks(policy: Policy) -> None:
    """The winner's dial dies at any later byte; its keepalive makes it dial again soon (LP-17)."""
    for position in range(0, 560, 17):
        pair = Race(policy)
        mine, theirs = pair.connect(), pair.b.connect(A_ADDR)
        pair.b.send(theirs, 11)

        def tap(wire: Wire, pair: Race = pair) -> None:
            wire.to_acceptor.limit = 200 if wire.connector is pair.a else None

        pair.opened = tap
        pair.drive()
        assert theirs.state is SessionState.WAIT
        (dial,) = (wire for wire in pair.wires if wire.connector is pair.a)
        dial.to_acceptor.limit = None
        dial.to_acceptor.cut_at = max(position, 200)
        pair.opened = lambda _wire: None
        assert pair.run_until(lambda pair=pair: pair.a.tids == [11], 1.0)
        assert mine.state is SessionState.READY


@by_policy
@by_addr
@pytest.mark.parametrize("side", [0, 1])
def test_marking_down_at_any_step_of_a_race(policy: Policy, addr: str, side: int) -> None:
    """What was marked down is gone, and a new dial works (LP-20)."""
    for steps in range(40):
        pair = Race(policy, addr=addr)
        sessions = pair.dial_both()
        pair.drive_bounded(steps)
        node = pair.nodes[side]
        node.mark_down(sessions[side])
        node.pump()
        node.delivered.clear()
        session = node.connect(str(pair.nodes[1 - side].endpoint.addrs))
        node.send(session, 99)
        assert pair.run_until(lambda pair=pair: 99 in pair.nodes[1 - side].tids, SETTLE_WITHIN_S)
        pair.pass_time(40.0)
        for either in pair.nodes:
            assert len(either.endpoint.sessions) == 1
            assert either.endpoint.snapshot()["registry"] == 1


def test_lossy_clients_that_dial_each_other_settle() -> None:
    """Heartbeat peers: no endless replacement of one link by the other (LY-08)."""
    pair = Pair(LOSSY_CLIENT)
    mine, theirs = pair.connect(), pair.b.connect(A_ADDR)
    pair.drive()
    pair.pass_time(60.0)
    assert len(pair.wires) <= 6
    for node in pair.nodes:
        assert node.endpoint.link_count >= 1
    assert mine.state is not SessionState.WAIT
    assert theirs.state is not SessionState.WAIT


def test_a_client_and_a_peer_that_both_dial_find_one_session() -> None:
    pair = Race(LOSSLESS_CLIENT, LOSSLESS_PEER)
    pair.dial_both()
    pair.check()


def test_dials_to_three_peers_at_once_by_three_peers() -> None:
    pair = Pair()
    third = pair.add(Node(new_endpoint(EntityName(EntityType.OSD, 3), SWAPPED_ADDR)))
    for node in pair.nodes:
        for peer in pair.nodes:
            if node is not peer:
                addrs = str(peer.endpoint.addrs)
                node.send(node.connect(addrs), node.endpoint.name.num * 10 + peer.endpoint.name.num)
    assert pair.run_until(lambda: all(len(node.tids) == 2 for node in pair.nodes), SETTLE_WITHIN_S)
    assert sorted(pair.a.tids) == [21, 31]
    assert sorted(third.tids) == [13, 23]
    assert all(len(node.endpoint.sessions) == 2 for node in pair.nodes)


# ---- only one of the two can be dialled (LP-18)

by_dial = pytest.mark.parametrize("dials", [Dial.REFUSED, Dial.UNANSWERED])
by_protocol = pytest.mark.parametrize("protocol", Protocol)


def one_way(policy: Policy, protocol: Protocol, dials: Dial, deaf: str, **options: object) -> Race:
    """Dials to ``deaf`` come to nothing."""
    pair = Race(policy, protocol=protocol, **options)

    def answer(node: Node, _addr: EntityAddr) -> Dial:
        return Dial.ACCEPTED if node is getattr(pair, deaf) else dials

    pair.answer = answer
    return pair


@by_policy
@by_protocol
@by_dial
def test_a_winner_that_cannot_dial_takes_the_second_dial_of_the_loser(
    policy: Policy, protocol: Protocol, dials: Dial
) -> None:
    pair = one_way(policy, protocol, dials, deaf="b")
    mine, theirs = pair.dial_both()
    pair.drive()
    assert theirs.state is SessionState.WAIT  # the first gets WAIT, as always
    assert pair.run_until(lambda: theirs.state is SessionState.READY, 16.0)
    assert mine.state is SessionState.READY
    pair.check()


@by_policy
@by_protocol
@by_dial
def test_a_loser_that_cannot_dial_is_dialled(policy: Policy, protocol: Protocol, dials: Dial) -> None:
    pair = one_way(policy, protocol, dials, deaf="a")
    pair.dial_both()
    pair.drive()
    assert pair.states == ["READY", "READY"]
    pair.check()


@by_policy
@by_protocol
@by_dial
def test_race_after_a_fault_settles_with_only_one_side_dialling(
    policy: Policy, protocol: Protocol, dials: Dial
) -> None:
    pair = Race(policy, protocol=protocol)
    mine, theirs = pair.established()
    pair.wires[-1].hold()
    pair.a.send(mine, 1, 2)
    pair.b.send(theirs, 11, 12)
    pair.answer = lambda node, _addr: Dial.ACCEPTED if node is pair.b else dials
    pair.wires[-1].cut()
    pair.check()


@by_protocol
def test_second_dial_gets_wait_too_while_the_dial_of_the_winner_makes_progress(protocol: Protocol) -> None:
    """The peer has answered it: it is not in vain."""
    pair = one_way(LOSSLESS_PEER, protocol, Dial.UNANSWERED, deaf="b")
    mine, theirs = pair.dial_both()
    pair.pass_time(10.1)  # the first dial has failed
    pair.answer = lambda _node, _addr: Dial.ACCEPTED
    limited(2, 0, 40, pair)  # of the next no more than the first bytes arrive
    pair.pass_time(1.0)
    assert (mine.race_dial_failed, mine.dial_is_stuck) == (True, False)
    pair.pass_time(5.0)
    assert (len(pair.wires), theirs.state) == (3, SessionState.WAIT)
    unlimit(pair)
    pair.check()


@by_protocol
@by_dial
def test_insisting_winner_keeps_the_loser_waiting_and_loses_no_message(protocol: Protocol, dials: Dial) -> None:
    """As with real peers: once the winner gets through, all is delivered."""
    pair = one_way(LOSSLESS_PEER, protocol, dials, deaf="b", race_winner="insists")
    theirs = pair.dial_both()[1]
    pair.pass_time(100.0)
    assert theirs.state is SessionState.WAIT
    assert pair.a.tids == pair.b.tids == []
    pair.answer = lambda _node, _addr: Dial.ACCEPTED
    pair.check()


# ----


def test_addresses_are_ordered_as_these_tests_assume() -> None:
    assert EntityAddr.parse(A_ADDR).sort_key() < EntityAddr.parse(B_ADDR).sort_key()
    assert EntityAddr.parse(B_ADDR).sort_key() < EntityAddr.parse(SWAPPED_ADDR).sort_key()


def test_a_race_that_is_over_does_not_decide_the_next_one() -> None:
    """In the first race the peer waited for a dial that came; a later dial that fails was not waited for."""
    node = Node(new_endpoint(EntityName(EntityType.OSD, 1), A_ADDR))
    first = meet("connector", node)
    waiting = RawPeer(node).dial()
    waiting.handshake(until=waiting.ident)
    waiting.send(waiting.client_ident())
    waiting.expect(Wait)
    first.handshake()
    (session,) = node.endpoint.sessions
    node.send(session, 1)
    first.hang_up()
    RawPeer(node).accept().hang_up()
    node.run(0.5)
    assert session.state is SessionState.CONNECTING
    RawPeer(node).accept()
    again = RawPeer(node).dial()
    again.handshake(until=again.ident)
    cookies = {"client_cookie": session.client_cookie, "server_cookie": session.server_cookie}
    again.send(again.session_reconnect(connect_seq=session.connect_seq, **cookies))
    again.expect(Wait)
