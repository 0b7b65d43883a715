"""Verbs for faults: of the network between nodes, and at interception points of a node."""

from collections.abc import Mapping
from functools import cached_property
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from messenger.interception import Action
from toolkit.checks.history import NETWORK
from toolkit.errors import Unsupported
from toolkit.faults.dials import release
from toolkit.faults.language import Fault, parse
from toolkit.faults.language.network import BlackHole, Heal, ImpairLink, Nat, NatFlush, Partition, Refuse, Reset
from toolkit.faults.mangle import Mangle
from toolkit.faults.strike import Strike
from toolkit.faults.tap import Breakpoint, ByteCut, Tape, Trickle
from toolkit.lab.scene import LabNode, LabProxy, LabScene
from toolkit.lab.verbs.nodes import NodeVerbs
from toolkit.network.faults import delayed

if TYPE_CHECKING:
    from toolkit.faults.script import Rules

_NOTHING: Mapping[str, float] = MappingProxyType({})


class FaultVerbs(NodeVerbs):
    """Verbs for faults of the network, and for interceptors."""

    # ---- the language of docs/faults.md

    def fault(self, fault: Fault | str) -> str:
        """Carry out a fault, or its text in the language of docs/faults.md, as on a cluster; returns its outcome.

        Raises:
            Unsupported: this backend does not have the fault.
            LocalError: there is no such fault, or it cannot be carried out now.
        """
        return self.scene.do(parse(fault) if isinstance(fault, str) else fault)

    @cached_property
    def scene(self) -> LabScene:
        """The faults of :meth:`fault`, and those of them that last."""
        return LabScene(self)

    @property
    def nodes(self) -> dict[str, LabNode]:
        """The nodes by name, running or not."""
        return {name: LabNode(self, name) for name in self._specs}

    @property
    def proxies(self) -> dict[tuple[str, str], LabProxy]:
        """The fault proxies, which take rules, by dialler and dialled node."""
        return {pair: LabProxy(self, *pair) for pair in permutations(self._specs, 2)}

    # ---- links

    def cut(self, a: str, b: str) -> None:
        """Reset every link between two nodes now; either may dial again at once."""
        self._step("cut", a, b)
        self.streams.cut(a, b)
        self._write(NETWORK, "cut", a=a, b=b, at={}, detail="now")

    def cut_at(self, a: str, b: str, breakpoint_: Breakpoint) -> None:
        """Cut the link between two nodes when the breakpoint's frame passes."""
        self._step("cut_at", a, b, str(breakpoint_))
        self._strike(a, b, breakpoint_)

    def cut_after(self, a: str, b: str, sender: str, size_bytes: int) -> ByteCut:
        """Cut a connection between two nodes after the first bytes of one of them, once; returns the cut.

        Bytes of each connection are counted from now on. Over RDMA a connection carries the records that introduce
        the queue pairs to each other, of 65 bytes each: two of the node that dials, one of the other.

        Args:
            a: one of the nodes.
            b: the other one.
            sender: the node whose bytes are counted, a or b.
            size_bytes: number of its bytes that are still delivered.
        """
        cut = ByteCut(sender, byte=size_bytes)
        self._step("cut_after", a, b, sender, size_bytes)
        self.breakpoints_between(a, b).append(cut)
        return cut

    def mangle(self, a: str, b: str, mangle: Mangle) -> Mangle:
        """Change bytes of one frame between two nodes; returns the mangle, for :meth:`expect_mangled`."""
        self._step("mangle", a, b, str(mangle), str(mangle.change))
        self._strike(a, b, mangle)
        return mangle

    def script(self, a: str, b: str, rules: "Rules") -> list[Strike]:
        """Apply rules (docs/proxy.md) between two nodes from now on: frames of a are ``->``, those of b ``<-``.

        Returns:
            The strikes of the rules, in their order.

        Raises:
            LocalError: a text that is no rule, or one that names another node.
        """
        from toolkit.faults.script import as_rules  # noqa: PLC0415 - few scenarios have rules

        given = as_rules(rules)
        strikes = [rule.strike(a, b) for rule in given]
        self._step("script", a, b, *given)
        self._strike(a, b, *strikes)
        return strikes

    def release_held(self, a: str, b: str, name: str) -> None:
        """Release the frames and dials that a script between two nodes holds under a name."""
        self._step("release_held", a, b, name)
        release(self.breakpoints_between(a, b), name)

    def expect_struck(self, *strikes: Strike, count: int = 1) -> None:
        """Wait until each of a script's strikes has struck ``count`` times."""
        for strike in strikes:
            self._step("expect_struck", str(strike), count)
            self._wait(lambda strike=strike: strike.hits >= count, str(strike))  # type: ignore[misc]

    def trickle(self, a: str, b: str, size_bytes: int = 1) -> None:
        """Split everything between two nodes into pieces of ``size_bytes`` from now on."""
        self._step("trickle", a, b, size_bytes)
        for sender in (a, b):
            self._strike(a, b, Trickle(sender, size_bytes=size_bytes))

    def tape(self, sender: str, receiver: str) -> Tape:
        """Record all bytes that a node writes to another from now on, as they are on the wire."""
        tape = Tape(sender)
        self._strike(sender, receiver, tape)
        return tape

    def use_up_nonces(self, node: str, peer: str, left: int) -> None:
        """Leave a node ``left`` nonces in each direction of its link with a peer; the peer needs the same.

        Call it only while no frame is on its way.
        """
        self._step("use_up_nonces", node, peer, left)
        self._command(node, "use_up_nonces", peer=peer, left=left)

    def expect_cut(self, breakpoint_: Breakpoint) -> None:
        """Wait until a breakpoint has cut its link."""
        self._step("expect_cut", str(breakpoint_))
        self._wait(lambda: self._was_struck(breakpoint_), f"cut {breakpoint_}")

    def expect_mangled(self, *mangles: Mangle) -> None:
        """Wait until each mangle has changed its frame."""
        for mangle in mangles:
            self._step("expect_mangled", str(mangle))
            self._wait(lambda mangle=mangle: self._was_struck(mangle), str(mangle))  # type: ignore[misc]

    def _strike(self, a: str, b: str, *strikes: Strike) -> None:
        """Add strikes on the frames between two nodes; raises Unsupported if no proxy passes these frames."""
        if self.is_rdma:
            raise Unsupported(f"{strikes[0]}: frames of RDMA links pass no proxy" if strikes else "no rules")
        self.breakpoints_between(a, b).extend(strikes)

    def _was_struck(self, strike: Strike) -> bool:
        return any(struck is strike for struck in self._struck)

    # ---- paths

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Drop everything from a to b (and back, unless ``one_way``) until :meth:`heal`, without socket errors."""
        self._step("partition", a, b, one_way=one_way)
        self._disturb("partition", Partition(a, b, one_way), {"one_way": one_way})

    def refuse(self, a: str, b: str, *, refused: bool = True) -> None:
        """Refuse dials of a to b from now on; with ``refused=False``, accept them again."""
        self._step("refuse", a, b, refused=refused)
        self._disturb("refuse", Refuse(a, b), {"refused": refused}, undone=not refused)

    def half_close(self, a: str, b: str) -> None:
        """End the streams between a and b in the direction from a; the other direction stays open."""
        self._step("half_close", a, b)
        self._path("half_close", a, b)
        self.streams.half_close(a, b)

    def half_open(self, a: str, b: str) -> None:
        """Have b lose its streams with a without an end of stream; a gets a reset when it writes."""
        self._step("half_open", a, b)
        self._path("half_open", a, b)
        self.streams.half_open(a, b)

    def slow(self, a: str, b: str, bytes_per_s: float) -> None:
        """Limit the rate at which b reads what a writes."""
        self._step("slow", a, b, bytes_per_s)
        self._disturb(
            "slow", self._link(a, b, rate_bits_per_s=round(bytes_per_s * 8)), {"bytes_per_s": bytes_per_s}
        )

    def delay(self, a: str, b: str, seconds: float, jitter_s: float = 0.0) -> None:
        """Delay everything from a to b by ``seconds``, plus a random time up to ``jitter_s``."""
        self._step("delay", a, b, seconds, jitter_s)
        fault = self._link(a, b, **delayed(seconds, jitter_s))
        self._disturb("delay", fault, {"seconds": seconds, "jitter_s": jitter_s})

    def delay_dial(self, a: str, b: str, seconds: float) -> None:
        """Delay a's next dial to b by ``seconds``; later dials may overtake it."""
        self._step("delay_dial", a, b, seconds)
        self._path("delay_dial", a, b, {"seconds": seconds})
        self.streams.delay_dial(a, b, seconds)

    def lose(self, a: str, b: str, fraction: float) -> None:
        """Drop this fraction of the packets from a to b; TCP sends them again."""
        self._step("lose", a, b, fraction)
        self._disturb("lose", self._link(a, b, loss={"percent": fraction * 100}), {"fraction": fraction})

    def impair(self, a: str, b: str, **state: float) -> None:
        """Impair packets from a to b in addition to earlier impairments.

        Args:
            a: the sender.
            b: the receiver.
            state: fields of :class:`toolkit.network.state.LinkState`.
        """
        self._step("impair", a, b, **state)
        self._disturb("impair", self._link(a, b, **state), state)

    def black_hole(self, a: str, b: str, mtu_bytes: int) -> None:
        """Drop packets from a to b that are longer than ``mtu_bytes``; neither side gets an error."""
        self._step("black_hole", a, b, mtu_bytes)
        self._disturb("black_hole", BlackHole(a, b, mtu_bytes), {"mtu_bytes": mtu_bytes})

    def nat(self, a: str, b: str) -> None:
        """Translate the source port of a's later dials to b, as a NAT does."""
        self._step("nat", a, b)
        self._disturb("nat", Nat(a, b))

    def nat_flush(self, a: str, b: str, *, silent: bool) -> None:
        """Have the NAT forget its connections: later packets get other ports, or are dropped if ``silent``."""
        self._step("nat_flush", a, b, silent=silent)
        self._disturb("nat_flush", NatFlush(a, b, silent), {"silent": silent})

    def forge_reset(self, a: str, b: str) -> None:
        """Send a forged RST to both sides of every connection between a and b."""
        self._step("forge_reset", a, b)
        self._disturb("forge_reset", Reset(a, b))

    def heal(self) -> None:
        """Undo every partition, refusal, NAT, rate limit, loss and delay."""
        self._step("heal")
        self._path("heal", "", "")
        with self.scene.by_verb():
            self.scene.do(Heal())  # also ends faults of the language

    def _link(self, a: str, b: str, **changes: Any) -> ImpairLink:  # noqa: ANN401 - fields of LinkState
        """The link fault from a to b with these changes added to the present impairments."""
        from toolkit.network.state import LinkState  # noqa: PLC0415 - importing it takes half a second

        return ImpairLink(a, b, LinkState(**(self.network.link(a, b).model_dump() | changes)))

    def _disturb(
        self, verb: str, fault: Fault, about: Mapping[str, float] = _NOTHING, *, undone: bool = False
    ) -> None:
        """Carry out a fault of a verb, and write the verb's own record of it."""
        a, b = fault.nodes
        self._path(verb, a, b, about)
        with self.scene.by_verb():
            (fault.undo if undone else fault.do)(self.scene)

    def _path(self, verb: str, a: str, b: str, about: Mapping[str, float] = _NOTHING) -> None:
        detail = " ".join(f"{name}={value:g}" for name, value in about.items())
        self._write(NETWORK, "path", a=a, b=b, fault=verb, detail=detail)

    # ---- interception points

    def arm(self, node: str, point: str, action: str = Action.FAULT, nth: int = 1) -> None:
        """Have a node take ``action`` when its links pass ``point`` for the ``nth`` time.

        Args:
            node: the node with the interceptor.
            point: ``TAG READ``, ``TAG WRITE``, or a custom point's name.
            action: FAULT, BLOCK, STALL, or CONTINUE, which only lets :meth:`expect_hit` wait for the point.
            nth: which pass, counted from now on over all links of the node.
        """
        self._step("arm", node, point, action, nth)
        self._command(node, "arm", point=point, action=str(action), nth=nth)

    def expect_hit(self, node: str, point: str, count: int = 1) -> None:
        """Wait until ``count`` armings of a node's point have taken effect."""
        self._step("expect_hit", node, point, count)
        self._wait(
            lambda: self.hits(node, point) >= count,
            f"point {point} of {node} hit {count} times",
            lambda: f"{self.hits(node, point)} were",
        )

    def unblock(self, node: str, point: str = "") -> None:
        """Release links that are blocked or stalled at a node's point, or at any of its points."""
        self._step("unblock", node, point)
        self._command(node, "unblock", point=point)

    def hits(self, node: str, point: str) -> int:
        """Number of armings of a node's point that have taken effect."""
        hit: int = self._command(node, "hits", point=point)["hits"]
        return hit
