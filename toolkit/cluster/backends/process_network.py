"""The network of the process backend: a proxy on each way on which one node dials another."""

import threading
from collections.abc import Iterator
from types import MappingProxyType

from messenger.errors import LocalError
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KeyBook
from toolkit.errors import Unsupported
from toolkit.faults.proxy import FaultProxy
from toolkit.loops import LoopThread
from toolkit.network.faults import NetworkFaults
from toolkit.network.state import LinkState

_HELD = frozenset({"delay_ms", "jitter_ms", "rate_bits_per_s", "limit_packets", "seed"})
"""What a proxy can do of a link's state, or need not care about."""
_WHOLE = LinkState()


class ProxiedNetwork(NetworkFaults):
    """What proxies can do between nodes that share the loopback: whole connections, no packets."""

    lacks = MappingProxyType(
        dict.fromkeys(("black_hole", "packets"), "loopback has no packets: --backend netns")
        | {"nat": "loopback has no way that a NAT could be on: --backend netns"}
    )

    def __init__(self) -> None:
        self.hosts: tuple[str, ...] = ()
        self._loop: LoopThread | None = None
        self._proxies: dict[tuple[str, str], dict[int, FaultProxy]] = {}
        """By who dials whom, and by the port that is dialled."""
        self._lock = threading.Lock()

    def proxy(
        self, dialler: str, dialled: str, address: tuple[str, int], keys: KeyBook | None = None
    ) -> FaultProxy:
        """The proxy on the way from one node to an address of another; it takes keys to see secure frames."""
        with self._lock:
            proxies = self._proxies.setdefault((dialler, dialled), {})
            if address[1] not in proxies:
                self._loop = self._loop or LoopThread("proxies")
                proxies[address[1]] = FaultProxy(dialler, dialled, address, keys=keys, loop=self._loop)
            return proxies[address[1]]

    def proxies(self, dialler: str, dialled: str) -> list[FaultProxy]:
        """All proxies on the way from one node to another."""
        return list(self._proxies.get((dialler, dialled), {}).values())

    # ---- faults

    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        """See :class:`NetworkFaults`; delay, jitter and rate of whole connections.

        Raises:
            Unsupported: something about packets.
        """
        self._check(sender, receiver)
        for name in state.model_fields_set - _HELD:
            if getattr(state, name) != getattr(_WHOLE, name):
                raise Unsupported(
                    f"link {sender} {receiver}: no {name} on loopback, which has no packets: --backend netns"
                )
        for proxy, direction in self._lanes(sender, receiver):
            # netem's jitter goes both ways of the delay, a proxy's comes on top of it
            early_s = max(0.0, state.delay_ms - state.jitter_ms) / 1000
            late_s = (state.delay_ms + state.jitter_ms) / 1000
            rate = state.rate_bits_per_s
            proxy.impair(direction, early_s, late_s - early_s, rate / 8 if rate else None)

    def link(self, sender: str, receiver: str) -> LinkState:
        """See :class:`NetworkFaults`; what the proxies hold."""
        self._check(sender, receiver)
        for proxy, direction in self._lanes(sender, receiver):
            lane = proxy.lane(direction)
            return LinkState(
                delay_ms=round((lane.delay_s + lane.jitter_s / 2) * 1000, 6),
                jitter_ms=round(lane.jitter_s * 500, 6),
                rate_bits_per_s=round((lane.bytes_per_s or 0) * 8),
            )
        return _WHOLE

    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """See :class:`NetworkFaults`; what is sent waits until it is unblocked, as lost packets are sent again."""
        self._check(sender, receiver)
        for proxy, direction in self._lanes(sender, receiver, port):
            proxy.hold(direction)

    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """See :class:`NetworkFaults`."""
        self._check(sender, receiver)
        for proxy, direction in self._lanes(sender, receiver, port):
            proxy.let_pass(direction)

    def is_blocked(self, sender: str, receiver: str) -> bool:
        """Whether nothing passes from one node to another."""
        lanes = [proxy.lane(direction) for proxy, direction in self._lanes(sender, receiver)]
        return bool(lanes) and all(lane.held for lane in lanes)

    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        """See :class:`NetworkFaults`."""
        self._check(sender, receiver)
        for dialled, proxy in self._proxies.get((sender, receiver), {}).items():
            if port in (0, dialled):
                proxy.refuse(refused=refused)

    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        """See :class:`NetworkFaults`; not here."""
        if mtu_bytes:
            raise Unsupported(f"black-hole {sender} {receiver}: loopback has no packets: --backend netns")

    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        """See :class:`NetworkFaults`; not here."""
        if translated:
            raise Unsupported(f"nat {sender} {receiver}: {self.lacks['nat']}")

    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:  # noqa: ARG002 - not here
        """See :class:`NetworkFaults`; not here."""
        raise Unsupported(f"nat-flush {sender} {receiver}: {self.lacks['nat']}")

    def reset(self, a: str, b: str) -> int:
        """See :class:`NetworkFaults`."""
        self._check(a, b)
        return sum(proxy.cut() for proxy in (*self.proxies(a, b), *self.proxies(b, a)))

    def finish(self, sender: str, receiver: str) -> int:
        """See :class:`NetworkFaults`."""
        self._check(sender, receiver)
        return sum(proxy.half_close(direction) for proxy, direction in self._lanes(sender, receiver))

    def heal(self) -> None:
        """See :class:`NetworkFaults`."""
        for proxies in list(self._proxies.values()):
            for proxy in proxies.values():
                proxy.heal()
        for (sender, receiver), state in self.initial.items():
            self.set_link(sender, receiver, state)

    def close(self) -> None:
        """End all proxies."""
        for proxies in self._proxies.values():
            for proxy in proxies.values():
                proxy.close()
        self._proxies.clear()
        if self._loop is not None:
            self._loop.close()

    def _lanes(self, sender: str, receiver: str, port: int = 0) -> Iterator[tuple[FaultProxy, Direction]]:
        """Where bytes from one node to another pass: on ways that either of them dialled."""
        for dialled, proxy in list(self._proxies.get((sender, receiver), {}).items()):
            if port in (0, dialled):
                yield proxy, Direction.TO_SERVER
        if not port:
            for proxy in self.proxies(receiver, sender):
                yield proxy, Direction.TO_CLIENT

    def _check(self, *names: str) -> None:
        for name in names:
            if name not in self.hosts:
                raise LocalError(f"no node {name!r}; there are {', '.join(self.hosts)}")
