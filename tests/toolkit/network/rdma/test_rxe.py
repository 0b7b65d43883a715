"""Soft-RoCE devices, in a machine whose kernel has them: made, listed, removed, and undone."""

import json
from typing import Any

import pytest

from tests.support.guests import PATIENCE_S, in_guest
from toolkit.errors import Unsupported
from toolkit.machine import rdma as netlink
from toolkit.machine import vm
from toolkit.network import rdma

in_machine = in_guest()


@pytest.fixture(scope="module")
def results(guest: vm.Machine) -> dict[str, Any]:
    done = guest.run_module("tests.toolkit.network.rdma.guest", timeout_s=PATIENCE_S)
    assert done.code == 0, done
    return {key: value for line in done.stdout.splitlines() for key, value in json.loads(line).items()}


@in_machine
def test_devices_are_made_on_both_ends_of_a_veth_pair(results: dict[str, Any]) -> None:
    assert (results["before"], results["receives"]) == ([], False)
    assert results["made"] == results["devices"][0]
    assert [(each["name"], each["interface"], each["is_active"]) for each in results["devices"]] == [
        ("rxe0", "va", True),
        ("rxe1", "vb", True),
    ]
    assert results["receives_now"] is True
    assert results["doctor"] == "module, loaded; 2 devices, shared by network namespaces"


@in_machine
def test_devices_are_seen_from_other_namespaces(results: dict[str, Any]) -> None:
    assert results["shared"] is True
    assert results["elsewhere"] == ["rxe0", "rxe1"]


@in_machine
def test_refused_rdma_device_is_named_and_not_journaled(results: dict[str, Any]) -> None:
    assert results["name_taken"] == "RDMA device rxe0 on vb: a device of that name exists already"
    assert results["interface_taken"] == "RDMA device rxe2 on va: the interface has a device already"
    assert results["no_interface"] == "RDMA device rxe2 on vc: there is no such interface"
    assert results["changes"] == [{"change": "RdmaLink", "name": name} for name in ("rxe0", "rxe1")]


@in_machine
def test_devices_are_removed_and_undone(results: dict[str, Any]) -> None:
    assert results["removed"] == ["rxe1"]
    assert (results["remains"], results["undone"], results["directory"]) == ([], [], False)


@in_machine
def test_a_device_goes_with_its_interface(results: dict[str, Any]) -> None:
    assert (results["without_interface"], results["undone_late"]) == ([], [])


def test_a_kernel_without_rdma_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "_NETLINK_RDMA", 31)  # a family that no kernel has
    with pytest.raises(Unsupported, match="this kernel has no RDMA: msgrlab vm run -- CMD runs a kernel with it"):
        rdma.devices()
    netlink.remove_rxe("rxe0")
