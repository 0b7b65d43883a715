"""Links impaired by the wire: a process between hosts and bridges, started when a link first needs it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.changes import Change, Interface
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network.links import Cable, Links, Pair, Passed, Way
from toolkit.network.namespaces import within
from toolkit.network.state import LinkState
from toolkit.network.wire.process import Attachment, Wire

if TYPE_CHECKING:
    from pyroute2 import IPRoute


class WireLinks(Links):
    """Links impaired by the switch in user space.

    While no link is impaired, packets go through the kernel's bridge and there is no wire. Then every port is
    moved from the network's bridge to a bridge of its own, which joins it to a tap of the wire; the wire is the
    switch from there on.
    """

    way: ClassVar[Way] = "wire"

    def __init__(
        self,
        cables: Sequence[Cable],
        states: Mapping[Pair, LinkState],
        *,
        note: Callable[[Change], None] = lambda _: None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        super().__init__(cables, states)
        self._note = note
        self._environment = environment
        self._log = log
        self._wire: Wire | None = None
        self._bridges: dict[Cable, int] = {}

    @override
    def describe(self) -> str:
        if self._wire is None:
            return "bridges; the wire in user space when a link needs it"
        if not self._wire.alive:
            return "the wire, in user space, has ended: packets go nowhere"
        return f"the wire, in user space (process {self._wire.pid})"

    def _apply(self, states: Mapping[Pair, LinkState]) -> None:
        if self._wire is None:
            self._insert(states)
        else:
            self._wire.set(states)

    def _insert(self, states: Mapping[Pair, LinkState]) -> None:
        """Insert a wire between ports and bridges; it has the states before the first packet."""
        cables = [
            replace(cable, tap=cable.tap or f"t{cable.port}", bridge=cable.bridge or f"b{cable.port}")
            for cable in self.cables
        ]
        for cable in cables:
            if cable.switch is None:
                self._note(Interface(cable.tap))
                self._note(Interface(cable.bridge))
        self._wire = Wire(environment=self._environment, log=self._log)
        try:
            self._wire.attach(
                *(
                    Attachment(cable.host, cable.network, cable.switch, cable.tap, cable.mtu, cable.mac)
                    for cable in cables
                )
            )
            self._wire.set(states)
            # Prepare everything before the ports are moved, because hosts are disconnected while they are.
            own = {}
            for cable in cables:
                with _route(cable) as route:
                    self._bridges[cable] = _bridge_of(route, cable)
                    own[cable] = _prepare(route, cable)
            for cable in cables:
                with _route(cable) as route:
                    route.link("set", index=_index(route, cable.port), master=own[cable])
        except LocalError:
            self.close()
            raise

    def _read(self, pair: Pair) -> LinkState:
        assert self._wire is not None
        return self._wire.get(*pair)

    def _passed(self) -> dict[Pair, Passed]:
        assert self._wire is not None
        seen = dict.fromkeys(self._touched, Passed(0, 0, 0, 0))
        for found in self._wire.statistics():
            pair = found["sender"], found["receiver"]
            if pair in seen:
                so_far = seen[pair]
                lost = found["lost"] + found["overflowed"] + found["undelivered"]
                seen[pair] = Passed(
                    so_far.packets + found["packets"],
                    so_far.bytes + found["bytes"],
                    so_far.lost + lost,
                    so_far.queued + found["queued"],
                )
        return seen

    def close(self) -> None:
        """Return the ports that still exist to their bridges, and end the wire."""
        for cable, bridge in self._bridges.items():
            try:
                with _route(cable) as route:
                    route.link("set", index=_index(route, cable.port), master=bridge)
                    if cable.switch is None:  # others vanish with their namespace, which is faster
                        route.link("del", index=_index(route, cable.bridge))
            except LocalError:
                continue  # gone with its host
        self._bridges.clear()
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._touched.clear()


@contextmanager
def _route(cable: Cable) -> Iterator["IPRoute"]:
    """Connect to the kernel in the namespace of a cable's bridge."""
    from pyroute2 import NetlinkError

    with within(cable.switch), rtnetlink() as route:
        try:
            yield route
        except NetlinkError as error:
            raise LocalError(f"wire: {cable.port}: {error.args[-1]}") from None


def _bridge_of(route: "IPRoute", cable: Cable) -> int:
    """Return the index of the bridge that a port belongs to."""
    (link,) = route.get_links(_index(route, cable.port))
    bridge = link.get_attr("IFLA_MASTER")
    if bridge is None:
        raise Unsupported(f"wire: {cable.port} is on no bridge")
    return int(bridge)


def _prepare(route: "IPRoute", cable: Cable) -> int:
    """Make a bridge for a port and the wire's tap, unless it exists; returns its index."""
    if not route.link_lookup(ifname=cable.bridge):
        route.link("add", ifname=cable.bridge, kind="bridge", mtu=cable.mtu, br_mcast_snooping=0)
    own = _index(route, cable.bridge)
    _no_ipv6(cable.tap, cable.bridge)
    route.link("set", index=own, state="up")
    route.link("set", index=_index(route, cable.tap), master=own)
    return own


def _index(route: "IPRoute", name: str) -> int:
    found = route.link_lookup(ifname=name)
    if not found:
        raise LocalError(f"wire: no interface {name}")
    return int(found[0])


def _no_ipv6(*interfaces: str) -> None:
    """Disable IPv6 on interfaces, so that the bridge's own machine sends no packets into the wire."""
    for interface in interfaces:
        setting = Path("/proc/sys/net/ipv6/conf") / interface / "disable_ipv6"
        if setting.exists():
            setting.write_text("1")
