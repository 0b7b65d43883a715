"""Any schedule of sends, dials, cuts and delays delivers all, once and in order (INV-1, INV-5, INV-6, INV-8)."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from messenger.cephx.exchange import ConMode
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER, Policy
from messenger.session.session import Session
from tests.support.network import Dial, Network, Pair

POLICIES = st.sampled_from(
    [
        (LOSSLESS_PEER, LOSSLESS_PEER),
        (LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE),
        (LOSSLESS_CLIENT, STATEFUL_SERVER),
        (LOSSLESS_CLIENT, LOSSLESS_PEER),
    ]
)
SECURITY = st.sampled_from([("none", ConMode.CRC), ("cephx", ConMode.SECURE)])
SIDE = st.integers(0, 1)
HEAL_WITHIN_S = 120.0


class LosslessSession(RuleBasedStateMachine):
    """Two nodes on a bad network; the model is the list of what each has sent."""

    PROTOCOL = Protocol.V2

    def __init__(self) -> None:
        super().__init__()
        self.pair: Network = Network()
        self.sent: list[list[int]] = [[], []]

    @initialize(policies=POLICIES, security=SECURITY, limit=st.sampled_from([0, 100]), seed=st.integers(0, 9))
    def start(self, policies: tuple[Policy, Policy], security: tuple[str, ConMode], limit: int, seed: int) -> None:
        auth, mode = security
        pair = self.pair = Pair(
            *policies,
            auth=auth,
            mode=mode,
            protocol=self.PROTOCOL,
            seed=seed,
            tracing=False,
            ms_dispatch_throttle_bytes=limit,
            ms_connection_idle_timeout=30.0,
        )
        self.addrs = [pair.a_addr, pair.b_addr]
        self.session(0)

    def session(self, side: int) -> Session | None:
        """Every node that may dial does so; a server answers only known clients."""
        node = self.pair.nodes[side]
        if node.endpoint.policies.default.server:
            return next(iter(node.endpoint.sessions), None)
        return node.connect(self.addrs[1 - side])

    # ---- what applications do

    @rule(side=SIDE, count=st.integers(1, 4), size=st.sampled_from([8, 60, 40_000]))
    def send(self, side: int, count: int, size: int) -> None:
        session = self.session(side)
        if session is None:
            return
        for _ in range(count):
            number = len(self.sent[side]) + 1
            self.sent[side].append(number)
            self.pair.nodes[side].send(session, number, size_bytes=size)

    @rule(side=SIDE)
    def keepalive(self, side: int) -> None:
        session = self.session(side)
        if session is not None:
            self.pair.nodes[side].endpoint.send_keepalive(session, self.pair.clock.now)

    @rule()
    def both_dial(self) -> None:
        self.session(0)
        self.session(1)

    @rule(side=SIDE, hoarding=st.booleans())
    def application_hoards(self, side: int, *, hoarding: bool) -> None:
        node = self.pair.nodes[side]
        node.hoarding = hoarding
        if not hoarding:
            self.release(side)

    def release(self, side: int) -> None:
        node = self.pair.nodes[side]
        node.pump()
        node.release()

    # ---- what the network does

    @rule(steps=st.integers(1, 12))
    def some_things_happen(self, steps: int) -> None:
        self.pair.drive_bounded(steps)

    @rule(piece_bytes=st.sampled_from([1, 13, 33, 100, 5000]), pieces=st.integers(1, 10))
    def some_bytes_arrive(self, piece_bytes: int, pieces: int) -> None:
        pipes = [pipe for wire in self.pair.wires for pipe in wire.pipes]
        for pipe in pipes:
            pipe.piece_bytes = piece_bytes
        self.pair.drive_bounded(pieces)
        for pipe in pipes:
            pipe.piece_bytes = 1 << 30

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.3, 1.0, 11.0, 16.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.pair.pass_time(seconds)

    @precondition(lambda self: any(wire.open for wire in self.pair.wires))
    @rule(which=st.integers(0, 3), noticed_by=st.sampled_from([(0, 1), (0,), (1,)]))
    def a_wire_breaks(self, which: int, noticed_by: tuple[int, ...]) -> None:
        wires = [wire for wire in self.pair.wires if wire.open]
        wires[which % len(wires)].cut(*[self.pair.nodes[side] for side in noticed_by])

    @rule(which=st.integers(0, 3), direction=SIDE, held=st.booleans())
    def a_direction_stalls(self, which: int, direction: int, *, held: bool) -> None:
        wires = [wire for wire in self.pair.wires if wire.open]
        if wires:
            pipe = wires[which % len(wires)].pipes[direction]
            pipe.limit = pipe.position if held else None

    @rule(answer=st.sampled_from(list(Dial)))
    def dials_are_answered(self, answer: Dial) -> None:
        self.pair.answer = lambda _node, _addr: answer

    # ---- what always holds

    @invariant()
    def delivered_is_a_prefix_of_sent(self) -> None:
        for side, node in enumerate(self.pair.nodes):
            assert node.tids == self.sent[1 - side][: len(node.tids)]

    @invariant()
    def sessions_are_sane(self) -> None:
        for node in self.pair.nodes:
            assert not {EventKind.RESET, EventKind.REMOTE_RESET} & set(node.kinds)
            assert len(node.endpoint.sessions) <= 1
            for session in node.endpoint.sessions:
                assert 0 <= session.acked_seq <= session.out_seq
                kept = [seq for seq, _ in session.queue.sent]
                assert kept == list(range(session.out_seq - len(kept) + 1, session.out_seq + 1))

    def teardown(self) -> None:
        """The network heals: everything arrives, and is known to have arrived."""
        if not self.pair.nodes:
            return
        self.pair.answer = lambda _node, _addr: Dial.ACCEPTED
        for side, node in enumerate(self.pair.nodes):
            node.hoarding = False
            self.release(side)
        for wire in self.pair.wires:
            for pipe in wire.pipes:
                pipe.limit = None
            if not wire.open:
                wire.cut()
        self.session(0)

        def at_rest() -> bool:
            snapshots = [node.endpoint.snapshot() for node in self.pair.nodes]
            kept = [snapshot[name] for snapshot in snapshots for name in ("queued", "sent", "dispatch_bytes")]
            return [node.tids for node in self.pair.nodes] == self.sent[::-1] and not any(kept)

        assert self.pair.run_until(at_rest, HEAL_WITHIN_S), ([node.tids for node in self.pair.nodes], self.sent)
        self.pair.pass_time(20.0)
        assert at_rest()


TestLosslessSession = LosslessSession.TestCase
TestLosslessSession.settings = settings(stateful_step_count=30)
