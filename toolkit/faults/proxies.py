"""The proxies between nodes: one for each connector and each address that it dials."""

import threading
from collections.abc import Callable, Iterator

from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook
from toolkit.errors import Unsupported
from toolkit.faults.entrances import Entrance, SharedPort
from toolkit.faults.proxy import FaultProxy
from toolkit.faults.sockets import Inside, here
from toolkit.faults.strike import Strike
from toolkit.machine.loops import LoopThread

Way = tuple[str, str]
"""Names of the connector and of the acceptor."""


class Proxies:
    """Proxies that share a thread; may be used from any other thread.

    Args:
        keys: returns the keys for a new proxy, which parse frames of secure links; None for no keys.
    """

    def __init__(self, keys: Callable[[], KeyBook | None] = lambda: None) -> None:
        self.keys = keys
        self.strikes: Callable[[str, str], list[Strike]] = lambda _connector, _acceptor: []
        """Returns the strikes of a new proxy, by the names of its connector and acceptor."""
        self.struck: Callable[[str, str, Strike], None] = lambda _connector, _acceptor, _strike: None
        """Called after each strike with connector and acceptor, in the proxies' thread."""
        self.shares_ports = False
        """True if the proxies of a connector share a port on loopback, with an address each."""
        self._ports: dict[str, SharedPort] = {}
        """Shared ports, by connector."""
        self._loop: LoopThread | None = None
        self._lock = threading.Lock()
        self._proxies: dict[Way, dict[int, FaultProxy]] = {}
        """Proxies by connector and acceptor, then by the dialled port."""

    def open(self, connector: str, acceptor: str, address: tuple[str, int], inside: Inside = here) -> FaultProxy:
        """Return the proxy from one node to an address of another; there is one for each port.

        Args:
            connector: node that dials.
            acceptor: node that is dialled.
            address: address of the acceptor.
            inside: runs the function that opens a new proxy's sockets, for example in the connector's network
                namespace.

        Raises:
            LocalError: it cannot listen.
        """
        with self._lock:
            proxies = self._proxies.setdefault((connector, acceptor), {})
            if address[1] not in proxies:
                self._loop = self._loop or LoopThread("proxies")
                proxies[address[1]] = FaultProxy(
                    connector,
                    acceptor,
                    address,
                    self.strikes(connector, acceptor),
                    self.keys(),
                    lambda strike: self.struck(connector, acceptor, strike),
                    self._loop,
                    entrance=self._entrance(connector, address[0], self._loop),
                    inside=inside,
                )
            return proxies[address[1]]

    def _entrance(self, connector: str, dialled: str, loop: LoopThread) -> Entrance | None:
        """Return an address of the connector's shared port; None if its proxies have ports of their own."""
        if not self.shares_ports or ":" in dialled:
            return None
        if connector not in self._ports or self._ports[connector].is_closed:
            try:
                self._ports[connector] = SharedPort(loop)
            except OSError:  # only newer kernels bind sockets to a device for every user
                self.shares_ports = False
                return None
        return self._ports[connector].entrance()

    def keep(self, proxy: FaultProxy) -> None:
        """Add a proxy for all ports of its acceptor; :meth:`close` closes it with the others."""
        self._proxies.setdefault(proxy.parties, {})[0] = proxy

    def drop(self, name: str, other: str = "") -> None:
        """Close the proxies from and to a node, or those from it to ``other``."""
        with self._lock:
            dropped = [way for way in self._proxies if (way == (name, other) if other else name in way)]
            closed = [proxy for way in dropped for proxy in self._proxies.pop(way).values()]
        for proxy in closed:
            proxy.close()

    def on(self, connector: str, acceptor: str, port: int = 0) -> list[FaultProxy]:
        """Return the proxies from one node to another; with ``port``, only the one to that port."""
        proxies = self._proxies.get((connector, acceptor), {})
        return [proxy for dialled, proxy in list(proxies.items()) if port in {0, dialled}]

    def between(self, a: str, b: str) -> list[FaultProxy]:
        """Return the proxies between two nodes, whichever of them dials."""
        return [*self.on(a, b), *self.on(b, a)]

    def lanes(self, sender: str, receiver: str, port: int = 0) -> Iterator[tuple[FaultProxy, Direction]]:
        """Yield each proxy and direction that carry bytes from ``sender`` to ``receiver``.

        With ``port``, only connections of the sender to that port of the receiver count.
        """
        for proxy in self.on(sender, receiver, port):
            yield proxy, Direction.TO_SERVER
        if not port:
            for proxy in self.on(receiver, sender):
                yield proxy, Direction.TO_CLIENT

    def cut(self, a: str, b: str) -> int:
        """Reset all connections between two nodes; returns their number."""
        return sum(proxy.cut() for proxy in self.between(a, b))

    def half_close(self, sender: str, receiver: str) -> int:
        """End all connections in the direction from ``sender``; returns their number."""
        return sum(proxy.half_close(direction) for proxy, direction in self.lanes(sender, receiver))

    def half_open(self, sender: str, receiver: str) -> None:
        """Have ``receiver`` lose its connections; ``sender`` gets an error when it writes."""
        for proxy, direction in self.lanes(sender, receiver):
            proxy.half_open(direction)

    def delay_dial(self, connector: str, acceptor: str, seconds: float) -> None:
        """Raise Unsupported, because on real sockets a rule is needed to delay dials."""
        raise Unsupported(f"delay_dial {connector} {acceptor} {seconds:g}: only in simulation; here use a rule")

    def heal(self) -> None:
        """Revert all holds, delays, rate limits and refusals."""
        for proxy in self:
            proxy.heal()

    def close(self) -> None:
        """Close all proxies."""
        for proxy in self:
            proxy.close()
        self._proxies.clear()
        if self._loop is not None:
            self._loop.close()

    def __iter__(self) -> Iterator[FaultProxy]:
        for proxies in list(self._proxies.values()):
            yield from list(proxies.values())
