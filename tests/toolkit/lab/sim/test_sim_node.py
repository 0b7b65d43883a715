"""A stopped process: nothing runs on it, and nothing is lost."""

import pytest

from toolkit.checks.invariants import check
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import Way


@pytest.fixture(params=[0, 2], ids=["one shard", "three shards"])
def lab(request: pytest.FixtureRequest) -> SimLab:
    """Two connected lossless peers."""
    lab = SimLab(Way(workers=request.param), 1)
    lab.node("a", "osd.1", "lossless_peer", ms_connection_ready_timeout=3.0)
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a", "b")
    lab.connect("a", "b")
    return lab


def _pause(lab: SimLab, name: str) -> None:
    lab._nodes[name].pause()


def _resume(lab: SimLab, name: str) -> None:
    lab._nodes[name].resume()


def test_paused_process_answers_nothing_and_reads_all_of_it_later(lab: SimLab) -> None:
    _pause(lab, "b")
    before = len(lab.history.node("b"))
    lab.send("a", "b", count=5)
    lab.wait(30.0)
    assert len(lab.history.node("b")) == before
    _resume(lab, "b")
    lab.expect_delivered("a", "b", 5)
    lab.settle()
    assert not [violation.text for result in check(lab.history) for violation in result.violations]


def test_dial_to_a_paused_process_connects_and_gets_no_bytes(lab: SimLab) -> None:
    _pause(lab, "b")
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.wait(2.0)
    actions = [record["action"] for record in lab.history.node("a").of("link")]
    assert actions[-2:] == ["dial", "open"]
    lab.wait(2.0)
    assert "READY_TIMEOUT" in [record["reason"] for record in lab.history.node("a").of("fault")]
    _resume(lab, "b")
    lab.expect_delivered("a", "b", 1)
    lab.settle()
    assert not [violation.text for result in check(lab.history) for violation in result.violations]


def test_timers_of_a_paused_process_are_late() -> None:
    lab = SimLab("v2-crc", 1)
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a")  # b does not listen
    lab.send("a", "b")
    lab.wait(0.1)
    _pause(lab, "a")
    dials = lab.dials("a")
    lab.wait(10.0)
    assert lab.dials("a") == dials
    _resume(lab, "a")
    assert lab.dials("a") > dials
