"""Containers for labs, one lab after another: they take longer to start than most scenarios to run."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from messenger.compat import override
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.docker.backend import DockerBackend
from toolkit.cluster.backends.docker.host import ContainerHost
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import current_place

_AT_FIRST = 2
"""So many hosts have nearly all scenarios; the first two start side by side."""
_PORTS = range(6800, 30_000, 40)
"""Every lab has forty on each host, below those that the kernel gives to diallers."""

_shelf: "list[Containers] | None" = None
"""Those that wait for another lab; None: none are kept."""


class Containers:
    """Containers on a network of IPv4 and one of IPv6, as many as are asked for.

    Args:
        networks: that each is on.

    Raises:
        Unsupported: they cannot be had here, or cannot be reached into; with the command that helps.
    """

    def __init__(self, networks: Sequence[NetworkWish]) -> None:
        if os.geteuid() != 0:
            raise Unsupported(
                "docker: breaking links is done in the network namespaces of containers, which takes root:"
                " sudo msgrlab run ..., or --backend local"
            )
        self._on = tuple(network.name for network in networks)
        self._labs = 0
        with ExitStack() as undo:
            own = [_own(network) for network in networks]
            self.backend = undo.enter_context(DockerBackend.passing(own, self._wishes(0, _AT_FIRST)))
            if any(host.namespace is None for host in self.backend.hosts.values()):
                raise Unsupported(
                    f"docker: the engine at {current_place()} has its containers on another machine, where links"
                    " cannot be broken: --backend netns, or DOCKER_HOST names an engine of this one"
                )
            self._undo = undo.pop_all()

    def _wishes(self, there: int, how_many: int) -> list[HostWish]:
        return [HostWish(f"h{number}", self._on) for number in range(there, there + how_many)]

    def host(self, number: int, node: str) -> ContainerHost:
        """One of them, for a node; the higher its number, the higher are its addresses."""
        there = len(self.backend.hosts)
        if number >= there:
            self.backend.add(*self._wishes(there, number + 1 - there))
        return self.backend.hosts[f"h{number}"].named(node)

    def lend(self) -> "Lent":
        """The containers for another lab, with ports that none has had on these hosts."""
        self._labs += 1
        return Lent(self, _PORTS[self._labs - 1])

    @property
    def is_used_up(self) -> bool:
        """True if there are no more ports."""
        return self._labs == len(_PORTS)

    def close(self) -> None:
        """Remove everything."""
        self._undo.close()


def _own(network: NetworkWish) -> NetworkWish:
    """Networks of Docker's are the engine's: one of IPv6 has a subnet that no other has (RFC 4193 §3.2.2)."""
    if not network.subnet:
        return network
    digits = secrets.token_hex(5)
    return NetworkWish(network.name, f"fd{digits[:2]}:{digits[2:6]}:{digits[6:]}::/64", network.mtu)


class Lent(DockerBackend):
    """A backend whose hosts are containers that were there before, and stay when it closes."""

    def __init__(self, containers: Containers, first_port: int) -> None:
        super().__init__(containers.backend.lease, lambda _doing: None)
        self.first_port = first_port
        self._containers = containers

    @override
    def add(self, *wishes: HostWish) -> None:
        for wish in wishes:
            self.hosts[wish.name] = self._containers.host(len(self.hosts), wish.name)

    @override
    def close(self) -> None:
        self.proxies.close()
        self.network.heal()
        self.network.close()


@contextmanager
def borrowed(networks: Sequence[NetworkWish]) -> Iterator[Lent]:
    """Containers for one lab: some that are kept, or others.

    Whatever goes wrong meanwhile, no other lab gets them.
    """
    containers = _shelf.pop() if _shelf else Containers(networks)
    with ExitStack() as undo:
        undo.callback(containers.close)
        with closing(containers.lend()) as lent:
            yield lent
        if _shelf is not None and not containers.is_used_up:
            undo.pop_all()
            _shelf.append(containers)


@contextmanager
def kept() -> Iterator[None]:
    """Keep the containers of a lab for the next one of this process, for as long as this lasts."""
    global _shelf
    before, _shelf = _shelf, []
    try:
        yield
    finally:
        done, _shelf = _shelf, before
        with ExitStack() as undo:
            for containers in done:
                undo.callback(containers.close)
