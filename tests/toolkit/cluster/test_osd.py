"""Real clusters: their parts, their end, and their errors if they do not start."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.cluster import osd as module
from toolkit.cluster.real import RealCluster
from toolkit.errors import Unsupported

pytestmark = [pytest.mark.needs("ceph-osd", "ceph-mon", "ceph"), pytest.mark.xdist_group("real_cluster")]

Clusters = Callable[..., RealCluster]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_every_osd_is_up_and_speaks_both_protocols(real_cluster: Clusters) -> None:
    cluster = real_cluster(3, "crc", "cephx")
    dump = json.loads(cluster.ceph("osd", "dump", "-f", "json"))
    assert [(osd["osd"], osd["up"], osd["in"]) for osd in dump["osds"]] == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
    for osd in dump["osds"]:
        assert [addr["type"] for addr in osd["public_addrs"]["addrvec"]] == ["v2", "v1"]
    assert [osd.name for osd in cluster.osds] == ["osd.0", "osd.1", "osd.2"]


def test_signatures_are_required(real_cluster: Clusters) -> None:
    settings = real_cluster(3, "crc", "cephx").osds[0].admin("config show")
    assert settings["cephx_require_signatures"] == settings["cephx_sign_messages"] == "true"
    assert settings["ms_service_mode"] == "crc"


@pytest.mark.parametrize("kind", [(1, "secure", "cephx"), (1, "crc", "none")])
def test_modes_and_authentication(kind: tuple[int, str, str], real_cluster: Clusters) -> None:
    cluster = real_cluster(*kind)
    settings = cluster.osds[0].admin("config show")
    assert (settings["ms_service_mode"], settings["auth_service_required"]) == kind[1:]
    cluster.ceph("osd", "pool", "create", "kept", "4")
    cluster.rados("-p", "kept", "put", "object", "-", stdin="content")
    osd = cluster.osds[0]
    before = osd.pid
    osd.stop()
    assert not osd.running
    osd.start()
    osd.wait_until_up()
    assert osd.running
    assert osd.pid != before
    assert cluster.rados("-p", "kept", "get", "object", "-") == "content"


def test_cluster_stop_ends_all_daemons_and_removes_files() -> None:
    environment = dict(os.environ)
    with RealCluster(options={"mon_max_osd": "9"}) as cluster:
        pids = [cluster.monitor.pid, *(osd.pid for osd in cluster.osds)]
        assert cluster.osds[0].admin("config show")["mon_max_osd"] == "9"
        assert all(map(alive, pids))
    assert not any(map(alive, pids))
    assert not cluster.monitor.directory.exists()
    cluster.stop()
    assert dict(os.environ) == environment


def test_exception_in_the_block_keeps_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError) as caught, RealCluster(auth="none"):
        1 / 0  # noqa: B018
    (note,) = caught.value.__notes__
    (kept,) = tmp_path.iterdir()
    assert note == f"logs of the cluster are in {kept}"
    assert {"ceph.conf", "mon.a.log", "osd.0.log"} <= {path.name for path in kept.iterdir()}


def test_an_osd_in_a_crash_proof_store() -> None:
    with RealCluster(store="bluestore", auth="none") as cluster:
        cluster.ceph("osd", "pool", "create", "kept", "4")
        cluster.rados("-p", "kept", "put", "object", "-", stdin="content")
        cluster.osds[0].kill()
        cluster.ceph("osd", "down", "0")
        cluster.osds[0].start()
        cluster.osds[0].wait_until_up()
        assert cluster.rados("-p", "kept", "get", "object", "-") == "content"


def test_failed_start_of_an_osd_reports_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(module, "BOOT_TIMEOUT_S", 0.0)
    with pytest.raises(LocalError, match="ceph-osd did not come up: not in the map within 0 s"):
        RealCluster()
    assert list(tmp_path.iterdir()) == []


def test_death_of_an_osd_at_start_reports_its_cause() -> None:
    with pytest.raises(LocalError, match="ceph-osd did not come up: it ended with exit code"):
        RealCluster(options={"public_addr": "192.0.2.1", "ms_bind_retry_count": "0"})


def test_an_osd_that_was_never_started(real_cluster: Clusters) -> None:
    osd = module.RealOsd.__new__(module.RealOsd)
    osd.id, osd._daemon = 7, None
    assert not osd.running
    with pytest.raises(LocalError, match=r"osd\.7 was never started"):
        _ = osd.pid


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"osds": 0}, "needs at least one OSD"),
        ({"store": "filestore"}, "no object store 'filestore'; known: memstore, bluestore"),
        ({"mode": "secure", "auth": "none"}, "auth none is crc only"),
        ({"auth": "kerberos"}, "no authentication 'kerberos'; known: cephx, none"),
        ({"mode": "plain"}, "no connection mode 'plain'"),
    ],
)
def test_cluster_refuses_invalid_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        RealCluster(**arguments)  # type: ignore[arg-type]


def test_without_ceph_installed_it_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unsupported, match=r"not installed: ceph-osd .*apt-get install ceph-osd"):
        RealCluster()
