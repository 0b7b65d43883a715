"""Real daemons are killed, stopped, frozen and wiped under a client of ours, which goes on when they are back."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import done, msgrlab, state
from toolkit.cluster.ceph import CephNodes, RadosNode
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.own import up
from toolkit.cluster.spec import ClusterSpec, parse_spec

__all__ = ["state"]

pytestmark = [pytest.mark.needs("ceph-osd", "ceph-mon", "ceph"), pytest.mark.xdist_group("ceph_cluster")]

Clusters = Callable[..., Cluster]
HEALTHY_TIMEOUT_S = 240.0
ONE_OSD = "nodes: {mon: {ceph: mon}, osd: {ceph: osd}, app: {rados: client.app}}\n"


def ceph_of(cluster: Cluster) -> CephNodes:
    app = cluster.nodes["app"]
    assert isinstance(app, RadosNode)
    return app.ceph


@pytest.fixture
def cluster(ceph_cluster: Clusters) -> Iterator[Cluster]:
    """A cluster with two OSDs that has objects; it must be healthy, and have them, after the test."""
    cluster = ceph_cluster()
    app = cluster.nodes["app"]
    assert app.command("fill", count=10, prefix="before")["pending"] == []
    yield cluster
    ceph_of(cluster).wait_healthy(HEALTHY_TIMEOUT_S)
    assert app.command("wait")["pending"] == []
    assert app.command("verify")["wrong"] == []


def test_an_osd_is_killed_and_comes_back(cluster: Cluster) -> None:
    osd, app = cluster.nodes["osd0"], cluster.nodes["app"]
    osd.kill()
    assert osd.state == "down"
    assert not osd.alive
    app.command("fill", count=10, prefix="meanwhile")  # in time, by the other one
    osd.restart()
    assert osd.ready()


def test_an_osd_comes_back_wiped(cluster: Cluster) -> None:
    osd = cluster.nodes["osd1"]
    osd.restart(wiped=True)
    assert osd.ready()
    assert cluster.nodes["mon"].status()["cluster"]["osds"]["up"] == 2


@pytest.mark.usefixtures("state")
def test_memstore_survives_a_restart_and_verify_fails_after_a_kill(tmp_path: Path) -> None:
    spec = tmp_path / "one.yaml"
    spec.write_text(ONE_OSD)
    done("up", str(spec))
    done("tell", "app", "fill", "--count", "20")
    done("fault", "restart osd")
    assert json.loads(done("tell", "app", "verify")) == {"checked": 20, "wrong": []}
    done("tell", "app", "fill", "--count", "2", "--prefix", "lost")
    done("fault", "kill osd")
    done("fault", "start osd")
    verified = msgrlab("tell", "app", "verify")
    assert (verified.returncode, json.loads(verified.stdout)["wrong"]) == (1, ["lost0", "lost1"])
    done("down")


@pytest.mark.usefixtures("state")
def test_an_osd_that_has_ignored_a_placement_group_gets_it_at_its_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def fail(nodes: CephNodes) -> bool:
        asked.append(recreate(nodes))
        return False

    recreate = CephNodes.recreate
    monkeypatch.setattr(CephNodes, "recreate", fail)
    with up(parse_spec(ONE_OSD, "one.yaml")) as cluster:
        cluster.fault("kill osd")
        cluster.fault("start osd")
        starts = (cluster.nodes["osd"].host.directory / "osd.0.log").read_text().count("starting osd.0 ")
        assert (len(asked), starts) == (1, 3)
        assert cluster.nodes["app"].command("put", oid="x", text="y")["state"] == "done"


def test_osd_stops_and_starts_again(cluster: Cluster) -> None:
    osd = cluster.nodes["osd0"]
    osd.stop()
    assert osd.state == "down"
    assert cluster.nodes["mon"].status()["cluster"]["osds"] == {"all": 2, "up": 1, "in": 2}
    with pytest.raises(LocalError, match="node osd0 is down: msgrlab fault restart osd0"):
        osd.command("status")
    osd.start()
    osd.wait_ready()


def test_writes_succeed_while_the_monitor_is_frozen(cluster: Cluster) -> None:
    mon, app = cluster.nodes["mon"], cluster.nodes["app"]
    app.command("put", oid="thawed", text="before")
    mon.freeze(frozen=True)
    assert mon.state == "frozen"
    assert app.command("put", oid="thawed", text="while it was frozen")["state"] == "done"
    with pytest.raises(LocalError, match="frozen"):
        mon.command("mon_status")
    mon.freeze(frozen=False)
    mon.wait_ready()


def test_a_monitor_restarts(cluster: Cluster) -> None:
    before = cluster.nodes["mon"].pid
    cluster.nodes["mon"].restart()
    assert cluster.nodes["mon"].pid != before


def test_a_frozen_osd_holds_up_its_objects(cluster: Cluster) -> None:
    app, osds = cluster.nodes["app"], [cluster.nodes["osd0"], cluster.nodes["osd1"]]
    for osd in osds:
        osd.freeze(frozen=True)
    put = app.command("put", oid="held up", text="late", wait_s=0.2)
    assert put["state"] == "pending"
    for osd in osds:
        osd.freeze(frozen=False)
    assert app.command("wait")["pending"] == []
    assert app.command("get", oid="held up")["text"] == "late"


@pytest.mark.parametrize("backend", ["process", pytest.param("netns", marks=pytest.mark.needs("netns"))])
def test_client_continues_after_a_partition(backend: str, ceph_cluster: Clusters) -> None:
    cluster = ceph_cluster(backend)
    app = cluster.nodes["app"]
    app.command("put", oid="cut off", text="before")
    for osd in ("osd0", "osd1"):
        cluster.fault(f"partition app {osd}")
    assert app.command("put", oid="cut off", text="after", wait_s=0.2)["state"] == "pending"
    cluster.fault("heal")
    assert app.command("wait")["pending"] == []
    cluster.fault("reset app mon")
    assert app.command("get", oid="cut off")["text"] == "after"
    assert [result.id for result in cluster.check() if not result.ok] == []


@pytest.mark.needs("netns", "nft")
def test_sessions_survive_a_nat_that_loses_its_state(ceph_cluster: Clusters) -> None:
    cluster = ceph_cluster("netns")
    app = cluster.nodes["app"]
    ways = [("osd0", "osd1"), ("osd1", "osd0"), ("app", "osd0"), ("app", "osd1"), ("app", "mon")]
    for a, b in ways:
        cluster.fault(f"nat {a} {b}")
        cluster.fault(f"reset {a} {b}")  # what it dials next is translated
    assert app.command("fill", count=10, prefix="through", wait_s=30)["pending"] == []
    forgotten = [cluster.fault(f"nat-flush {a} {b}") for a, b in ways]
    assert "0 connections" not in (forgotten[0], *forgotten[2:])
    assert app.command("fill", count=10, prefix="forgotten", wait_s=30)["pending"] == []
    cluster.fault("heal")
    assert app.command("fill", count=10, prefix="without", wait_s=30)["pending"] == []
    assert app.command("verify")["wrong"] == []
    ceph_of(cluster).wait_healthy(HEALTHY_TIMEOUT_S)
    assert [result.id for result in cluster.check() if not result.ok] == []


def test_a_client_restarts(cluster: Cluster) -> None:
    cluster.nodes["app"].restart()
    assert cluster.nodes["app"].command("put", oid="again", text="another life")["state"] == "done"


def test_the_only_monitor_cannot_be_wiped(cluster: Cluster) -> None:
    with pytest.raises(LocalError, match="the only monitor cannot be wiped: its store identifies the cluster"):
        cluster.nodes["mon"].restart(wiped=True)


def test_single_osd_loses_objects_in_a_kill_and_takes_new_ones() -> None:
    nodes = {"mon": {"ceph": "mon"}, "osd": {"ceph": "osd"}, "app": {"rados": "client.app"}}
    spec = ClusterSpec.model_validate({"name": "alone", "nodes": nodes})
    with up(spec, name=f"t{uuid.uuid4().hex[:12]}") as cluster:
        app = cluster.nodes["app"]
        app.command("put", oid="lost", text="in memory")
        cluster.nodes["osd"].kill()
        cluster.nodes["osd"].restart()
        ceph_of(cluster).wait_healthy(HEALTHY_TIMEOUT_S)
        assert app.command("verify")["wrong"] == ["lost"]
        assert app.command("put", oid="lost", text="again")["state"] == "done"
        assert app.command("verify")["wrong"] == []
