"""Exactly once and in order, wherever a link breaks (INV-1; families LC, SQ)."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    STATEFUL_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from tests.support.network import Pair, Wire
from tests.support.node import numbered

SENT = [1, 2, 3]
ANSWERS = [11, 12]
HEAL_WITHIN_S = 60.0

POLICY_PAIRS = [
    (LOSSLESS_CLIENT, STATEFUL_SERVER),
    (LOSSLESS_PEER, LOSSLESS_PEER),
    (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
]
by_policies = pytest.mark.parametrize(
    ("policy", "peer_policy"), POLICY_PAIRS, ids=["client and server", "peers", "peers with reuse"]
)
by_direction = pytest.mark.parametrize("direction", [0, 1], ids=["to acceptor", "to connector"])


class Conversation(Pair):
    """``a`` dials and sends three messages, ``b`` sends two as soon as it knows ``a``."""

    def __init__(self, policy: Policy, peer_policy: Policy, **options: object) -> None:
        super().__init__(policy, peer_policy, tracing=False, **options)  # type: ignore[arg-type]
        self.answered = False

    def start(self) -> None:
        self.a.send(self.connect(), *SENT)

    def step(self) -> bool:
        if not self.answered and self.b.events:
            self.answered = True
            self.b.send(self.b.endpoint.sessions[0], *ANSWERS)
        return super().step()

    @property
    def done(self) -> bool:
        return self.b.tids == SENT and self.a.tids == ANSWERS

    def check(self) -> None:
        """Every message arrived once, without an event of a loss, and nothing is left over."""
        assert self.run_until(lambda: self.done, HEAL_WITHIN_S), (self.a.tids, self.b.tids)
        self.pass_time(11.0)  # until half-open links that never got ready are given up
        assert self.done
        for node in self.nodes:
            assert not {EventKind.RESET, EventKind.REMOTE_RESET} & set(node.kinds)
            assert node.endpoint.snapshot()["queued"] == node.endpoint.snapshot()["sent"] == 0
            assert len(node.endpoint.sessions) == 1
            assert node.endpoint.link_count <= 1


def clean_lengths(*conversation: object, **options: object) -> list[int]:
    """Return the number of bytes that pass in each direction without a break."""
    pair = Conversation(*conversation, **options)  # type: ignore[arg-type]
    pair.start()
    pair.check()
    assert len(pair.wires) == 1
    return [len(pipe.log) for pipe in pair.wire.pipes]


def cut_first_wire(pair: Pair, direction: int, position: int) -> None:
    def tap(wire: Wire) -> None:
        if len(pair.wires) == 1:
            wire.pipes[direction].cut_at = position

    pair.opened = tap


@by_direction
@by_policies
def test_a_cut_at_every_byte(policy: Policy, peer_policy: Policy, direction: int) -> None:
    for position in range(clean_lengths(policy, peer_policy)[direction] + 1):
        pair = Conversation(policy, peer_policy)
        cut_first_wire(pair, direction, position)
        pair.start()
        pair.check()
        assert len(pair.wires) <= 4


COMPRESSED = {"ms_osd_compress_mode": "force", "ms_compress_secure": True, "ms_osd_compress_min_size": 0}
LINKS: dict[str, dict[str, object]] = {
    "secure": {"mode": ConMode.SECURE},
    "crc of 2.0": {"msgr2_features": 0},
    "secure of 2.0": {"mode": ConMode.SECURE, "msgr2_features": 0},
    "crc, compressed": COMPRESSED,
    "secure, compressed": {"mode": ConMode.SECURE, **COMPRESSED},
    "secure of 2.0, compressed": {"mode": ConMode.SECURE, "msgr2_features": 2, **COMPRESSED},
}


@by_direction
@pytest.mark.parametrize("link", LINKS)
def test_a_cut_at_every_few_bytes_of_other_links(link: str, direction: int) -> None:
    policies = (LOSSLESS_PEER, LOSSLESS_PEER)
    options = {"auth": "cephx", **LINKS[link]}
    for position in range(0, clean_lengths(*policies, **options)[direction] + 1, 5):
        pair = Conversation(*policies, **options)  # type: ignore[arg-type]
        cut_first_wire(pair, direction, position)
        pair.start()
        pair.check()


@by_direction
@by_policies
def test_a_cut_that_only_one_side_notices(policy: Policy, peer_policy: Policy, direction: int) -> None:
    """The other finds out when the first one dials again (LS-08), or it had nothing to miss."""
    length = clean_lengths(policy, peer_policy)[direction]
    for position in range(0, length + 1, 7):
        pair = Conversation(policy, peer_policy)

        def tap(wire: Wire, pair: Conversation = pair, position: int = position) -> None:
            if len(pair.wires) == 1:
                wire.pipes[direction].limit = position

        pair.opened = tap
        pair.start()
        pair.drive()
        pair.wire.cut(pair.a)
        pair.check()


@by_policies
def test_cuts_at_every_frame_of_the_first_two_wires(policy: Policy, peer_policy: Policy) -> None:
    """The reconnect is interrupted as well."""
    for first in frame_ends(policy, peer_policy):
        for second in range(0, 900, 61):
            pair = Conversation(policy, peer_policy)

            def tap(wire: Wire, pair: Conversation = pair, first: int = first, second: int = second) -> None:
                if len(pair.wires) == 1:
                    wire.to_connector.cut_at = first
                elif len(pair.wires) == 2:
                    wire.pipes[second % 2].cut_at = second

            pair.opened = tap
            pair.start()
            pair.check()


def frame_ends(policy: Policy, peer_policy: Policy) -> list[int]:
    """Return the ends of frames towards the connector."""
    pair = Pair(policy, peer_policy)
    mine, theirs = pair.established()
    pair.a.send(mine, *SENT)
    pair.b.send(theirs, *ANSWERS)
    pair.drive()
    frames = [r.fields for r in pair.a.trace if r.kind == "frame" and r.fields["direction"] == "rx"]
    return [int(frame["offset"]) + int(frame["length"]) for frame in frames]  # type: ignore[call-overload]


@pytest.mark.parametrize("attempts", [1, 5, 20])
def test_many_broken_attempts_in_a_row(attempts: int) -> None:
    """connect_seq grows with each, and what is queued survives them all (LC-04)."""
    pair = Conversation(LOSSLESS_CLIENT, STATEFUL_SERVER)
    pair.start()
    pair.check()
    mine = pair.a.endpoint.sessions[0]
    seen = [mine.connect_seq]
    pair.opened = lambda wire: setattr(
        wire.pipes[len(pair.wires) % 2], "cut_at", 100 + 37 * (len(pair.wires) % 11)
    )
    pair.wire.cut()
    pair.a.send(mine, 4)
    while len(pair.wires) <= attempts:
        pair.pass_time(1.0)
        if mine.connect_seq != seen[-1]:
            seen.append(mine.connect_seq)
    pair.opened = lambda _wire: None
    assert pair.run_until(lambda: pair.b.tids == [*SENT, 4], HEAL_WITHIN_S)
    assert seen == sorted(seen)
    assert mine.connect_seq >= attempts


def test_delivered_but_not_acknowledged_is_not_delivered_again() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, _ = pair.established()
    pair.wire.to_connector.held = True
    pair.a.send(mine, 1, 2, 3)
    pair.drive()
    assert pair.b.tids == [1, 2, 3]
    assert pair.a.endpoint.snapshot()["sent"] == 3
    pair.wire.cut()
    pair.a.send(mine, 4)
    pair.drive()
    assert pair.b.tids == [1, 2, 3, 4]
    assert [message.seq for _, message in pair.b.delivered] == [1, 2, 3, 4]
    assert pair.a.endpoint.snapshot()["sent"] == 0


def test_a_large_message_that_was_half_on_the_wire_is_sent_again_whole() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, tracing=False)
    mine, _ = pair.established()
    size = 20 << 20
    pair.wire.to_acceptor.limit = len(pair.wire.to_acceptor.log) + size // 2
    pair.wire.to_acceptor.piece_bytes = 1 << 20
    pair.a.send(mine, 1, size_bytes=size)
    pair.drive()
    assert sum(pair.b.endpoint.held_bytes.values()) > size // 2
    pair.wire.cut()
    pair.drive()
    ((_, message),) = pair.b.delivered
    assert message.data == numbered(1, size).data
    assert sum(pair.b.endpoint.held_bytes.values()) == 0


@by_policies
def test_a_server_answers_after_its_client_came_back(policy: Policy, peer_policy: Policy) -> None:
    """What the accepting side queues while the link is away is delivered, in order (LS-03)."""
    pair = Pair(policy, peer_policy)
    mine, theirs = pair.established()
    pair.b.send(theirs, 1)
    pair.drive()
    pair.wire.hold()
    pair.b.send(theirs, 2, 3)
    pair.drive()
    pair.wire.cut()
    pair.b.send(theirs, 4)
    pair.a.endpoint.send_keepalive(mine, pair.clock.now)
    assert pair.run_until(lambda: pair.a.tids == [1, 2, 3, 4], HEAL_WITHIN_S)


@pytest.mark.parametrize("cut_at", range(0, 700, 23))
def test_b01_connecting_faults_do_not_count_as_reconnects(cut_at: int) -> None:
    """A first dial that breaks leaves connect_seq alone, so that no session is taken for lost."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    cut_first_wire(pair, 1, cut_at)
    mine = pair.connect()
    pair.a.send(mine, 1)
    assert pair.run_until(lambda: pair.b.tids == [1], HEAL_WITHIN_S)
    assert EventKind.REMOTE_RESET not in pair.a.kinds + pair.b.kinds
    assert "SESSION_RESET" not in pair.a.frames("rx")


def test_leftovers_of_the_old_link_are_not_taken_for_the_new_one() -> None:
    """Half a frame waits in the old link's buffer when the client comes back on a new one."""
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, theirs = pair.established()
    pair.wire.to_acceptor.limit = len(pair.wire.to_acceptor.log) + 50
    pair.a.send(mine, 1, size_bytes=1000)
    pair.drive()
    assert sum(pair.b.endpoint.held_bytes.values()) == 50
    pair.wire.cut(pair.a)
    pair.drive()
    assert pair.b.tids == [1]
    assert theirs.state is SessionState.READY
    assert sum(pair.b.endpoint.held_bytes.values()) == 0


@pytest.mark.parametrize("modes", [("crc", "secure"), ("secure", "crc")])
def test_a_session_moves_between_crc_and_secure_links(modes: tuple[str, str]) -> None:
    """A new link brings its own framing; unacknowledged messages are built again for it (LP-23)."""
    pair = Pair(LOSSLESS_PEER, auth="cephx")

    def switch(mode: str) -> None:
        for node in pair.nodes:
            node.endpoint.config.ms_cluster_mode = mode

    switch(modes[0])
    mine, theirs = pair.established()
    pair.wire.hold()
    pair.a.send(mine, 1, 2)
    pair.b.send(theirs, 11)
    pair.drive()
    switch(modes[1])
    pair.wire.cut()
    assert pair.run_until(lambda: (pair.a.tids, pair.b.tids) == ([11], [1, 2]), HEAL_WITHIN_S)
    assert mine.link is not None
    assert mine.link.con_mode is ConMode[modes[1].upper()]
