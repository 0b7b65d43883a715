"""The guest's part of the tests of clusters over RDMA: runs with soft-RoCE and prints JSON for each part."""

import json
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache

from messenger.errors import LocalError
from toolkit.cluster import Cluster, up
from toolkit.cluster.backends.base import Backend
from toolkit.cluster.spec_lookup import spec_from
from toolkit.cluster.zygote import Zygote
from toolkit.machine.changes import RdmaLink
from toolkit.machine.leases import Lease
from toolkit.machine.nft import tables
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network import rdma

PATIENCE_S = 90.0
"""For one condition."""
SPEC = "rdma-two-peers"
_SLOWER = "traffic=[{from: a, to: b, every_ms: 200}, {from: b, to: a, every_ms: 200}]"
"""Half of the traffic, which takes an emulated machine most of its time."""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something has happened; the machine may be emulated, on a busy machine."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.1)


def session(cluster: Cluster, node: str, peer: str) -> dict[str, object]:
    return dict(cluster.nodes[node].command("session", peer=peer))


class Seen:
    """What the records of a cluster show. Each record is read once: Python may be emulated."""

    def __init__(self, cluster: Cluster) -> None:
        self._history = cluster.history
        self._read = 0
        self._delivered: Counter[str] = Counter()
        self._faults: dict[str, list[str]] = defaultdict(list)

    def delivered(self, node: str) -> int:
        """Number of messages that a node has received."""
        self._follow()
        return self._delivered[node]

    def faults_of(self, node: str) -> list[str]:
        """The details of a node's faults so far."""
        self._follow()
        return list(self._faults[node])

    def _follow(self) -> None:
        self._read, records = self._history.behind(self._read, sys.maxsize)
        for record in records:
            if record.kind == "deliver":
                self._delivered[record.node] += 1
            elif record.kind == "fault":
                self._faults[record.node].append(str(record.fields["detail"]))


@cache
def seen(cluster: Cluster) -> Seen:
    return Seen(cluster)


def delivered(cluster: Cluster, node: str) -> int:
    return seen(cluster).delivered(node)


def faults_of(cluster: Cluster, node: str) -> list[str]:
    return seen(cluster).faults_of(node)


def more_arrive(cluster: Cluster) -> None:
    """Wait until messages pass in both directions."""
    for node in ("a", "b"):
        before = delivered(cluster, node)
        wait_until(lambda node=node, before=before: delivered(cluster, node) > before + 2, f"messages at {node}")  # type: ignore[misc]


def is_quiet(cluster: Cluster) -> bool:
    """True if nothing has arrived for two seconds, in which both nodes have sent ten messages."""
    before = delivered(cluster, "a"), delivered(cluster, "b")
    time.sleep(2.0)
    return before == (delivered(cluster, "a"), delivered(cluster, "b"))


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except LocalError as error:
        return str(error)
    return ""


def what_there_is(cluster: Cluster) -> dict[str, object]:
    """The devices and options of a cluster that has just come up."""
    more_arrive(cluster)
    options = {node.name: node.spec.options["ms_type"] for node in cluster.messengers()}
    devices = [(device.name, device.is_active) for device in rdma.devices()]
    changes = [type(change).__name__ for change in cluster.lease.journal.changes()]
    return {"options": options, "devices": devices, "changes": changes}


def port_down(cluster: Cluster) -> dict[str, object]:
    """The port of a device goes down, and comes up again."""
    count = len(faults_of(cluster, "a"))
    cluster.fault("rdma-down a")
    # A send that fails before the port's event is handled comes first; further dials report the port.
    wait_until(lambda: any("went down" in each for each in faults_of(cluster, "a")[count:]), "a fault of the port")
    found = next(each for each in faults_of(cluster, "a")[count:] if "went down" in each)
    lasting = [str(fault) for fault in cluster.scene_faults()]
    active = {device.interface: device.is_active for device in rdma.devices()}
    cluster.fault("rdma-up a")
    more_arrive(cluster)
    left = [str(fault) for fault in cluster.scene_faults()]
    return {"fault": found, "lasting": lasting, "active": list(active.values()), "left": left}


def device_removed(cluster: Cluster) -> dict[str, object]:
    """A device is removed while its links are up, and created again."""
    count = len(faults_of(cluster, "a"))
    index = {device.name: device.index for device in rdma.devices()}
    answer = cluster.fault("rdma-remove a")
    there = [device.name for device in rdma.devices()]
    wait_until(lambda: any("no RDMA device" in each for each in faults_of(cluster, "a")[count:]), "a failed dial")
    lasting = [str(fault) for fault in cluster.scene_faults()]
    noted = sum(isinstance(change, RdmaLink) for change in cluster.lease.journal.changes())
    cluster.fault("heal")
    more_arrive(cluster)
    (again,) = (device for device in rdma.devices() if device.name not in there)
    return {
        "answer": answer,
        "removed": sorted(index.keys() - there),
        "lasting": lasting,
        "noted": noted,
        "again": again.name,
        "has_new_index": again.index != index[again.name],
        "left": [str(fault) for fault in cluster.scene_faults()],
    }


def narrow(cluster: Cluster) -> dict[str, object]:
    """A path drops long packets; messages of the traffic pass, and a large one holds all that follow."""
    before = session(cluster, "a", "b")
    cluster.fault("black-hole a b 600")
    more_arrive(cluster)
    cluster.nodes["a"].command("send", peer="b", size_bytes=5000)
    count = delivered(cluster, "b")
    wait_until(lambda: int(str(session(cluster, "a", "b")["sent"])) > 10, "unacknowledged messages of a")
    held = delivered(cluster, "b") <= count + 2
    cluster.fault("undo black-hole a b 600")
    more_arrive(cluster)
    same_link = session(cluster, "a", "b")["connect_seq"] == before["connect_seq"]
    return {"held": held, "same_link": same_link, "tables": tables("bridge")}


def not_ready(cluster: Cluster) -> dict[str, object]:
    """A node posts no receive buffers: its peer's messages wait until it posts them again."""
    before = session(cluster, "a", "b")
    cluster.fault("not-ready b a")
    wait_until(lambda: int(str(session(cluster, "a", "b")["sent"])) > 10, "unacknowledged messages of a")
    cluster.fault("undo not-ready b a")
    more_arrive(cluster)
    return {"same_link": session(cluster, "a", "b")["connect_seq"] == before["connect_seq"]}


def impaired(cluster: Cluster) -> dict[str, object]:
    """Packets are delayed and lost, also to another address; then none pass; then all do."""
    cluster.fault("link a b delay-ms=20 loss=2")
    more_arrive(cluster)
    count = len(faults_of(cluster, "b"))
    cluster.fault("gid-change b")
    wait_until(lambda: len(faults_of(cluster, "b")) > count, "a fault at b")
    more_arrive(cluster)
    address_fault = faults_of(cluster, "b")[count]
    state = str(cluster.network.link("a", "b"))
    cluster.fault("partition a b")
    blocked = cluster.network.is_blocked("a", "b")
    wait_until(lambda: is_quiet(cluster), "silence")
    cluster.fault("heal")
    more_arrive(cluster)
    healed = str(cluster.network.link("a", "b"))
    return {"address_fault": address_fault, "state": state, "blocked": blocked, "healed": healed}


def reset(cluster: Cluster) -> dict[str, object]:
    """The TCP connection that introduced the queue pairs is reset."""
    count = len(faults_of(cluster, "a")) + len(faults_of(cluster, "b"))
    answer = cluster.fault("reset a b")
    wait_until(lambda: len(faults_of(cluster, "a")) + len(faults_of(cluster, "b")) > count, "a fault")
    more_arrive(cluster)
    return {"answer": answer}


def refused(cluster: Cluster) -> dict[str, object]:
    """Return the errors for what clusters over RDMA do not support."""
    return {"nat a b": refusal(lambda: cluster.fault("nat a b"))}


def killed(cluster: Cluster) -> dict[str, object]:
    """A node is killed and begins a new life on the same device."""
    cluster.fault("kill b")
    cluster.fault("start b")
    more_arrive(cluster)
    return {"incarnation": cluster.nodes["b"].status()["incarnation"]}


def changed(cluster: Cluster) -> dict[str, object]:
    """A node comes with a device of its own, and goes with it."""
    cluster.add_node("c", entity="osd.3")
    there = [device.name for device in rdma.devices()]
    cluster.nodes["c"].command("send", peer="a", count=2)
    wait_until(lambda: session(cluster, "c", "a").get("state") == "READY", "a session of c")
    cluster.remove_node("c")
    return {"with": there, "without": [device.name for device in rdma.devices()]}


PARTS = (
    *(what_there_is, port_down, device_removed, narrow, not_ready, impaired, reset, refused),
    *(killed, changed),
)


def remains() -> dict[str, object]:
    """Return what a cluster that is down has left in the machine."""
    with rtnetlink() as route:
        interfaces = [link.get("ifname") for link in route.get_links()]
    devices = [device.name for device in rdma.devices()]
    return {"devices": devices, "interfaces": interfaces, "tables": tables("bridge")}


def after_a_crash() -> dict[str, object]:
    """A cluster whose journal undoes it, while its nodes run and faults are in force."""
    cluster = Cluster(spec_from(SPEC), Lease.take("crashed"))
    cluster.up()
    cluster.fault("black-hole a b 600")
    cluster.fault("rdma-remove b")
    return {"problems": cluster.lease.journal.undo()} | remains()


def report(name: str, part: Callable[[], dict[str, object]]) -> None:
    began_s = time.monotonic()
    try:
        result: dict[str, object] = part()
    except BaseException:  # noqa: BLE001 - reported by the test of that part
        result = {"error": traceback.format_exc()}
    took_s = round(time.monotonic() - began_s, 1)
    print(json.dumps({"name": name, "result": result, "took_s": took_s}), flush=True)  # noqa: T201


def main() -> None:
    Backend.zygote = Zygote(has_payloads=False)
    history, *wanted = sys.argv[1:]
    with up(spec_from(SPEC, [_SLOWER])) as cluster:
        for part in PARTS:
            if not wanted or part.__name__ in wanted:
                report(part.__name__, lambda part=part: part(cluster))  # type: ignore[misc]
    cluster.history.so_far().save(history)  # judged elsewhere, where Python is quick
    report("remains", remains)
    report("after_a_crash", after_a_crash)


if __name__ == "__main__":
    main()
