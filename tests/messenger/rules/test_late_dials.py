"""Dials that overtake each other at random: no setting of restarted_peer may take a live peer for a new one.

Both sides dial and talk, streams break on one side or both, and what was written arrives in any order between
streams, also after its sender has closed them.
"""

from random import Random

import pytest

from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_PEER, LOSSLESS_PEER_REUSE, Policy
from tests.support.network import Pair

MESSAGES = 6
BREAKS = 8
SEEDS = 200
LOSSES = {EventKind.RESET, EventKind.REMOTE_RESET}


class Chaos(Pair):
    """A pair whose bytes move one random piece at a time."""

    def __init__(self, policy: Policy, setting: str, seed: int) -> None:
        super().__init__(policy, restarted_peer=setting, seed=seed, tracing=False)
        self.dice = Random(seed)

    def step(self) -> bool:
        for node in self.nodes:
            node.pump()
            if node.outbox:
                self._carry_out(node, node.outbox.popleft())
                return True
        pipes = [(wire, pipe) for wire in self.wires if wire.open for pipe in wire.pipes]
        self.dice.shuffle(pipes)
        for wire, pipe in pipes:
            pipe.piece_bytes = self.dice.choice((1 << 30, 200, 60))
            if self._deliver(wire, pipe):
                return True
        return False

    def break_one(self) -> None:
        """A stream breaks; for one side at once, for the other perhaps only when all that was written has come."""
        streams = [wire for wire in self.wires if wire.open]
        if streams:
            wire = self.dice.choice(streams)
            if self.dice.random() < 0.5:
                wire.cut()
            else:
                pipe = self.dice.choice(wire.pipes)
                pipe.sender.endpoint.link_failed(pipe.sender_link, FaultReason.SOCKET, "broken", self.clock.now)

    def go(self) -> None:
        """Faults first, then none until every message is delivered."""
        mine, theirs = self.connect(), self.b.connect(self.a_addr)
        plan = [*range(MESSAGES)] * 2 + [-1] * BREAKS
        self.dice.shuffle(plan)
        sent = {self.a: 0, self.b: 0}
        for what in plan:
            self.drive_bounded(self.dice.randrange(40))
            if what < 0:
                self.break_one()
            else:
                node, session = self.dice.choice(((self.a, mine), (self.b, theirs)))
                sent[node] += 1
                node.send(session, sent[node])
            if self.dice.random() < 0.2:
                self.pass_time(self.dice.choice((0.2, 1.0)))
        self.expected = [*range(1, sent[self.b] + 1)], [*range(1, sent[self.a] + 1)]
        self.run_until(lambda: (self.a.tids, self.b.tids) == self.expected, 120.0)


def outcome(policy: Policy, setting: str, seed: int) -> Chaos:
    chaos = Chaos(policy, setting, seed)
    chaos.go()
    return chaos


@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE], ids=lambda policy: policy.name)
def test_without_restarts_a_proof_is_never_found(policy: Policy) -> None:
    """All goes as if global_seq alone decided; with resetcheck, dials that cross may cost both sides a reset."""
    for seed in range(SEEDS):
        proven, stale = outcome(policy, "proven", seed), outcome(policy, "stale", seed)
        for mine, theirs in zip(proven.nodes, stale.nodes, strict=True):
            assert (mine.log, mine.endpoint.counters.faults) == (theirs.log, theirs.endpoint.counters.faults), seed
        if not policy.resetcheck:
            assert (proven.a.tids, proven.b.tids) == proven.expected, seed
            assert not LOSSES & {*proven.a.kinds, *proven.b.kinds}, seed
