"""LY, LC, LP and ST: many nodes, random operations and random faults, from a seed."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from messenger.outputs import EventKind
from toolkit.scenarios.families.lc import LC
from toolkit.scenarios.families.lp import LP
from toolkit.scenarios.families.ly import LY
from toolkit.scenarios.families.st import ST
from toolkit.scenarios.lab import Lab

_SMALL = {"3 x 6": {"servers": 3, "clients": 6, "operations": 120}}
_LARGE = {"8 x 32": {"servers": 8, "clients": 32, "operations": 1000}}
_SMALL_LOSSY = {"3 x 6": {"servers": 3, "clients": 6, "operations": 360}}
_LARGE_LOSSY = {"8 x 16": {"servers": 8, "clients": 16, "operations": 1000}}
_CALM = {"ms_inject_socket_failures": 0, "ms_inject_internal_delays": 0.0, "ms_inject_delay_type": ""}
"""What ends all injection."""


@dataclass
class Mix:
    """Random operations between pairs of nodes; the lab's seed decides them."""

    lab: Lab
    pairs: list[tuple[str, str]]
    """Who may dial whom."""
    drops: bool = False
    """Whether sessions are marked down too."""
    most_bytes: int = 4000
    open: list[tuple[str, str]] = field(default_factory=list)
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages by sender and receiver."""

    def run(self, operations: int) -> None:
        """Carry out so many of them."""
        rng = self.lab.rng
        for _ in range(operations // 3 if self.lab.real_time else operations):
            chance = rng.random()
            if not self.open or chance < 0.1:
                self._dial()
            elif chance < 0.15 and self.drops:
                self._drop()
            elif chance < 0.9:
                self._send()
            else:
                self.lab.wait(rng.choice([0.001, 0.01, 0.1, 0.5]) / (10 if self.lab.real_time else 1))

    def _dial(self) -> None:
        pair = self.lab.rng.choice(self.pairs)
        self.lab.dial(*pair)
        if pair not in self.open:
            self.open.append(pair)

    def _drop(self) -> None:
        pair = self.lab.rng.choice(self.open)
        if self.lab.session(*pair):
            self.lab.mark_down(*pair)
        self.open.remove(pair)

    def _send(self) -> None:
        rng = self.lab.rng
        sender, receiver = rng.choice(self.open)
        answers = rng.random() < 0.3 and bool(self.lab.session(receiver, sender))
        if answers:
            sender, receiver = receiver, sender
        count, size_bytes = rng.randrange(1, 6), rng.choice([0, 1, 100, self.most_bytes])
        # A server never dials: its session may be over by now.
        self.lab.send(sender, receiver, count=count, size_bytes=size_bytes, dials=not answers)
        self.sent[sender, receiver] += count

    def calm(self, nodes: list[str]) -> None:
        """No more faults: everything comes to rest."""
        for name in nodes:
            self.lab.configure(name, **_CALM)
        self.lab.wait(2.0 if self.lab.real_time else 40.0)

    def forget_the_dead(self) -> None:
        """Servers give up sessions whose client has marked them down and does not come back."""
        for client, server in self.pairs:
            if self.lab.session(server, client) and not self.lab.session(client, server):
                self.lab.mark_down(server, client)

    def expect_all(self) -> None:
        """Everything that was sent has been delivered, exactly once."""
        for (sender, receiver), count in self.sent.items():
            self.lab.expect_delivered(receiver, sender, count, within_s=60)
            delivered = self.lab.delivered(receiver, sender)
            self.lab.require(delivered == count, f"{receiver} got {delivered} of {count} messages of {sender}")


def _servers_and_clients(
    lab: Lab, servers: int, clients: int, policies: tuple[str, str], options: dict[str, Any]
) -> tuple[list[str], list[tuple[str, str]]]:
    """All nodes, and who may dial whom."""
    of_server, of_client = policies
    own = [f"s{number}" for number in range(servers)]
    other = [f"c{number}" for number in range(clients)]
    for number, name in enumerate(own):
        lab.node(name, f"osd.{number}", of_server, **options)
    for number, name in enumerate(other):
        lab.node(name, f"client.{number}", of_client, listens=False, **options)
    lab.start()
    return own + other, [(client, server) for client in other for server in own]


_THROTTLE_BYTES = 6000
"""Two of the largest messages of a mix are more than that."""
_LOSSY_OPTIONS = {"ms_inject_socket_failures": 30, "ms_inject_internal_delays": 0.1, "ms_max_backoff": 1.0}
_LOSSLESS_OPTIONS = {
    "ms_inject_socket_failures": 30,
    "ms_inject_internal_delays": 0.1,
    "ms_dispatch_throttle_bytes": _THROTTLE_BYTES,
    "ms_max_backoff": 1.0,
}


def lossy_stress(lab: Lab, servers: int, clients: int, operations: int) -> None:
    """Many lossy clients under faults: at most once, in order, and a gap only where that connection had a reset.

    Clients open and use connections with several servers at random, while one in 30 reads and writes finds its
    socket shut down and decisions are delayed. What arrives is in order and came once. There are clients with
    reset events. Each reset event at either end of a connection explains one run of consecutive messages that are
    missing in each direction, and no more.
    """
    nodes, pairs = _servers_and_clients(
        lab, servers, clients, ("stateless_server", "lossy_client"), _LOSSY_OPTIONS
    )
    mix = Mix(lab, pairs)
    mix.run(operations)
    mix.calm(nodes)
    lost = sum(lab.events(client, server, EventKind.RESET) for client, server in pairs)
    lab.require(lost > 0 or lab.real_time, "no client had a reset event")
    for sender, receiver in mix.sent:
        gaps = _gaps(lab, sender, receiver)
        resets = lab.events(sender, receiver, EventKind.RESET) + lab.events(receiver, sender, EventKind.RESET)
        lab.require(gaps <= resets, f"{gaps} gaps in what {receiver} got of {sender}, and {resets} resets")
    lab.settle(within_s=120)


def _gaps(lab: Lab, sender: str, receiver: str) -> int:
    """How many runs of consecutive messages of a sender's to a receiver were not delivered."""
    delivered = {record["tid"] for record in lab.records(receiver, "deliver", peer=sender)}
    arrived = [record["tid"] in delivered for record in lab.records(sender, "send", peer=receiver)]
    return sum(before and not now for before, now in pairwise([True, *arrived]))


def lossless_client_stress(lab: Lab, servers: int, clients: int, operations: int) -> None:
    """Many lossless clients under heavy faults: everything exactly once and in order.

    One in 30 reads and writes finds its socket shut down, decisions are delayed by a tenth of a second, and the
    dispatch throttle of 6000 bytes is full time and again: messages wait for it, and applications never hold more
    than that; with more workers, each of which has a part of it, by one message of each. When the faults end
    everything sent has arrived, once.
    """
    nodes, pairs = _servers_and_clients(
        lab, servers, clients, ("stateful_server", "lossless_client"), _LOSSLESS_OPTIONS
    )
    mix = Mix(lab, pairs)
    mix.run(operations)
    mix.calm(nodes)
    mix.expect_all()
    held = [record["value"] for name in nodes for record in lab.records(name, "throttle", name="dispatch_bytes")]
    throttles = [
        group
        for name in nodes
        for throttle, group in lab.counters(name).items()
        if throttle.startswith("throttle-msgr_dispatch_throttler")
    ]
    full = sum(throttle["get_or_fail_fail"] for throttle in throttles)
    lab.require(
        full >= operations // (30 if lab.real_time else 10),
        f"the throttle was full {full} times in {operations} operations",
    )
    most_bytes = _THROTTLE_BYTES + lab.way.workers * mix.most_bytes
    lab.require(max(held) <= most_bytes, f"applications may hold {most_bytes} bytes, one held {max(held)}")
    lab.settle(within_s=120)


def synthetic_mix(lab: Lab, servers: int, clients: int, operations: int) -> None:
    """Connections come and go at random, and every message is accounted for.

    Lossless clients dial, send, wait and mark their sessions down at random. Each message arrives in order, or an
    event (or the sender's own mark_down) says why it does not; at the end the counters of all nodes balance.
    """
    nodes, pairs = _servers_and_clients(
        lab, servers, clients, ("stateful_server", "lossless_client"), {"ms_max_backoff": 1.0}
    )
    mix = Mix(lab, pairs, drops=True)
    mix.run(operations)
    mix.calm(nodes)
    mix.forget_the_dead()
    lab.settle(within_s=120)
    lab.wait(0.1)
    for name in nodes:
        active = sum(
            group["msgr_active_connections"]
            for worker, group in lab.counters(name).items()
            if worker.startswith("AsyncMessenger::Worker-")
        )
        sessions = lab.holdings(name)["sessions"]
        lab.require(active == sessions, f"{name} counts {active} connections and has {sessions}")


for _family, _id, _name, _script, _small, _large in (
    (LY, "LY-10", "lossy_stress", lossy_stress, _SMALL_LOSSY, _LARGE_LOSSY),
    (LC, "LC-10", "lossless_client_stress", lossless_client_stress, _SMALL, _LARGE),
    (ST, "ST-01", "synthetic_mix", synthetic_mix, _SMALL, _LARGE),
):
    _family.scenario(_id, _name, cases=_small)(_script)
    _family.scenario(f"{_id}-large", f"{_name}_large", cases=_large, quick=False)(_script)

_PEERS_OPTIONS: dict[str, Any] = {
    "ms_inject_socket_failures": 30,
    "ms_inject_internal_delays": 0.05,
    "ms_inject_delay_type": "client osd",
    "ms_inject_delay_probability": 1.0,
    "ms_max_backoff": 2.0,
}


def lossless_peer_stress(lab: Lab, policy: str, peers: int, operations: int) -> None:
    """Many lossless peers that all dial each other under heavy faults: everything exactly once and in order.

    Everybody dials everybody, so that races abound. One in 30 reads and writes finds its socket shut down, and
    every received message is delivered late, by up to five seconds. When the faults end everything has arrived,
    once.
    """
    names = [f"p{number}" for number in range(peers)]
    delay_s = 0.2 if lab.real_time else 5.0
    for number, name in enumerate(names):
        lab.node(name, f"osd.{number}", policy, ms_inject_delay_max=delay_s, **_PEERS_OPTIONS)
    lab.start()
    mix = Mix(lab, [(one, other) for one in names for other in names if one != other])
    mix.run(operations)
    mix.calm(names)
    mix.expect_all()
    lab.settle(within_s=120)


_POLICIES = ("lossless_peer", "lossless_peer_reuse")
LP.scenario(
    "LP-27",
    "lossless_peer_stress",
    cases={f"5 {policy}": {"policy": policy, "peers": 5, "operations": 60} for policy in _POLICIES},
)(lossless_peer_stress)
LP.scenario(
    "LP-27-large",
    "lossless_peer_stress_large",
    quick=False,
    cases={f"16 {policy}": {"policy": policy, "peers": 16, "operations": 400} for policy in _POLICIES},
)(lossless_peer_stress)


@ST.scenario("ST-05", "reconnect_storm", priority=2, quick=False)
def reconnect_storm(lab: Lab) -> None:
    """After a server restart all 100 clients reconnect, each by the time its own pause is over.

    A stateful server dies and comes back ten seconds later, knowing nothing; on sockets 40 clients wait for a
    second. Each client dials at once, and is refused, then after pauses of 0.2 s, 0.4 s and so on: none of them
    dials more often, or more seldom. A pause is no longer than the time since the first refusal, so within ten
    seconds of the restart, and well within a minute, all are back. Each gets one remote_reset event, and its next
    message arrives.
    """
    clients, away_s = (40, 1.0) if lab.real_time else (100, 10.0)
    _, pairs = _servers_and_clients(lab, 1, clients, ("stateful_server", "lossless_client"), {})
    for client, server in pairs:
        lab.send(client, server)
    for client, server in pairs:
        lab.expect_delivered(server, client, 1)
    lab.kill("s0")
    lab.wait(away_s)
    lab.revive("s0")
    revived_s = lab.history.of("process")[-1].time_s
    for client, server in pairs:
        lab.expect_event(client, server, "connect", 2)
        lab.send(client, server)
    for client, server in pairs:
        lab.expect_delivered(server, client, 2)
    for client, server in pairs:
        resets = lab.events(client, server, EventKind.REMOTE_RESET)
        lab.require(resets == 1, f"{client} has lost its session once, it got {resets} remote_reset events")
        back_s = lab.records(client, "event", event="connect")[-1].time_s - revived_s
        most_s = away_s + (4.0 if lab.real_time else 0.5)
        lab.require(back_s <= most_s, f"{client} is back after {back_s} s, {most_s} s are enough")
        lab.expect_backoff(client, 2 if lab.real_time else 5, first=1)
    lab.settle(within_s=60)
