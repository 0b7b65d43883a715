"""Clients of a cluster work on shared objects, and the cluster checks their answers."""

from collections import Counter
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.clusters import state
from tests.support.waiting import eventually
from toolkit.checks.history import History
from toolkit.checks.records import OPERATION_VERBS
from toolkit.checks.result import Outcome
from toolkit.cluster import Cluster, up
from toolkit.cluster.nemesis import Crowd, draw, torment
from toolkit.cluster.spec import ClusterSpec
from toolkit.cluster.spec.model import Chaos

__all__ = ["state"]

FAULTS = ("partition", "isolate", "reset", "freeze")
ON_CEPH = [
    pytest.param("embedded", id="embedded"),
    pytest.param("host", marks=pytest.mark.needs("ceph-osd", "ceph-mon", "ceph"), id="ceph"),
]


def spec(
    release: str = "embedded", clients: int = 3, traffic: Any = "rados-register", osds: int = 2
) -> ClusterSpec:
    """A monitor, OSDs, and clients at work."""
    nodes = {"mon": {"ceph": "mon"}, "osd": {"ceph": "osd", "count": osds}}
    app = {"app": {"rados": "client.app", "count": clients}}
    values = {"name": "works", "nodes": nodes | app, "ceph": {"release": release}, "traffic": traffic}
    return ClusterSpec.model_validate(values)


def often(**changes: Any) -> list[dict[str, Any]]:
    """The workload, as quickly as a busy machine may do it."""
    return [{"workload": "rados-register", "every_ms": 10, **changes}]


def operations(cluster: Cluster) -> History:
    return cluster.history.so_far().of("operation")


def answered(cluster: Cluster) -> Counter[str]:
    """Return the number of answers of each client."""
    return Counter(record.node for record in operations(cluster) if record["action"] in {"ok", "fail"})


@pytest.mark.parametrize("release", ON_CEPH)
@pytest.mark.usefixtures("state")
def test_objects_survive_chaos(release: str) -> None:
    with up(spec(release)) as cluster:
        eventually(lambda: len(answered(cluster)) == 3)
        drawn = draw(Chaos(seed=5, faults=FAULTS, every_s=0.5, lasts_s=0.5, for_s=3), Crowd.of(cluster.scene))
        verdict = torment(cluster, drawn, seed=5)
        assert verdict.passed, str(verdict)
        (result,) = cluster.check(["linearizable"])
        assert (result.outcome, result.note) == (Outcome.HOLDS, "")
        eventually(lambda: {record["verb"] for record in operations(cluster)} == set(OPERATION_VERBS))
        before = answered(cluster)
        eventually(lambda: all(answered(cluster)[name] > before[name] for name in ("app0", "app1", "app2")))


def _convicted_of_a_loss(cluster: Cluster) -> bool:
    """Lose all objects; False if nobody can tell, since a client was removing the object, or had removed it."""
    for action in ("kill", "restart"):
        for osd in ("osd0", "osd1"):
            cluster.fault(f"{action} {osd}")
    before = answered(cluster)
    eventually(lambda: all(answered(cluster)[name] > before[name] + 10 for name in ("app0", "app1", "app2")))
    return cluster.check(["linearizable"])[0].outcome is Outcome.VIOLATED


@pytest.mark.usefixtures("state")
def test_linearizability_check_finds_lost_objects() -> None:
    with up(spec(traffic=often(objects=1))) as cluster:
        eventually(lambda: min(answered(cluster)[f"app{number}"] for number in range(3)) > 20)
        assert cluster.check(["linearizable"])[0].outcome is Outcome.HOLDS
        eventually(lambda: _convicted_of_a_loss(cluster))
        checks = cluster.status()["checks"]
        (failed,) = [one for one in checks["failed"] if one["id"] == "linearizable"]
        assert all(text.startswith("objects/register0: ") for text in failed["violations"])


@pytest.mark.usefixtures("state")
def test_killed_client_continues_after_restart() -> None:
    with up(spec(clients=2, osds=1, traffic=often())) as cluster:
        eventually(lambda: answered(cluster)["app1"] > 20)
        cluster.fault("kill app1")
        cluster.fault("start app1")
        eventually(lambda: any(record["number"] == "2.9" for record in operations(cluster).node("app1")))
        (result,) = cluster.check(["linearizable"])
        assert (result.outcome, result.note) == (Outcome.HOLDS, "")


@pytest.mark.usefixtures("state")
def test_counted_workload_ends_with_a_read_of_each_object() -> None:
    with up(spec(clients=1, osds=1, traffic=often(**{"from": "app", "count": 15, "objects": 2}))) as cluster:
        app = cluster.nodes["app"]
        eventually(lambda: answered(cluster)["app"] == 15 + 4)
        assert app.command("registers", every_ms=0) == {"busy": False}
        last = [(record["verb"], record["object"]) for record in operations(cluster)][-8::2]
        assert last == [(v, f"objects/register{n}") for n in range(2) for v in ("read", "omap_get")]
        with pytest.raises(LocalError, match="give 1 to 64 objects"):
            app.command("registers", objects=65)
        assert app.command("registers", count=1, objects=1)["busy"]
        eventually(lambda: answered(cluster)["app"] == 15 + 4 + 3)
