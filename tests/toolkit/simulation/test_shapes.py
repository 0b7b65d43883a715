"""Messages of lives: with three segments, and to their sender."""

from random import Random

from toolkit.simulation.draws import Size, draw_options
from toolkit.simulation.schedule import draw_schedule
from toolkit.simulation.shapes import draw_shapes
from toolkit.simulation.swarm import draw, live

_DRAWN = 300
_WITH_SEGMENTS = 6
"""Arguments of a send operation that has front and middle segments."""


def test_messages_of_some_seeds_have_front_and_middle_segments() -> None:
    plans = [draw(seed)[1] for seed in range(_DRAWN)]
    shaped = [
        any(operation.verb == "send" and len(operation.args) == _WITH_SEGMENTS for operation in plan)
        for plan in plans
    ]
    assert 0.25 < sum(shaped) / _DRAWN < 0.5


def test_segments_arrive_as_they_were_sent() -> None:
    seed = next(seed for seed in range(_DRAWN) if any(len(op.args) == _WITH_SEGMENTS for op in draw(seed)[1]))
    outcome = live(seed)
    assert outcome.passed
    sizes = {record["size"] for record in outcome.history.of("deliver")}
    assert len(sizes) > 1


def test_node_that_listens_gets_the_messages_that_it_sends_to_itself() -> None:
    seed = next(seed for seed in range(_DRAWN) if "send_to_itself" in {op.verb for op in draw(seed)[1]})
    outcome = live(seed)
    assert outcome.passed
    name = next(str(op.args[0]) for op in outcome.plan if op.verb == "send_to_itself")
    assert any(record.node == name == record["peer"] for record in outcome.history.of("deliver"))


def test_cluster_runs_send_data_only() -> None:
    rng = Random("swarm cluster 1")
    options = draw_options(rng, Size.CLUSTER)
    plan = draw_schedule(rng, options)
    assert draw_shapes(Random(1), options, plan) == (options, plan)
