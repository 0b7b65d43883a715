"""The links between hosts: set their states and read them back, with the kernel's netem or the wire in user space.

The default is netem where the kernel has it.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from messenger.errors import LocalError
from toolkit.machine.changes import Change
from toolkit.network.state import LinkState

Way = Literal["netem", "wire"]
WAY_VARIABLE = "MSGRLAB_LINKS"
"""Environment variable that selects ``netem`` or ``wire``."""
Pair = tuple[str, str]
"""Names of the sending and the receiving host."""


@dataclass(frozen=True, slots=True)
class Cable:
    """The veth pair between a host and the bridge of a network, or the tap device of a virtual machine."""

    host: str
    network: str
    namespace: Path | None
    """File of the host's network namespace; None for a virtual machine."""
    interface: str
    """Its end at the host; empty for a virtual machine."""
    mac: str
    """Ethernet address of the host's end."""
    mtu: int
    port: str
    """Its end at the bridge."""
    switch: Path | None
    """File of the bridge's network namespace; None for this process's own."""
    tap: str = ""
    """Name for the wire's tap beside the port, if a wire is needed."""
    bridge: str = ""
    """Name for the bridge that then joins port and tap."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Counters of a link."""

    packets: int
    bytes: int
    lost: int
    """Packets lost by the link's state, including those for which the queue was full."""
    queued: int
    """Packets in the queue now."""


class Links(ABC):
    """The links between hosts, one per direction, on all networks that both hosts are on.

    Args:
        cables: cables of all hosts.
        states: states of impaired links, at the start and after :meth:`heal`.
    """

    way: ClassVar[Way]

    def __init__(self, cables: Sequence[Cable], states: Mapping[Pair, LinkState]) -> None:
        self.cables = cables
        self.initial = {pair: state.bare() for pair, state in states.items()}
        self._touched: set[Pair] = set()
        self._of_host: dict[str, list[Cable]] = {}
        for cable in cables:
            self._of_host.setdefault(cable.host, []).append(cable)

    def set(self, states: Mapping[Pair, LinkState]) -> None:
        """Set the states of links; packets that are already queued keep their fate.

        The wire delivers the queued packets of a link without impairments at once, before later ones.

        Raises:
            LocalError: there is no such link.
            Unsupported: netem or the wire cannot do it; the message names the other one if that can.
        """
        for pair in states:
            self._check(pair)
        wanted = {pair: state.bare() for pair, state in states.items()}
        wanted = {pair: state for pair, state in wanted.items() if pair in self._touched or not state.is_clear}
        if wanted:
            self._apply(wanted)
            self._touched |= wanted.keys()

    def get(self, sender: str, receiver: str) -> LinkState:
        """Return the state of a link, read back from the kernel or the wire.

        Raises:
            LocalError: there is no such link.
        """
        self._check((sender, receiver))
        return self._read((sender, receiver)) if (sender, receiver) in self._touched else LinkState()

    def heal(self) -> None:
        """Restore the initial states of all links."""
        self.set({pair: LinkState() for pair in self._touched} | self.initial)

    def passed(self) -> dict[Pair, Passed]:
        """Return the counters of the links that have been impaired, since they first were."""
        return self._passed() if self._touched else {}

    @abstractmethod
    def describe(self) -> str:
        """Return one line on what impairs packets."""

    @abstractmethod
    def close(self) -> None:
        """Stop impairing packets."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _shared(self, pair: Pair) -> list[tuple[Cable, Cable]]:
        """Return the cables of a sender and a receiver, on each network that both are on."""
        return [
            (one, other)
            for one in self._of_host.get(pair[0], ())
            for other in self._of_host.get(pair[1], ())
            if one.network == other.network
        ]

    def _check(self, pair: Pair) -> None:
        if pair[0] == pair[1] or not self._shared(pair):
            raise LocalError(f"no link from {pair[0]!r} to {pair[1]!r}; there is {', '.join(self._of_host)}")

    @abstractmethod
    def _apply(self, states: Mapping[Pair, LinkState]) -> None:
        """Impair links as :meth:`set` says; the links exist."""

    @abstractmethod
    def _read(self, pair: Pair) -> LinkState:
        """Read the state of a link that was set."""

    @abstractmethod
    def _passed(self) -> dict[Pair, Passed]:
        """Count what passed the links that were set."""


def open_links(
    cables: Sequence[Cable],
    *,
    states: Mapping[Pair, LinkState] | None = None,
    way: Way | None = None,
    note: Callable[[Change], None] = lambda _: None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    table: str = "msgrlab_wire",
) -> Links:
    """Return the links over existing veth pairs and bridges, unimpaired unless ``states`` says otherwise.

    No queue or wire is made until a link first gets an impairment.

    Args:
        cables: cables of all hosts; there may be several networks.
        states: states of impaired links.
        way: netem or wire; if None, MSGRLAB_LINKS decides, else netem where the kernel has it.
        note: called with interfaces and tables in this process's own namespace before they are made
            (``lease.journal.note``).
        environment: environment of the wire's process, with its cluster's label.
        log: log file of the wire's process.
        table: name of the table of nftables with the wire's rules, in the namespace of the bridges.

    Raises:
        LocalError: a state is of no link, or MSGRLAB_LINKS has another value.
        Unsupported: netem or the wire is not available, or cannot do what a state requires.
    """
    from toolkit.network.guest_links import GuestLinks
    from toolkit.network.netem.links import NetemLinks
    from toolkit.network.wire.links import WireLinks

    states = states or {}
    chosen = way or os.environ.get(WAY_VARIABLE) or ("netem" if NetemLinks.can(states) else "wire")
    if chosen not in {"netem", "wire"}:
        raise LocalError(f"{WAY_VARIABLE}: netem or wire, not {chosen!r}")
    wire = WireLinks(cables, states, note=note, environment=environment, log=log, table=table)
    links: Links = wire
    if chosen == "netem":
        NetemLinks.check(states)
        netem = NetemLinks(cables, states)
        has_guests = any(cable.namespace is None for cable in cables)
        links = GuestLinks(cables, states, netem, wire) if has_guests else netem
    try:
        links.set(states)
    except LocalError:
        links.close()
        raise
    return links
