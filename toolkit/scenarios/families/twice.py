"""IX and RD: the same conversation in two places, on sockets and in memory, comes to the same."""

from collections.abc import Callable
from contextlib import closing
from itertools import groupby
from random import Random
from typing import Any

from toolkit.checks.invariants import check
from toolkit.scenarios.families.ix import IX
from toolkit.scenarios.families.rd import RD
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.scenario import ON_SOCKETS
from toolkit.scenarios.verbs.policies import PAIRS, Pair
from toolkit.scenarios.ways import ways

_WAYS = ways("v2-crc", "v2-secure", "v2-crc-w2", "v1")
_COMPARED = "what happens in simulation is what it is compared with"
_PAIRS: dict[str, dict[str, Any]] = {name: {"pair": PAIRS[name]} for name in ("peers", "reuse", "client", "lossy")}


def _twice(lab: Lab, play: Callable[[Lab], None], outcome: Callable[[Lab, str], object]) -> None:
    """Play the same in this lab and in a simulated one; what each node tells must be equal."""
    from toolkit.simulation.lab import SimLab  # noqa: PLC0415 - it needs the vocabulary, and so this catalogue

    play(lab)
    with closing(SimLab(lab.way, lab.seed)) as other:
        play(other)
        wrong = [violation.text for result in check(other.history) for violation in result.violations]
        lab.require(not wrong, f"in simulation: {wrong}")
        for node in "ab":
            here, there = outcome(lab, node), outcome(other, node)
            lab.require(here == there, f"{node} on {lab.backend}: {here}; in simulation: {there}")


# ---- the same faults


def _settled(lab: Lab) -> None:
    for node in "ab":
        lab.expect_acked(node)


class _Schedule:
    """Steps drawn from a seed; each is over before the next begins, so that no race decides what happens."""

    def __init__(self, number: int, pair: Pair) -> None:
        self._rng = Random(f"schedule {number}")
        self._pair = pair
        self._sent = {"a": 0, "b": 0}

    def play(self, lab: Lab, steps: int) -> None:
        """Carry out so many steps."""
        self._pair.start(lab, ms_initial_backoff=0.05)
        lab.connect("a", "b")
        self._send(lab, "a")
        known = [
            self._cut_in_a_message,
            self._idle_link_dies,
            self._chat,
            self._fault_at_a_point,
            self._begin_anew,
        ]
        for _ in range(steps):
            self._rng.choice(known)(lab)
            _settled(lab)
        lab.settle()

    def _send(self, lab: Lab, node: str, count: int = 1) -> None:
        peer = "b" if node == "a" else "a"
        self._sent[node] += count
        lab.send(node, peer, count, self._rng.randrange(2000))
        lab.expect_delivered(peer, node, self._sent[node])
        _settled(lab)

    def _chat(self, lab: Lab) -> None:
        for _ in range(self._rng.randrange(1, 4)):
            self._send(lab, self._rng.choice("ab"), self._rng.randrange(1, 6))

    def _cut_in_a_message(self, lab: Lab) -> None:
        node, byte = self._rng.choice("ab"), self._rng.choice([None, self._rng.randrange(60)])
        cut = lab.breakpoint(f"{node}:MESSAGE", byte=byte)
        lab.cut_at("a", "b", cut)
        self._send(lab, node, self._rng.randrange(1, 5))
        lab.expect_cut(cut)
        self._open_again(lab)

    def _idle_link_dies(self, lab: Lab) -> None:
        closes = [lab.closes(node) for node in "ab"]
        lab.cut("a", "b")
        for node, before in zip("ab", closes, strict=True):
            lab.expect_closes(node, before + 1)
        self._send(lab, self._rng.choice("ab") if self._pair.both_dial else "a")
        self._open_again(lab)

    def _fault_at_a_point(self, lab: Lab) -> None:
        point = lab.point("MESSAGE", self._rng.choice(["READ", "WRITE"]))
        node = self._rng.choice("ab")
        hits = lab.hits(node, point)
        lab.arm(node, point)
        self._send(lab, node if point.endswith("WRITE") else "b" if node == "a" else "a")
        lab.expect_hit(node, point, hits + 1)
        self._open_again(lab)

    def _begin_anew(self, lab: Lab) -> None:
        closes = [lab.closes(node) for node in "ab"]
        lab.mark_down("a", "b")
        for node, before in zip("ab", closes, strict=True):
            lab.expect_closes(node, before + 1)
        self._send(lab, "a")
        self._open_again(lab)

    def _open_again(self, lab: Lab) -> None:
        for node, peer in ("a", "b"), ("b", "a"):
            lab.expect_state(node, peer, "READY")


def _told(lab: Lab, node: str) -> list[tuple[object, ...]]:
    """What a node's application was told: events, and runs of messages, in order."""
    seen: list[tuple[object, ...]] = []
    for record in lab.history.node(node):
        if record.kind == "event":
            seen.append(("event", record["event"]))
        elif record.kind == "deliver":
            seen.append(("deliver", record["tid"], record["digest"]))
    return seen


@IX.scenario(
    "IX-05",
    "two_implementations_random",
    backends=ON_SOCKETS,
    only=_COMPARED,
    ways=_WAYS,
    cases={
        f"{name} {number}": {"pair": PAIRS[name], "number": number}
        for number in range(1, 5)
        for name in ("peers", "reuse", "client")
    },
)
def two_implementations_random(lab: Lab, pair: Pair, number: int) -> None:
    """A schedule of faults drawn from a seed tells applications the same on sockets as in simulation.

    Messages both ways, links that are cut inside messages and while nothing is on its way, faults at interception
    points, sessions that are marked down: in an order that the seed decides, one after the other. The events that
    each application hears and the messages it gets, their contents and their order among the events, are equal in
    both places.
    """
    _twice(lab, lambda place: _Schedule(number, pair).play(place, 8), _told)


# ---- another transport


def _conversation(lab: Lab, pair: Pair) -> None:
    """Question and answer, one at a time: nothing may come in another order."""
    pair.start(lab)
    lab.connect("a", "b")
    lab.expect_state("b", "a", "READY")
    for number, size in enumerate((0, 1, 100, 70_000), 1):
        for node, peer in ("a", "b"), ("b", "a"):
            lab.send(node, peer, 1, size)
            lab.expect_delivered(peer, node, number)
            _settled(lab)
    lab.settle()


def _frames(lab: Lab, node: str) -> list[tuple[object, ...]]:
    """What a node wrote: tags, lengths and states, without what leaves when it likes."""
    written = [r for r in lab.records(node, "frame", direction="tx") if r["tag"] not in {"ACK", "KEEPALIVE2"}]
    states = [state for state, _ in groupby(r["state"] for r in lab.records(node, "state"))]
    return [*((record["tag"], record["length"]) for record in written), *((state,) for state in states)]


@RD.scenario(
    "RD-05",
    "unix_or_inproc",
    priority=2,
    backends=ON_SOCKETS,
    only=_COMPARED,
    ways=_WAYS,
    cases=_PAIRS,
)
def unix_or_inproc(lab: Lab, pair: Pair) -> None:
    """A conversation is the same over pipes in memory as over TCP, frame by frame.

    Two nodes open a session and exchange messages of several sizes, one at a time. Tags and lengths of all frames
    that each of them writes, acknowledgements apart, and the states that their sessions go through are equal over
    both transports; so is what the applications are told.
    """
    _twice(
        lab,
        lambda place: _conversation(place, pair),
        lambda place, node: (_frames(place, node), _told(place, node)),
    )


@RD.scenario(
    "RD-01",
    "transport_contract",
    priority=2,
    cases={f"{size} {name}": {"size_bytes": size, "pair": PAIRS[name]} for size in (1, 7) for name in PAIRS},
    backends=("sim",),
    only="a transport that answers late and in crumbs has to be made of nothing",
)
def transport_contract(lab: Lab, size_bytes: int, pair: Pair) -> None:
    """What a transport must promise is a stream of bytes, no more.

    A transport connects late, delivers a byte or a few at a time, hardly takes what is written, and a client has
    no address of its own. Session, messages and keepalives come to what they come to over any other: nothing
    faults, and each side reads the frames that the other one wrote.
    """
    pair.start(lab)
    lab.delay_dial("a", "b", 2.0)
    lab.trickle("a", "b", size_bytes)
    lab.slow("b", "a", 20_000.0)
    lab.connect("a", "b")
    lab.exchange(count=5, size_bytes=500)
    lab.keepalive("a", "b")
    lab.wait_until(lambda: lab.session("a", "b")["keepalive_acked_s"] > 0, "a keepalive answered")
    lab.exchange(count=5, size_bytes=500)
    lab.settle()
    lab.require(lab.faults("a") == lab.faults("b") == [], "nothing may fault")
    lab.require(lab.dials("a") == 1, "one dial does for it")
    for node, peer in ("a", "b"), ("b", "a"):
        written = [record["tag"] for record in lab.records(node, "frame", direction="tx")]
        read = [record["tag"] for record in lab.records(peer, "frame", direction="rx")]
        lab.require(written == read, f"{node} wrote {written}, {peer} read {read}")
