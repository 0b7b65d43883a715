"""Faults of RDMA devices and queue pairs, in clusters with ``transport: rdma``."""

from dataclasses import dataclass

from messenger.compat import override
from toolkit.errors import Unsupported
from toolkit.faults.language.fault import Area, Fault
from toolkit.faults.language.grammar import NODE, argument
from toolkit.faults.language.network import Heal
from toolkit.faults.language.scene import Scene
from toolkit.network.faults import NO_RDMA


class _OfRdma(Fault):
    """A fault of RDMA devices."""

    __slots__ = ()

    AREA = Area.NETWORK

    @override
    def missing(self, scene: Scene) -> str:
        return "" if scene.network.has_rdma else NO_RDMA


@dataclass(frozen=True, slots=True)
class RdmaDown(_OfRdma):
    """Take the port of a node's RDMA device down: all its links fail at once, and it cannot connect."""

    WORD = "rdma-down"
    EXAMPLE = "rdma-down a"
    LASTS = True

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        scene.network.set_rdma_port(self.node, is_up=False)
        scene.path("rdma port down", self.node)
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.network.set_rdma_port(self.node, is_up=True)
        scene.path("heal", self.node)

    @override
    def undone_by(self, other: Fault) -> bool:
        """True for ``rdma-up`` of the node, and for ``heal`` without nodes."""
        return (isinstance(other, RdmaUp) and other.node == self.node) or (isinstance(other, Heal) and not other.a)


@dataclass(frozen=True, slots=True)
class RdmaUp(_OfRdma):
    """Bring the port of a node's RDMA device up again."""

    WORD = "rdma-up"
    EXAMPLE = "rdma-up a"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        scene.network.set_rdma_port(self.node, is_up=True)
        scene.path("heal", self.node)
        return ""


@dataclass(frozen=True, slots=True)
class QueuePairError(_OfRdma):
    """Set a node's queue pair with a peer to its error state, with operations in progress."""

    WORD = "qp-error"
    EXAMPLE = "qp-error a b"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")

    @override
    def missing(self, scene: Scene) -> str:
        return super(QueuePairError, self).missing(scene) or scene.not_ours(self.a)

    @override
    def do(self, scene: Scene) -> str:
        if reason := self.missing(scene):
            raise Unsupported(f"qp-error: {reason}")
        scene.command(self.a, "fail_queue_pair", peer=self.b)
        scene.cut(self.a, self.b, f"queue pair of {self.a} in its error state")
        return ""
