"""The guest's part of the test of soft-RoCE: prints a line of JSON for each result."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp

from pyroute2 import netns

from messenger.errors import LocalError
from toolkit.doctor.kernel import soft_roce
from toolkit.machine.changes import Tree
from toolkit.machine.journal import Journal
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network import namespaces, rdma


def report(**result: object) -> None:
    print(json.dumps(result), flush=True)  # noqa: T201 - what this is for


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except LocalError as error:
        return str(error)
    return ""


def listed() -> list[dict[str, object]]:
    return [asdict(device) for device in rdma.devices()]


def main() -> None:
    subprocess.run(["modprobe", "--remove", "rdma_rxe"], check=True)  # as in a machine that has just booted
    directory = Path(mkdtemp())
    journal = Journal(directory)
    journal.note(Tree(str(directory)))
    with rtnetlink() as route:
        route.link("add", ifname="va", kind="veth", peer={"ifname": "vb"})
        for name in ("va", "vb"):
            route.link("set", index=route.link_lookup(ifname=name)[0], state="up")
    report(before=listed(), shared=rdma.are_shared(), receives=rdma.is_receiving())
    made = rdma.create("rxe0", "va", journal)
    rdma.create("rxe1", "vb", journal)
    report(made=asdict(made), devices=listed(), receives_now=rdma.is_receiving(), doctor=soft_roce().detail)
    report(
        name_taken=refusal(lambda: rdma.create("rxe0", "vb", journal)),
        interface_taken=refusal(lambda: rdma.create("rxe2", "va", journal)),
        no_interface=refusal(lambda: rdma.create("rxe2", "vc", journal)),
        changes=[change.as_json() for change in journal.changes()[1:]],
    )
    space = namespaces.create("other")
    report(elsewhere=[device.name for device in namespaces.inside(space, rdma.devices)])
    netns.remove(space.name)
    rdma.remove("rxe0")
    rdma.remove("never")
    report(removed=[device["name"] for device in listed()])
    report(remains=journal.undo(), undone=listed(), directory=directory.exists())
    last = Path(mkdtemp())
    rdma.create("rxe3", "va", Journal(last))
    with rtnetlink() as route:
        route.link("del", index=route.link_lookup(ifname="va")[0])
    report(without_interface=listed(), undone_late=Journal(last).undo())


if __name__ == "__main__":
    main()
