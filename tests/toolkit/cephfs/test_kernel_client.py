"""Linux's own Ceph client on a real cluster: the virtual machine is one more host of the cluster's network."""

import json
import os
from typing import Any

import pytest

from tests.support.guests import PATIENCE_S, marks
from tests.toolkit.cephfs.kernel_cases import CUTS, IMAGE, MODES, POOL
from toolkit.cluster import up
from toolkit.cluster.guest_network import guest_network
from toolkit.cluster.spec import parse_spec
from toolkit.machine import vm

pytestmark = marks("netns", "nft", "ceph-mds", "ceph-osd", "ceph-mon", "ceph")
Line = dict[str, Any]
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


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    with up(parse_spec(SPEC, "kernel-fs.yaml"), name=f"kernel-fs-{os.getpid()}") as cluster:
        mon = cluster.nodes["mon"].host

        def run(*words: str) -> str:
            return mon.run(words[0], "-c", str(mon.directory / "ceph.conf"), *words[1:])

        run("ceph", "osd", "pool", "create", POOL, "4")
        run("rbd", "create", "--size", "16M", "--image-feature", "layering", f"{POOL}/{IMAGE}")
        about = {
            "addresses": {name: next(iter(node.host.addresses.values())) for name, node in cluster.nodes.items()},
            "key": run("ceph", "auth", "get-key", "client.admin").strip(),
            "keyring": (mon.directory / "keyring").read_text(),
        }
        with vm.Machine(network=guest_network(cluster.lease.label, cluster.status())) as machine:
            done = machine.run_module("tests.toolkit.cephfs.kernel_guest", json.dumps(about), timeout_s=PATIENCE_S)
    assert (done.code, done.stderr) == (0, ""), done
    return [json.loads(line) for line in done.stdout.splitlines()]


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
