"""The network of a cluster over RDMA: proxies for the TCP connections, netem for the devices' packets."""

from types import MappingProxyType

from messenger.compat import override
from toolkit.cluster.backends.process_network import ProxiedNetwork
from toolkit.faults.proxies import Proxies
from toolkit.network.links import Links, open_links
from toolkit.network.rdma.fabric import Fabric
from toolkit.network.state import LinkState, RandomLoss

_Way = tuple[str, str]


class RdmaNetwork(ProxiedNetwork):
    """Faults between nodes that set up queue pairs over TCP and then communicate by RDMA.

    Args:
        proxies: the proxies between all nodes, which TCP connections pass through.
        fabric: the RDMA devices.
    """

    has_rdma = True
    lacks = MappingProxyType(
        {
            "nat": "RDMA packets pass no NAT",
        }
    )

    def __init__(self, proxies: Proxies, fabric: Fabric) -> None:
        super().__init__(proxies)
        self._fabric = fabric
        self._links: Links | None = None
        self._states: dict[_Way, LinkState] = {}
        """Impairments by sender and receiver, without blocks."""
        self._blocked: set[_Way] = set()
        self._down: set[str] = set()
        self._removed: set[str] = set()
        self._narrow: set[_Way] = set()

    def renew(self) -> None:
        """Apply the impairments of the remaining hosts again after hosts were added or removed."""
        self.close()
        self._states = {way: state for way, state in self._states.items() if set(way) <= {*self.hosts}}
        self._blocked = {way for way in self._blocked if set(way) <= {*self.hosts}}
        self._down &= {*self.hosts}
        self._removed &= {*self.hosts}
        self._narrow = {way for way in self._narrow if set(way) <= {*self.hosts}}
        for way in {*self._states, *self._blocked}:
            self._treat(way)

    def close(self) -> None:
        """Stop impairing packets."""
        if self._links is not None:
            self._links.close()
            self._links = None

    @override
    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        """Impair the packets from one node's device to another's; delay, jitter and rate also apply to TCP."""
        self._check(sender, receiver)
        self._states[sender, receiver] = state
        self._treat((sender, receiver))
        self._impair(sender, receiver, state)

    @override
    def link(self, sender: str, receiver: str) -> LinkState:
        self._check(sender, receiver)
        if self._links is None or (sender, receiver) in self._blocked:
            return self._states.get((sender, receiver), LinkState())
        return self._links.get(sender, receiver)

    @override
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        """Hold the TCP connections and drop all packets of the devices; with ``port``, only hold TCP."""
        super().block(sender, receiver, port=port)
        if not port:
            self._blocked.add((sender, receiver))
            self._treat((sender, receiver))

    @override
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        super().unblock(sender, receiver, port=port)
        if not port:
            self._blocked.discard((sender, receiver))
            self._treat((sender, receiver))

    @override
    def set_rdma_port(self, name: str, *, is_up: bool) -> None:
        self._check(name)
        self._fabric.set_port(name, is_up=is_up)
        (self._down.discard if is_up else self._down.add)(name)

    @override
    def remove_rdma_device(self, name: str) -> bool:
        self._check(name)
        self._removed.add(name)
        return self._fabric.remove_device(name)

    @override
    def restore_rdma_device(self, name: str) -> None:
        self._check(name)
        self._fabric.restore_device(name)
        self._removed.discard(name)
        if name in self._down:
            self._fabric.set_port(name, is_up=False)

    @override
    def change_rdma_address(self, name: str) -> None:
        self._check(name)
        try:
            self._fabric.change_address(name)
        finally:
            self.renew()  # the filters of impairments match Ethernet addresses

    @override
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        self._check(sender, receiver)
        self._fabric.set_path_mtu((sender, receiver), mtu_bytes)
        (self._narrow.add if mtu_bytes else self._narrow.discard)((sender, receiver))

    @override
    def heal(self) -> None:
        for way in sorted(self._narrow):
            self.black_hole(*way, 0)
        for name in sorted(self._removed):
            self.restore_rdma_device(name)
        for name in sorted(self._down):
            self.set_rdma_port(name, is_up=True)
        touched, self._blocked = {*self._states, *self._blocked}, set()
        self._states.clear()
        for way in touched:
            self._treat(way)
        super().heal()

    def _treat(self, way: _Way) -> None:
        """Apply the state and the block of a link in the kernel."""
        state = self._states.get(way, LinkState())
        if way in self._blocked:
            state = state.model_copy(update={"loss": RandomLoss(percent=100)})
        if self._links is None and state.is_clear:
            return
        if self._links is None:
            self._links = open_links(self._fabric.cables(), way="netem")
        self._links.set({way: state})
