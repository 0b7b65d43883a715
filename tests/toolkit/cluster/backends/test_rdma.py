"""Clusters over RDMA: what specs and other machines refuse, and in a machine with soft-RoCE all of their life."""

import json
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.clusters import state
from tests.support.guests import OTHERS, PATIENCE_S, in_guest
from tests.toolkit.cluster.backends.rdma_guest import SPEC
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.live import LIVE
from toolkit.checks.merge import in_order
from toolkit.cluster import up
from toolkit.cluster.spec_lookup import spec_from
from toolkit.errors import Unsupported
from toolkit.machine import rdma as netlink
from toolkit.machine import vm
from toolkit.machine.leases import leases

__all__ = ["state"]

in_machine = in_guest("pyverbs", group=OTHERS)


@pytest.fixture(scope="module")
def results(guest: vm.Machine) -> dict[str, Any]:
    assert guest.out is not None
    path = guest.out / "rdma.ndjson"
    done = guest.run_module("tests.toolkit.cluster.backends.rdma_guest", str(path), timeout_s=PATIENCE_S)
    assert done.code == 0, done
    found = {(line := json.loads(text))["name"]: line["result"] for text in done.stdout.splitlines()}
    return found | {"history": History(in_order(History.load(path)))}


@in_machine
def test_each_node_has_a_device_which_the_journal_knows(results: dict[str, Any]) -> None:
    found = results["what_there_is"]
    assert found["options"] == {"a": "async+rdma", "b": "async+rdma"}
    assert [is_active for _, is_active in found["devices"]] == [True, True]
    assert found["changes"] == ["Tree", "Processes", "Interface", *["Interface", "RdmaLink"] * 2, "Processes"]


@in_machine
def test_links_fail_while_the_port_is_down(results: dict[str, Any]) -> None:
    found = results["port_down"]
    assert "went down" in found["fault"]
    assert (sorted(found["active"]), found["lasting"], found["left"]) == ([False, True], ["rdma-down a"], [])


@in_machine
def test_a_removed_device_comes_back_with_heal(results: dict[str, Any]) -> None:
    found = results["device_removed"]
    assert (found["answer"], found["lasting"], found["left"]) == ("", ["rdma-remove a"], [])
    assert (found["removed"], found["noted"]) == ([found["again"]], 2)
    assert found["has_new_index"]


@in_machine
def test_a_black_hole_drops_full_packets_of_devices_only(results: dict[str, Any]) -> None:
    assert results["narrow"] == {"held": True, "same_link": True, "tables": []}


@in_machine
def test_messages_to_a_node_without_receive_buffers_wait(results: dict[str, Any]) -> None:
    assert results["not_ready"] == {"same_link": True}


@in_machine
def test_packets_of_devices_are_impaired_blocked_and_healed(results: dict[str, Any]) -> None:
    found = results["impaired"]
    assert "has lost its address" in found.pop("address_fault")
    assert found == {"state": "delay 20ms, loss 2%", "blocked": True, "healed": "no impairments"}


@in_machine
def test_a_reset_of_the_introduction_is_a_fault_of_the_link(results: dict[str, Any]) -> None:
    assert results["reset"] == {"answer": "1 connection"}


@in_machine
def test_rdma_backend_refuses_nat(results: dict[str, Any]) -> None:
    assert results["refused"] == {"nat a b": "nat a b: RDMA packets pass no NAT"}


@in_machine
def test_a_killed_node_comes_back_on_its_device(results: dict[str, Any]) -> None:
    assert results["killed"] == {"incarnation": 2}


@in_machine
def test_a_device_comes_and_goes_with_its_node(results: dict[str, Any]) -> None:
    assert [len(results["changed"][when]) for when in ("with", "without")] == [3, 2]


@in_machine
def test_all_invariants_hold(results: dict[str, Any]) -> None:
    judged = check(results["history"], [invariant.id for invariant in LIVE])
    assert [str(result) for result in judged if not result.ok] == []
    assert {record.node for record in results["history"] if record.kind == "deliver"} == {"a", "b"}


@in_machine
@pytest.mark.parametrize("end", ["remains", "after_a_crash"])
def test_rdma_backend_removes_devices_interfaces_and_rules(results: dict[str, Any], end: str) -> None:
    found = results[end]
    assert (found["devices"], found["tables"], found.get("problems", [])) == ([], [], [])
    assert [name for name in results[end]["interfaces"] if name.startswith("ml")] == []


# ---- without a machine


def test_a_kernel_without_rdma_is_one_line_and_leaves_nothing(
    state: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netlink, "_NETLINK_RDMA", 31)  # a family that no kernel has
    wanted = "transport rdma: this kernel has no RDMA: --backend vm has a kernel with it"
    with pytest.raises(Unsupported, match=wanted), up(SPEC):
        pass
    assert list(leases()) == []


def test_other_backends_refuse_the_transport(state: object) -> None:
    wanted = "transport rdma: nodes on netns have no such devices: --backend process"
    with pytest.raises(Unsupported, match=wanted), up(SPEC, backend="netns"):
        pass


@pytest.mark.parametrize(
    ("setting", "mistake"),
    [
        ("proxies=[{from: a, to: b}]", "proxies: frames of RDMA links pass no proxy"),
        ("transport=tls", "transport"),
    ],
)
def test_specs_refuse_what_rdma_links_do_not_have(setting: str, mistake: str) -> None:
    with pytest.raises(LocalError, match=mistake):
        spec_from(SPEC, [setting])


def test_daemons_of_nautilus_are_refused() -> None:
    with pytest.raises(LocalError, match=r"ceph\.release: listeners of nautilus answer without the queue pair"):
        spec_from("rdma-ceph", ["ceph.release=nautilus"])


@pytest.mark.parametrize(
    "fault", ["rdma-down a", "rdma-remove a", "gid-change a", "not-ready a b", "qp-error a b"]
)
def test_clusters_over_tcp_refuse_faults_of_devices(state: object, fault: str) -> None:
    with (
        up("two-peers") as cluster,
        pytest.raises(LocalError, match="the spec takes transport: rdma"),
    ):
        cluster.fault(fault)
