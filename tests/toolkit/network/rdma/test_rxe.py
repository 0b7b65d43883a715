"""Soft-RoCE devices, in a machine whose kernel has them: made, listed, removed, and undone."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import Unsupported
from toolkit.machine import rdma as netlink
from toolkit.machine import vm
from toolkit.network import rdma

TREE = Path(__file__).parents[4]
in_machine = pytest.mark.needs("vm")
grouped = pytest.mark.xdist_group("soft-RoCE in a machine")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    done = vm.run([sys.executable, "-B", "-m", "tests.toolkit.network.rdma.guest"], directory=TREE, timeout_s=200)
    assert done.code == 0, done
    return {key: value for line in done.stdout.splitlines() for key, value in json.loads(line).items()}


@in_machine
@grouped
def test_devices_are_made_on_both_ends_of_a_veth_pair(results: dict[str, Any]) -> None:
    assert (results["before"], results["receives"]) == ([], False)
    assert results["made"] == {"index": 0, "name": "rxe0", "interface": "va", "is_active": True}
    assert [(each["name"], each["interface"], each["is_active"]) for each in results["devices"]] == [
        ("rxe0", "va", True),
        ("rxe1", "vb", True),
    ]
    assert results["receives_now"] is True
    assert results["doctor"] == "module, loaded; 2 devices, shared by network namespaces"


@in_machine
@grouped
def test_devices_are_seen_from_other_namespaces(results: dict[str, Any]) -> None:
    assert results["shared"] is True
    assert results["elsewhere"] == ["rxe0", "rxe1"]


@in_machine
@grouped
def test_what_the_kernel_refuses_is_named_and_not_undone(results: dict[str, Any]) -> None:
    assert results["name_taken"] == "RDMA device rxe0 on vb: there is a device of that name already"
    assert results["interface_taken"] == "RDMA device rxe2 on va: the interface has a device already"
    assert results["no_interface"] == "RDMA device rxe2 on vc: there is no such interface"
    assert results["changes"] == [{"change": "RdmaLink", "name": name} for name in ("rxe0", "rxe1")]


@in_machine
@grouped
def test_devices_are_removed_and_undone(results: dict[str, Any]) -> None:
    assert results["removed"] == ["rxe1"]
    assert (results["remains"], results["undone"], results["directory"]) == ([], [], False)


@in_machine
@grouped
def test_a_device_goes_with_its_interface(results: dict[str, Any]) -> None:
    assert (results["without_interface"], results["undone_late"]) == ([], [])


def test_a_kernel_without_rdma_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "_NETLINK_RDMA", 31)  # a family that no kernel has
    with pytest.raises(Unsupported, match="this kernel has no RDMA: msgrlab vm run -- CMD runs one that has"):
        rdma.devices()
    netlink.remove_rxe("rxe0")
