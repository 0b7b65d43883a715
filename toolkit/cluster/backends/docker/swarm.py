"""Containers on overlay networks of a swarm, spread over several engines."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.docker.backend import DockerBackend
from toolkit.cluster.backends.docker.subnets import Subnet
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import CONTEXT_SCHEME, connected, current_place
from toolkit.network.namespace_faults import NamespaceNetwork
from toolkit.network.state import LinkState

if TYPE_CHECKING:
    from docker import DockerClient

CONTEXTS_VARIABLE = "MSGRLAB_SWARM"
"""Docker contexts of a swarm's machines, a manager's first, with commas between them."""
_USUAL_MTU, _VXLAN_BYTES = 1500, 50
"""Between machines, a packet on an overlay is inside another one, whose headers take room: 1450 bytes are left."""
_ACTIVE = "active"


class OverlayNetwork(NamespaceNetwork):
    """Faults between hosts on overlays, whose other ends are in namespaces of the engine's."""

    @override
    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        """Accept a link without impairments only."""
        if not state.is_clear:
            raise Unsupported(
                f"link {sender} {receiver}: a swarm's networks have no impairments: --backend docker has"
            )


class SwarmBackend(DockerBackend):
    """A container per node, on networks that reach over all machines of a swarm.

    Nodes are dealt out to the engines of the Docker contexts in ``MSGRLAB_SWARM``; without it all are on the one
    engine that is meant, which has to be a manager.
    """

    name: ClassVar[str] = "swarm"
    driver: ClassVar[str] = "overlay"

    network_kind: ClassVar[type[NamespaceNetwork]] = OverlayNetwork

    @classmethod
    def places(cls) -> list[str]:
        """The engines that nodes are spread over, a manager's first."""
        names = [name.strip() for name in os.environ.get(CONTEXTS_VARIABLE, "").split(",")]
        return [CONTEXT_SCHEME + name for name in names if name] or [current_place()]

    @classmethod
    @override
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        super().check(networks, hosts)
        manager = cls.places()[0]
        with connected(manager) as engine:
            if not engine.info()["Swarm"].get("ControlAvailable"):
                raise Unsupported(f"Docker at {manager} manages no swarm: networks are made by a manager")

    @staticmethod
    def _own_range(subnet: Subnet) -> str | None:
        """Every machine has an end of its own on an overlay; the upper half of the addresses is for those."""
        return str(list(subnet.subnets())[-1])

    def _options(self, wish: NetworkWish) -> dict[str, str]:
        """Docker wants to hear of the MTU between machines: the usual one, unless another is wished for."""
        outside = wish.mtu if wish.mtu == _USUAL_MTU else wish.mtu + _VXLAN_BYTES
        return super()._options(replace(wish, mtu=outside))

    @classmethod
    def _check_engine(cls, engine: "DockerClient", place: str) -> None:
        super()._check_engine(engine, place)
        if engine.info()["Swarm"].get("LocalNodeState") != _ACTIVE:
            raise Unsupported(f"Docker at {place} is in no swarm: docker swarm init, or docker swarm join")
