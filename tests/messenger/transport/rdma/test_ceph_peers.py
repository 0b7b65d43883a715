"""Ceph's own daemons and client as peers over RDMA, in a machine with soft-RoCE."""

import json

import pytest

from tests.messenger.transport.rdma.ceph_guest import checks
from tests.support.guests import PATIENCE_S, marks
from toolkit.machine import vm

pytestmark = marks("pyverbs", "iproute2", "ceph-mon", "ceph-osd", "ceph-authtool", "ceph")


@pytest.fixture(scope="module")
def results(guest: vm.Machine) -> dict[str, str]:
    done = guest.run_module("tests.messenger.transport.rdma.ceph_guest", timeout_s=PATIENCE_S)
    found = {(result := json.loads(line))["name"]: result["error"] for line in done.stdout.splitlines()}
    return found | {"all": f"{done.stderr}\nexit code {done.code}"}


@pytest.mark.parametrize("name", [name for name, _ in checks()])
def test_messages_cross_queue_pairs_with_ceph(results: dict[str, str], name: str) -> None:
    assert results.get(name, f"did not run: {results['all']}") == ""


def test_guest_prints_only_the_results_and_exit_code_0(results: dict[str, str]) -> None:
    assert results["all"] == "\nexit code 0"
