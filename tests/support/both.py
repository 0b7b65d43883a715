"""Nodes and peers by hand of either protocol, for what both have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import raw_peer, raw_v1
from tests.support.node import Node, new_node


@dataclass(frozen=True)
class Side:
    """The parts of one protocol that a test uses."""

    name: str
    new_node: Callable[..., Node]
    meet: Callable[..., Any]
    peer: Callable[..., Any]
    own_addr: str
    peer_addr: str

    def ready(self, role: str = "acceptor", **options: object) -> tuple[Node, Any]:
        """A node with an open session in the given role, and its peer."""
        node = self.new_node(**options)
        return node, self.meet(role, node).handshake()

    def another(self, node: Node, number: int, **options: object) -> Any:
        """The peer osd.``number`` on a link of its own."""
        addr = f"{self.name}:10.0.0.{number}:{6800 + number}/{number}"
        return self.peer(node, addr=addr, **options).dial()


V1 = Side("v1", raw_v1.new_v1_node, raw_v1.meet, raw_v1.RawV1Peer, raw_v1.A_V1_ADDR, raw_v1.B_V1_ADDR)
V2 = Side("v2", new_node, raw_peer.meet, raw_peer.RawPeer, "v2:10.0.0.1:6801/1", "v2:10.0.0.2:6802/2")

on_both = pytest.mark.parametrize("side", [V1, V2], ids=lambda side: side.name)
