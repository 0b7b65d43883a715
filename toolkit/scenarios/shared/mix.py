"""Random operations between many nodes, from a seed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from toolkit.lab.lab import Lab

SMALL = {"3 x 6": {"servers": 3, "clients": 6, "operations": 120}}
LARGE = {"8 x 32": {"servers": 8, "clients": 32, "operations": 1000}}
CALM = {"ms_inject_socket_failures": 0, "ms_inject_internal_delays": 0.0, "ms_inject_delay_type": ""}
"""Options that end all injections."""


@dataclass
class Mix:
    """Random operations between pairs of nodes, drawn from the lab's seed."""

    lab: Lab
    pairs: list[tuple[str, str]]
    """Pairs of connector and acceptor."""
    drops: bool = False
    """True if sessions are marked down as well."""
    most_bytes: int = 4000
    open: list[tuple[str, str]] = field(default_factory=list)
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of messages by sender and receiver."""

    def run(self, operations: int) -> None:
        """Carry out that many operations; a third of them in real time."""
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
        # A server never dials: its session may have ended meanwhile.
        self.lab.send(sender, receiver, count=count, size_bytes=size_bytes, dials=not answers)
        self.sent[sender, receiver] += count

    def calm(self, nodes: list[str]) -> None:
        """End all injections, and wait until everything is at rest."""
        for name in nodes:
            self.lab.configure(name, **CALM)
        self.lab.wait(2.0 if self.lab.real_time else 40.0)

    def forget_the_dead(self) -> None:
        """Mark down sessions of servers whose clients have marked theirs down."""
        for client, server in self.pairs:
            if self.lab.session(server, client) and not self.lab.session(client, server):
                self.lab.mark_down(server, client)

    def expect_all(self) -> None:
        """Wait until every message has been delivered, and require that each was delivered once."""
        for (sender, receiver), count in self.sent.items():
            self.lab.expect_delivered(sender, receiver, count, within_s=60)
            delivered = self.lab.delivered(sender, receiver)
            self.lab.require(delivered == count, f"{receiver} got {delivered} of {count} messages of {sender}")


def servers_and_clients(
    lab: Lab, servers: int, clients: int, policies: tuple[str, str], options: dict[str, Any]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Start servers and clients; returns all names, and the pairs of connector and acceptor."""
    of_server, of_client = policies
    own = [f"s{number}" for number in range(servers)]
    other = [f"c{number}" for number in range(clients)]
    for number, name in enumerate(own):
        lab.node(name, f"osd.{number}", of_server, **options)
    for number, name in enumerate(other):
        lab.node(name, f"client.{number}", of_client, listens=False, **options)
    lab.start()
    return own + other, [(client, server) for client in other for server in own]
