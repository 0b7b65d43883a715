"""A driver over a node: what it does to links can be seen, and time is the test's."""

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.dispatch import Dispatcher
from messenger.driver import Driver
from messenger.outputs import CloseLink, OpenLink, PauseLink, ShutLink, TraceRecord, WriteLink
from tests.support.node import Node


class NodeDriver(Driver):
    """Drives a node's endpoint; what concerns links goes to the node's outbox."""

    def __init__(self, node: Node, dispatcher: Dispatcher) -> None:
        super().__init__(node.endpoint, dispatcher)
        self.node = node
        self.deadline_s: float | None = None
        self.asked_to_pump = 0
        node.pump = self.pump_node  # type: ignore[method-assign]

    def pump_node(self) -> bool:
        self.pump()
        return False

    def now(self) -> float:
        return self.node.now

    def soon(self) -> None:
        self.asked_to_pump += 1

    def set_timer(self, deadline_s: float | None) -> None:
        self.deadline_s = deadline_s

    def record(self, record: TraceRecord) -> None:
        self.node.trace.append(record)

    def open_link(self, link_id: int, addr: EntityAddr) -> None:
        self.node.outbox.append(OpenLink(link_id, addr))

    def write_link(self, link_id: int, buffers: list[Buffer]) -> None:
        self.node.outbox.append(WriteLink(link_id, buffers, sum(map(len, buffers))))

    def pause_link(self, link_id: int, *, paused: bool) -> None:
        self.node.outbox.append(PauseLink(link_id, paused))

    def shut_link(self, link_id: int) -> None:
        self.node.outbox.append(ShutLink(link_id))

    def close_link(self, link_id: int) -> None:
        self.node.outbox.append(CloseLink(link_id))
