"""Faults of the network between nodes."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.faults.language.fault import Area, Fault
from toolkit.faults.language.grammar import NODE, Kind, argument, count, flag, number, option, rest
from toolkit.faults.language.scene import Scene

if TYPE_CHECKING:
    from toolkit.network.state import LinkState

_PORT = count("PORT", 1, 65_535)
_MTU = count("MTU", 68, 65_535)
_UNITS = ("%", "ms")
_CLEAR = "clear"
_DEFAULT = "distribution=uniform"


class _OfNetwork(Fault):
    """A fault of links between nodes."""

    __slots__ = ()

    AREA = Area.NETWORK
    NEEDS: ClassVar[str]
    """Name of the method of :class:`NetworkFaults` that it uses."""

    @override
    def missing(self, scene: Scene) -> str:
        return scene.lacks(self.NEEDS)

    @property
    @override
    def takes_guests(self) -> bool:
        return True

    def undone_by(self, other: Fault) -> bool:
        """True for ``heal`` that includes the fault."""
        return isinstance(other, Heal) and other.heals(self)


class _Blocks(_OfNetwork):
    """A fault that drops every packet between some nodes."""

    __slots__ = ()

    LASTS = True
    NEEDS = "block"

    def ways(self, scene: Scene) -> list[tuple[str, str]]:
        """Return the (sender, receiver) pairs that are blocked."""
        raise NotImplementedError

    @override
    def do(self, scene: Scene) -> str:
        done: list[tuple[str, str]] = []
        try:
            with scene.network.at_once():
                for way in self.ways(scene):
                    scene.block(*way)
                    done.append(way)
        except LocalError:
            for way in done:
                scene.unblock(*way)
            raise
        for a, b in done:
            scene.path("partition", a, b)
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        self.unblock(scene, self.ways(scene))

    @staticmethod
    def unblock(scene: Scene, ways: Sequence[tuple[str, str]]) -> None:
        """Remove the blocks of these pairs at one moment."""
        with scene.network.at_once():
            for way in ways:
                scene.unblock(*way)
        for a, b in ways:
            scene.path("heal", a, b)


@dataclass(frozen=True, slots=True)
class Partition(_Blocks):
    """Lose every packet between two nodes, or with --one-way those from A to B; neither side gets an error."""

    WORD = "partition"
    EXAMPLE = "partition a b --one-way"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    one_way: bool = flag()

    @override
    def ways(self, scene: Scene) -> list[tuple[str, str]]:
        return [(self.a, self.b)] if self.one_way else [(self.a, self.b), (self.b, self.a)]


@dataclass(frozen=True, slots=True)
class Isolate(_Blocks):
    """Lose every packet between a node and all others, among them virtual machines on its network."""

    WORD = "isolate"
    EXAMPLE = "isolate a"

    a: str = argument(NODE, "A")

    @override
    def ways(self, scene: Scene) -> list[tuple[str, str]]:
        others = [name for name in scene.hosts if name != self.a]
        return [way for other in others for way in ((self.a, other), (other, self.a))]

    @override
    def do(self, scene: Scene) -> str:
        ways = self.ways(scene)
        outcome = _Blocks.do(self, scene)
        scene.remember(self, ways)
        return outcome

    @override
    def undo(self, scene: Scene) -> None:
        """Remove the blocks that it has added, not those of nodes that have joined or left since."""
        ways, there = scene.recall(self), set(scene.hosts)
        try:
            self.unblock(scene, [way for way in ways if there.issuperset(way)])
        except LocalError:
            scene.remember(self, ways)
            raise

    def undone_by(self, other: Fault) -> bool:
        """True for ``heal`` without nodes; healing a pair of nodes is not enough."""
        return isinstance(other, Heal) and not other.a


@dataclass(frozen=True, slots=True)
class Flap(_OfNetwork):
    """Partition two nodes and heal them repeatedly; they are connected for a fraction of each period."""

    WORD = "flap"
    EXAMPLE = "flap a b --period-s 1 --up 0.5"
    LASTS = True
    NEEDS = "block"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    period_s: float = option(number("SECONDS", 0.01, most=3600.0), 1.0)
    up: float = option(number("FRACTION", above=0.0, most=0.99), 0.5)

    @override
    def missing(self, scene: Scene) -> str:
        return scene.lacks(self.NEEDS) or scene.lacks("time")

    @override
    def do(self, scene: Scene) -> str:
        if reason := self.missing(scene):
            raise Unsupported(f"flap: {reason}")
        scene.tick(self, self._steps(scene))
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.still(self)

    def _steps(self, scene: Scene) -> Generator[float, None, None]:
        """Begin with the partition; closing the generator heals it."""
        both = Partition(self.a, self.b)
        while True:
            both.do(scene)
            try:
                yield self.period_s * (1 - self.up)
            finally:
                both.undo(scene)
            yield self.period_s * self.up


def _read_state(text: str) -> "LinkState":
    from toolkit.network.state import LinkState  # noqa: PLC0415 - half a second, for few faults

    words = text.split()
    if not words:
        raise ValueError(f"is empty; {_CLEAR} is a link without impairments")
    try:
        return LinkState.from_words(words if words != [_CLEAR] else ())
    except LocalError as error:
        raise ValueError(f"is invalid: {str(error).removeprefix('link: ')}") from None


def _write_state(state: "LinkState") -> str:
    from toolkit.network.words import words_of_text  # noqa: PLC0415 - as above

    words = (_without_unit(word) for word in words_of_text(str(state)) if word != _DEFAULT)
    return " ".join(words) or _CLEAR


def _without_unit(word: str) -> str:
    return next((word.removesuffix(unit) for unit in _UNITS if word.endswith(unit)), word)


_STATE = Kind("KEY=VALUE", _read_state, _write_state)


@dataclass(frozen=True, slots=True)
class ImpairLink(_OfNetwork):
    """Impair packets from one node to another: delay, loss, reordering and all other settings of links."""

    WORD = "link"
    EXAMPLE = "link a b delay-ms=50 loss=1"
    LASTS = True
    NEEDS = "set_link"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    state: "LinkState" = rest(_STATE)  # noqa: RUF009 - makes a field
    both_ways: bool = flag()

    @override
    def do(self, scene: Scene) -> str:
        for a, b in self._ways:
            scene.set_link(self, a, b, self.state)
            scene.path("link", a, b, str(self.state))
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        for a, b in self._ways:
            scene.unset_link(self, a, b)
            scene.path("heal", a, b)

    @property
    def _ways(self) -> list[tuple[str, str]]:
        return [(self.a, self.b), (self.b, self.a)] if self.both_ways else [(self.a, self.b)]


@dataclass(frozen=True, slots=True)
class Block(_OfNetwork):
    """Lose every packet between a node and one TCP port of another."""

    WORD = "block"
    EXAMPLE = "block a b 6800"
    LASTS = True
    NEEDS = "block"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    port: int = argument(_PORT)

    @override
    def do(self, scene: Scene) -> str:
        scene.block(self.a, self.b, self.port)
        scene.path("block", self.a, self.b, f"port {self.port}")
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.unblock(self.a, self.b, self.port)
        scene.path("heal", self.a, self.b, f"port {self.port}")


@dataclass(frozen=True, slots=True)
class Refuse(_OfNetwork):
    """Refuse TCP connections of one node to another with RST: all, or those to one port."""

    WORD = "refuse"
    EXAMPLE = "refuse a b"
    LASTS = True
    NEEDS = "refuse"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    port: int = argument(_PORT, default=0)

    @override
    def do(self, scene: Scene) -> str:
        scene.refuse(self.a, self.b, self.port)
        scene.path("refuse", self.a, self.b, self._detail)
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.refuse(self.a, self.b, self.port, refused=False)
        scene.path("heal", self.a, self.b, self._detail)

    @property
    def _detail(self) -> str:
        return f"port {self.port}" if self.port else ""


@dataclass(frozen=True, slots=True)
class BlackHole(_OfNetwork):
    """Lose packets from one node to another that are longer than MTU bytes, without an ICMP error."""

    WORD = "black-hole"
    EXAMPLE = "black-hole a b 600"
    LASTS = True
    NEEDS = "black_hole"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    mtu_bytes: int = argument(_MTU)

    @override
    def do(self, scene: Scene) -> str:
        scene.network.black_hole(self.a, self.b, self.mtu_bytes)
        scene.path("black hole", self.a, self.b, f"above {self.mtu_bytes} bytes")
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.network.black_hole(self.a, self.b, 0)
        scene.path("heal", self.a, self.b)


@dataclass(frozen=True, slots=True)
class Nat(_OfNetwork):
    """Translate connections of one node to another by a NAT, which gives them other source ports."""

    WORD = "nat"
    EXAMPLE = "nat a b"
    LASTS = True
    NEEDS = "nat"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")

    @override
    def do(self, scene: Scene) -> str:
        scene.network.nat(self.a, self.b)
        scene.path("nat", self.a, self.b)
        return ""

    @override
    def undo(self, scene: Scene) -> None:
        scene.network.nat(self.a, self.b, translated=False)
        scene.path("heal", self.a, self.b)


@dataclass(frozen=True, slots=True)
class NatFlush(_OfNetwork):
    """Drop the NAT's state of connections between two nodes: packets get other ports; with --silent none pass."""

    WORD = "nat-flush"
    EXAMPLE = "nat-flush a b --silent"
    NEEDS = "nat"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")
    silent: bool = flag()

    @override
    def do(self, scene: Scene) -> str:
        forgotten = _connections(scene.network.nat_flush(self.a, self.b, silent=self.silent))
        scene.cut(self.a, self.b, f"the NAT forgets {forgotten}" + ", silently" * self.silent)
        return forgotten


@dataclass(frozen=True, slots=True)
class Reset(_OfNetwork):
    """Reset the TCP connections between two nodes by RST segments forged to both sides."""

    WORD = "reset"
    EXAMPLE = "reset a b"
    NEEDS = "reset"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")

    @override
    def do(self, scene: Scene) -> str:
        ended = scene.network.reset(self.a, self.b)
        scene.cut(self.a, self.b, f"reset of {_connections(ended)}")
        return _connections(ended)


@dataclass(frozen=True, slots=True)
class Finish(_OfNetwork):
    """Forge a FIN from one node into its TCP connections with another, which takes it for a close."""

    WORD = "finish"
    EXAMPLE = "finish a b"
    NEEDS = "finish"

    a: str = argument(NODE, "A")
    b: str = argument(NODE, "B")

    @override
    def do(self, scene: Scene) -> str:
        ended = scene.network.finish(self.a, self.b)
        scene.cut(self.a, self.b, f"FIN from {self.a} into {_connections(ended)}")
        return _connections(ended)


@dataclass(frozen=True, slots=True)
class Heal(_OfNetwork):
    """Revert all faults of the network, or those between two nodes; links are impaired as in the spec again."""

    WORD = "heal"
    EXAMPLE = "heal a b"
    NEEDS = "heal"

    a: str = argument(NODE, "A", default="")
    b: str = argument(NODE, "B", default="")

    def __post_init__(self) -> None:
        if bool(self.a) is not bool(self.b):
            raise LocalError("heal: which two nodes?")

    def heals(self, fault: Fault) -> bool:
        """True if this reverts a fault of the network."""
        ways = {frozenset(way) for way in fault.pairs}
        return not self.a or frozenset((self.a, self.b)) in ways

    @override
    def do(self, scene: Scene) -> str:
        if not self.a:
            scene.whole_network()
            scene.path("heal")
            return ""
        mine = [fault for fault in scene.in_force if fault.undone_by(self)]
        for fault in mine:
            fault.undo(scene)
        return f"undone: {', '.join(map(str, mine)) or 'nothing'}"


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"
