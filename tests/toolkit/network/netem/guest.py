"""The guest's part of the test of netem: prints a line of JSON for each result."""

import json
import sys
from dataclasses import replace

from pyroute2 import IPRoute, netns

from tests.support.hosts import Hosts
from toolkit.errors import Unsupported
from toolkit.network.links import open_links
from toolkit.network.namespaces import within
from toolkit.network.netem import kernel
from toolkit.network.state import LinkState


def report(**result: object) -> None:
    print(json.dumps(result), flush=True)  # noqa: T201 - what this is for


def single(texts: list[str], counts: dict[str, int]) -> None:
    """One peer: netem is the queue of the interface."""
    hosts = Hosts("ab", lambda name: f"single-{name}")
    with open_links(hosts.cables) as links:
        for text in texts:
            state = LinkState.from_text(text)
            links.set({("a", "b"): state})
            result = {"set": text, "read": str(links.get("a", "b"))}
            if count := counts.get(text):
                before = links.passed()["a", "b"]
                arrived = hosts.send("a", "b", count, every_s=0.002)
                after = links.passed()["a", "b"]
                report(
                    **result,
                    numbers=[number for number, _ in arrived],
                    delays_ms=[delay_s * 1000 for _, delay_s in arrived],
                    lost=after.lost - before.lost,
                )
            else:
                report(**result)
        report(way=links.way, describe=links.describe(), backwards=str(links.get("b", "a")))
        try:
            links.set({("a", "b"): LinkState(seed=5, delay_ms=1)})
            report(seed=links.get("a", "b").seed)
        except Unsupported as error:
            report(seed=str(error))


def several() -> None:
    """More peers: a class for each."""
    hosts = Hosts("abc", lambda name: f"several-{name}")
    states = {("a", "b"): LinkState(delay_ms=30), ("a", "c"): LinkState.from_text("loss 100%")}
    with open_links(hosts.cables, states=states) as links:
        report(
            delays_ms=[delay_s * 1000 for _, delay_s in hosts.send("a", "b", 10)],
            to_c=len(hosts.send("a", "c", 10)),
            from_b=len(hosts.send("b", "c", 10)),
        )
        links.set({("a", "b"): LinkState(), ("a", "c"): LinkState(delay_ms=5)})
        report(
            to_b=len(hosts.send("a", "b", 10)), to_c=len(hosts.send("a", "c", 10)), read=str(links.get("a", "c"))
        )
        try:
            links.set({("a", "c"): LinkState(duplicate_percent=100)})
            report(duplicates=len(hosts.send("a", "c", 10)))
        except Unsupported as error:
            report(duplicates=str(error), read=str(links.get("a", "c")))
        links.heal()
        report(healed=[str(links.get("a", host)) for host in "bc"])
    with within(hosts.cables[0].namespace), IPRoute() as route:
        report(left=[queue.get_attr("TCA_KIND") for queue in route.get_qdiscs()])


def machines() -> None:
    """A host whose kernel cannot be changed, as that of a virtual machine: the wire impairs what it sends."""
    hosts = Hosts("abc", lambda name: f"machines-{name}")
    cables = [replace(cable, namespace=None) if cable.host == "c" else cable for cable in hosts.cables]
    pairs = [("a", "b"), ("a", "c"), ("c", "a"), ("c", "b")]
    with open_links(cables, states={pair: LinkState(delay_ms=30) for pair in pairs}) as links:
        links.set({("c", "b"): LinkState.from_text("loss 100%")})
        report(
            machine=links.describe(),
            delays_ms=[1000 * delay_s for pair in pairs[:3] for _, delay_s in hosts.send(*pair, 5)],
            lost=len(hosts.send("c", "b", 5)),
            clear=len(hosts.send("b", "c", 5)),
            read=[str(links.get(*pair)) for pair in pairs],
            passed=[links.passed()[pair].packets for pair in pairs],
        )
        links.heal()
        report(machine_healed=[str(links.get(*pair)) for pair in pairs])
    report(machine_left=[len(hosts.send(*pair, 5)) for pair in pairs])


def main() -> None:
    texts, counts = json.loads(sys.argv[1])
    report(netem=kernel.has_netem())
    single(texts, counts)
    several()
    machines()
    for name in netns.listnetns():
        netns.remove(name)


if __name__ == "__main__":
    main()
