"""Raw links of both protocols to a node in memory, where nothing takes any time."""

from collections.abc import Callable
from random import Random
from typing import Self

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.link import Protocol
from messenger.outputs import CloseLink, OpenLink, PauseLink, WriteLink
from tests.support.node import WALL_OFFSET_S, Node, auth_pair
from toolkit.node.raw.link import Identity, Other
from toolkit.node.raw.stream import Stream


class NodeStream(Stream):
    """The byte stream of one link of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.link = 0
        self.paused = False
        """The node does not want to read at present."""
        self._closed = False

    def dial(self, socket_addr: EntityAddr, protocol: Protocol) -> None:
        """Connect to the node."""
        self.link = self.node.endpoint.link_accepted(socket_addr, self.node.now, protocol)

    def accept(self, socket_addr: EntityAddr) -> None:
        """Answer the node's dial, which must be waiting."""
        self.node.pump()
        output = next(item for item in self.node.outbox if isinstance(item, OpenLink))
        self.node.outbox.remove(output)
        self.link = output.link_id
        self.node.endpoint.link_opened(self.link, socket_addr, self.node.now)

    def write(self, raw: bytes) -> None:
        self.node.endpoint.link_data(self.link, raw, self.node.now)

    def read(self) -> bytes:
        taken = bytearray()
        self.node.pump()
        while mine := [output for output in self.node.outbox if output.link_id == self.link]:
            for output in mine:
                self.node.outbox.remove(output)
                if isinstance(output, WriteLink):
                    assert sum(map(len, output.buffers)) == output.size_bytes
                    taken += b"".join(output.buffers)
                    self.node.endpoint.link_written(self.link, output.size_bytes, self.node.now)
                elif isinstance(output, PauseLink):
                    self.paused = output.paused
                else:
                    self._closed |= isinstance(output, CloseLink)
            self.node.pump()
        return bytes(taken)

    @property
    def closed(self) -> bool:
        return self._closed

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        return condition()

    def close(self) -> None:
        self.node.endpoint.link_eof(self.link, self.node.now)


class OnNode:
    """Mixin for a raw link to a node in memory; which side dials is decided after it is made."""

    PROTOCOL: Protocol
    SOCKET_ADDR: EntityAddr
    """Where the peer's socket is, as the node sees it."""
    stream: NodeStream
    connecting: bool
    pump: Callable[[], None]
    me: Identity

    def dial(self) -> Self:
        """Connect to the node."""
        self.connecting = True
        self.stream.dial(self.SOCKET_ADDR, self.PROTOCOL)
        self.pump()
        return self

    def accept(self) -> Self:
        """Answer the node's dial, which must be waiting."""
        self.stream.accept(self.SOCKET_ADDR)
        self.pump()
        return self

    @property
    def node(self) -> Node:
        return self.stream.node

    @property
    def link(self) -> int:
        """The link's id at the node."""
        return self.stream.link

    @property
    def paused(self) -> bool:
        """The node does not want to read at present."""
        return self.stream.paused

    def authenticate_by(self, auth: str) -> None:
        """Use a method from here on: none or cephx."""
        self.me.auth_client, self.me.auth_server = auth_pair(auth, self.me.name)


def parties(node: Node, name: EntityName | None, addr: str, auth: str) -> tuple[NodeStream, Identity, Other]:
    """The parts of a raw link to a node: osd.2 unless named, authenticated by that method."""
    name = name or EntityName(EntityType.OSD, 2)
    client, server = auth_pair(auth, name)
    me = Identity(name, AddrVec.parse(addr), client, server, Random(f"raw {name}"), lambda: WALL_OFFSET_S)
    return NodeStream(node), me, Other(node.endpoint.name.type, node.endpoint.addrs.front)
