"""Ceph's own clients on embedded clusters, and links that are cut at every frame of theirs."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.embedded import StandIn
from toolkit.cluster import Cluster
from toolkit.cluster.daemons import run_tool

pytestmark = [pytest.mark.needs("ceph"), pytest.mark.xdist_group("embedded")]

CUT_WAYS = [("v2", "secure", "cephx"), ("v1", "crc", "cephx")]
WAYS = [*CUT_WAYS, ("v1+v2", "crc", "cephx"), ("v1+v2", "crc", "none")]
IN_POOL = ("-p", "objects")


@pytest.fixture
def standing(request: pytest.FixtureRequest, msgrlab_cluster: Callable[..., Cluster]) -> StandIn:
    """A cluster that speaks so; the invariants must hold of what it has recorded."""
    return StandIn(msgrlab_cluster("embedded", settings=settings(*request.param), shared=True, check=True))


@pytest.fixture
def cut_up(request: pytest.FixtureRequest, msgrlab_cluster: Callable[..., Cluster]) -> StandIn:
    """Another one that speaks so, whose links are cut."""
    return StandIn(msgrlab_cluster("embedded", settings=settings(*request.param)))


def settings(protocol: str, mode: str, auth: str) -> list[str]:
    return [f"speaks.protocol={protocol}", f"speaks.mode={mode}", f"speaks.auth={auth}"]


in_every_way = pytest.mark.parametrize("standing", WAYS, indirect=True, ids="-".join)
where_links_are_cut = pytest.mark.parametrize("cut_up", CUT_WAYS, indirect=True, ids="-".join)


# ---- what clients do


@in_every_way
def test_the_monitor_describes_the_cluster(standing: StandIn) -> None:
    shown = standing.ceph("-s")
    assert "health: HEALTH_OK" in shown
    assert "osd: 3 osds: 3 up" in shown
    status = json.loads(standing.ceph("status", "--format", "json"))
    assert (status["osdmap"]["num_up_osds"], status["quorum_names"]) == (3, ["mon"])
    tree = json.loads(standing.ceph("osd", "tree", "--format", "json"))["nodes"]
    assert [node["name"] for node in tree if node["type"] == "osd"] == ["osd.0", "osd.1", "osd.2"]
    dump = json.loads(standing.ceph("osd", "dump", "--format", "json"))
    assert [osd["up"] for osd in dump["osds"]] == [1, 1, 1]


@pytest.mark.parametrize("standing", WAYS[:1], indirect=True, ids="-".join)
def test_other_answers_of_the_monitor(standing: StandIn) -> None:
    commands = [
        *("fsid", "health", "mon dump", "mon stat", "quorum_status", "version", "versions", "config dump"),
        *("df", "osd df", "osd tree", "osd stat", "osd ls", "pg stat", "auth ls", "osd lspools", "mgr stat"),
        *("osd pool ls detail", "osd pool get objects all", "osd map objects x", "osd crush rule ls"),
    ]
    output = standing.ceph(stdin="".join(f"{command}\n" for command in commands))
    assert "Error" not in output
    expected = (standing.monitor.fsid, "HEALTH_OK", "client.admin", "host osd1", "RAW STORAGE", "replicated_rule")
    assert [text for text in expected if text not in output] == []


@in_every_way
def test_objects_are_written_and_read(standing: StandIn, tmp_path: Path) -> None:
    large, back = tmp_path / "large", tmp_path / "back"
    large.write_bytes(bytes(range(256)) * 40_000)
    standing.rados(*IN_POOL, "put", "large", str(large))
    standing.rados(*IN_POOL, "get", "large", str(back))
    assert back.read_bytes() == large.read_bytes()
    standing.rados(*IN_POOL, "put", "short", "-", stdin="hello")
    standing.rados(*IN_POOL, "append", "short", "-", stdin=" world")
    assert standing.rados(*IN_POOL, "get", "short", "-") == "hello world"
    standing.rados(*IN_POOL, "setxattr", "short", "k", "v")
    standing.rados(*IN_POOL, "setomapval", "short", "key", "value")
    assert standing.rados(*IN_POOL, "listxattr", "short").split() == ["k"]
    assert "value (5 bytes)" in standing.rados(*IN_POOL, "listomapvals", "short")
    assert {"large", "short"} <= set(standing.rados(*IN_POOL, "ls").split())
    standing.rados(*IN_POOL, "rm", "large")
    with pytest.raises(LocalError, match="No such file"):
        standing.rados(*IN_POOL, "stat", "large")


@pytest.mark.parametrize("standing", WAYS[:1], indirect=True, ids="-".join)
def test_pools_come_and_go(standing: StandIn) -> None:
    standing.ceph("osd", "pool", "create", "more", "16")
    assert standing.ceph("osd", "pool", "ls").split() == ["objects", "rbd", "more"]
    standing.rados("-p", "more", "put", "x", "-", stdin="x")
    assert standing.rados("-p", "more", "ls").split() == ["x"]
    with pytest.raises(LocalError, match="EPERM"):
        standing.ceph("osd", "pool", "delete", "more")
    standing.ceph("osd", "pool", "delete", "more", "more", "--yes-i-really-really-mean-it")
    assert "more" not in standing.rados("lspools").split()
    with pytest.raises(LocalError, match="erasure"):
        standing.ceph("osd", "pool", "create", "coded", "8", "8", "erasure")


@pytest.mark.parametrize("standing", WAYS[:1], indirect=True, ids="-".join)
def test_locks_are_kept_and_broken(standing: StandIn) -> None:
    standing.rados(*IN_POOL, "create", "locked")
    standing.rados(*IN_POOL, "lock", "get", "locked", "mine", "--lock-cookie", "c")
    with pytest.raises(LocalError, match="busy"):
        standing.rados(*IN_POOL, "lock", "get", "locked", "mine", "--lock-cookie", "d")
    assert json.loads(standing.rados(*IN_POOL, "lock", "list", "locked"))["locks"] == [{"name": "mine"}]
    (locker,) = json.loads(standing.rados(*IN_POOL, "lock", "info", "locked", "mine"))["lockers"]
    standing.rados(*IN_POOL, "lock", "break", "locked", "mine", locker["name"], "--lock-cookie", "c")
    assert json.loads(standing.rados(*IN_POOL, "lock", "info", "locked", "mine"))["lockers"] == []


@pytest.mark.parametrize("standing", WAYS[:1], indirect=True, ids="-".join)
def test_the_log_is_followed(standing: StandIn) -> None:
    lines: list[str] = []
    with subprocess.Popen(["ceph", "-c", str(standing.conf), "-w"], stdout=subprocess.PIPE, text=True) as ceph:
        assert ceph.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(ceph.stdout,))
        reader.start()
        try:
            for number in range(40):  # the first ones may come before ceph has subscribed
                standing.ceph("log", "marker", str(number))
                if any("[INF] marker" in line for line in lines):
                    break
        finally:
            ceph.terminate()
            reader.join()
    assert any("[INF] marker" in line for line in lines)
    assert "marker" in standing.ceph("log", "last", "1")


@pytest.mark.parametrize("standing", WAYS[2:3], indirect=True, ids="-".join)
def test_new_entity_authenticates_with_its_key(standing: StandIn, tmp_path: Path) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_text(standing.ceph("auth", "get-or-create", "client.app", "mon", "allow r", "osd", "allow rw"))
    as_app = ("-n", "client.app", "--keyring", str(keyring))
    standing.rados(*as_app, *IN_POOL, "put", "theirs", "-", stdin="x")
    assert standing.rados(*as_app, *IN_POOL, "get", "theirs", "-") == "x"
    standing.ceph("auth", "rm", "client.app")
    with pytest.raises(LocalError, match=r"handle_auth_bad_method|Permission denied"):
        standing.rados(*as_app, *IN_POOL, "get", "theirs", "-")


@pytest.mark.parametrize("standing", WAYS[:2], indirect=True, ids="-".join)
def test_images_are_made_filled_and_removed(standing: StandIn, tmp_path: Path) -> None:
    def rbd(*arguments: str) -> str:
        return run_tool("rbd", "-c", str(standing.conf), *arguments)

    before, after = tmp_path / "before", tmp_path / "after"
    before.write_bytes(b"image" * 1_000_000)
    rbd("create", "empty", "--size", "10M")
    rbd("import", "--no-progress", str(before), "full")
    assert rbd("ls").split() == ["empty", "full"]
    info = json.loads(rbd("info", "full", "--format", "json"))
    assert (info["size"], info["features"]) == (5_000_000, ["layering"])
    rbd("export", "--no-progress", "full", str(after))
    assert after.read_bytes() == before.read_bytes()
    rbd("resize", "--no-progress", "empty", "--size", "20M")
    rbd("rename", "empty", "larger")
    assert json.loads(rbd("info", "larger", "--format", "json"))["size"] == 20 << 20
    for name in ("larger", "full"):
        rbd("rm", "--no-progress", name)
    assert rbd("ls") == ""
    with pytest.raises(LocalError, match="No such file"):
        rbd("info", "full")


# ---- cuts


def cuts(
    cluster: Cluster, node: str, work: Callable[[], object], wanted: Callable[[str], bool] = lambda _point: True
) -> Iterator[str]:
    """Each wanted point of a node that ``work`` passes, armed to break the link; of messages several passes."""

    def visits() -> dict[str, int]:
        visits = cluster.nodes[node].command("visits")["visits"]
        return {point: count for point, action, count in visits if action == "CONTINUE"}

    before = visits()
    work()
    passed = {point: count - before.get(point, 0) for point, count in visits().items()}
    for point, count in sorted((point, count) for point, count in passed.items() if count and wanted(point)):
        for nth in sorted({1, 2, (count + 1) // 2, count} if is_message(point) and count > 1 else {1}):
            cluster.nodes[node].command("arm", point=point, action="FAULT", nth=nth)
            yield point
            cluster.nodes[node].command("disarm")


def is_message(point: str) -> bool:
    return point.startswith(("MESSAGE", "MSG"))


def primary(standing: StandIn, oid: str) -> str:
    found = json.loads(standing.ceph("osd", "map", "objects", oid, "--format", "json"))
    return f"osd{found['acting_primary']}"


@where_links_are_cut
def test_append_is_applied_once_for_a_cut_at_any_frame(cut_up: StandIn) -> None:
    written: list[str] = []

    def append() -> None:
        written.append(f"<{len(written)}>")
        cut_up.rados(*IN_POOL, "append", "log", "-", stdin=written[-1])

    node = primary(cut_up, "log")
    points = set()
    for point in cuts(cut_up.cluster, node, append):
        append()
        points.add(point)
    assert cut_up.rados(*IN_POOL, "get", "log", "-") == "".join(written)
    struck = [point for point in points if cut_up.cluster.nodes[node].command("hits", point=point)["hits"]]
    assert len(struck) > 10


@where_links_are_cut
def test_monitor_command_succeeds_for_a_cut_at_any_frame(cut_up: StandIn) -> None:
    def ask() -> None:
        assert json.loads(cut_up.ceph("status", "--format", "json"))["health"]["status"] == "HEALTH_OK"

    for _ in cuts(cut_up.cluster, "mon", ask, is_message):
        ask()
