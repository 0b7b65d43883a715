"""A scripted v1 peer of a node in memory: it sends exactly what a test has it send, right or wrong."""

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import EntityName
from messenger.denc.features import CLIENT_FEATURES
from tests.support.node import Node, new_node
from tests.support.raw_link import OnNode, parties
from toolkit.node.raw.v1 import RawV1Link
from toolkit.node.raw.v1 import RawV1Message as RawMessage

__all__ = ["A_V1_ADDR", "B_V1_ADDR", "RawMessage", "RawV1Peer", "meet", "new_v1_node"]

A_V1_ADDR = "v1:10.0.0.1:6801/1"
B_V1_ADDR = "v1:10.0.0.2:6802/2"


def new_v1_node(**options: object) -> Node:
    """osd.1 alone, on v1, with options of :func:`tests.support.node.new_endpoint`."""
    return new_node(A_V1_ADDR, **options)


class RawV1Peer(OnNode, RawV1Link):  # type: ignore[misc]  # the stream is that of a node
    """One v1 link to a node, spoken by hand. By default it does what a real osd.2 would do.

    Args:
        node: whom to talk to.
        auth: none or cephx.
        name: its entity name.
        addr: own address.
        features: what to support.
    """

    SOCKET_ADDR = EntityAddr.parse("v1:10.0.0.77:40001/0")

    def __init__(
        self,
        node: Node,
        *,
        auth: str = "none",
        name: EntityName | None = None,
        addr: str = B_V1_ADDR,
        features: int = CLIENT_FEATURES,
    ) -> None:
        where = parties(node, name, addr, auth)
        RawV1Link.__init__(self, *where, connecting=False, socket_addr=self.SOCKET_ADDR, features=features)


def meet(role: str, node: Node, **options: object) -> RawV1Peer:
    """A peer on a new link of a node that has the given role; it has sent nothing yet."""
    peer = RawV1Peer(node, **options)  # type: ignore[arg-type]
    if role == "acceptor":
        return peer.dial()
    node.connect(str(peer.addr.with_type(AddressType.LEGACY)), peer.name.type)
    return peer.accept()
