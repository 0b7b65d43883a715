"""The ``swarm`` backend: containers on overlay networks of a swarm, distributed over several engines."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.docker.backend import DockerBackend
from toolkit.cluster.backends.docker.host import ContainerHost
from toolkit.cluster.backends.docker.subnets import Subnet
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import CONTEXT_SCHEME, connected, current_place
from toolkit.network.cables import find_cables
from toolkit.network.links import Cable
from toolkit.network.namespace_faults import NamespaceNetwork
from toolkit.network.places import Place, Places
from toolkit.network.state import LinkState

if TYPE_CHECKING:
    from docker import DockerClient

CONTEXTS_VARIABLE = "MSGRLAB_SWARM"
"""Environment variable with the Docker contexts of a swarm's machines, separated by commas, a manager first."""
_USUAL_MTU, _VXLAN_BYTES = 1500, 50
"""Between machines, VXLAN headers take 50 bytes of each packet: 1450 bytes are left for the overlay."""
_ACTIVE = "active"


class OverlayNetwork(NamespaceNetwork):
    """Faults between containers on overlays, whose bridges have namespaces of their own on each machine."""

    @override
    def _find_cables(self) -> list[Cable]:
        here = {name: host for name, host in self._places.hosts.items() if host.namespace is not None}
        return find_cables(self._lease.label, Places(here), _switch_of)

    @override
    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        for name in (sender, receiver):
            self._places.namespace(name)  # raises if it is on another machine
        super().set_link(sender, receiver, state)


def _switch_of(place: Place, network: str) -> Path:
    """Return the namespace in which the engine has its part of a host's network."""
    assert isinstance(place, ContainerHost)
    found = place.overlay(place.addresses[network])
    if found is None:
        raise Unsupported(f"{place.name}: its engine shows no namespace of network {network} on this machine")
    return found


class SwarmBackend(DockerBackend):
    """A container per node, on networks that span all machines of a swarm.

    Nodes are distributed over the engines of the Docker contexts in ``MSGRLAB_SWARM``; without it all are on the
    default engine, which has to be a manager.
    """

    name: ClassVar[str] = "swarm"
    driver: ClassVar[str] = "overlay"

    network_kind: ClassVar[type[NamespaceNetwork]] = OverlayNetwork

    @classmethod
    def places(cls) -> list[str]:
        """Return the engines that nodes are distributed over, a manager first."""
        names = [name.strip() for name in os.environ.get(CONTEXTS_VARIABLE, "").split(",")]
        return [CONTEXT_SCHEME + name for name in names if name] or [current_place()]

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        super().check(networks, hosts)
        manager = cls.places()[0]
        with connected(manager) as engine:
            if not engine.info()["Swarm"].get("ControlAvailable"):
                raise Unsupported(
                    f"Docker at {manager} is no manager of a swarm: only managers can create networks"
                )

    @staticmethod
    def _own_range(subnet: Subnet) -> str | None:
        """Return the upper half of the addresses, for each machine's own end of an overlay."""
        return str(list(subnet.subnets())[-1])

    def _options(self, wish: NetworkWish) -> dict[str, str]:
        """Give Docker the MTU between machines: the usual one, unless the network requires another."""
        outside = wish.mtu if wish.mtu == _USUAL_MTU else wish.mtu + _VXLAN_BYTES
        return super()._options(replace(wish, mtu=outside))

    @classmethod
    def _check_engine(cls, engine: "DockerClient", place: str) -> None:
        super()._check_engine(engine, place)
        if engine.info()["Swarm"].get("LocalNodeState") != _ACTIVE:
            raise Unsupported(f"Docker at {place} is in no swarm: docker swarm init, or docker swarm join")
