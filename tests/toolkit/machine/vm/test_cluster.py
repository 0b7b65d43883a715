"""A cluster in a virtual machine: its links are impaired by the netem of the guest's kernel."""

import json

from tests.support.guests import PATIENCE_S, in_guest
from toolkit.machine import vm


@in_guest("iproute2")
def test_links_of_a_cluster_are_impaired_by_netem(guest: vm.Machine) -> None:
    done = guest.run_module("tests.toolkit.machine.vm.cluster_guest", timeout_s=PATIENCE_S)
    assert (done.code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert "qdisc netem" in found["queues"]
    assert "delay 50ms" in found["queues"]
    assert (found["failed"], found["left"]) == ([], [])
