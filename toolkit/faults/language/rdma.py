"""Faults of RDMA devices and queue pairs, in clusters with ``transport: rdma``."""

from dataclasses import dataclass

from messenger.compat import override
from toolkit.errors import Unsupported
from toolkit.faults.language.fault import Area, Fault
from toolkit.faults.language.grammar import NODE, argument
from toolkit.faults.language.network import Heal
from toolkit.faults.language.processes import Kill, Restart
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
class RdmaRemove(_OfRdma):
    """Remove a node's RDMA device: its port goes down, and the kernel destroys it once the node has closed it."""

    WORD = "rdma-remove"
    EXAMPLE = "rdma-remove a"
    LASTS = True

    node: str = argument(NODE)

    @override
    def missing(self, scene: Scene) -> str:
        return _OfRdma.missing(self, scene) or scene.keeps_devices()

    @override
    def do(self, scene: Scene) -> str:
        if reason := scene.keeps_devices():
            raise Unsupported(f"{self}: {reason}")
        is_gone = scene.network.remove_rdma_device(self.node)
        scene.path("rdma device removed", self.node)
        return "" if is_gone else f"{self.node} has it still open: the kernel removes it then"

    @override
    def undo(self, scene: Scene) -> None:
        scene.network.restore_rdma_device(self.node)
        scene.path("heal", self.node)

    @override
    def undone_by(self, other: Fault) -> bool:
        """True for ``rdma-add`` of the node, and for ``heal`` without nodes."""
        is_back = isinstance(other, RdmaAdd) and other.node == self.node
        return is_back or (isinstance(other, Heal) and not other.a)


@dataclass(frozen=True, slots=True)
class RdmaAdd(_OfRdma):
    """Create a node's removed RDMA device again, with the same name and address, and take its port up."""

    WORD = "rdma-add"
    EXAMPLE = "rdma-add a"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        scene.network.restore_rdma_device(self.node)
        scene.path("heal", self.node)
        return ""


@dataclass(frozen=True, slots=True)
class GidChange(_OfRdma):
    """Change the address (GID) of a node's RDMA device: its links break, and later ones have the new address."""

    WORD = "gid-change"
    EXAMPLE = "gid-change a"

    node: str = argument(NODE)

    @override
    def do(self, scene: Scene) -> str:
        scene.network.change_rdma_address(self.node)
        scene.path("rdma address changed", self.node)
        return ""


class _OfQueuePair(_OfRdma):
    """A fault of a queue pair, by a command of its node."""

    __slots__ = ()

    a: str

    @override
    def missing(self, scene: Scene) -> str:
        return super().missing(scene) or scene.not_ours(self.a)

    def check(self, scene: Scene) -> None:
        """Raise Unsupported if this cluster cannot have the fault."""
        if reason := self.missing(scene):
            raise Unsupported(f"{self.WORD}: {reason}")


@dataclass(frozen=True, slots=True)
class NotReady(_OfQueuePair):
    """Let a node's queue pair run out of receive buffers, so that the peer's device gets "receiver not ready"."""

    WORD = "not-ready"
    EXAMPLE = "not-ready a b"
    LASTS = True

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")

    @override
    def do(self, scene: Scene) -> str:
        self.check(scene)
        scene.command(self.a, "withhold_receives", peer=self.b, withheld=True)
        scene.path("receiver not ready", self.b, self.a)
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.command(self.a, "withhold_receives", peer=self.b, withheld=False)
        scene.path("heal", self.b, self.a)

    @override
    def undone_by(self, other: Fault) -> bool:
        """True for faults that end the process."""
        return isinstance(other, Kill | Restart) and other.node == self.a


@dataclass(frozen=True, slots=True)
class QueuePairError(_OfQueuePair):
    """Set a node's queue pair with a peer to its error state, with operations in progress."""

    WORD = "qp-error"
    EXAMPLE = "qp-error a b"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")

    @override
    def do(self, scene: Scene) -> str:
        self.check(scene)
        scene.command(self.a, "fail_queue_pair", peer=self.b)
        scene.cut(self.a, self.b, f"queue pair of {self.a} in its error state")
        return ""
