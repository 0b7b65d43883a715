"""Frames of impaired links go through the wire, and no others; the counters of its taps show which."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from messenger.errors import LocalError
from tests.support.hosts import Hosts, make_hosts
from tests.support.machine import new_lease  # noqa: F401 - a fixture
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease
from toolkit.machine.nft import nft, tables
from toolkit.network.links import Links, open_links
from toolkit.network.namespaces import within
from toolkit.network.state import LinkState
from toolkit.network.wire import forwarding, steering

pytestmark = [pytest.mark.needs("netns", "tun"), pytest.mark.needs("nft-fwd")]

_PATIENCE_S = 10.0
_ETHERTYPE = b"\x88\xb5"
"""For experiments (IEEE 802)."""


def state(text: str) -> LinkState:
    return LinkState.from_text(text)


@pytest.fixture
def hosts(new_lease: Callable[[], Lease]) -> Hosts:  # noqa: F811
    return make_hosts(new_lease(), "abc")


@pytest.fixture
def links(hosts: Hosts) -> Iterator[Links]:
    with open_links(hosts.cables, way="wire") as links:
        yield links


def in_wire(hosts: Hosts) -> int:
    """Number of frames that the wire was given."""
    from pyroute2 import IPRoute

    with within(hosts.switch), IPRoute() as route:
        taps = [link for link in route.get_links() if link.get("ifname").startswith("t")]
        return sum(link.get_attr("IFLA_STATS64")["tx_packets"] for link in taps)


def numbers(arrived: list[tuple[int, float]]) -> list[int]:
    return [number for number, _ in arrived]


def bypassed(hosts: Hosts, sender: str, receiver: str) -> bool:
    """True if frames of a link do not go through the wire."""
    before = in_wire(hosts)
    assert len(hosts.send(sender, receiver, 3)) == 3
    return in_wire(hosts) == before


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s


def test_only_frames_of_impaired_links_go_through_the_wire(hosts: Hosts, links: Links) -> None:
    links.set({("a", "b"): state("delay 1ms")})
    for sender, receiver in (("a", "c"), ("c", "a"), ("b", "a"), ("b", "c"), ("c", "b")):
        assert len(hosts.send(sender, receiver, 20)) == 20
    assert in_wire(hosts) == 0
    assert len(hosts.send("a", "b", 20)) == 20
    assert in_wire(hosts) == links.passed()["a", "b"].packets == 20
    links.set({("a", "c"): state("delay 1ms"), ("c", "b"): state("loss 100%")})
    assert len(hosts.send("a", "c", 20)) == 20
    assert hosts.send("c", "b", 20) == []
    assert in_wire(hosts) == 60


def test_all_links_of_a_host_can_be_impaired(hosts: Hosts, links: Links) -> None:
    links.set({("a", other): state("loss 100%") for other in "bc"})
    assert hosts.send("a", "b", 20) == hosts.send("a", "c", 20) == []
    assert len(hosts.send("b", "a", 20)) == len(hosts.send("b", "c", 20)) == 20
    assert in_wire(hosts) == 40


def test_frames_to_all_hosts_are_not_impaired(hosts: Hosts, links: Links) -> None:
    links.set({("a", other): state("loss 100%") for other in "bc"})
    cables = {cable.host: cable for cable in hosts.cables}

    def packets(name: str) -> socket.socket:
        with within(cables[name].namespace):
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, int.from_bytes(_ETHERTYPE, "big"))
        made.bind(("eth0", int.from_bytes(_ETHERTYPE, "big")))
        made.settimeout(_PATIENCE_S)
        return made

    with packets("a") as a, packets("b") as b, packets("c") as c:
        frame = b"\xff" * 6 + bytes.fromhex(cables["a"].mac.replace(":", "")) + _ETHERTYPE + b"hello".ljust(46)
        a.send(frame)
        assert b.recv(100) == c.recv(100) == frame
    assert in_wire(hosts) == 0


def test_bridge_sends_no_frames_for_an_impaired_host_to_others(hosts: Hosts, links: Links) -> None:
    links.set({("a", other): state("loss 100%") for other in "bc"})
    with within(hosts.switch):
        from pyroute2 import IPRoute

        with IPRoute() as route:
            known = [entry for entry in route.fdb("dump") if entry.get_attr("NDA_LLADDR") == hosts.cables[0].mac]
    assert [entry["state"] for entry in known] == [0x40]


def test_frames_stay_in_order_while_links_change_under_traffic(hosts: Hosts, links: Links) -> None:
    arrived: list[int] = []
    count = 20_000
    sender = threading.Thread(target=lambda: arrived.extend(numbers(hosts.send("a", "b", count))))
    links.set({("a", "b"): state("delay 5ms, limit 100000")})
    sender.start()
    while sender.is_alive():
        links.set({("a", "b"): state("no impairments")})
        links.set({("a", "b"): state("delay 5ms, limit 100000")})
    sender.join()
    assert arrived == list(range(count))


def test_healed_link_leaves_the_wire_in_order_after_a_pause(hosts: Hosts, links: Links) -> None:
    links.set({("a", "b"): state("delay 50ms")})
    arrived: list[int] = []
    sender = threading.Thread(target=lambda: arrived.extend(numbers(hosts.send("a", "b", 1000, every_s=0.0005))))
    sender.start()
    wait_until(lambda: links.passed()["a", "b"].queued > 0)
    links.set({("a", "b"): state("no impairments")})
    sender.join()
    assert arrived == list(range(1000))
    assert links.get("a", "b") == LinkState()
    wait_until(lambda: bypassed(hosts, "a", "b"))
    links.set({("a", "b"): state("loss 100%")})
    assert hosts.send("a", "b", 3) == []


def test_healed_link_stays_in_the_wire_until_a_pause(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "PAUSE_MS", 60_000)
    with open_links(hosts.cables, way="wire") as links:
        links.set({("a", "b"): state("delay 1ms")})
        links.heal()
        assert numbers(hosts.send("a", "b", 20)) == list(range(20))
        assert in_wire(hosts) == links.passed()["a", "b"].packets == 20
        assert bypassed(hosts, "b", "a")


def test_each_healing_begins_a_grace_period(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "PAUSE_MS", 60_000)

    def rest_s() -> int:
        """Seconds until the first grace period ends."""
        with within(hosts.switch):
            found = re.findall(r'"expires": (\d+)', nft("-j", "list", "ruleset", "netdev"))
        return min(map(int, found))

    with open_links(hosts.cables, way="wire") as links:
        for _ in range(2):
            links.set({("a", "b"): state("delay 1ms")})
            links.heal()
            assert rest_s() >= 59
            wait_until(lambda: rest_s() < 59)


def rules(hosts: Hosts) -> list[str]:
    with within(hosts.switch):
        return tables("netdev")


def test_nothing_remains_after_closing(hosts: Hosts, links: Links) -> None:
    from pyroute2 import IPRoute

    for _ in range(2):
        links.set({("a", "b"): state("loss 100%")})
        assert rules(hosts) == ["msgrlab_wire"]
        links.close()
        assert rules(hosts) == []
        with within(hosts.switch), IPRoute() as route:
            assert not [link for link in route.get_links() if link.get("ifname").startswith("t")]
            assert not [entry for entry in route.fdb("dump") if entry["state"] == 0x40]
        assert len(hosts.send("a", "b", 3)) == 3


def kill_wire(links: Links) -> None:
    found = re.search(r"process (\d+)", links.describe())
    assert found is not None
    os.kill(int(found[1]), signal.SIGKILL)
    wait_until(lambda: "has ended" in links.describe())


def test_a_killed_wire_costs_impaired_links_only(hosts: Hosts, links: Links) -> None:
    links.set({("a", "b"): state("delay 1ms")})
    kill_wire(links)
    assert "packets of impaired links go nowhere" in links.describe()
    assert hosts.send("a", "b", 3) == []
    assert len(hosts.send("b", "a", 3)) == len(hosts.send("a", "c", 3)) == 3
    with pytest.raises(LocalError, match="the wire has ended"):
        links.set({("a", "c"): state("loss 1%")})
    links.close()
    assert rules(hosts) == []
    assert len(hosts.send("a", "b", 3)) == 3


def test_journal_removes_rules_and_taps_on_the_machine_itself(new_lease: Callable[[], Lease]) -> None:  # noqa: F811
    lease = new_lease()
    hosts = make_hosts(lease, "abc", on_machine=True)
    table = lease.label.table("wire")
    links = open_links(hosts.cables, way="wire", note=lease.journal.note, table=table)
    links.set({("a", "b"): state("loss 100%")})
    assert hosts.send("a", "b", 3) == []
    assert len(hosts.send("a", "c", 3)) == 3
    assert table in tables("netdev")
    assert f"nft table {table}" in leftovers(lease)
    kill_wire(links)
    assert lease.journal.undo() == []
    # The fixture compares the rest with what was there before.
    assert table not in tables("netdev")
    links.close()


def test_without_rules_that_forward_the_wire_has_all_links(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "why_not", lambda: "nft: no such rule")
    with open_links(hosts.cables, way="wire", states={("a", "b"): state("delay 1ms")}) as links:
        assert links.describe().endswith(", for all links (nft: no such rule)")
        assert len(hosts.send("a", "c", 20)) == 20
        assert in_wire(hosts) >= 20
        assert rules(hosts) == []


def test_probe_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    forwarding.why_not.cache_clear()
    assert forwarding.why_not() == ""
    monkeypatch.setattr(forwarding, "PROBE", forwarding.PROBE.replace("fwd", "forward"))
    forwarding.why_not.cache_clear()
    assert "nft: " in forwarding.why_not()
    monkeypatch.setenv("PATH", "/nowhere")
    forwarding.why_not.cache_clear()
    assert "apt-get install nftables" in forwarding.why_not()
    forwarding.why_not.cache_clear()
