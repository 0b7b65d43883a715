"""Draws of seeds beside faults: each of them occurs, and seeds without them stay as they were."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from messenger.rules import SETTINGS
from toolkit.simulation.careless import NO_LIVENESS, draw_carelessness
from toolkit.simulation.draws import Size, draw_options
from toolkit.simulation.schedule import Operation, draw_schedule
from toolkit.simulation.swarm import draw, live_plan

SEEDS = range(400)
VERBS = {"react", "take_back", "dial_one", "stranger", "skew"}


def test_every_kind_is_drawn_and_most_seeds_have_none() -> None:
    verbs: Counter[str] = Counter()
    careless = 0
    rules: set[str] = set()
    for seed in SEEDS:
        rng = Random(f"swarm small {seed}")
        plain = draw_options(rng)
        plan = draw_schedule(rng, plain)
        options, drawn = draw_carelessness(Random(f"careless small {seed}"), plain, plan)
        careless += (options, drawn) != (plain, plan)
        verbs.update({operation.verb for operation in drawn} - {operation.verb for operation in plan})
        for node, before in zip(options.nodes, plain.nodes, strict=True):
            rules |= node.options.keys() - before.options.keys()
    assert 0.3 < careless / len(SEEDS) < 0.5
    assert verbs.keys() >= VERBS
    assert {"max_held_messages", "frame_timeout_s", "peer_identity", "skipped_seq"} <= rules


def test_every_setting_of_every_rule_is_drawn() -> None:
    missing = {(rule, setting) for rule, settings in SETTINGS.items() for setting in settings[1:]}
    for seed in range(6000):
        options, _ = draw(seed)
        missing -= {choice for node in options.nodes for choice in node.options.items()}
        if not missing:
            break
    assert missing == set()


@pytest.mark.parametrize(("rule", "setting"), sorted(NO_LIVENESS))
def test_rules_that_prevent_connections_are_checked_for_safety_only(rule: str, setting: str) -> None:
    judged = 0
    for seed in range(6):
        options, plan = draw(seed)
        nodes = tuple(replace(node, options={**node.options, rule: setting}) for node in options.nodes)
        outcome = live_plan(seed, replace(options, nodes=nodes), plan, plan)
        assert outcome.passed, outcome.failures
        judged += len(outcome.history.of("deliver"))
    assert judged
    assert not outcome.history.of("end")


def test_cluster_runs_draw_no_careless_operations() -> None:
    rng = Random("swarm cluster 1")
    options = draw_options(rng, Size.CLUSTER)
    plan = draw_schedule(rng, options)
    assert draw_carelessness(Random(1), options, plan) == (options, plan)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (("react", "b", "accept", 1, "raise"), "exception"),
        (("take_back", "a", "b", 2), "unsent"),
        (("stranger", "b", "a", "noise", 9), "fault"),
    ],
)
def test_drawn_operations_take_effect(operation: tuple[str, ...], kind: str) -> None:
    verb, *args = operation
    options = draw_options(Random("what happens"))
    sends = [Operation(at_s, "send", (*options.pairs[0], 2, 20)) for at_s in (0.1, 3.0)]
    plan = (Operation(0.0, verb, tuple(args)), *sends)
    outcome = live_plan(1, options, plan, plan)
    assert outcome.passed, outcome.failures
    assert outcome.history.of(kind)
