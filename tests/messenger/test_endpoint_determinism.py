"""The same seed gives the same run, byte by byte (docs/core.md, rule 4)."""

import json
from collections.abc import Callable

import pytest

from messenger.cephx.exchange import ConMode
from messenger.session.policy import LOSSLESS_PEER_REUSE, LOSSY_CLIENT, STATELESS_SERVER, Policy
from tests.support.network import Pair
from tests.support.node import A_ADDR


def race_with_cuts(pair: Pair) -> None:
    """Both dial, messages go both ways, links break, a process restarts."""
    mine, theirs = pair.connect(), pair.b.connect(A_ADDR)
    pair.a.send(mine, 1, 2, 3)
    pair.b.send(theirs, 11, 12)
    pair.drive_bounded(9)
    pair.wire.cut()
    pair.pass_time(2.0)
    pair.a.endpoint.send_keepalive(mine, pair.clock.now)
    pair.drive()
    pair.restart_b()
    pair.a.send(mine, 4)
    pair.pass_time(20.0)


def lossy_dial(pair: Pair) -> None:
    """A lossy client loses its link and dials again."""
    pair.a.send(pair.connect(), 1)
    pair.drive()
    pair.wire.cut()
    pair.drive()
    pair.a.send(pair.connect(), 2)
    pair.pass_time(1.0)


def history(policies: tuple[Policy, Policy], mode: ConMode, seed: int, scenario: Callable[[Pair], None]) -> bytes:
    """Everything that can be seen from outside: traces, bytes on the wires, deliveries."""
    pair = Pair(*policies, auth="cephx", mode=mode, seed=seed)
    first_b = pair.b
    scenario(pair)
    lines = []
    for node in (pair.a, first_b, pair.b):
        lines += [json.dumps([record.time_s, record.kind, record.fields]) for record in node.trace]
        lines += [repr(node.log), repr(node.endpoint.snapshot())]
    lines += [pipe.log.hex() for wire in pair.wires for pipe in wire.pipes]
    return "\n".join(lines).encode()


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
@pytest.mark.parametrize(
    ("policies", "scenario"),
    [((LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE), race_with_cuts), ((LOSSY_CLIENT, STATELESS_SERVER), lossy_dial)],
    ids=["race with cuts", "lossy dial"],
)
def test_same_seed_same_trace(
    policies: tuple[Policy, Policy], mode: ConMode, scenario: Callable[[Pair], None]
) -> None:
    first = history(policies, mode, 7, scenario)
    assert len(first) > 5000
    assert history(policies, mode, 7, scenario) == first
    assert history(policies, mode, 8, scenario) != first
