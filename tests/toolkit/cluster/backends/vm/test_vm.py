"""Clusters in a virtual machine: nodes and faults are in the guest, the history is here."""

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.clusters import kill_processes_of, msgrlab, processes_of, remains
from tests.support.guests import CLUSTERS, PATIENCE_S, marks
from tests.support.needs import require
from toolkit.checks.records import Record
from toolkit.cluster import Cluster, up
from toolkit.cluster.backends.base import CaptureWish
from toolkit.cluster.chroot import existing_image, in_image
from toolkit.errors import Unsupported
from toolkit.machine.leases import STATE_VARIABLE, Lease
from toolkit.machine.vm import MEMORY_MIB
from toolkit.network.state import LinkState

pytestmark = marks("iproute2", "pyverbs", group=CLUSTERS)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    require("vm")
    directory = tmp_path_factory.mktemp("vm") / "state"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(STATE_VARIABLE, str(directory))
        yield directory
    assert remains(directory) == []


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S / 4
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


# ---- over TCP, in this process


@pytest.fixture(scope="module")
def cluster(state: Path) -> Iterator[Cluster]:
    with up("two-peers", backend="vm") as cluster:
        yield cluster


run = partial(msgrlab, timeout_s=PATIENCE_S)


def deliveries(cluster: Cluster, node: str) -> int:
    return sum(record.kind == "deliver" and record.node == node for record in cluster.history.so_far())


def records(cluster: Cluster, kind: str) -> list[Record]:
    return list(cluster.history.so_far().of(kind))


def more_arrive(cluster: Cluster, *nodes: str) -> None:
    before = {node: deliveries(cluster, node) for node in nodes}
    wait_until(lambda: all(deliveries(cluster, node) > before[node] for node in nodes), f"no messages at {nodes}")


def test_messages_pass_between_namespaces_of_the_guest(cluster: Cluster) -> None:
    more_arrive(cluster, "a", "b")
    assert cluster.status()["backend"] == "vm"
    assert cluster.nodes["a"].host.run("uname", "-n") == "msgrlab-vm\n"


def test_records_have_the_time_of_this_machine(cluster: Cluster) -> None:
    before_s = cluster.now()
    cluster.nodes["a"].command("send", peer="b", count=1)
    after_s = cluster.now()
    sent = [record.time_s for record in cluster.history.so_far() if record.kind == "send" and record.node == "a"]
    assert any(before_s - 0.1 < time_s < after_s + 0.1 for time_s in sent)


def test_netem_of_the_guest_impairs_links(cluster: Cluster) -> None:
    cluster.fault("link a b delay-ms=50")
    assert cluster.network.link("a", "b") == LinkState(delay_ms=50)
    assert cluster.network.link("b", "a") == LinkState()
    cluster.fault("heal")
    assert cluster.network.link("a", "b") == LinkState()


def test_a_partition_holds_until_it_heals(cluster: Cluster) -> None:
    cluster.fault("partition a b")
    assert cluster.network.is_blocked("a", "b")
    cluster.fault("heal")
    assert not cluster.network.is_blocked("a", "b")
    more_arrive(cluster, "a", "b")


def test_a_killed_node_restarts(cluster: Cluster) -> None:
    cluster.fault("kill b")
    assert cluster.nodes["b"].state == "down"
    cluster.fault("restart b")
    more_arrive(cluster, "a", "b")


def test_a_node_is_added_and_removed(cluster: Cluster) -> None:
    node = cluster.add_node("c", entity="osd.3")
    node.command("send", peer="a", count=1)
    assert cluster.remove_node("c") == []
    assert "c" not in cluster.status()["nodes"]


def test_proxies_in_the_guest_cut_and_hold_frames(cluster: Cluster) -> None:
    both = ("a", "b"), ("b", "a")  # either of them may dial
    for ways in both:
        cluster.add_proxy(*ways, ["<-> MESSAGE #2: cut"])
    cluster.fault("reset a b")
    wait_until(lambda: any(cut["at"] for cut in records(cluster, "cut")), "no message was cut")
    cut = next(cut for cut in records(cluster, "cut") if cut["at"])
    assert (cut["at"]["tag"], cut["at"]["nth"]) == ("MESSAGE", 2)
    more_arrive(cluster, "a", "b")
    for a, b in both:
        cluster.fault(f"proxy {a} {b} '<-> MESSAGE #1: hold one'")
    wait_until(lambda: any(each["fault"] == "hold" for each in records(cluster, "path")), "no message was held")
    assert {cluster.fault(f"release {a} {b} one") for a, b in both} == {"0 released", "1 released"}
    for ways in both:
        cluster.remove_proxy(*ways)
    assert cluster.scene_faults() == ()
    more_arrive(cluster, "a", "b")


def test_a_capture_in_the_guest_is_a_file_here(cluster: Cluster) -> None:
    path = cluster.start_capture("b").path
    assert path is not None
    more_arrive(cluster, "a", "b")
    with pytest.raises(LocalError, match=r"b\.pcapng is another capture already"):
        cluster.start_capture("b")
    taken = cluster.stop_capture("b")
    assert taken.packets > 0
    assert (taken.dropped, taken.ended) == (0, "")
    assert "ping" in run("decode", str(path)).stdout
    with pytest.raises(LocalError, match=f"{path} exists already"):
        cluster.start_capture("b")


def test_a_capture_that_cannot_be_written_is_one_error(cluster: Cluster) -> None:
    with (
        pytest.raises(LocalError, match="capture: No space left on device"),
        Path("/dev/full").open("wb", buffering=0) as full,
        cluster.nodes["b"].host.capturing(full, CaptureWish("all")),
    ):
        more_arrive(cluster, "b")


def test_invariants_hold(cluster: Cluster) -> None:
    results = cluster.check()
    assert [str(result) for result in results if not result.ok] == []


def test_nodes_are_lost_when_the_guest_ends(cluster: Cluster) -> None:
    kill_processes_of(str(cluster.lease.label))
    wait_until(lambda: bool(cluster.backend.lost()), "the guest has not ended")
    status = cluster.status()
    assert {node["state"] for node in status["nodes"].values()} == {"lost"}
    with pytest.raises(LocalError, match="the virtual machine has ended"):
        cluster.fault("link a b delay-ms=50")


# ---- over RDMA, kept by a supervisor


@pytest.fixture(scope="module")
def ready(state: Path) -> dict[str, Any]:
    done = run("up", "rdma-two-peers", "--name", "rdma", "--backend", "vm", "--json")
    assert done.returncode == 0, done.stderr
    ready: dict[str, Any] = json.loads(done.stdout)
    return ready


def are_open() -> bool:
    """True if both sessions of the cluster over RDMA have got messages."""
    (status,) = json.loads(run("status", "rdma", "--json").stdout)["clusters"]
    sessions = [session for node in status["nodes"].values() for session in node["sessions"]]
    return len(sessions) == 2 and all(session["in_seq"] > 3 for session in sessions)


def test_a_cluster_over_rdma_stays_up_without_its_command(ready: dict[str, Any]) -> None:
    wait_until(are_open, "the sessions are not open")


def test_exec_runs_a_program_in_the_guest(ready: dict[str, Any]) -> None:
    program = "cat; ls /sys/class/infiniband; exit 3"
    done = run("exec", "--name", "rdma", "a", "--", "sh", "-c", program, stdin="in\n")
    assert done.returncode == 3
    words = done.stdout.split()
    assert (words[0], len(words)) == ("in", 3)


def test_faults_of_devices_and_commands_reach_the_guest(ready: dict[str, Any]) -> None:
    assert run("fault", "--name", "rdma", "rdma-down a").returncode == 0
    assert run("fault", "--name", "rdma", "rdma-up a").returncode == 0
    assert "connect_seq" in run("tell", "--name", "rdma", "a", "session", "b").stdout


def test_a_capture_has_the_packets_of_a_nodes_device(ready: dict[str, Any], state: Path) -> None:
    wait_until(are_open, "the sessions are not open")
    run("node", "capture", "--name", "rdma", "a")
    assert run("fault", "--name", "rdma", "qp-error a b").returncode == 0
    path = state / "rdma" / "a.pcapng"
    wait_until(lambda: "SESSION_RECONNECT_OK" in run("decode", str(path)).stdout, "no reconnect in the capture")
    assert run("node", "capture", "--name", "rdma", "a", "--stop").returncode == 0
    assert "queue pairs" in run("decode", str(path)).stdout


def test_nothing_is_left_of_a_killed_supervisor(ready: dict[str, Any], state: Path) -> None:
    label = str(Lease.find("rdma").label)
    kill_processes_of(label)
    wait_until(lambda: not processes_of(label), "the guest outlives its supervisor")
    assert run("down", "rdma").returncode == 0
    assert "rdma" not in remains(state)


# ---- daemons of Ceph, over RDMA


with_ceph = pytest.mark.needs("ceph-mon", "ceph-osd", "ceph")
RTS = re.compile(r"^link [^ ]+r-(\w+)/1 .* type RC state RTS", re.MULTILINE)


@pytest.fixture(scope="module")
def ceph(state: Path) -> Iterator[Cluster]:
    with up("rdma-ceph", backend="vm") as cluster:
        yield cluster


def wrong_objects(cluster: Cluster) -> object:
    found = cluster.nodes["app"].command("verify")
    assert found["checked"] == 5
    return found["wrong"]


@with_ceph
def test_daemons_of_ceph_serve_a_client_over_queue_pairs(ceph: Cluster) -> None:
    ceph.nodes["app"].command("fill", count=5)
    assert wrong_objects(ceph) == []
    assert {*RTS.findall(ceph.nodes["mon"].host.run("rdma", "resource", "show", "qp"))} == {"mon", "osd", "app"}


@with_ceph
def test_tools_and_admin_sockets_of_ceph_answer(ceph: Cluster) -> None:
    host = ceph.nodes["mon"].host
    host.variables["CEPH_ARGS"] = "--name client.nobody"  # from now on
    assert host.run("printenv", "CEPH_CONF", "CEPH_ARGS") == f"{host.directory}/ceph.conf\n--name client.nobody\n"
    host.variables["CEPH_ARGS"] = ""
    status = ceph.nodes["mon"].status()["cluster"]
    assert (status["health"], status["osds"]) == ("HEALTH_OK", {"all": 1, "up": 1, "in": 1})
    assert ceph.nodes["osd"].command("config get", var="ms_type") == {"ms_type": "async+rdma"}
    with pytest.raises(LocalError, match="no such command"):
        ceph.nodes["osd"].command("no such command")


@with_ceph
def test_the_guest_has_memory_for_the_daemons(ceph: Cluster) -> None:
    found = re.match(r"MemTotal: +(\d+) kB", ceph.nodes["mon"].host.run("cat", "/proc/meminfo"))
    assert found is not None
    assert int(found[1]) >> 10 > MEMORY_MIB


@with_ceph
def test_an_osd_keeps_its_objects_over_a_restart(ceph: Cluster) -> None:
    ceph.fault("restart osd")
    assert wrong_objects(ceph) == []
    assert not ceph.scene_faults()


@with_ceph
def test_devices_that_daemons_keep_open_are_not_removed(ceph: Cluster) -> None:
    with pytest.raises(Unsupported, match="mon is of Ceph, whose programs keep the devices of all nodes open"):
        ceph.fault("rdma-remove app")


@with_ceph
def test_logs_of_daemons_are_copied_to_this_machine(ceph: Cluster) -> None:
    for name, daemon in (("mon", "mon.mon"), ("osd", "osd.0")):
        ceph.nodes[name].gather()
        assert "memlock" not in (ceph.directory / name / f"{daemon}.out").read_text()  # of which Ceph would warn
        assert "-->" in (ceph.directory / name / f"{daemon}.log").read_text()


@pytest.mark.needs("ceph-mon", "ceph-osd", "ceph", "ceph-image-reef")
def test_programs_of_an_image_run_in_the_guest(ceph: Cluster) -> None:
    host = ceph.nodes["mon"].host
    command = in_image(existing_image("reef"), host.directory)
    assert "ceph version 18.2" in host.run(*command, "ceph-mon", "--version")
    assert host.run(*command, "ls", str(host.directory / "ceph.conf"))
