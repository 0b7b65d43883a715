"""A network namespace for the kernel's own client of Ceph, with proxies before the daemons."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from ipaddress import ip_address
from typing import TypeVar

from toolkit.dissect.keys import KeyBook
from toolkit.faults.entrances import OwnEntrance
from toolkit.faults.proxy import FaultProxy, Watcher
from toolkit.faults.strike import Strike
from toolkit.machine.changes import Namespace
from toolkit.machine.rtnetlink import rtnetlink
from toolkit.network import namespaces

T = TypeVar("T")
_NAME = "kernel-client"


class KernelNamespace:
    """A namespace from which the kernel dials proxies at the daemons' own addresses, without noticing.

    So no rule has to translate addresses, which user-mode Linux cannot.

    Args:
        keys: keys to parse frames of secure links.
        undo: removes the namespace and closes the proxies.
    """

    def __init__(self, keys: KeyBook, undo: ExitStack) -> None:
        self._keys = keys
        self._undo = undo
        self._path = namespaces.create(_NAME)
        undo.callback(Namespace(_NAME).undo)

    def inside(self, what: Callable[[], T]) -> T:
        """Run a function from whose thread the kernel connects."""
        return namespaces.inside(self._path, what)

    def add(
        self,
        acceptor: str,
        host: str,
        ports: list[int],
        strikes: list[Strike],
        watcher: Watcher | None = None,
    ) -> list[FaultProxy]:
        """Return proxies before a daemon, at its address and ports."""
        if not ip_address(host).is_loopback:
            self.inside(partial(_add_address, host))
        return [self._proxy(acceptor, (host, port), strikes, watcher) for port in ports]

    def _proxy(
        self, acceptor: str, target: tuple[str, int], strikes: list[Strike], watcher: Watcher | None
    ) -> FaultProxy:
        entrance = OwnEntrance(*target, self.inside)
        proxy = FaultProxy("kernel", acceptor, target, strikes, self._keys, entrance=entrance, watcher=watcher)
        self._undo.callback(proxy.close)
        return proxy


def _add_address(address: str) -> None:
    with rtnetlink() as route:
        route.addr("add", index=1, address=address, prefixlen=32)
