"""NF, MX and PK: what happens to packets, on networks that have some."""

from messenger.denc.address import EntityAddr
from toolkit.scenarios.families.mx import MX
from toolkit.scenarios.families.nf import NF
from toolkit.scenarios.families.pk import PK
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.scenario import ON_NETWORKS
from toolkit.scenarios.verbs.policies import PAIRS, Pair

_PACKETS = "takes packets of a kernel on a network of their own"
_LOSSLESS = {name: {"pair": PAIRS[name]} for name in ("peers", "client")}


def _both_ways(lab: Lab, rounds: int, pause_s: float) -> int:
    """Both send two messages a round; how many each has sent."""
    for _ in range(rounds):
        lab.send("a", "b", 2, 5000)
        lab.send("b", "a", 2, 5000)
        lab.wait(pause_s)
    return 2 * rounds


def _all_have_come(lab: Lab, count: int) -> None:
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_delivered(node, peer, count, within_s=60.0)
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle(within_s=60.0)


@NF.scenario("NF-03", "reorder_duplicate", priority=2, backends=ON_NETWORKS, only=_PACKETS, cases=_LOSSLESS)
def reorder_duplicate(lab: Lab, pair: Pair) -> None:
    """Packets that overtake each other, and packets that come twice, change nothing.

    A quarter of the packets leaves ahead of others that are delayed, one in twenty is there twice. TCP puts them
    in order; neither a link nor a session ends.
    """
    pair.start(lab)
    for way in ("a", "b"), ("b", "a"):
        lab.impair(*way, delay_ms=10, reorder_percent=25, duplicate_percent=5)
    lab.connect("a", "b")
    _all_have_come(lab, _both_ways(lab, 5, 0.1))
    for node in "ab":
        lab.require(not lab.faults(node), f"links of {node} broke: {lab.faults(node)}")


@NF.scenario(
    "NF-05",
    "rate_limit",
    priority=2,
    backends=ON_NETWORKS,
    only=_PACKETS,
    cases={
        "64 kbit/s": {"bytes_per_s": 8_000, "message_bytes": 1_000},
        "1 Mbit/s": {"bytes_per_s": 125_000, "message_bytes": 20_000},
    },
)
def rate_limit(lab: Lab, bytes_per_s: int, message_bytes: int) -> None:
    """On a slow line keepalives are answered in time, as long as messages leave room for them.

    Both directions carry so much and no more. Four messages each way take about half a second; a link that asks
    for a sign of life every second and waits eight times as long for one stays as it is.
    """
    lab.two()
    for way in ("a", "b"), ("b", "a"):
        lab.slow(*way, bytes_per_s)
    lab.connect("a", "b")
    lab.keep_alive("a", "b", 1.0, 8.0)
    for _ in range(3):
        for way in ("a", "b"), ("b", "a"):
            lab.send(*way, 4, message_bytes)
        lab.wait(1.5)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_delivered(node, peer, 12)
        lab.require(not lab.faults(node), f"links of {node} broke: {lab.faults(node)}")
    lab.settle()


@NF.scenario("NF-09", "reject_rst", priority=2, backends=ON_NETWORKS, only=_PACKETS, cases=_LOSSLESS)
def reject_rst(lab: Lab, pair: Pair) -> None:
    """Dials that are answered with a reset are given up at once, told, and tried again.

    The network refuses all new connections and the one there is breaks. The dialler is told that it was refused
    instead of waiting for a timeout; when the network takes connections again the session goes on.
    """
    pair.start(lab)
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.refuse("a", "b")
    lab.refuse("b", "a")
    lab.forge_reset("a", "b")
    lab.send("a", "b", 2)
    lab.expect_event("a", "b", "refused")
    lab.heal()
    lab.expect_delivered("b", "a", 4)
    lab.expect_no_event("a", "b", "reset")
    lab.settle()


@NF.scenario("NF-10", "rst_injection", priority=3, backends=ON_NETWORKS, only=_PACKETS, cases=_LOSSLESS)
def rst_injection(lab: Lab, pair: Pair) -> None:
    """A reset that somebody forges into a connection is a fault like any other.

    Whatever is under way when it comes is sent again on the next link, once and in order.
    """
    pair.start(lab)
    lab.connect("a", "b")
    for turn in range(1, 4):
        lab.send("a", "b", 3, 10_000)
        lab.send("b", "a", 3, 10_000)
        lab.wait(lab.rng.uniform(0, 0.02))
        lab.forge_reset("a", "b")
        lab.expect_broken("a", turn)
        lab.exchange(count=1)
    _all_have_come(lab, 12)


@NF.scenario("NF-12", "mtu_blackhole", priority=2, backends=ON_NETWORKS, only=_PACKETS)
def mtu_blackhole(lab: Lab) -> None:
    """Where long packets vanish, short messages pass and a long one is stuck until something notices.

    Packets of more than 1400 bytes are lost in one direction, and no router says so. A short message arrives. A
    long one does not, and the keepalives behind it wait as well: their silence ends the link, again and again,
    until the hole is closed. Then the message arrives, once.
    """
    lab.two()
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.keep_alive("a", "b", 0.2, 1.0)
    lab.black_hole("a", "b", 1400)
    lab.send("a", "b", 1, 100)
    lab.expect_delivered("b", "a", 2)
    lab.require(not lab.faults("a"), f"links of a broke: {lab.faults('a')}")
    lab.send("a", "b", 1, 100_000)
    lab.expect_broken("a", 2)
    lab.require(lab.delivered("b", "a") == 2, "a long message went through the hole")
    lab.heal()
    lab.expect_delivered("b", "a", 3, within_s=60.0)
    lab.settle(within_s=60.0)


@NF.scenario("NF-13", "conntrack_flush", priority=3, backends=ON_NETWORKS, only=_PACKETS, cases=_LOSSLESS)
def conntrack_flush(lab: Lab, pair: Pair) -> None:
    """A NAT that has lost its memory swallows what it does not know, until somebody dials again.

    Both sides go on writing on a connection of which the NAT, and the firewall that it is, knows nothing any more:
    all of that is lost, and nobody is told. Keepalives without an answer end the link; the next dial has an entry
    of its own, and takes everything with it.
    """
    pair.start(lab)
    lab.nat("a", "b")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.keep_alive("a", "b", 0.3, 1.5)
    lab.nat_flush("a", "b", silent=True)
    lab.send("a", "b", 3)
    lab.send("b", "a", 3)
    lab.wait(0.5)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.require(lab.delivered(node, peer) == 2, f"{node} got what the NAT was to lose")
    lab.expect_broken("a", 1)
    _all_have_come(lab, 5)
    lab.require(len(_seen_ports(lab)) == 2, f"b was dialled from {_seen_ports(lab)}, twice was expected")


@MX.scenario(
    "MX-10",
    "nat_remap",
    priority=2,
    backends=ON_NETWORKS,
    only=_PACKETS,
    cases={
        f"{name}, {first} writes": {"pair": PAIRS[name], "first": first}
        for name in ("peers", "client")
        for first in "ab"
    },
)
def nat_remap(lab: Lab, pair: Pair, first: str) -> None:
    """A NAT goes on with another port in mid-session, and the session comes back from there.

    The next packet of whoever writes is one of an unknown connection to its receiver, which answers with a reset.
    The other side does not know until it writes itself, or the session is found again by the next dial: not by the
    port, which only the socket has, but by the address that was told.
    """
    pair.start(lab)
    lab.nat("a", "b")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.nat_flush("a", "b", silent=False)
    second = "b" if first == "a" else "a"
    lab.send(first, second, 3)
    lab.expect_broken(first, 1)
    lab.send(second, first, 3)
    _all_have_come(lab, 5)


def _seen_ports(lab: Lab) -> list[int]:
    """From which ports b was dialled so far, in order."""
    return [EntityAddr.parse(link["peer"]).port for link in lab.records("b", "link", action="accept")]


@PK.scenario(
    "PK-07", "power_off", priority=3, backends=ON_NETWORKS, only=_PACKETS, processes=True, cases=_LOSSLESS
)
def power_off(lab: Lab, pair: Pair) -> None:
    """A host that loses its power says nothing: its peer finds out by itself.

    Neither FIN nor RST comes, and nothing is acknowledged any more. The peer believes in its link until the idle
    timeout; the host's next life gets what is sent to it then.
    """
    pair.start(lab, ms_connection_idle_timeout=3.0, ms_max_backoff=1.0)
    lab.connect("a", "b")
    lab.exchange(count=3)
    lab.partition("a", "b")
    lab.kill("b")
    lab.send("a", "b", 2)
    lab.wait(0.5)
    lab.require(lab.session_state("a", "b") == "READY", "a knows already")
    lab.wait_until(lambda: lab.session_state("a", "b") != "READY", "a finds out", within_s=30.0)
    lab.revive("b")
    lab.heal()
    lab.expect_state("a", "b", "READY", within_s=60.0)
    lab.expect_acked("a")
    before = lab.delivered("b", "a")
    lab.send("a", "b", 3)
    lab.expect_delivered("b", "a", before + 3, within_s=60.0)
    lab.settle(within_s=60.0)
