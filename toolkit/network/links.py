"""The links between hosts: their states set and read back, by the kernel's netem or by the wire in user space.

The caller that opens the links may choose; otherwise it is netem where the kernel has it.
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
"""Names the way to use instead of the best one: ``netem`` or ``wire``."""
Pair = tuple[str, str]
"""Sender and receiver, by the names of their hosts."""


@dataclass(frozen=True, slots=True)
class Cable:
    """What connects a host with the bridge of a network: a veth pair."""

    host: str
    network: str
    namespace: Path
    """File of the host's network namespace."""
    interface: str
    """The end at the host."""
    mac: str
    """Its Ethernet address."""
    mtu: int
    port: str
    """The end at the bridge."""
    switch: Path | None
    """File of the namespace that the bridge is in; None: that of this process."""
    tap: str = ""
    """Name for the wire's interface beside the port, if it should need one."""
    bridge: str = ""
    """Name for the bridge that then joins the two."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What a link has seen."""

    packets: int
    bytes: int
    lost: int
    """By its state: packets for which the queue was full among them."""
    queued: int
    """Under way now."""


class Links(ABC):
    """The links between hosts, each in one direction, on all networks that both are on.

    Args:
        cables: of all hosts.
        states: of links that are not clear in the beginning, and after :meth:`heal`.
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
        """Impair packets in this way from now on; packets under way are not affected.

        Raises:
            LocalError: there is no such link.
            Unsupported: this way cannot do it; the text says which can.
        """
        for pair in states:
            self._check(pair)
        wanted = {pair: state.bare() for pair, state in states.items()}
        wanted = {pair: state for pair, state in wanted.items() if pair in self._touched or not state.is_clear}
        if wanted:
            self._apply(wanted)
            self._touched |= wanted.keys()

    def get(self, sender: str, receiver: str) -> LinkState:
        """The impairments of a link, read back from the kernel or the switch.

        Raises:
            LocalError: there is no such link.
        """
        self._check((sender, receiver))
        return self._read((sender, receiver)) if (sender, receiver) in self._touched else LinkState()

    def heal(self) -> None:
        """Give all links the state that they began with."""
        self.set({pair: LinkState() for pair in self._touched} | self.initial)

    def passed(self) -> dict[Pair, Passed]:
        """Counters of the links since each was first impaired."""
        return self._passed() if self._touched else {}

    @abstractmethod
    def describe(self) -> str:
        """Describe in one line what impairs packets."""

    @abstractmethod
    def close(self) -> None:
        """Stop impairing packets."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _shared(self, pair: Pair) -> list[tuple[Cable, Cable]]:
        """The cables of a sender and a receiver, on each network that both are on."""
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
) -> Links:
    """Links over veth pairs and bridges that are there, clear but for some.

    Nothing is made until a link first gets a state that is not clear.

    Args:
        cables: of all hosts; there may be several networks.
        states: of links that are not clear.
        way: how packets are to be treated; netem where the kernel has it, unless given here or in MSGRLAB_LINKS.
        note: called with interfaces in this process's own namespace before they are made (``lease.journal.note``).
        environment: for the wire's process: its cluster's label.
        log: file for the wire's process.

    Raises:
        LocalError: a state is of no link, or MSGRLAB_LINKS names no way.
        Unsupported: the way cannot be had here, or cannot do what a state wants.
    """
    from toolkit.network.netem.links import NetemLinks
    from toolkit.network.wire.links import WireLinks

    states = states or {}
    chosen = way or os.environ.get(WAY_VARIABLE) or ("netem" if NetemLinks.can(states) else "wire")
    links: Links
    if chosen == "netem":
        NetemLinks.check(states)
        links = NetemLinks(cables, states)
    elif chosen == "wire":
        links = WireLinks(cables, states, note=note, environment=environment, log=log)
    else:
        raise LocalError(f"{WAY_VARIABLE}: netem or wire, not {chosen!r}")
    try:
        links.set(states)
    except LocalError:
        links.close()
        raise
    return links
