"""Scripts between two nodes: the same rules in simulation and on real sockets, on every way of speaking."""

from collections.abc import Callable, Iterator

import pytest

from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.errors import ScenarioFailed
from toolkit.faults.mangle import Mangle
from toolkit.lab.lab import Lab
from toolkit.lab.real.real_lab import RealLab
from toolkit.lab.sim.sim_lab import SimLab

LABS: dict[str, Callable[[str], Lab]] = {
    "sim": lambda way: SimLab(way, 1),
    "local": lambda way: RealLab("local", way, 1, processes=False),
}


@pytest.fixture(params=["v2-crc", "v2-secure", "v1"])
def way(request: pytest.FixtureRequest) -> str:
    """Return the protocol and mode of the nodes."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def forged() -> list[str]:
    """Return the fields that a test forges so well that only the checks notice it."""
    return []


@pytest.fixture(params=LABS)
def lab(request: pytest.FixtureRequest, way: str, forged: list[str]) -> Iterator[Lab]:
    """Two lossless peers that are connected; whatever rules do to them, they must come out of it clean."""
    lab = LABS[request.param](way)
    try:
        lab.two()
        lab.connect("a", "b")
        lab.exchange(count=5)
        yield lab
        lab.settle()
        history = History(lab.history)
    finally:
        lab.close()
    violations = [violation.text for result in check(history) for violation in result.violations]
    assert set(forged) <= set(violations) if forged else not violations


def test_links_are_cut_and_closed_at_any_frame_of_a_kind(lab: Lab) -> None:
    lab.script("a", "b", "-> M* every 2 link 1-3: cut at 5\n* #40: close after")
    lab.send("a", "b", count=20)
    lab.expect_delivered("a", "b", 25)


def test_release_delivers_the_held_frame_and_all_behind_it(lab: Lab) -> None:
    (held,) = lab.script("a", "b", "-> M* #2: hold it")
    lab.send("a", "b", count=4)
    lab.expect_struck(held)
    lab.expect_delivered("a", "b", 6)
    with pytest.raises(ScenarioFailed, match="7 messages from a delivered at b; 6 were"):
        lab.expect_delivered("a", "b", 7, within_s=0.1)
    lab.release_held("a", "b", "it")
    lab.expect_delivered("a", "b", 9)


def test_frames_may_be_late_slow_and_in_pieces(lab: Lab) -> None:
    rules = "-> M* #2: delay 50ms\n<- *: trickle 7\n-> M* #4: slow 2KB/s\n<-> * #8: hold me for 50ms"
    strikes = lab.script("a", "b", rules)
    lab.send("a", "b", count=6)
    lab.send("b", "a", count=6)
    lab.expect_delivered("a", "b", 11)
    lab.expect_delivered("b", "a", 11)
    lab.expect_struck(*strikes)
    assert [record["fault"] for record in lab.history if record.kind == "path"].count("delay") == 1


def test_changed_fields_pass_all_checks(lab: Lab, forged: list[str]) -> None:
    """What messages say is signed or sealed by keys that the one in the middle has."""
    (strike,) = lab.script("a", "b", "-> M* #3: set priority=77")
    lab.send("a", "b", count=5)
    lab.expect_delivered("a", "b", 10)
    lab.expect_struck(strike)
    assert isinstance(strike, Mangle)
    assert strike.problem == ""
    assert strike.altered is not None
    assert strike.hit is not None
    assert strike.altered.forward != strike.hit.raw
    tid = strike.hit.fields["tid"]
    forged.append(f"b session 1: tid {tid} arrives with priority 77, sent with 127")


def test_dials_are_refused_and_delayed(lab: Lab) -> None:
    refused, delayed = lab.script("a", "b", "dial #1-2: refuse\ndial #3: delay 20ms")
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 6)
    lab.expect_struck(refused, count=2)
    lab.expect_struck(delayed)


def test_a_changed_frame_without_its_checksum_is_refused(lab: Lab) -> None:
    corrupt, also = lab.script("a", "b", "-> M* #2: corrupt seq byte 1\n-> M* #4: set priority=1 unfixed")
    lab.send("a", "b", count=9)
    lab.expect_struck(corrupt)
    lab.expect_delivered("a", "b", 14)
    lab.expect_struck(also)
