"""Speaking with the kernel about networks."""

import asyncio
import socket
from ipaddress import ip_network

import pytest

from toolkit.machine.rtnetlink import Neighbour, rtnetlink, set_neighbours
from toolkit.network.namespaces import in_new

pytestmark = pytest.mark.needs("netns")


def test_rtnetlink_works_inside_an_event_loop() -> None:
    async def in_a_notebook() -> list[int]:
        with rtnetlink() as route:
            found = list(route.link_lookup(ifname="lo"))
        assert asyncio.get_running_loop().is_running()
        await asyncio.sleep(0)
        return found

    assert asyncio.run(in_a_notebook()) == [1]


def test_neighbours_are_set_together_and_replace_earlier_ones() -> None:
    network = ip_network("10.1.0.0/16")

    def attempt() -> dict[str, str]:
        with rtnetlink() as route:
            route.link("add", ifname="v0", kind="veth", peer="v1")
            route.link("set", index=socket.if_nametoindex("v0"), state="up")
        index = socket.if_nametoindex("v0")
        set_neighbours([Neighbour(index, network[1], "02:00:00:00:00:99")])
        macs = {n: f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}" for n in range(1, 601)}
        set_neighbours([Neighbour(index, network[n], mac) for n, mac in macs.items()])
        with pytest.raises(OSError, match="No such device"):
            set_neighbours([Neighbour(index + 7, network[1], "02:00:00:00:00:01")])
        with rtnetlink() as route:
            return {each.get("NDA_DST"): each.get("NDA_LLADDR") for each in route.get_neighbours(ifindex=index)}

    found = in_new(attempt)
    assert found["10.1.0.1"] == "02:00:00:00:00:01"
    assert found["10.1.2.88"] == "02:00:00:00:02:58"
    assert len([address for address in found if address.startswith("10.1.")]) == 600
