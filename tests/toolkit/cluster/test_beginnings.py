"""Traffic of a large mesh begins in parts."""

import pytest

from tests.support.clusters import peers, state
from tests.support.waiting import eventually
from toolkit.cluster import beginnings, up
from toolkit.cluster.beginnings import parts
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.spec import ClusterSpec

__all__ = ["state"]


def mesh(count: int, **changes: object) -> ClusterSpec:
    nodes = {"n": {"entity": "osd.0", "count": count}}
    traffic = [{"from": "n", "to": "n", "count": 1}]
    return ClusterSpec.model_validate({"name": "mesh", "nodes": nodes, "traffic": traffic, **changes})


def delivered(cluster: Cluster) -> set[tuple[str, str]]:
    return {(record["peer"], record.node) for record in cluster.history.so_far().of("deliver")}


def test_way_and_way_back_are_in_different_parts() -> None:
    spec = mesh(41)
    found = [{(each.sender, each.receiver) for each in part} for part in parts(list(spec.nodes), spec.traffic)]
    assert len(found) > 1
    assert sum(map(len, found)) == len(set().union(*found)) == 41 * 40
    for part in found:
        assert len(part) <= beginnings.PART
        assert not part & {(receiver, sender) for sender, receiver in part}


def test_little_traffic_begins_at_once() -> None:
    spec = mesh(10)
    assert [len(part) for part in parts(list(spec.nodes), spec.traffic)] == [90]
    assert parts(["a", "b"], peers().traffic) == []


@pytest.mark.usefixtures("state")
def test_all_parts_begin_while_nodes_freeze_and_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "PART", 4)
    with up(mesh(6)) as cluster:
        cluster.fault("freeze n0")
        cluster.fault("thaw n0")
        cluster.remove_node("n5")
        left = [name for name in cluster.nodes if name != "n5"]
        wanted = {(one, other) for one in left for other in left if one != other}
        eventually(lambda: wanted <= delivered(cluster), why=lambda: wanted - delivered(cluster))
        assert [each.id for each in cluster.check() if not each.ok] == []


@pytest.mark.usefixtures("state")
def test_cluster_goes_down_while_traffic_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "PART", 1)
    with up(mesh(4)) as cluster:
        cluster.fault("isolate n1")
    assert not delivered(cluster) >= {("n0", "n1")}
