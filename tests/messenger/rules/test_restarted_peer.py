"""A peer that restarts at its old address and nonce (LP-21, RS-07), by every setting."""

import pytest

from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATELESS_REGISTERED_SERVER,
    Policy,
)
from messenger.session.session import Session, SessionState
from tests.support.network import Dial, Pair, Wire
from tests.support.node import new_node
from tests.support.raw_peer import COOKIE, meet

REMEMBERED = 61
SETTINGS = ("proven", "stale", "guess")
LOSSES = {EventKind.RESET, EventKind.REMOTE_RESET}

by_setting = pytest.mark.parametrize("setting", SETTINGS)
by_policy = pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)


class Restart(Pair):
    """``b`` dialled ``a`` as its 61st dial and both were open, before ``b`` restarts and dials again."""

    def __init__(self, policy: Policy, peer_policy: Policy | None = None, **options: object) -> None:
        super().__init__(policy, peer_policy, **options)  # type: ignore[arg-type]
        self.b.endpoint.numbers.next_global_seq(REMEMBERED - 2)
        self.theirs = self.b.connect(self.a_addr)
        self.drive()
        (self.mine,) = self.a.endpoint.sessions
        assert (self.mine.state, self.mine.peer_global_seq) == (SessionState.READY, REMEMBERED)

    def come_back(self) -> Session:
        """Let a new ``b`` dial with a message to send; returns its session."""
        self.restart_b()
        self.a.events.clear()
        session = self.b.connect(self.a_addr)
        self.b.send(session, 7)
        return session

    def dials_until_open(self, within_s: float) -> int:
        """Return the number of dials that the new ``b`` needs."""
        before = len(self.wires)
        (session,) = self.b.endpoint.sessions
        assert self.run_until(lambda: session.state is SessionState.READY, within_s), session
        return len(self.wires) - before


def hush(pair: Restart) -> None:
    """``a`` does not notice that ``b`` is gone: its streams stay open."""
    pair.crash = pair.nodes.remove  # type: ignore[method-assign]


# ---- the first dial of a restarted peer


@by_policy
@pytest.mark.parametrize("notices", [True, False], ids=["stream broken", "stream open"])
def test_a_proven_restart_is_accepted_at_the_first_dial(policy: Policy, *, notices: bool) -> None:
    pair = Restart(policy, restarted_peer="proven")
    if not notices:
        hush(pair)
    pair.come_back()
    assert pair.dials_until_open(1.0) == 1
    (mine,) = pair.a.endpoint.sessions
    assert (mine.state, mine.peer_global_seq) == (SessionState.READY, 1)
    losses = [EventKind.REMOTE_RESET] if policy.resetcheck else []
    assert pair.a.kinds == [*losses, EventKind.ACCEPT]


@pytest.mark.parametrize("protocol", Protocol)
def test_messages_replayed_to_a_restarted_peer_count_from_1(protocol: Protocol) -> None:
    """Otherwise a peer that faults at a gap would break each link at its first message."""
    pair = Restart(LOSSLESS_PEER, protocol=protocol, skipped_seq="fault")
    pair.a.send(pair.mine, 1, 2, 3)
    pair.drive()
    pair.wire.hold()
    pair.a.send(pair.mine, 4, 5)
    pair.drive()
    pair.answer = lambda node, _addr: Dial.ACCEPTED if node is pair.b else Dial.REFUSED
    session = pair.come_back()
    pair.a.send(pair.mine, 6)
    assert pair.dials_until_open(1.0) == 1
    assert [(message.tid, message.seq) for _, message in pair.b.delivered] == [(4, 1), (5, 2), (6, 3)]
    assert (session.skipped_messages, pair.b.faults) == (0, [])
    assert not pair.mine.queue.sent


@by_policy
@pytest.mark.parametrize("notices", [True, False], ids=["stream broken", "stream open"])
def test_a_restart_taken_for_stale_needs_as_many_dials_as_its_past_life(policy: Policy, *, notices: bool) -> None:
    pair = Restart(policy, restarted_peer="stale", ms_max_backoff=1.0)
    if not notices:
        hush(pair)
    pair.come_back()
    assert pair.dials_until_open(100.0) == REMEMBERED
    assert pair.a.faults.count(FaultReason.STALE) == REMEMBERED - 1


@by_policy
def test_a_guess_does_not_help_a_session_that_is_settled(policy: Policy) -> None:
    """20.2.4 guesses only while the session is being made again; STANDBY waits as long as ever."""
    pair = Restart(policy, restarted_peer="guess", ms_max_backoff=1.0)
    pair.come_back()
    assert pair.dials_until_open(100.0) == REMEMBERED


def busy(setting: str, policy: Policy) -> Restart:
    """Return a restart at which ``a`` has a message to send and dials in vain before the new ``b`` comes."""
    pair = Restart(policy, restarted_peer=setting, ms_max_backoff=1.0)
    pair.answer = lambda node, _addr: Dial.ACCEPTED if node is pair.b else Dial.REFUSED
    pair.crash(pair.b)
    pair.nodes.append(pair.b)
    pair.a.send(pair.mine, 1, 2)
    pair.pass_time(0.1)
    assert pair.mine.state is SessionState.CONNECTING
    return pair


@by_policy
def test_guessed_restart_ends_a_busy_session_and_drops_its_messages(policy: Policy) -> None:
    """Only the event reports it."""
    pair = busy("guess", policy)
    pair.come_back()
    assert pair.dials_until_open(1.0) == 1
    pair.pass_time(20.0)
    assert pair.a.kinds == [EventKind.RESET, EventKind.ACCEPT]
    assert pair.mine.state is SessionState.CLOSED
    assert pair.b.tids == []


@by_policy
def test_proven_restart_of_a_busy_session_keeps_its_messages_without_resetcheck(policy: Policy) -> None:
    """Either the new process gets every message, or an event reports the loss."""
    pair = busy("proven", policy)
    pair.come_back()
    assert pair.dials_until_open(1.0) == 1
    pair.pass_time(20.0)
    is_reported = EventKind.REMOTE_RESET in pair.a.kinds
    assert (pair.b.tids, is_reported) == (([], True) if policy.resetcheck else ([1, 2], False))
    pair.a.send(pair.mine, 3)
    pair.pass_time(1.0)
    assert pair.b.tids[-1:] == [3]
    assert (pair.mine.state, len(pair.a.endpoint.sessions)) == (SessionState.READY, 1)


@by_setting
def test_v1_retry_global_needs_one_more_round(setting: str) -> None:
    """RETRY_GLOBAL carries the remembered global_seq: one more round, whatever is set."""
    for policy in (LOSSLESS_PEER, LOSSLESS_PEER_REUSE):
        pair = Restart(policy, protocol=Protocol.V1, restarted_peer=setting)
        theirs = pair.come_back()
        assert pair.dials_until_open(1.0) == 1
        # One RETRY_GLOBAL for the number, one for the takeover, CONNECT once more for each.
        assert pair.b.frames("tx").count("CONNECT") <= 4
        assert theirs.global_seq > REMEMBERED


@by_setting
def test_a_lossy_peer_that_restarts(setting: str) -> None:
    """Without cookies: only what was sent after what is known."""
    pair = Restart(STATELESS_REGISTERED_SERVER, LOSSY_CLIENT, restarted_peer=setting, ms_max_backoff=1.0)
    hush(pair)
    pair.come_back()
    assert pair.dials_until_open(100.0) == (1 if setting == "proven" else REMEMBERED)
    assert EventKind.RESET in pair.a.kinds


# ---- what is no restart


def with_ident_on_its_way(policy: Policy, setting: str) -> tuple[Pair, Session, Wire]:
    """``b`` dials ``a`` and its CLIENT_IDENT has been sent, but does not arrive for now."""
    pair = Pair(policy, restarted_peer=setting)
    theirs = pair.b.connect(pair.a_addr)
    while "CLIENT_IDENT" not in pair.b.frames("tx"):
        assert pair.step()
    pair.wire.to_acceptor.limit = pair.wire.to_acceptor.position
    pair.drive()
    return pair, theirs, pair.wire


def deliver_late(pair: Pair, late: Wire) -> None:
    """It arrives after all, although its sender has closed the link since."""
    late.open = True
    late.to_acceptor.held = late.to_connector.ended = False
    late.to_acceptor.limit = None
    pair.drive()


@by_setting
@by_policy
def test_an_outdated_dial_of_the_same_process_is_dropped_by_every_setting(policy: Policy, setting: str) -> None:
    pair, theirs, late = with_ident_on_its_way(policy, setting)
    late.cut(pair.b)  # only b notices, and dials again
    pair.b.send(theirs, 1)
    assert pair.run_until(lambda: pair.a.tids == [1], 5.0)
    (mine,) = pair.a.endpoint.sessions
    remembered = mine.peer_global_seq
    deliver_late(pair, late)
    assert pair.a.faults == [FaultReason.STALE]
    assert (mine.state, mine.peer_global_seq) == (SessionState.READY, remembered)
    pair.b.send(theirs, 2)
    pair.pass_time(1.0)
    assert pair.a.tids == [1, 2]
    assert not LOSSES & {*pair.a.kinds, *pair.b.kinds}


@by_setting
@by_policy
def test_a_dial_that_lost_its_race_is_dropped_by_every_setting(policy: Policy, setting: str) -> None:
    """Its cookie is another one, for the session has the cookie of the dial that won."""
    pair, theirs, late = with_ident_on_its_way(policy, setting)
    mine = pair.a.connect(pair.b_addr)
    pair.a.send(mine, 1)
    pair.b.send(theirs, 11)
    late.to_connector.held = True
    pair.drive()
    assert (pair.a.tids, pair.b.tids) == ([11], [1])
    deliver_late(pair, late)
    assert FaultReason.STALE in pair.a.faults
    pair.a.send(mine, 2)
    pair.pass_time(1.0)
    assert (pair.a.tids, pair.b.tids) == ([11], [1, 2])
    assert not LOSSES & {*pair.a.kinds, *pair.b.kinds}


@by_setting
def test_the_same_cookie_is_the_same_process(setting: str) -> None:
    """A peer that counts backwards gets nowhere."""
    node = new_node(policy=LOSSLESS_PEER, restarted_peer=setting)
    first = meet("acceptor", node).handshake(until=None)
    (session,) = node.endpoint.sessions
    session.peer_global_seq = 10
    second = meet("acceptor", node)
    second.handshake(second.ident)
    second.send(second.client_ident(global_seq=5, client_cookie=COOKIE))
    assert (second.closed, first.closed, node.faults) == (True, False, [FaultReason.STALE])


# ---- restarted again and again


@pytest.mark.parametrize("protocol", Protocol)
def test_many_restarts_in_a_row(protocol: Protocol) -> None:
    pair = Restart(LOSSLESS_PEER_REUSE, protocol=protocol)
    for number in range(5):
        pair.come_back()
        assert pair.dials_until_open(1.0) == 1
        pair.a.send(pair.a.endpoint.sessions[0], number)
        pair.pass_time(1.0)
        assert pair.b.tids == [number]
        assert EventKind.REMOTE_RESET in pair.a.kinds
        assert len(pair.a.endpoint.sessions) == 1
