"""Containers that several labs use in turn, because they take longer to start than most scenarios to run."""

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
"""Most scenarios need two hosts; the first two containers start in parallel."""
_PORTS = range(6800, 30_000, 40)
"""First ports of the labs: each lab has forty on each host, below the kernel's ephemeral ports."""

_shelf: "list[Containers] | None" = None
"""Containers that wait for the next lab; None if they are not reused."""


class Containers:
    """Containers on an IPv4 and an IPv6 network; more are started when a lab needs them.

    Args:
        networks: networks of each container.

    Raises:
        Unsupported: Docker is not usable, or the containers' network namespaces cannot be entered; the message
            names the command that helps.
    """

    def __init__(self, networks: Sequence[NetworkWish]) -> None:
        if os.geteuid() != 0:
            raise Unsupported(
                "docker: breaking links is done in the network namespaces of containers, which needs root:"
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
        """Return container ``number`` as the host of a node; addresses rise with the number."""
        there = len(self.backend.hosts)
        if number >= there:
            self.backend.add(*self._wishes(there, number + 1 - there))
        return self.backend.hosts[f"h{number}"].named(node)

    def lend(self) -> "Lent":
        """Return a backend for the next lab, with ports that no lab has used on these containers."""
        self._labs += 1
        return Lent(self, _PORTS[self._labs - 1])

    @property
    def is_used_up(self) -> bool:
        """True if no unused ports are left."""
        return self._labs == len(_PORTS)

    def close(self) -> None:
        """Remove all containers and networks."""
        self._undo.close()


def _own(network: NetworkWish) -> NetworkWish:
    """Give an IPv6 network a random subnet (RFC 4193 §3.2.2), because all labs share the engine's networks."""
    if not network.subnet:
        return network
    digits = secrets.token_hex(5)
    return NetworkWish(network.name, f"fd{digits[:2]}:{digits[2:6]}:{digits[6:]}::/64", network.mtu)


class Lent(DockerBackend):
    """A backend whose hosts are existing containers; they stay when it closes."""

    def __init__(self, containers: Containers, first_port: int) -> None:
        super().__init__(containers.backend.lease, lambda _step: None)
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
    """Lend containers to one lab: waiting ones, or new ones.

    If the lab fails, its containers are removed and not reused.
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
    """Keep the containers of each lab for the next one in this process, for the duration of the ``with`` block."""
    global _shelf
    before, _shelf = _shelf, []
    try:
        yield
    finally:
        done, _shelf = _shelf, before
        with ExitStack() as undo:
            for containers in done:
                undo.callback(containers.close)
