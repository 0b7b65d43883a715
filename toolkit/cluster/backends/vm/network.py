"""The network between the hosts in the guest of a cluster; the backend in the guest applies the faults."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from messenger.compat import override
from toolkit.cluster.backends.vm.guest import Guest
from toolkit.network.faults import NetworkFaults
from toolkit.network.state import LinkState

Way = tuple[str, str]


class GuestNetwork(NetworkFaults):
    """Faults between hosts in the guest.

    Args:
        guest: the guest.
        about: what the network lacks and has, as the agent reports it.
    """

    def __init__(self, guest: Guest, about: Mapping[str, Any]) -> None:
        self._guest = guest
        self._initial: Mapping[Way, LinkState] = {}
        self._together = threading.local()
        self.lacks = about["lacks"]
        self.has_rdma = about["has_rdma"]

    @property
    def initial(self) -> Mapping[Way, LinkState]:
        """Impairments of the spec by sender and receiver."""
        return self._initial

    @initial.setter
    def initial(self, states: Mapping[Way, LinkState]) -> None:
        self._initial = states
        values = [[*way, state.model_dump(mode="json")] for way, state in states.items()]
        self._guest.call("initial", states=values)

    def _do(self, method: str, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as JSON
        """Call a method of the guest's network, or with :meth:`at_once` at the end of the block."""
        call = [method, args, named]
        calls: list[Any] | None = getattr(self._together, "calls", None)
        if calls is None:
            return self._guest.call("network", calls=[call])
        calls.append(call)
        return None

    @contextmanager
    @override
    def at_once(self) -> Iterator[None]:
        calls: list[Any] = []
        self._together.calls = calls
        try:
            yield
        finally:
            self._together.calls = None
        if calls:
            self._guest.call("network", calls=calls)

    @override
    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        self._do("set_link", sender, receiver, state.model_dump(mode="json"))

    @override
    def link(self, sender: str, receiver: str) -> LinkState:
        return LinkState(**self._guest.call("network", calls=[["link", [sender, receiver], {}]]))

    @override
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._do("block", sender, receiver, port=port)

    @override
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._do("unblock", sender, receiver, port=port)

    @override
    def is_blocked(self, sender: str, receiver: str) -> bool:
        return bool(self._guest.call("network", calls=[["is_blocked", [sender, receiver], {}]]))

    @override
    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        self._do("refuse", sender, receiver, port=port, refused=refused)

    @override
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        self._do("black_hole", sender, receiver, mtu_bytes)

    @override
    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        self._do("nat", sender, receiver, translated=translated)

    @override
    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        return int(self._do("nat_flush", sender, receiver, silent=silent))

    @override
    def set_rdma_port(self, name: str, *, is_up: bool) -> None:
        self._do("set_rdma_port", name, is_up=is_up)

    @override
    def remove_rdma_device(self, name: str) -> bool:
        return bool(self._do("remove_rdma_device", name))

    @override
    def restore_rdma_device(self, name: str) -> None:
        self._do("restore_rdma_device", name)

    @override
    def change_rdma_address(self, name: str) -> None:
        self._do("change_rdma_address", name)

    @override
    def reset(self, a: str, b: str) -> int:
        return int(self._do("reset", a, b))

    @override
    def finish(self, sender: str, receiver: str) -> int:
        return int(self._do("finish", sender, receiver))

    @override
    def heal(self) -> None:
        self._do("heal")
