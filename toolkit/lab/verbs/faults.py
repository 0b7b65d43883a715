"""Verbs about what goes wrong: on the network between nodes, and at the points of a conversation."""

from collections.abc import Mapping
from functools import cached_property
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from messenger.interception import Action
from toolkit.checks.history import NETWORK
from toolkit.faults.dials import release
from toolkit.faults.language import Fault, parse
from toolkit.faults.language.network import BlackHole, Heal, Link, Nat, NatFlush, Partition, Refuse, Reset
from toolkit.faults.mangle import Mangle
from toolkit.faults.strike import Strike
from toolkit.faults.tap import Breakpoint, Tape, Trickle
from toolkit.lab.scene import LabNode, LabProxy, LabScene
from toolkit.lab.verbs.nodes import NodeVerbs
from toolkit.network.faults import delayed

if TYPE_CHECKING:
    from toolkit.faults.script import Rules

_NOTHING: Mapping[str, float] = MappingProxyType({})


class FaultVerbs(NodeVerbs):
    """Faults of the network, and interceptors."""

    # ---- by the words of docs/faults.md

    def fault(self, fault: Fault | str) -> str:
        """Do a fault, or what its text says, as on a cluster that is up; returns what came of it.

        Raises:
            Unsupported: it cannot be had here.
            LocalError: no such fault, or not now.
        """
        return self.scene.do(parse(fault) if isinstance(fault, str) else fault)

    @cached_property
    def scene(self) -> LabScene:
        """The faults that were done by words, and which of them last."""
        return LabScene(self)

    @property
    def nodes(self) -> dict[str, LabNode]:
        """The nodes, also those that do not run."""
        return {name: LabNode(self, name) for name in self._specs}

    @property
    def proxies(self) -> dict[tuple[str, str], LabProxy]:
        """The proxies between the nodes, which take rules."""
        return {pair: LabProxy(self, *pair) for pair in permutations(self._specs, 2)}

    # ---- links

    def cut(self, a: str, b: str) -> None:
        """Cut every link between two nodes now; they may dial again at once."""
        self._step("cut", a, b)
        self.streams.cut(a, b)
        self._write(NETWORK, "cut", a=a, b=b, at={}, detail="now")

    def cut_at(self, a: str, b: str, breakpoint_: Breakpoint) -> None:
        """Cut the link between two nodes once a certain frame passes."""
        self._step("cut_at", a, b, str(breakpoint_))
        self._breakpoints.setdefault(frozenset((a, b)), []).append(breakpoint_)

    def mangle(self, a: str, b: str, mangle: Mangle) -> Mangle:
        """Change bytes between two nodes, at a certain frame."""
        self._step("mangle", a, b, str(mangle), str(mangle.change))
        self._breakpoints.setdefault(frozenset((a, b)), []).append(mangle)
        return mangle

    def script(self, a: str, b: str, rules: "Rules") -> list[Strike]:
        """Apply rules (docs/proxy.md) between two nodes from now on: frames of a are ``->``, those of b ``<-``.

        Returns:
            What strikes, in the order of the rules.

        Raises:
            LocalError: a text that is no rule, or one that names another node.
        """
        from toolkit.faults.script import as_rules  # noqa: PLC0415 - few scenarios have rules

        given = as_rules(rules)
        strikes = [rule.strike(a, b) for rule in given]
        self._step("script", a, b, *given)
        self._breakpoints.setdefault(frozenset((a, b)), []).extend(strikes)
        return strikes

    def release_held(self, a: str, b: str, name: str) -> None:
        """Release everything that a script between two nodes holds under a name."""
        self._step("release_held", a, b, name)
        release(self.breakpoints_between(a, b), name)

    def expect_struck(self, *strikes: Strike, count: int = 1) -> None:
        """Wait until each of what strikes by a script has done so that often."""
        for strike in strikes:
            self._step("expect_struck", str(strike), count)
            self._wait(lambda strike=strike: strike.hits >= count, str(strike))  # type: ignore[misc]

    def trickle(self, a: str, b: str, size_bytes: int = 1) -> None:
        """Have everything between two nodes arrive in pieces of that size from now on."""
        self._step("trickle", a, b, size_bytes)
        for sender in (a, b):
            strikes = self._breakpoints.setdefault(frozenset((a, b)), [])
            strikes.append(Trickle(sender, size_bytes=size_bytes))

    def tape(self, sender: str, receiver: str) -> Tape:
        """Listen to all that a node writes to another, as it is on the wire, from now on."""
        tape = Tape(sender)
        self._breakpoints.setdefault(frozenset((sender, receiver)), []).append(tape)
        return tape

    def use_up_nonces(self, node: str, peer: str, left: int) -> None:
        """Leave a node so many nonces in each direction of its link with a peer; the peer needs the same.

        To be done while nothing is on its way.
        """
        self._step("use_up_nonces", node, peer, left)
        self._command(node, "use_up_nonces", peer=peer, left=left)

    def expect_cut(self, breakpoint_: Breakpoint) -> None:
        """Wait until a breakpoint was hit."""
        self._step("expect_cut", str(breakpoint_))
        self._wait(lambda: self._was_struck(breakpoint_), f"cut {breakpoint_}")

    def expect_mangled(self, *mangles: Mangle) -> None:
        """Wait until what was to be changed has been."""
        for mangle in mangles:
            self._step("expect_mangled", str(mangle))
            self._wait(lambda mangle=mangle: self._was_struck(mangle), str(mangle))  # type: ignore[misc]

    def _was_struck(self, strike: Strike) -> bool:
        return any(struck is strike for struck in self._struck)

    # ---- paths

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Drop everything from a to b (and back, unless ``one_way``) until healed; no socket gets an error."""
        self._step("partition", a, b, one_way=one_way)
        self._disturb("partition", Partition(a, b, one_way), {"one_way": one_way})

    def refuse(self, a: str, b: str, *, refused: bool = True) -> None:
        """Dials of a to b are refused from now on, or no longer."""
        self._step("refuse", a, b, refused=refused)
        self._disturb("refuse", Refuse(a, b), {"refused": refused}, undone=not refused)

    def half_close(self, a: str, b: str) -> None:
        """The streams between a and b end in the direction from a; the other direction goes on."""
        self._step("half_close", a, b)
        self._path("half_close", a, b)
        self.streams.half_close(a, b)

    def half_open(self, a: str, b: str) -> None:
        """Have b forget its streams with a; a gets a reset when it writes."""
        self._step("half_open", a, b)
        self._path("half_open", a, b)
        self.streams.half_open(a, b)

    def slow(self, a: str, b: str, bytes_per_s: float) -> None:
        """Have b read what a writes at this rate only."""
        self._step("slow", a, b, bytes_per_s)
        self._disturb(
            "slow", self._link(a, b, rate_bits_per_s=round(bytes_per_s * 8)), {"bytes_per_s": bytes_per_s}
        )

    def delay(self, a: str, b: str, seconds: float, jitter_s: float = 0.0) -> None:
        """Everything from a to b takes that much longer, and up to ``jitter_s`` more."""
        self._step("delay", a, b, seconds, jitter_s)
        fault = self._link(a, b, **delayed(seconds, jitter_s))
        self._disturb("delay", fault, {"seconds": seconds, "jitter_s": jitter_s})

    def delay_dial(self, a: str, b: str, seconds: float) -> None:
        """Have a's next dial to b arrive that much later; later ones may overtake it."""
        self._step("delay_dial", a, b, seconds)
        self._path("delay_dial", a, b, {"seconds": seconds})
        self.streams.delay_dial(a, b, seconds)

    def lose(self, a: str, b: str, fraction: float) -> None:
        """Lose that part of the packets from a to b; TCP sends them again, later."""
        self._step("lose", a, b, fraction)
        self._disturb("lose", self._link(a, b, loss={"percent": fraction * 100}), {"fraction": fraction})

    def impair(self, a: str, b: str, **state: float) -> None:
        """Treat packets from a to b so, beside what is done to them already; fields of LinkState say how."""
        self._step("impair", a, b, **state)
        self._disturb("impair", self._link(a, b, **state), state)

    def black_hole(self, a: str, b: str, mtu_bytes: int) -> None:
        """Drop packets from a to b that are longer than ``mtu_bytes``; neither side gets an error."""
        self._step("black_hole", a, b, mtu_bytes)
        self._disturb("black_hole", BlackHole(a, b, mtu_bytes), {"mtu_bytes": mtu_bytes})

    def nat(self, a: str, b: str) -> None:
        """What a dials at b from now on leaves through a NAT, with another source port."""
        self._step("nat", a, b)
        self._disturb("nat", Nat(a, b))

    def nat_flush(self, a: str, b: str, *, silent: bool) -> None:
        """The NAT forgets its connections: the rest of them gets other ports, or is lost."""
        self._step("nat_flush", a, b, silent=silent)
        self._disturb("nat_flush", NatFlush(a, b, silent), {"silent": silent})

    def forge_reset(self, a: str, b: str) -> None:
        """Both sides of every connection between a and b get an RST that neither has sent."""
        self._step("forge_reset", a, b)
        self._disturb("forge_reset", Reset(a, b))

    def heal(self) -> None:
        """Undo every partition, refusal, NAT, slowness and delay."""
        self._step("heal")
        self._path("heal", "", "")
        with self.scene.by_verb():
            self.scene.do(Heal())  # also what was done by words

    def _link(self, a: str, b: str, **changes: Any) -> Link:  # noqa: ANN401 - fields of LinkState
        """Impairments from a to b beside those that there are."""
        from toolkit.network.state import LinkState  # noqa: PLC0415 - half a second, for few scenarios

        return Link(a, b, LinkState(**(self.network.link(a, b).model_dump() | changes)))

    def _disturb(
        self, verb: str, fault: Fault, about: Mapping[str, float] = _NOTHING, *, undone: bool = False
    ) -> None:
        """Do a fault that a verb has its own record of."""
        a, b = fault.nodes
        self._path(verb, a, b, about)
        with self.scene.by_verb():
            (fault.undo if undone else fault.do)(self.scene)

    def _path(self, verb: str, a: str, b: str, about: Mapping[str, float] = _NOTHING) -> None:
        detail = " ".join(f"{name}={value:g}" for name, value in about.items())
        self._write(NETWORK, "path", a=a, b=b, fault=verb, detail=detail)

    # ---- points of a conversation

    def arm(self, node: str, point: str, action: str = Action.FAULT, nth: int = 1) -> None:
        """Have a node's conversations take ``action`` at ``point`` when they come to it for the ``nth`` time.

        Args:
            node: the node with the interceptor.
            point: ``TAG READ``, ``TAG WRITE``, or a custom point's name.
            action: FAULT, BLOCK, STALL (or CONTINUE, to wait for it only).
            nth: which pass, counted from now on over all links of the node.
        """
        self._step("arm", node, point, action, nth)
        self._command(node, "arm", point=point, action=str(action), nth=nth)

    def expect_hit(self, node: str, point: str, count: int = 1) -> None:
        """Wait until as many armings of a point of a node's as that have taken effect."""
        self._step("expect_hit", node, point, count)
        self._wait(
            lambda: self.hits(node, point) >= count,
            f"point {point} of {node} hit {count} times",
            lambda: f"{self.hits(node, point)} were",
        )

    def unblock(self, node: str, point: str = "") -> None:
        """Let what is blocked or stalled at a point (or at any) of a node go on."""
        self._step("unblock", node, point)
        self._command(node, "unblock", point=point)

    def hits(self, node: str, point: str) -> int:
        """Number of armings of a node's point that have taken effect."""
        hit: int = self._command(node, "hits", point=point)["hits"]
        return hit
