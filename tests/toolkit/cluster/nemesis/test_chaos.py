"""Chaos is drawn, and the same again from the same seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from tests.support.scene import RecordedCluster
from toolkit.cluster.nemesis import Crowd, Timeline, draw
from toolkit.cluster.nemesis.chaos import DRAWN
from toolkit.cluster.spec.model import Chaos
from toolkit.faults.language import Undo, parse

THREE = Crowd(("a", "b", "c"), ("a", "b", "c"))
TWO = Crowd(("a", "b"), ("a", "b"), has_packets=False)


@given(st.integers(0, 1 << 32), st.sampled_from((THREE, TWO)), st.floats(0.1, 5), st.floats(0.1, 20))
def test_a_seed_is_a_timeline(seed: int, crowd: Crowd, every_s: float, lasts_s: float) -> None:
    chaos = Chaos(seed=seed, every_s=every_s, lasts_s=lasts_s, for_s=20)
    drawn = draw(chaos, crowd)
    assert drawn == draw(chaos, crowd)
    assert Timeline.of_values(drawn.values()) == drawn
    lasting = set()
    for step in drawn:
        assert 0 < step.at_s <= 20
        assert set(step.fault.nodes) <= set(crowd.nodes)
        if isinstance(step.fault, Undo):
            lasting.remove(step.fault.fault)
        elif step.fault.LASTS:
            assert step.fault not in lasting
            lasting.add(step.fault)
    assert not lasting


def test_seeds_differ() -> None:
    drawn = {str(draw(Chaos(seed=seed), THREE)) for seed in range(50)}
    assert len(drawn) == 50


def test_drawn_timeline_of_a_seed_is_stable() -> None:
    """Saved seeds are worth something: this one changes only with the drawing."""
    drawn = draw(Chaos(seed=4, every_s=1, lasts_s=1, for_s=4, faults=("kill", "partition")), THREE)
    assert [str(step) for step in drawn] == [
        "   1.102  kill c",
        "   2.258  kill b",
        "   2.473  undo kill c",
        "   3.580  kill a",
        "   3.636  undo kill b",
        "   4.000  undo kill a",
    ]


def test_every_kind_of_fault_is_drawn_eventually() -> None:
    words = Counter(step.fault.WORD for seed in range(40) for step in draw(Chaos(seed=seed, for_s=60), THREE))
    assert set(words) - {"undo"} == set(DRAWN) - {"memory", "stop"}


def test_draw_uses_exactly_the_requested_faults() -> None:
    drawn = draw(Chaos(seed=1, for_s=100, faults=("memory", "freeze")), THREE)
    assert {step.fault.WORD for step in drawn} == {"memory", "freeze", "undo"}


def test_draw_uses_no_packet_impairments_on_loopback() -> None:
    chaos = Chaos(seed=1, every_s=0.5, for_s=200, faults=("link",))
    states = [step.fault.state for step in draw(chaos, TWO) if step.fault.WORD == "link"]  # type: ignore[attr-defined]
    assert states
    assert not any(state.loss or state.corrupt_percent or state.reorder_percent for state in states)


def test_daemons_keep_their_descriptors() -> None:
    """Without any, a daemon of Ceph may abort."""
    crowd = Crowd(("mon", "osd", "a"), ("a",))
    drawn = draw(Chaos(seed=1, every_s=0.5, for_s=200, faults=("descriptors",)), crowd)
    assert {step.fault.nodes for step in drawn} == {("a",)}
    words = {step.fault.WORD for step in draw(Chaos(seed=1, every_s=0.5, for_s=200), Crowd(("mon", "osd"), ()))}
    assert "kill" in words
    assert "descriptors" not in words


def test_two_faults_are_not_done_to_one_process_at_a_time() -> None:
    drawn = draw(Chaos(seed=5, every_s=0.2, lasts_s=3, for_s=60, faults=("kill", "freeze", "restart")), THREE)
    busy: set[str] = set()
    for step in drawn:
        (node,) = step.fault.nodes
        if isinstance(step.fault, Undo):
            busy.remove(node)
            continue
        assert node not in busy
        if step.fault.LASTS:
            busy.add(node)


@pytest.mark.parametrize(
    ("faults", "crowd", "complaint"),
    [
        (("kil",), THREE, "chaos: 'kil' is not drawn; did you mean kill?"),
        (("proxy",), THREE, "chaos: 'proxy' is not drawn"),
        (("reset",), Crowd(("a", "b"), (), {"reset": "no reset here"}), "chaos: reset: no reset here"),
        (("clock",), Crowd(("a", "b"), ()), "chaos: clock: no node is one of ours"),
        (("isolate",), TWO, "chaos: isolate: between two nodes it is a partition"),
        (("reset",), Crowd(("a",), ("a",)), "chaos: reset: it needs two nodes"),
        ((), Crowd((), ()), "this cluster supports no fault"),
    ],
)
def test_draw_refuses_unsupported_faults(faults: tuple[str, ...], crowd: Crowd, complaint: str) -> None:
    with pytest.raises(LocalError) as caught:
        draw(Chaos(faults=faults), crowd)
    assert complaint in str(caught.value)


def test_draw_refuses_more_than_100000_faults() -> None:
    with pytest.raises(LocalError, match="more than 100000 faults"):
        draw(Chaos(every_s=0.001, for_s=1e6), THREE)


def test_crowd_lists_the_nodes_and_unsupported_faults_of_a_cluster() -> None:
    cluster = RecordedCluster()
    cluster.network.lacks = {"packets": "none", "reset": "not here"}
    crowd = Crowd.of(cluster.scene)
    assert crowd == Crowd(("a", "b", "c", "d"), ("a", "b", "c"), {"reset": "not here"}, has_packets=False)
    assert not any(step.fault.WORD == "reset" for step in draw(Chaos(for_s=100), crowd))
    assert parse("clock d +1") not in {step.fault for step in draw(Chaos(for_s=100), crowd)}
