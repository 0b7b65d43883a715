"""A scripted peer of a node in memory: it sends exactly what a test has it send, right or wrong."""

from typing import Any

from messenger.cephx.exchange import ConMode
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName
from messenger.denc.features import Msgr2Feature
from tests.support.node import B_ADDR, Node
from tests.support.raw_link import OnNode, parties
from toolkit.node.raw.v2 import CLIENT_COOKIE, RawMessage, RawV2Link

__all__ = ["COOKIE", "ROLES", "RawMessage", "RawPeer", "meet"]

COOKIE = CLIENT_COOKIE

ROLES = ("connector", "acceptor")
"""What the node under test is; the raw peer is the other."""


class RawPeer(OnNode, RawV2Link):  # type: ignore[misc]  # the stream is that of a node
    """One link to a node, spoken by hand. By default it does what a real osd.2 would do.

    Args:
        node: whom to talk to.
        auth: none or cephx.
        mode: connection mode to ask for, or as the acceptor to choose.
        name: its entity name.
        addr: own address.
        features: msgr2 features to advertise.
    """

    SOCKET_ADDR = EntityAddr.parse("v2:10.0.0.1:40001/0")

    def __init__(
        self,
        node: Node,
        *,
        auth: str = "none",
        mode: ConMode = ConMode.CRC,
        name: EntityName | None = None,
        addr: str = B_ADDR,
        features: int = Msgr2Feature.REVISION_1,
    ) -> None:
        where: Any = {"connecting": False, "socket_addr": self.SOCKET_ADDR}
        RawV2Link.__init__(self, *parties(node, name, addr, auth), mode=mode, features=features, **where)

    @property
    def addrs(self) -> AddrVec:
        """The own addresses."""
        return self.me.addrs


def meet(role: str, node: Node, **options: object) -> RawPeer:
    """A peer on a new link of a node that has the given role; it has sent nothing yet."""
    peer = RawPeer(node, **options)  # type: ignore[arg-type]
    if role == "acceptor":
        return peer.dial()
    node.connect(B_ADDR)
    return peer.accept()
