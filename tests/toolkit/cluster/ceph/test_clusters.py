"""Real daemons as nodes: what comes up, what users find there, and what clients of ours do with it."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.waiting import eventually
from toolkit.cluster.ceph.programs import require_programs
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.own import up
from toolkit.cluster.spec import ClusterSpec
from toolkit.errors import Unsupported

pytestmark = [pytest.mark.needs("ceph-osd", "ceph-mon", "ceph"), pytest.mark.xdist_group("ceph_cluster")]

Clusters = Callable[..., Cluster]
BACKENDS = ["process", pytest.param("netns", marks=pytest.mark.needs("netns"))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_cluster_reports_health(backend: str, ceph_cluster: Clusters) -> None:
    cluster = ceph_cluster(backend)
    status = cluster.nodes["mon"].status()
    assert status["cluster"] == {
        "health": "HEALTH_OK",
        "checks": {},
        "quorum": ["mon"],
        "osds": {"all": 2, "up": 2, "in": 2},
        "pgs": {},
        "mgr": False,
    }
    assert [cluster.nodes[name].status()["serves_as"] for name in ("mon", "osd0", "osd1")] == [
        "leader",
        "active",
        "active",
    ]
    assert cluster.nodes["osd1"].kind == "osd"


def test_monitors_use_port_3300_only_on_their_own_addresses(ceph_cluster: Clusters) -> None:
    shared = ceph_cluster("process").nodes["mon"].address
    assert shared.startswith("[v2:127.0.0.1:")
    assert ":3300/" not in shared


@pytest.mark.needs("netns")
def test_in_namespaces_the_ports_are_ceph_s_own(ceph_cluster: Clusters) -> None:
    cluster = ceph_cluster("netns")
    host = cluster.backend.hosts["mon"].addresses["public"]
    assert cluster.nodes["mon"].address == f"[v2:{host}:3300/0,v1:{host}:6789/0]"
    dump = json.loads(cluster.backend.hosts["mon"].run("ceph", "osd", "dump", "-f", "json"))
    homes = [cluster.backend.hosts[name].addresses["public"] for name in ("osd0", "osd1")]
    assert [osd["public_addr"].partition(":")[0] for osd in dump["osds"]] == homes


@pytest.mark.parametrize("backend", BACKENDS)
def test_ceph_s_own_tools_find_their_cluster(backend: str, ceph_cluster: Clusters) -> None:
    hosts = ceph_cluster(backend).backend.hosts
    assert "HEALTH_OK" in hosts["mon"].run("ceph", "-s")
    assert hosts["osd0"].run("ceph", "osd", "pool", "ls").split() == ["objects"]
    hosts["app"].run("rados", "-p", "objects", "put", "theirs", "-", stdin="by hand")
    assert ceph_cluster(backend).nodes["app"].command("get", oid="theirs")["text"] == "by hand"
    with pytest.raises(LocalError, match=r"(?i)access denied|EACCES|not permitted"):
        hosts["app"].run("ceph", "osd", "pool", "create", "mine")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_client_of_ours_reads_what_it_wrote(backend: str, ceph_cluster: Clusters) -> None:
    app = ceph_cluster(backend).nodes["app"]
    assert app.command("put", oid="greeting", text="hello")["state"] == "done"
    assert app.command("get", oid="greeting")["text"] == "hello"
    assert app.command("stat", oid="greeting")["size_bytes"] == 5
    assert app.command("fill", count=20, size_bytes=5000)["pending"] == []
    verified = app.command("verify")
    assert verified["checked"] >= 21
    assert verified["wrong"] == []
    app.command("remove", oid="greeting")
    with pytest.raises(LocalError, match="read of 'greeting': ENOENT"):
        app.command("get", oid="greeting")
    assert {session["peer"] for session in app.command("sessions")["sessions"]} == {"mon", "osd.0", "osd.1"}


def test_a_client_of_ours_watches(ceph_cluster: Clusters) -> None:
    app = ceph_cluster().nodes["app"]
    app.command("put", oid="watched", text="here")
    app.command("watch", oid="watched")
    assert app.command("notify", oid="watched", text="hear, hear") == {"replies": ["app"], "missed": []}
    assert app.command("notifications")["heard"][-1] == {"oid": "watched", "text": "hear, hear"}
    app.command("unwatch", oid="watched")
    assert app.command("notifications")["watches"] == []


def test_its_history_is_judged(ceph_cluster: Clusters) -> None:
    cluster = ceph_cluster()
    cluster.nodes["app"].command("put", oid="judged", text="content")
    kinds = {record.kind for record in cluster.history.so_far().node("app")}
    assert {"process", "link", "frame", "state", "auth", "send", "deliver"} <= kinds
    assert [result.id for result in cluster.check() if not result.ok] == []


def test_daemons_answer_on_their_admin_sockets(ceph_cluster: Clusters) -> None:
    cluster = ceph_cluster()
    assert cluster.nodes["osd0"].command("config get", var="osd_objectstore") == {"osd_objectstore": "memstore"}
    assert cluster.nodes["mon"].command("mon_status")["state"] == "leader"
    with pytest.raises(LocalError, match=r"invalid command|unknown|'bogus'"):
        cluster.nodes["mon"].command("bogus")


@pytest.mark.needs("ceph-image-pacific")
def test_a_cluster_with_everything() -> None:
    nodes = {
        "mon": {"ceph": "mon", "count": 3},
        "osd": {"ceph": "osd", "count": 2, "options": {"osd_max_backfills": 3}},
        "mgr": {"ceph": "mgr"},
        "mds": {"ceph": "mds"},
    }
    ceph = {"release": "pacific", "options": {"osd_pool_default_size": 1}}
    values = {"name": "full", "nodes": nodes, "ceph": ceph}
    with up(ClusterSpec.model_validate(values), name=f"t{uuid.uuid4().hex[:12]}") as cluster:
        status = cluster.nodes["mon1"].status()["cluster"]
        assert sorted(status["quorum"]) == ["mon0", "mon1", "mon2"]
        assert status["mgr"]
        # a module of the manager's makes a pool of its own when it likes
        eventually(lambda: set(cluster.nodes["mon1"].status()["cluster"]["pgs"]) == {"active+clean"})
        assert cluster.nodes["mds"].status()["serves_as"] == "up:active"
        pools = json.loads(cluster.backend.hosts["mon0"].run("ceph", "osd", "pool", "ls", "detail", "-f", "json"))
        assert {pool["size"] for pool in pools if pool["pool_name"] == "objects"} == {1}
        assert cluster.nodes["osd1"].command("config get", var="osd_max_backfills") == {"osd_max_backfills": "3"}
        pids = [node.pid for node in cluster.nodes.values()]
        assert all(pids)
    assert not any(_lives(pid) for pid in pids)


@pytest.mark.parametrize(
    ("speaks", "ceph"),
    [
        ({"protocol": "v1"}, {}),
        ({"auth": "none"}, {}),
        ({"mode": "secure"}, {"store": "bluestore"}),
    ],
)
def test_ceph_daemons_use_the_auth_mode_protocol_and_store_of_the_spec(
    speaks: dict[str, str], ceph: dict[str, str]
) -> None:
    nodes = {"mon": {"ceph": "mon"}, "osd": {"ceph": "osd"}, "app": {"rados": "client.app"}}
    spec = ClusterSpec.model_validate({"name": "speech", "nodes": nodes, "speaks": speaks, "ceph": ceph})
    with up(spec, name=f"t{uuid.uuid4().hex[:12]}") as cluster:
        assert cluster.nodes["app"].command("put", oid="said", text="so")["state"] == "done"
        status = cluster.nodes["osd"].command("config show")
        assert status["auth_service_required"] == speaks.get("auth", "cephx")
        assert status["ms_service_mode"] == speaks.get("mode", "crc")
        assert status["ms_bind_msgr2"] == str(speaks.get("protocol") != "v1").lower()
        assert status["osd_objectstore"] == ceph.get("store", "memstore")
        frames = cluster.history.so_far().node("app").of("frame")
        assert any(
            record.fields["tag"] == ("MSG" if speaks.get("protocol") == "v1" else "MESSAGE") for record in frames
        )


def test_failed_start_of_a_daemon_reports_its_cause_and_leaves_nothing() -> None:
    nodes = {
        "mon": {"ceph": "mon"},
        "osd": {"ceph": "osd", "options": {"public_addr": "192.0.2.1", "ms_bind_retry_count": 0}},
    }
    spec = ClusterSpec.model_validate({"name": "broken", "nodes": nodes})
    with pytest.raises(LocalError, match=r"osd"), up(spec, name=f"t{uuid.uuid4().hex[:12]}") as cluster:
        del cluster


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_programs_that_are_not_installed_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    packages = "ceph-common ceph-mds ceph-mgr ceph-mon ceph-osd"
    with pytest.raises(Unsupported, match=f"not installed: .*apt-get install {packages}"):
        require_programs({"mon", "osd", "mgr", "mds"}, "host")
