"""IX: the same schedule of faults on sockets and in simulation."""

from random import Random

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.scenarios.interoperation import IX
from toolkit.scenarios.scenario import ON_SOCKETS
from toolkit.scenarios.shared.two_labs import COMPARED, WAYS, app_records, settled, twice


class _Schedule:
    """Steps drawn from a seed; each ends before the next begins, so that no race decides the result."""

    def __init__(self, number: int, pair: Pair) -> None:
        self._rng = Random(f"schedule {number}")
        self._pair = pair
        self._sent = {"a": 0, "b": 0}

    def play(self, lab: Lab, steps: int) -> None:
        """Carry out that many steps."""
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
            settled(lab)
        lab.settle()

    def _send(self, lab: Lab, node: str, count: int = 1) -> None:
        peer = "b" if node == "a" else "a"
        self._sent[node] += count
        lab.send(node, peer, count, self._rng.randrange(2000))
        lab.expect_delivered(node, peer, self._sent[node])
        settled(lab)

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


@IX.scenario(
    "IX-05",
    "two_implementations_random",
    backends=ON_SOCKETS,
    only=COMPARED,
    ways=WAYS,
    cases={
        f"{name} {number}": {"pair": PAIRS[name], "number": number}
        for number in range(1, 5)
        for name in ("peers", "reuse", "client")
    },
)
def two_implementations_random(lab: Lab, pair: Pair, number: int) -> None:
    """A seeded schedule of faults gives applications the same events on sockets as in simulation.

    Messages both ways, links cut inside messages and between them, faults at interception points, sessions that
    are marked down: the seed draws the order, and each step ends before the next begins. The events and messages
    that each application gets, their contents and their order are equal in both places.
    """
    twice(lab, lambda place: _Schedule(number, pair).play(place, 8), app_records)
