"""The drawing of a cluster's nodes and links."""

from toolkit.cluster.view.facts import Facts, Seen
from toolkit.cluster.view.topology import MOST_NODES, draw_topology, pairs_of
from toolkit.faults.language import parse


def _facts(nodes: dict[str, str], sessions: list[Seen], *faults: str) -> Facts:
    kinds = dict.fromkeys(nodes, "osd.1")
    return Facts("mesh", "process", 1.0, 10, None, nodes, kinds, sessions, [], tuple(map(parse, faults)), (), [])


def _session(node: str, peer: str, state: str) -> Seen:
    return Seen(node, peer, 1, state, {}, ())


def test_pair_shows_the_states_of_both_ends_and_its_faults() -> None:
    sessions = [_session("a", "b", "READY"), _session("b", "a", "CONNECTING"), _session("a", "c", "READY")]
    nodes = dict.fromkeys("abc", "up") | {"c": "dead"}
    found = {(pair.a, pair.b): pair for pair in pairs_of(_facts(nodes, sessions, "partition b c"))}
    assert found["a", "b"].look == "waiting"
    assert found["a", "b"].words == "a READY, b CONNECTING"
    assert found["a", "c"].look == "ready"
    assert found["b", "c"].look == "broken"
    (slow,) = pairs_of(_facts(nodes, [], "link a b delay-ms=20"))
    assert slow.look == "impaired"
    drawn = draw_topology(_facts(nodes, sessions, "partition b c"))
    assert "✕ dead" in drawn
    assert "partition b c" in drawn


def test_topology_of_many_nodes_draws_the_dead_ones() -> None:
    nodes = {f"n{number}": "up" for number in range(200)} | {"n150": "dead"}
    drawn = draw_topology(_facts(nodes, []))
    assert drawn.count('class="node') == MOST_NODES
    assert "n150 (osd.1): dead" in drawn
