"""A link to a node spoken by hand: what raw peers of both protocols have in common."""

from typing import Self

from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.link import Protocol
from messenger.outputs import CloseLink, OpenLink, PauseLink, WriteLink
from tests.support.node import Node


class RawLink:
    """The bytes of one link."""

    PROTOCOL: Protocol
    SOCKET_ADDR: EntityAddr
    """Where the peer's socket is, as the node sees it."""

    def __init__(self, node: Node, name: EntityName | None) -> None:
        self.node = node
        self.name = name or EntityName(EntityType.OSD, 2)
        self.connecting = False
        self.link = 0
        self.paused = False
        """The node does not want to read at present."""
        self._closed = False
        self._inbound = bytearray()

    def dial(self) -> Self:
        """Connect to the node."""
        self.connecting = True
        self.link = self.node.endpoint.link_accepted(self.SOCKET_ADDR, self.node.now, self.PROTOCOL)
        self.pump()
        return self

    def accept(self) -> Self:
        """Answer the node's dial, which must be waiting."""
        self.node.pump()
        output = next(item for item in self.node.outbox if isinstance(item, OpenLink))
        self.node.outbox.remove(output)
        self.link = output.link_id
        self.node.endpoint.link_opened(self.link, self.SOCKET_ADDR, self.node.now)
        self.pump()
        return self

    @property
    def closed(self) -> bool:
        """Whether the node has closed the link."""
        self.pump()
        return self._closed

    def pump(self) -> None:
        """Take everything the node writes."""
        self.node.pump()
        while mine := [output for output in self.node.outbox if output.link_id == self.link]:
            for output in mine:
                self.node.outbox.remove(output)
                if isinstance(output, WriteLink):
                    assert sum(map(len, output.buffers)) == output.size_bytes
                    self._inbound += b"".join(output.buffers)
                    self.node.endpoint.link_written(self.link, output.size_bytes, self.node.now)
                elif isinstance(output, PauseLink):
                    self.paused = output.paused
                else:
                    self._closed |= isinstance(output, CloseLink)
            self.node.pump()

    def write(self, raw: bytes) -> None:
        """Send bytes."""
        self.node.endpoint.link_data(self.link, raw, self.node.now)
        self.pump()

    def hang_up(self) -> None:
        """Close the stream."""
        self.node.endpoint.link_eof(self.link, self.node.now)
        self.pump()
