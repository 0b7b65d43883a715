"""A cluster in a virtual machine: its links are impaired by the netem of the guest's kernel."""

import json
import sys

import pytest

from toolkit.machine import vm

PROGRAM = """\
import json, subprocess
from pathlib import Path
from toolkit.cluster import up

with up("two-peers", backend="netns") as cluster:
    cluster.fault("link a b delay-ms=50")
    (name,) = (path.name for path in Path("/run/netns").iterdir() if path.name.endswith("-a"))
    queues = subprocess.run(["tc", "-n", name, "qdisc"], capture_output=True, text=True, check=True).stdout
    failed = [str(result) for result in cluster.check() if not result.ok]
left = [path.name for path in Path("/run/netns").iterdir()]
print(json.dumps({"queues": queues, "failed": failed, "left": left}))
"""


@pytest.mark.needs("vm", "iproute2")
@pytest.mark.timeout(460)
def test_links_of_a_cluster_are_impaired_by_netem() -> None:
    done = vm.run([sys.executable, "-B", "-c", PROGRAM], timeout_s=400)
    assert (done.code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert "qdisc netem" in found["queues"]
    assert "delay 50ms" in found["queues"]
    assert (found["failed"], found["left"]) == ([], [])
