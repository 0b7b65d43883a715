"""The vocabulary: the error of an expectation that is not met."""

import pytest

from messenger.errors import LocalError
from toolkit.errors import ScenarioFailed
from toolkit.faults.tap import Breakpoint
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.node import NodeSpec, parse_entity


@pytest.fixture
def lab() -> SimLab:
    """Two connected lossless peers."""
    lab = SimLab("v2-crc", 1)
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a", "b")
    lab.connect("a", "b")
    return lab


def test_missing_delivery_reports_the_count(lab: SimLab) -> None:
    lab.send("a", "b", count=2)
    with pytest.raises(ScenarioFailed, match="3 messages from a delivered at b; 2 were"):
        lab.expect_delivered("a", "b", 3)


def test_missing_event_and_state_report_the_present_ones(lab: SimLab) -> None:
    with pytest.raises(ScenarioFailed, match="event reset number 1 at a about b; 0 came"):
        lab.expect_event("a", "b", "reset")
    with pytest.raises(ScenarioFailed, match="session of a with b in STANDBY; it is in READY"):
        lab.expect_state("a", "b", "STANDBY")


def test_unwanted_event_and_dial_are_noticed(lab: SimLab) -> None:
    with pytest.raises(ScenarioFailed, match="event connect at a about b"):
        lab.expect_no_event("a", "b", "connect")
    lab.send("a", "b")
    lab.cut("a", "b")
    with pytest.raises(ScenarioFailed, match="a dialled within 5 s"):
        lab.expect_no_dial(5.0, "a")


def test_breakpoint_that_is_never_reached(lab: SimLab) -> None:
    breakpoint_ = Breakpoint("a", "SESSION_RESET")
    lab.cut_at("a", "b", breakpoint_)
    with pytest.raises(ScenarioFailed, match="cut at SESSION_RESET #1 from a, before it"):
        lab.expect_cut(breakpoint_)


def test_every_verb_is_in_the_history(lab: SimLab) -> None:
    lab.send("a", "b", count=2, size_bytes=5)
    lab.settle()
    steps = [(r["verb"], r["args"]) for r in lab.history.of("step")]
    assert steps == [
        ("start", "a, b"),
        ("connect", "a, b"),
        ("send", "a, b, count=2, size_bytes=5"),
        ("settle", ""),
    ]
    assert {r.node for r in lab.history.of("end")} == {"a", "b"}


@pytest.mark.parametrize("entity", ["osd", "osd.", "osd.x", "elephant.1", "osd.²", "osd.--1", "osd." + "9" * 19])
def test_entity_must_be_type_and_number(entity: str) -> None:
    with pytest.raises(LocalError):
        parse_entity(entity)


def test_node_spec_with_a_wrong_field() -> None:
    with pytest.raises(LocalError, match="node spec"):
        NodeSpec.from_json({"name": "a"})


def test_unknown_policy_and_option_are_named() -> None:
    lab = SimLab("v2-crc", 1)
    lab.node("a", "osd.1", "friendly")
    with pytest.raises(LocalError, match="unknown policy 'friendly'; known: stateful_server"):
        lab.start("a")
    lab = SimLab("v2-crc", 1)
    lab.node("a", "osd.1", "lossless_peer", ms_max_backof=1.0)
    with pytest.raises(LocalError, match="ms_max_backof"):
        lab.start("a")
