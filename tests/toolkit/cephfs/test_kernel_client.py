"""Linux's own Ceph client on a real cluster: the virtual machine is one more host of the cluster's network."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.guests import OTHERS, PATIENCE_S, marks
from tests.toolkit.cephfs.kernel_cases import CUTS, IMAGE, MODES, POOL
from toolkit.cluster import Cluster, up
from toolkit.cluster.guest_network import guest_network
from toolkit.cluster.spec import parse_spec
from toolkit.machine import vm

pytestmark = marks("netns", "nft", "ceph-mds", "ceph-osd", "ceph-mon", "ceph", group=OTHERS)
Line = dict[str, Any]
FIO_BYTES = 4 << 20
MONITOR_PORTS = [3300, 6789]
SPEC = """
name: kernel-fs
backend: netns
speaks: {protocol: v1+v2}
ceph:
  options: {ms_service_mode: secure crc, ms_mon_service_mode: secure crc}
nodes:
  mon: {ceph: mon}
  osd: {ceph: osd}
  mds: {ceph: mds}
"""


@dataclass
class Client:
    """A real cluster, and a virtual machine on its network."""

    cluster: Cluster
    machine: vm.Machine
    about: dict[str, Any]
    """Where the daemons listen, and keys of the cluster."""

    def run(self, module: str, stdout: Callable[[bytes], object] | None = None) -> str:
        """Run a module in the machine; returns its output, unless that goes elsewhere."""
        done = self.machine.run_module(module, json.dumps(self.about), timeout_s=PATIENCE_S, stdout=stdout)
        assert (done.code, done.stderr) == (0, ""), done
        return done.stdout


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with up(parse_spec(SPEC, "kernel-fs.yaml"), name=f"kernel-fs-{os.getpid()}") as cluster:
        mon = cluster.nodes["mon"].host

        def run(*words: str) -> str:
            return mon.run(words[0], "-c", str(mon.directory / "ceph.conf"), *words[1:])

        run("ceph", "osd", "pool", "create", POOL, "4")
        run("rbd", "create", "--size", "16M", "--image-feature", "layering", f"{POOL}/{IMAGE}")
        (osd,) = json.loads(run("ceph", "osd", "dump", "--format", "json"))["osds"]
        (fs,) = json.loads(run("ceph", "fs", "dump", "--format", "json"))["filesystems"]
        (mds,) = fs["mdsmap"]["info"].values()
        about = {
            "listens": {
                "mon": (next(iter(mon.addresses.values())), MONITOR_PORTS),
                "osd": _listens(osd["public_addrs"]),
                "mds": _listens(mds["addrs"]),
            },
            "key": run("ceph", "auth", "get-key", "client.admin").strip(),
            "keyring": (mon.directory / "keyring").read_text(),
        }
        kernel = vm.fastest_first()[0]
        with vm.Machine(kernel=kernel, network=guest_network(cluster)) as machine:
            yield Client(cluster, machine, about)


def _listens(addrs: dict[str, Any]) -> tuple[str, list[int]]:
    """The address of a daemon, and its ports of v2 and v1."""
    pairs = [each["addr"].rpartition(":") for each in addrs["addrvec"]]
    ((host,), ports) = {host for host, _, _ in pairs}, [int(port) for _, _, port in pairs]
    return host, ports


@pytest.fixture(scope="module")
def lines(client: Client) -> list[Line]:
    output = client.run("tests.toolkit.cephfs.kernel_guest")
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def verified(client: Client) -> list[Line]:
    """Return fio's report, and the number of connections that each reset ended while it had requests."""
    found: list[Line] = []
    unread = b""

    def take(part: bytes) -> None:
        nonlocal unread
        *whole, unread = (unread + part).split(b"\n")
        for line in map(json.loads, whole):
            found.append(line)
            if "cut" in line:
                client.cluster.fault("partition guest0 osd")
            elif "stalled" in line:
                client.cluster.fault("heal guest0 osd")  # TCP sends again a moment later
            if during := line.get("stalled") or line.get("runs"):
                found.append({"reset": client.cluster.fault("reset guest0 osd"), "during": during})

    client.run("tests.toolkit.cephfs.fio_guest", take)
    return found


def only(lines: list[Line], **wanted: object) -> Line:
    """The one line with these values."""
    (found,) = (line for line in lines if all(line.get(name) == value for name, value in wanted.items()))
    return found


@pytest.mark.parametrize("mode", MODES)
def test_kernel_mounts_the_file_system_and_sees_the_files_of_other_modes(lines: list[Line], mode: str) -> None:
    line = only(lines, mounted=mode)
    assert line["wrong"] == []
    port = "(1)10.77.0.1:6789" if mode == "legacy" else "(2)10.77.0.1:3300"
    assert f"libceph: mon0 {port} session established" in line["log"]


@pytest.mark.parametrize(
    ("mode", "daemon", "rule"),
    [(mode, daemon, rule) for mode in MODES for steps in CUTS[mode].values() for daemon, rule in steps],
)
def test_each_step_is_done_despite_a_cut_link(lines: list[Line], mode: str, daemon: str, rule: str) -> None:
    line = only(lines, mode=mode, cut=rule)
    assert line["hits"] == 1
    assert any(f"libceph: {daemon}0 " in text and "socket closed" in text for text in line["log"]), line


@pytest.mark.parametrize("mode", MODES)
def test_files_have_the_content_and_the_names_that_were_written(lines: list[Line], mode: str) -> None:
    (line,) = (each for each in lines if each.get("mode") == mode and "cut" not in each)
    assert line["wrong"] == []


@pytest.mark.parametrize("mode", MODES)
def test_kernel_resumes_sessions_with_the_mds_and_opens_new_ones_with_osds(lines: list[Line], mode: str) -> None:
    for steps in CUTS[mode].values():
        for daemon, rule in steps:
            assert (only(lines, mode=mode, cut=rule)["resumed"] > 0) == (daemon == "mds")


@pytest.mark.parametrize("mode", MODES)
def test_a_block_is_written_to_an_image_despite_a_cut_link(lines: list[Line], mode: str) -> None:
    line = only(lines, mapped=mode)
    assert (line["same"], line["hits"]) == (True, 1)


@pytest.mark.needs("fio")
@pytest.mark.parametrize("what", ["file", "image"])
def test_requests_wait_at_a_partition_and_are_done_after_it(verified: list[Line], what: str) -> None:
    stalled = only(verified, stalled=what)
    assert (stalled["ended"], stalled["waiting_bytes"] > 0) == (None, True)
    assert only(verified, on=what, done="written") == {
        "on": what,
        "done": "written",
        "code": 0,
        "errors": "",
        "write": FIO_BYTES,
        "read": 0,
    }


@pytest.mark.needs("fio")
@pytest.mark.parametrize("what", ["file", "image"])
def test_blocks_written_across_resets_have_their_checksums(verified: list[Line], what: str) -> None:
    resets = [line["reset"] for line in verified if line.get("during") == what]
    assert "1 connection" in resets
    assert any("libceph: osd0 " in line for line in only(verified, of=what)["log"])
    read = only(verified, on=what, done="verified")
    assert (read["code"], read["errors"], read.get("read")) == (0, "", FIO_BYTES)
