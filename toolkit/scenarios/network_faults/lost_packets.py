"""NF: faults of packets, on backends with packets."""

from messenger.denc.address import EntityAddr
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import Pair
from toolkit.scenarios.network_faults import NF
from toolkit.scenarios.scenario import ON_NETWORKS
from toolkit.scenarios.shared.packets import LOSSLESS, PACKETS, expect_all_delivered


def _both_ways(lab: Lab, rounds: int, pause_s: float) -> int:
    """Have both nodes send two messages in each round; returns the number that each has sent."""
    for _ in range(rounds):
        lab.send("a", "b", 2, 5000)
        lab.send("b", "a", 2, 5000)
        lab.wait(pause_s)
    return 2 * rounds


@NF.scenario("NF-03", "reorder_duplicate", priority=2, backends=ON_NETWORKS, only=PACKETS, cases=LOSSLESS)
def reorder_duplicate(lab: Lab, pair: Pair) -> None:
    """Packets that overtake each other, and packets that come twice, change nothing.

    A quarter of the packets overtakes others that are delayed, and one in twenty is duplicated. TCP puts them in
    order; neither a link nor a session ends.
    """
    pair.start(lab)
    for way in ("a", "b"), ("b", "a"):
        lab.impair(*way, delay_ms=10, reorder_percent=25, duplicate_percent=5)
    lab.connect("a", "b")
    expect_all_delivered(lab, _both_ways(lab, 5, 0.1))
    for node in "ab":
        lab.require(not lab.faults(node), f"links of {node} broke: {lab.faults(node)}")


@NF.scenario(
    "NF-05",
    "rate_limit",
    priority=2,
    backends=ON_NETWORKS,
    only=PACKETS,
    cases={
        "64 kbit/s": {"bytes_per_s": 8_000, "message_bytes": 1_000},
        "1 Mbit/s": {"bytes_per_s": 125_000, "message_bytes": 20_000},
    },
)
def rate_limit(lab: Lab, bytes_per_s: int, message_bytes: int) -> None:
    """On a slow line keepalives are answered in time, as long as messages leave room for them.

    The bandwidth of both directions is limited. Four messages each way take about half a second; a link that sends
    a keepalive every second and waits eight seconds for its answer stays open.
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
        lab.expect_delivered(peer, node, 12)
        lab.require(not lab.faults(node), f"links of {node} broke: {lab.faults(node)}")
    lab.settle()


@NF.scenario("NF-09", "reject_rst", priority=2, backends=ON_NETWORKS, only=PACKETS, cases=LOSSLESS)
def reject_rst(lab: Lab, pair: Pair) -> None:
    """Dials answered by RST fail at once, raise a refused event and are repeated.

    The network refuses all new connections, and the existing one breaks. The connector raises a refused event
    without waiting for a timeout; once the network accepts connections the session resumes.
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
    lab.expect_delivered("a", "b", 4)
    lab.expect_no_event("a", "b", "reset")
    lab.settle()


@NF.scenario("NF-10", "rst_injection", priority=3, backends=ON_NETWORKS, only=PACKETS, cases=LOSSLESS)
def rst_injection(lab: Lab, pair: Pair) -> None:
    """A forged RST is a fault like any other.

    Messages that are being sent when it arrives are replayed on the next link, once and in order.
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
    expect_all_delivered(lab, 12)


@NF.scenario("NF-12", "mtu_blackhole", priority=2, backends=ON_NETWORKS, only=PACKETS)
def mtu_blackhole(lab: Lab) -> None:
    """On a path that drops long packets short messages pass, and a long one waits for a timeout.

    Packets of more than 1400 bytes are lost in one direction, without an ICMP error. A short message arrives. A
    long one does not, nor do the keepalives behind it: their timeout breaks the link, again and again, until long
    packets pass. Then the message arrives, once.
    """
    lab.two()
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.keep_alive("a", "b", 0.2, 1.0)
    lab.black_hole("a", "b", 1400)
    lab.send("a", "b", 1, 100)
    lab.expect_delivered("a", "b", 2)
    lab.require(not lab.faults("a"), f"links of a broke: {lab.faults('a')}")
    lab.send("a", "b", 1, 100_000)
    lab.expect_broken("a", 2)
    lab.require(lab.delivered("a", "b") == 2, "a long message went through the hole")
    lab.heal()
    lab.expect_delivered("a", "b", 3, within_s=60.0)
    lab.settle(within_s=60.0)


@NF.scenario("NF-13", "conntrack_flush", priority=3, backends=ON_NETWORKS, only=PACKETS, cases=LOSSLESS)
def conntrack_flush(lab: Lab, pair: Pair) -> None:
    """A NAT that lost its state drops packets until one side dials again.

    Both sides go on writing on a connection that the NAT and its firewall have forgotten: those packets are lost
    without an error. The keepalive timeout breaks the link; the next dial gets a new entry, and all messages
    arrive.
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
        lab.require(lab.delivered(peer, node) == 2, f"{node} got what the NAT was to lose")
    lab.expect_broken("a", 1)
    expect_all_delivered(lab, 5)
    lab.require(len(_seen_ports(lab)) == 2, f"b was dialled from {_seen_ports(lab)}, twice was expected")


def _seen_ports(lab: Lab) -> list[int]:
    """The source ports of the dials that b has accepted so far, in order."""
    return [EntityAddr.parse(link["peer"]).port for link in lab.records("b", "link", action="accept")]
