"""Flaws of the messenger that seeds have found, kept by schedule, since each new draw changes the seeds."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolkit.lab.ways import Way
from toolkit.simulation.draws import ROLES, DrawnNode, Fault, Motif, Options, Size
from toolkit.simulation.schedule import Operation, Plan
from toolkit.simulation.swarm import Outcome, live_plan


def _live(seed: int, way: str, roles: str, plan: Plan, **shared: Any) -> Outcome:
    """The life of two nodes, a and b, under a schedule written by hand."""
    drawn = next(known for known in ROLES if known.name == roles)
    nodes = tuple(
        DrawnNode(name, f"{entity}.{number}", policy, drawn.peers or name == "b", shared)
        for number, (name, entity, policy) in enumerate(
            [("a", drawn.entities[0], drawn.dialler), ("b", drawn.entities[1], drawn.acceptor)], 1
        )
    )
    return live_plan(seed, Options(Size.SMALL, Way.parse(way), drawn, nodes, (Fault.INTERCEPT,)), plan, plan)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("way", ["v2-crc", "v2-secure", "v2-crc-w2"])
def test_session_without_an_accept_event_raises_no_remote_reset(seed: int, way: str) -> None:
    """The client drops its dial and starts a new one before the server answers its first CLIENT_IDENT."""
    plan = (
        Operation(0.0, "connect", ("a", "b")),
        Operation(0.05, "mark_down", ("a", "b")),
        Operation(0.0505, "send", ("a", "b", 2, 20)),
        Operation(1.0, "keepalive", ("a", "b")),  # until then the delays go on
    )
    outcome = _live(seed, way, "stateful", plan, ms_inject_internal_delays=0.1)
    verdicts = [record["verdict"] for record in outcome.history.of("decision")]
    assert "REUSE_RESET" in verdicts
    events = [record["event"] for record in outcome.history.node("b").of("event")]
    assert set(events) == {"accept"}
    assert not outcome.failures


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("roles", ["stateless", "registered", "stateful", "peers"])
@pytest.mark.parametrize("way", ["v2-crc", "v2-crc-w2", "v2-secure-w3"])
def test_a_link_that_breaks_while_it_is_held_is_broken_on_the_shard_it_goes_to(
    seed: int, way: str, roles: str
) -> None:
    """The stream is lost while the answer to CLIENT_IDENT is delayed; then the link opens, on another shard."""
    plan = (
        Operation(0.0, "send", ("a", "b", 1, 20)),
        Operation(0.05, "half_open", ("a", "b")),
        Operation(1.0, "keepalive", ("a", "b")),  # until then the delays go on
    )
    outcome = _live(seed, way, roles, plan, ms_inject_internal_delays=0.1, ms_max_backoff=2.0)
    assert not outcome.failures
    faults = [record["link"] for record in outcome.history.node("b").of("fault")]
    assert faults[:1] == ["b/1"]


@pytest.mark.parametrize("seed", range(5))
def test_reset_record_follows_earlier_dispatched_messages(seed: int) -> None:
    """By priority, what an injector delayed is dispatched when the session breaks; the reset comes behind it."""
    plan = (
        Operation(0.0, "send", ("a", "b", 5, 20)),
        Operation(0.1, "cut", ("a", "b")),
        Operation(1.0, "keepalive", ("a", "b")),
    )
    late = {"ms_inject_delay_type": "client", "ms_inject_delay_probability": 1.0, "ms_inject_delay_max": 5.0}
    outcome = _live(seed, "v2-crc", "registered", plan, dispatch_by_priority=True, **late)
    kinds = [record.kind for record in outcome.history.node("b").of("deliver", "event")]
    assert kinds[:7] == ["event", *["deliver"] * 5, "event"]
    assert not outcome.failures


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("way", ["v2-crc", "v1"])
def test_renamed_node_is_forgotten_by_every_session_with_it(seed: int, way: str) -> None:
    """The application had dropped a session that no peer can find; it went on dialling an absent peer."""
    plan = (
        Operation(0.0, "kill", ("b",)),
        Operation(0.01, "connect", ("a", "b", True)),
        Operation(0.02, "send", ("a", "b", 3, 20)),
        Operation(0.5, "connect", ("a", "b", True)),
        Operation(6.0, "rename", ("b",)),
        Operation(8.0, "send", ("a", "b", 2, 20)),
    )
    assert not _live(seed, way, "registered", plan).failures


@pytest.mark.parametrize("seed", [9, 15, 22, 37, 2051426])
def test_a_reset_leaves_no_hole_in_what_comes_late_from_another_shard(seed: int) -> None:
    """Deliveries are late when the client starts a new session, and more of the old one is between shards."""
    plan = (
        Operation(0.0, "send", ("a", "b", 7, 20)),
        Operation(0.01, "send", ("a", "b", 2, 20)),
        Operation(0.02, "send", ("b", "a", 5, 20)),
        Operation(0.0205, "send", ("a", "b", 6, 1000)),
        Operation(0.0245, "freeze", ("b",)),
        Operation(0.0265, "mark_down", ("a", "b")),
        Operation(0.0275, "send", ("a", "b", 2, 20)),
        Operation(0.0295, "thaw", ("b",)),
        Operation(6.0, "keepalive", ("a", "b")),  # until then the delays go on
    )
    options = {
        "ms_max_backoff": 5.0,
        "ms_connection_ready_timeout": 2.0,
        "ms_inject_internal_delays": 0.002,
        "ms_inject_delay_type": "osd client mds",
        "ms_inject_delay_probability": 0.3,
        "ms_inject_delay_max": 0.5,
    }
    outcome = _live(seed, "v1-aes256k-w1", "stateful", plan, **options)
    assert not outcome.failures


_LIVES = [json.loads(line) for line in (Path(__file__).parent / "found.jsonl").read_text().splitlines()]
"""Shrunk schedules of seeds that failed, with what was said of them then; in messenger, simulation or checks."""


@pytest.mark.parametrize("life", [pytest.param(life, id=str(life["seed"])) for life in _LIVES])
def test_previously_failing_runs_pass(life: dict[str, Any]) -> None:
    plan = tuple(Operation(at_s, verb, tuple(args)) for at_s, verb, *args in life["plan"])
    options = Options(
        Size.SMALL,
        Way.parse(life["way"]),
        next(known for known in ROLES if known.name == life["roles"]),
        tuple(DrawnNode(**node) for node in life["nodes"]),
        tuple(Fault(fault) for fault in life["faults"]),
        life["injections"],
        life["motif"] and Motif(life["motif"]),
    )
    assert [
        f"{failure.id}: {failure.text}" for failure in live_plan(life["seed"], options, plan, plan).failures
    ] == []
