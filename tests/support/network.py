"""Endpoints wired to each other in memory: every byte and every moment is the test's to decide."""

from collections.abc import Callable
from enum import Enum, auto

from messenger.cephx.exchange import ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.interception import Interceptor
from messenger.link import Protocol
from messenger.outputs import CloseLink, OpenLink, PauseLink, ShutLink, WriteLink
from messenger.session.policy import LOSSLESS_PEER, Policy
from messenger.session.session import Session
from tests.support.node import A_ADDR, B_ADDR, Clock, LinkOutput, Node, new_endpoint

MAX_STEPS = 100_000
SOCKET_HOST = "10.8.8.8"
"""Where dials come from, as the dialling side knows it."""
SEEN_HOST = "10.9.9.9"
"""The same as the accepting side sees it: there is a NAT in between."""


class Dial(Enum):
    """The result of a dial."""

    ACCEPTED = auto()
    REFUSED = auto()
    UNANSWERED = auto()


class Pipe:
    """One direction of a wire."""

    def __init__(self, sender: Node, sender_link: int, receiver: Node, receiver_link: int) -> None:
        self.sender = sender
        self.sender_link = sender_link
        self.receiver = receiver
        self.receiver_link = receiver_link
        self.log = bytearray()
        """Every byte written, from the first on."""
        self.position = 0
        """How many of them have arrived."""
        self.held = False
        """Nothing arrives for now."""
        self.limit: int | None = None
        """Nothing arrives beyond this position."""
        self.cut_at: int | None = None
        """The wire breaks once this many bytes have arrived."""
        self.piece_bytes = 1 << 30
        """Longest piece that arrives at a time."""
        self.edit: Callable[[int, bytes], bytes] | None = None
        """Changes a piece on its way; is given the position of its first byte."""
        self.paused = False
        self.ended = False

    def inject(self, raw: bytes) -> None:
        """Let bytes arrive that the sender never wrote."""
        self.receiver.endpoint.link_data(self.receiver_link, raw, self.receiver.now)

    @property
    def bounds(self) -> int:
        """Up to which position bytes may arrive."""
        if self.held or self.paused:
            return self.position
        return min([len(self.log), *(bound for bound in (self.limit, self.cut_at) if bound is not None)])


class Wire:
    """One byte stream between the node that dialled and the one that accepted."""

    def __init__(self, connector: Node, connector_link: int, acceptor: Node, acceptor_link: int) -> None:
        self.connector = connector
        self.acceptor = acceptor
        self.to_acceptor = Pipe(connector, connector_link, acceptor, acceptor_link)
        self.to_connector = Pipe(acceptor, acceptor_link, connector, connector_link)
        self.open = True

    @property
    def pipes(self) -> tuple[Pipe, Pipe]:
        return self.to_acceptor, self.to_connector

    def cut(self, *noticed_by: Node) -> None:
        """Break it; bytes on the way are lost. Both sides notice, or only those given."""
        self.open = False
        for pipe in self.pipes:
            if pipe.sender in (noticed_by or (self.connector, self.acceptor)):
                pipe.sender.endpoint.link_failed(
                    pipe.sender_link, FaultReason.SOCKET, "connection reset by peer", pipe.sender.now
                )

    def hold(self) -> None:
        """Hold everything in both directions until :meth:`release`."""
        for pipe in self.pipes:
            pipe.held = True

    def release(self) -> None:
        for pipe in self.pipes:
            pipe.held = False


class Network:
    """Nodes, the wires between them, and time, which moves only on request."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.nodes: list[Node] = []
        self.wires: list[Wire] = []
        """Every wire there has been, oldest first."""
        self.answer: Callable[[Node, EntityAddr], Dial] = lambda _node, _addr: Dial.ACCEPTED
        """Decides on a dial to a node that listens."""
        self.opened: Callable[[Wire], None] = lambda _wire: None
        """Is shown each new wire before anything is written to it."""
        self._listeners: dict[tuple[str, int], Node] = {}
        self._pipes: dict[tuple[Node, int], Pipe] = {}

    def add(self, node: Node) -> Node:
        """Put a node on the network; it listens on its addresses that have a port."""
        node.clock = self.clock
        self.nodes.append(node)
        self._listeners |= {(addr.host, addr.port): node for addr in node.endpoint.addrs if addr.port}
        return node

    def crash(self, node: Node) -> None:
        """The node's process ends; the kernel closes its streams."""
        self.nodes.remove(node)
        self._listeners = {addr: other for addr, other in self._listeners.items() if other is not node}
        for wire in self.wires:
            if wire.open and node in (wire.connector, wire.acceptor):
                wire.cut(wire.connector if node is wire.acceptor else wire.acceptor)

    @property
    def wire(self) -> Wire:
        """The newest wire."""
        return self.wires[-1]

    # ---- driving

    def step(self) -> bool:
        """Let one thing happen; False if everything is at rest."""
        for node in self.nodes:
            node.pump()
            if node.outbox:
                self._carry_out(node, node.outbox.popleft())
                return True
        return any(self._deliver(wire, pipe) for wire in self.wires if wire.open for pipe in wire.pipes)

    def drive(self, max_steps: int = MAX_STEPS) -> None:
        """Run until everything is at rest; that must take no more than ``max_steps``."""
        assert self.drive_bounded(max_steps), f"no rest after {max_steps} steps"

    def drive_bounded(self, steps: int) -> bool:
        """Let up to ``steps`` things happen; whether everything is at rest then."""
        return any(not self.step() for _ in range(steps))

    def pass_time(self, seconds: float) -> None:
        """Run for some time, deadline by deadline."""
        self.run_until(lambda: False, seconds)

    def run_until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Run until ``condition`` holds when everything is at rest; False if it does not in time."""
        end_s = self.clock.now + within_s
        for _ in range(MAX_STEPS):
            self.drive()
            if condition():
                return True
            due = [due_s for node in self.nodes if (due_s := node.endpoint.next_deadline()) is not None]
            if not due or min(due) > end_s:
                self.clock.now = end_s
                return condition()
            self.clock.now = max(self.clock.now, min(due))
            for node in self.nodes:
                node.endpoint.timer(self.clock.now)
        raise AssertionError("time stands still")

    # ---- what the nodes ask for

    def _carry_out(self, node: Node, output: LinkOutput) -> None:
        if isinstance(output, OpenLink):
            self._dial(node, output)
            return
        pipe = self._pipes.get((node, output.link_id))
        if pipe is None:
            return
        if isinstance(output, WriteLink):
            assert sum(map(len, output.buffers)) == output.size_bytes
            pipe.log += b"".join(output.buffers)
        elif isinstance(output, PauseLink):
            self._reverse(pipe).paused = output.paused
        elif isinstance(output, ShutLink):
            pipe.cut_at = len(pipe.log)
        elif isinstance(output, CloseLink):
            pipe.ended = True
            self._reverse(pipe).held = True

    def _dial(self, node: Node, output: OpenLink) -> None:
        addr = output.addr
        acceptor = self._listeners.get((addr.host, addr.port))
        answer = Dial.REFUSED if acceptor is None else self.answer(node, addr)
        if answer is Dial.REFUSED or acceptor is None:
            detail = f"{addr.host}:{addr.port}"
            node.endpoint.link_failed(output.link_id, FaultReason.REFUSED, detail, node.now)
        elif answer is Dial.ACCEPTED:
            port = 40000 + len(self.wires)
            seen = EntityAddr.from_host(SEEN_HOST, port)
            acceptor_link = acceptor.endpoint.link_accepted(seen, self.clock.now, Protocol.of(addr))
            wire = Wire(node, output.link_id, acceptor, acceptor_link)
            self.wires.append(wire)
            for pipe in wire.pipes:
                self._pipes[pipe.sender, pipe.sender_link] = pipe
            self.opened(wire)
            node.endpoint.link_opened(output.link_id, EntityAddr.from_host(SOCKET_HOST, port), node.now)

    def _reverse(self, pipe: Pipe) -> Pipe:
        return self._pipes[pipe.receiver, pipe.receiver_link]

    def _deliver(self, wire: Wire, pipe: Pipe) -> bool:
        if pipe.cut_at is not None and pipe.position >= pipe.cut_at:
            wire.cut()
            return True
        end = min(pipe.bounds, pipe.position + pipe.piece_bytes)
        if end > pipe.position:
            raw = bytes(pipe.log[pipe.position : end])
            if pipe.edit is not None:
                raw = pipe.edit(pipe.position, raw)
            count, pipe.position = end - pipe.position, end
            pipe.sender.endpoint.link_written(pipe.sender_link, count, pipe.sender.now)
            pipe.receiver.endpoint.link_data(pipe.receiver_link, raw, pipe.receiver.now)
            return True
        if pipe.ended and not pipe.held and not pipe.paused and pipe.position == len(pipe.log):
            wire.open = False
            pipe.receiver.endpoint.link_eof(pipe.receiver_link, pipe.receiver.now)
            return True
        return False


class Pair(Network):
    """Two nodes, osd.1 as ``a`` and osd.2 as ``b``; of the two, ``a`` has the lower address.

    Args:
        policy: of ``a`` towards ``b``.
        peer_policy: of ``b`` towards ``a``; the same unless given.
        auth: none or cephx.
        mode: connection mode.
        addr: own address of ``a``.
        protocol: what both speak.
        seed: of both nodes' randomness.
        tracing: keep histories.
        interceptor: of ``a``; ``peer_interceptor`` of ``b``.
        options: of Config.
    """

    def __init__(
        self,
        policy: Policy = LOSSLESS_PEER,
        peer_policy: Policy | None = None,
        *,
        auth: str = "none",
        mode: ConMode = ConMode.CRC,
        addr: str = A_ADDR,
        protocol: Protocol = Protocol.V2,
        seed: int = 0,
        tracing: bool = True,
        interceptor: Interceptor | None = None,
        peer_interceptor: Interceptor | None = None,
        **options: object,
    ) -> None:
        super().__init__()
        self._incarnation = 0
        self.a_addr = addr.replace("v2:", f"{protocol}:")
        self.b_addr = B_ADDR.replace("v2:", f"{protocol}:")

        def node(number: int, own_addr: str, own_policy: Policy, stops: Interceptor | None) -> Node:
            name = EntityName(EntityType.OSD, number)
            endpoint = new_endpoint(
                name,
                own_addr,
                auth=auth,
                mode=mode,
                policy=own_policy,
                seed=seed + 1000 * self._incarnation,
                tracing=tracing,
                interceptor=stops,
                **options,
            )
            return self.add(Node(endpoint))

        def new_b() -> Node:
            return node(2, self.b_addr, peer_policy or policy, peer_interceptor)

        self._new_b = new_b
        self.a = node(1, self.a_addr, policy, interceptor)
        self.b = new_b()

    def connect(self) -> Session:
        """``a`` dials ``b``; the session at ``a``."""
        return self.a.connect(self.b_addr)

    def established(self) -> tuple[Session, Session]:
        """``a`` dials ``b``, both get ready; their sessions."""
        mine = self.connect()
        self.drive()
        theirs = self.b.endpoint.registry.lookup(self.a.endpoint.addrs) or self.b.endpoint.sessions[-1]
        return mine, theirs

    def restart_b(self) -> Node:
        """``b`` crashes and comes back at its old address with no memory of anything."""
        self.crash(self.b)
        self._incarnation += 1
        self.b = self._new_b()
        return self.b
