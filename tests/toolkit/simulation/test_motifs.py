"""Motifs: each comes to the state that it is for, and so do the seeds that draw it."""

from collections import Counter
from random import Random

import pytest

from messenger.link import Protocol
from tests.support.seeds_of_lives import with_motif
from toolkit.checks.marks import marks_of
from toolkit.lab.ways import Way
from toolkit.simulation.draws import ROLES, TICKET_MOTIFS, DrawnNode, Motif, Options, Size
from toolkit.simulation.lives import run_seeds
from toolkit.simulation.motifs import draw_motif
from toolkit.simulation.schedule import Operation
from toolkit.simulation.swarm import Outcome, draw, live_plan

LIVES = 12


def _alone(motif: Motif, way: str, roles: str, seed: int) -> Outcome:
    """The run of two nodes with nothing but the motif."""
    drawn = next(known for known in ROLES if known.name == roles)
    nodes = tuple(
        DrawnNode(name, f"{entity}.{number}", policy, drawn.peers or name == "b", {"ms_max_backoff": 0.5})
        for number, (name, entity, policy) in enumerate(
            [("a", drawn.entities[0], drawn.dialler), ("b", drawn.entities[1], drawn.acceptor)], 1
        )
    )
    options = Options(Size.SMALL, Way.parse(way), drawn, nodes, (), motif=motif)
    steps = sorted(draw_motif(Random(seed), options), key=lambda step: step[0])
    plan = tuple(Operation(at_s, verb, args) for at_s, verb, args in steps)
    return live_plan(seed, options, plan, plan)


@pytest.mark.parametrize("way", ["v2-crc", "v2-secure-w2", "v1"])
@pytest.mark.parametrize(
    ("motif", "roles", "marks"),
    [
        (Motif.WINNER_DIES, "peers", {"WAIT left by timer"}),
        (Motif.CROSSED, "reuse", {"race kept", "race given up"}),
        (Motif.ANSWER_HELD, "stateful", {"takeover met another"}),
        (Motif.CUT_IN_REPLAY, "stateful", {"replay of a replay"}),
        (Motif.WRONG_TARGET, "peers", {"wrong target"}),
        (Motif.DIALS_AGAIN, "registered", {"lossy session stopped"}),
        (Motif.STOPPED_HANDSHAKE, "peers", {"stalled", "blocked", "fault at a point"}),
        (Motif.ROTATED, "stateful", {"unknown secret_id refused", "ticket renewed in a reconnect"}),
        (Motif.SKEWED, "stateful", {"expired ticket refused"}),
    ],
)
def test_motif_reaches_its_marks(motif: Motif, roles: str, marks: set[str], way: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(LIVES):
        outcome = _alone(motif, way, roles, seed)
        assert not outcome.failures
        found += marks_of(outcome.history)
    assert marks <= set(found)


@pytest.mark.parametrize("seed", range(4))
def test_a_session_whose_first_answer_is_held_is_replaced(seed: int) -> None:
    outcomes = [_alone(Motif.ANSWER_HELD, "v2-crc", "peers", 10 * seed + nth) for nth in range(10)]
    assert not [outcome.failures for outcome in outcomes if outcome.failures]
    assert any("replaced while established" in marks_of(outcome.history) for outcome in outcomes)


def test_every_motif_is_drawn_and_none_by_most_seeds() -> None:
    drawn = [draw(seed)[0] for seed in range(800)]
    motifs = Counter(options.motif for options in drawn)
    assert set(motifs) == {None, *Motif}
    assert motifs[None] > 0.6 * len(drawn)
    tickets = sum(motifs[motif] for motif in TICKET_MOTIFS)
    assert 0.1 < tickets / len(drawn) < 0.2
    assert all(bool(options.auth) == (options.motif in TICKET_MOTIFS) for options in drawn)
    assert {options.way.protocol for options in drawn if options.motif in TICKET_MOTIFS} == set(Protocol)


def test_no_motif_in_a_cluster() -> None:
    assert {draw(seed, Size.CLUSTER)[0].motif for seed in range(5)} == {None}


def test_four_hundred_seeds_with_motifs_reach_the_rarest_marks() -> None:
    tally = run_seeds(list(with_motif()), jobs=1).tally
    assert not tally.failed
    assert tally.runs >= 400
    assert set(tally.marks) >= {
        *("WAIT left by timer", "takeover met another", "replay of a replay", "wrong target", "stalled"),
        *("replaced while established", "lossy session stopped", "RETRY_GLOBAL", "stale dial dropped"),
        *("unknown secret_id refused", "expired ticket refused", "ticket renewed in a reconnect"),
    }
