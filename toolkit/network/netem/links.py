"""Links impaired by the kernel's netem: a queue per link, on the sender's interface."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable, Links, Pair, Passed, Way
from toolkit.network.namespaces import within
from toolkit.network.netem import kernel
from toolkit.network.state import LinkState

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_FIRST = 0x10000
"""Handle of an interface's root queue, 1: in tc's notation; its classes are 1:1 and so on."""
_HIGHEST_RATE = "32gbit"
"""HTB requires a rate for each class; it must not slow packets that leave netem."""
_BURST_BYTES = 1 << 20
_QUANTUM_BYTES = 60_000


class NetemLinks(Links):
    """Links impaired by netem.

    If a sender has one peer on a network, netem is the root queue of its interface. If it has more, the interface
    has a class for each link, selected by the receiver's Ethernet address; broadcasts bypass them.
    """

    way: ClassVar[Way] = "netem"

    def __init__(self, cables: Sequence[Cable], states: Mapping[Pair, LinkState]) -> None:
        super().__init__(cables, states)
        self._wanted: dict[Pair, LinkState] = {}
        self._rooted: set[Cable] = set()

    @staticmethod
    def can(states: Mapping[Pair, LinkState]) -> bool:
        """True if the kernel supports all these states."""
        try:
            NetemLinks.check(states)
        except Unsupported:
            return False
        return True

    @staticmethod
    def check(states: Mapping[Pair, LinkState]) -> None:
        """Check that the kernel supports all these states.

        Raises:
            Unsupported: it does not; the message says what is missing and names a remedy.
        """
        abilities = kernel.abilities()
        if not abilities.netem:
            raise Unsupported(f"{abilities.why_not}; MSGRLAB_LINKS=wire does not need it")
        if not abilities.seed and any(state.seed is not None for state in states.values()):
            raise Unsupported("netem accepts a seed since Linux 6.5 only; MSGRLAB_LINKS=wire does on any kernel")

    @override
    def describe(self) -> str:
        return "netem, in the kernel"

    def _apply(self, states: Mapping[Pair, LinkState]) -> None:
        self.check(states)
        for pair, state in states.items():
            try:
                self._treat(pair, state)
            except LocalError:
                # Restore the old state, because the kernel has applied a rejected change in part.
                self._treat(pair, self._wanted.get(pair, LinkState()))
                if state.duplicate_percent and any(self._number(*cables) for cables in self._shared(pair)):
                    raise Unsupported(
                        f"netem of this kernel duplicates packets of hosts with one peer only, and {pair[0]} has"
                        " more; MSGRLAB_LINKS=wire does it"
                    ) from None
                raise
            self._wanted[pair] = state

    def _treat(self, pair: Pair, state: LinkState) -> None:
        for cable, peer in self._shared(pair):
            number = self._number(cable, peer)
            with _route(cable) as (route, index):
                if number and kernel.find(route, index, _handle(number)) is None:
                    self._classify(route, index, cable, peer, state)
                else:
                    parent = _FIRST + number if number else kernel.ROOT
                    kernel.apply(route, index, parent, _handle(number), state)
                    self._rooted.add(cable)

    def _number(self, cable: Cable, peer: Cable) -> int:
        """Return the number of the receiver among the sender's peers on a network; 0 if it is the only one."""
        peers = [other.host for other in self.cables if other.network == cable.network and other is not cable]
        return peers.index(peer.host) + 1 if len(peers) > 1 else 0

    def _classify(self, route: "IPRoute", index: int, cable: Cable, peer: Cable, state: LinkState) -> None:
        """Make the class of a link; packets are directed to it once it is complete."""
        number = self._number(cable, peer)
        class_id = _FIRST + number
        if cable not in self._rooted:
            route.tc("add", "htb", index, _FIRST, default=0)
            self._rooted.add(cable)
        route.tc(
            "replace-class",
            "htb",
            index,
            class_id,
            parent=_FIRST,
            rate=_HIGHEST_RATE,
            burst=_BURST_BYTES,
            quantum=_QUANTUM_BYTES,
        )
        kernel.apply(route, index, class_id, _handle(number), state)
        kernel.direct(route, index, _FIRST, peer.mac, class_id)

    def _read(self, pair: Pair) -> LinkState:
        (cable, peer), *_ = self._shared(pair)
        with _route(cable) as (route, index):
            found = kernel.read(route, index, _handle(self._number(cable, peer)))
        if found is None:
            raise LocalError(f"the netem from {pair[0]} to {pair[1]} was removed")
        # The kernel does not report the distribution, and draws the seed if none was given.
        wanted = self._wanted[pair]
        unknown = {"distribution": wanted.distribution} | ({} if wanted.seed is not None else {"seed": None})
        return found.model_copy(update=unknown)

    def _passed(self) -> dict[Pair, Passed]:
        seen = {}
        for pair in self._touched:
            counts = []
            for cable, peer in self._shared(pair):
                with _route(cable) as (route, index):
                    counts.append(kernel.counts(route, index, _handle(self._number(cable, peer))))
            seen[pair] = Passed(*map(sum, zip(*counts, strict=True)))
        return seen

    def close(self) -> None:
        """Remove the queues that still exist."""
        for cable in self._rooted:
            try:
                with _route(cable) as (route, index):
                    route.tc("del", index=index, handle=_FIRST, parent=kernel.ROOT)
            except LocalError:
                continue  # gone with its interface
        self._rooted.clear()
        self._touched.clear()


def _handle(number: int) -> int:
    """Return the handle of a link's netem."""
    return (number + 1) << 16


@contextmanager
def _route(cable: Cable) -> Iterator[tuple["IPRoute", int]]:
    """Connect to the kernel in a host's namespace; yields the connection and the index of the host's interface."""
    from pyroute2 import NetlinkError

    if cable.namespace is None:
        raise Unsupported(f"netem: {cable.host} is a virtual machine, with another kernel")
    with within(cable.namespace), rtnetlink() as route:
        found = route.link_lookup(ifname=cable.interface)
        if not found:
            raise LocalError(f"{cable.host} has no interface {cable.interface}")
        try:
            yield route, found[0]
        except NetlinkError as error:
            raise LocalError(f"link of {cable.host}: {error.args[-1]}") from None
