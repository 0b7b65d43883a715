"""Containers for labs, one lab after another: they take longer to start than most scenarios to run."""

import os
import secrets
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.docker.backend import DockerBackend
from toolkit.cluster.backends.docker.host import ContainerHost
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import current_place
from toolkit.machine.leases import Lease

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

    def __init__(self, networks: tuple[NetworkWish, ...]) -> None:
        check(networks)
        self._on = tuple(network.name for network in networks)
        self._labs = 0
        with ExitStack() as undo:
            lease = Lease.take(f"lab-{uuid.uuid4().hex[:12]}")
            undo.callback(lease.journal.undo)
            undo.enter_context(lease.held())
            self.backend = DockerBackend(lease, lambda _doing: None)
            undo.callback(self.backend.close)
            self.backend.open([_own(network) for network in networks], self._wishes(_AT_FIRST))
            if any(host.namespace is None for host in self.backend.hosts.values()):
                raise Unsupported(
                    f"docker: the engine at {current_place()} has its containers on another machine, where links"
                    " cannot be broken: --backend netns, or DOCKER_HOST names an engine of this one"
                )
            self._undo = undo.pop_all()

    def _wishes(self, how_many: int) -> list[HostWish]:
        there = len(self.backend.hosts)
        return [HostWish(f"h{number}", self._on) for number in range(there, there + how_many)]

    def host(self, number: int, node: str) -> ContainerHost:
        """One of them, for a node; the higher its number, the higher are its addresses."""
        if number >= len(self.backend.hosts):
            self.backend.add(*self._wishes(number + 1 - len(self.backend.hosts)))
        return self.backend.hosts[f"h{number}"].named(node)

    def next_port(self) -> int:
        """The first port of another lab, which none has had on these hosts."""
        self._labs += 1
        return _PORTS[self._labs - 1]

    @property
    def is_used_up(self) -> bool:
        """Whether there are no more ports."""
        return self._labs == len(_PORTS)

    def close(self) -> None:
        """Remove everything."""
        self._undo.close()


def check(networks: tuple[NetworkWish, ...]) -> None:
    """Whether labs can have containers here.

    Raises:
        Unsupported: something is missing: what it is, and the command that helps.
    """
    if os.geteuid() != 0:
        raise Unsupported(
            "docker: breaking links is done in the network namespaces of containers, which takes root:"
            " sudo msgrlab run ..., or --backend local"
        )
    first = networks[0].name
    DockerBackend.check([NetworkWish(first)], [HostWish("h0", (first,))])


def _own(network: NetworkWish) -> NetworkWish:
    """Networks of Docker's are the engine's: one of IPv6 has a subnet that no other has (RFC 4193 §3.2.2)."""
    if not network.subnet:
        return network
    digits = secrets.token_hex(5)
    return NetworkWish(network.name, f"fd{digits[:2]}:{digits[2:6]}:{digits[6:]}::/64", network.mtu)


@contextmanager
def borrowed(networks: tuple[NetworkWish, ...]) -> Iterator[tuple[Containers, int]]:
    """Containers for one lab, and its first port: some that are kept, or others.

    Whatever goes wrong meanwhile, no other lab gets them.
    """
    containers = _shelf.pop() if _shelf else Containers(networks)
    with ExitStack() as undo:
        undo.callback(containers.close)
        yield containers, containers.next_port()
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
