"""The network of the process backend: a proxy from each node to each node that it dials."""

from types import MappingProxyType

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.faults.proxies import Proxies
from toolkit.network.faults import NetworkFaults, delayed
from toolkit.network.state import LinkState


class ProxiedNetwork(NetworkFaults):
    """Faults of connections between nodes on loopback, by proxies; there are no faults of single packets.

    Args:
        proxies: the proxies between all nodes.
    """

    lacks = MappingProxyType(
        dict.fromkeys(("black_hole", "packets"), "loopback has no packets: --backend netns")
        | {"nat": "loopback has no way that a NAT could be on: --backend netns"}
    )

    def __init__(self, proxies: Proxies) -> None:
        self.hosts: tuple[str, ...] = ()
        self._proxies = proxies

    # ---- faults

    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        """Impair the connections between two nodes by delay, jitter and rate.

        Raises:
            Unsupported: the state impairs single packets.
        """
        self._check(sender, receiver)
        state.require_only(f"link {sender} {receiver}", "loopback has no packets: --backend netns")
        self._impair(sender, receiver, state)

    def _impair(self, sender: str, receiver: str, state: LinkState) -> None:
        """Have the proxies apply the delay, jitter and rate of a state."""
        rate = state.rate_bits_per_s
        for proxy, direction in self._proxies.lanes(sender, receiver):
            proxy.impair(direction, state.least_delay_s, state.spread_s, rate / 8 if rate else None)

    @override
    def link(self, sender: str, receiver: str) -> LinkState:
        """Return the impairments that the proxies apply."""
        self._check(sender, receiver)
        for proxy, direction in self._proxies.lanes(sender, receiver):
            lane = proxy.lane(direction)
            rate_bits_per_s = round((lane.bytes_per_s or 0) * 8)
            return LinkState(**delayed(lane.delay_s, lane.jitter_s), rate_bits_per_s=rate_bits_per_s)
        return LinkState()

    @override
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """Hold all bytes until the link is unblocked, since TCP would retransmit lost packets."""
        self._check(sender, receiver)
        for proxy, direction in self._proxies.lanes(sender, receiver, port):
            proxy.hold(direction)

    @override
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._check(sender, receiver)
        for proxy, direction in self._proxies.lanes(sender, receiver, port):
            proxy.resume(direction)

    def is_blocked(self, sender: str, receiver: str) -> bool:
        """True if the proxies hold all bytes from one node to another."""
        lanes = [proxy.lane(direction) for proxy, direction in self._proxies.lanes(sender, receiver)]
        return bool(lanes) and all(lane.held for lane in lanes)

    @override
    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        self._check(sender, receiver)
        for proxy in self._proxies.on(sender, receiver, port):
            proxy.refuse(refused=refused)

    @override
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        """Raise Unsupported, because loopback has no path MTU."""
        if mtu_bytes:
            raise Unsupported(f"black-hole {sender} {receiver}: {self.lacks['black_hole']}")

    @override
    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        """Raise Unsupported, because no NAT can be between nodes on loopback."""
        if translated:
            raise Unsupported(f"nat {sender} {receiver}: {self.lacks['nat']}")

    @override
    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        """Raise Unsupported, because no NAT can be between nodes on loopback."""
        raise Unsupported(f"nat-flush {sender} {receiver}: {self.lacks['nat']}")

    @override
    def reset(self, a: str, b: str) -> int:
        self._check(a, b)
        return self._proxies.cut(a, b)

    @override
    def finish(self, sender: str, receiver: str) -> int:
        self._check(sender, receiver)
        return self._proxies.half_close(sender, receiver)

    @override
    def heal(self) -> None:
        self._proxies.heal()
        for (sender, receiver), state in self.initial.items():
            self.set_link(sender, receiver, state)

    def _check(self, *names: str) -> None:
        for name in names:
            if name not in self.hosts:
                raise LocalError(f"no node {name!r}; there are {', '.join(self.hosts)}")
