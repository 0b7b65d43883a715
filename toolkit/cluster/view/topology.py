"""Drawing of a cluster's nodes and the sessions and faults between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from toolkit.cluster.status_html import link_words
from toolkit.cluster.view.facts import Facts
from toolkit.faults.language.network import ImpairLink
from toolkit.report import svg
from toolkit.report.text import fit

MOST_NODES = 24
"""Most nodes that are drawn; nodes without trouble are left out first."""
_WIDTH = 360.0
_BOX = 92.0, 40.0
_SMALL = 44.0, 26.0
_FEW = 8
"""Up to this number nodes have large boxes, and pairs have labels."""
_LABEL_SIZE = 10
_READY = "READY"


@dataclass(frozen=True, slots=True)
class Pair:
    """Sessions and faults between two nodes."""

    a: str
    b: str
    states: tuple[tuple[str, str], ...]
    """Each node with a session, and the session's state."""
    faults: tuple[str, ...]
    """Faults and impairments between them, in words."""
    is_cut: bool = False
    """True if there is a fault other than an impairment."""

    @property
    def look(self) -> str:
        """``broken``, ``impaired``, ``ready``, ``waiting`` or ``none``."""
        if self.faults:
            return "broken" if self.is_cut else "impaired"
        if not self.states:
            return "none"
        return "ready" if all(state == _READY for _, state in self.states) else "waiting"

    @property
    def words(self) -> str:
        """States in short; a single word if both sides have the same."""
        states = dict.fromkeys(state for _, state in self.states)
        if len(states) == 1:
            return next(iter(states))
        return ", ".join(f"{node} {state}" for node, state in self.states) or "no session"


def pairs_of(facts: Facts) -> list[Pair]:
    """Return the pairs of nodes that have a session or a fault between them."""
    states: dict[tuple[str, str], list[tuple[str, str]]] = {}
    faults: dict[tuple[str, str], list[str]] = {}
    cut: set[tuple[str, str]] = set()
    for session in facts.sessions:
        if session.peer in facts.nodes:
            shown = "frozen" if session.stale else session.state
            states.setdefault(_sorted(session.node, session.peer), []).append((session.node, shown))
    for fault in facts.faults:
        for pair in fault.pairs:
            faults.setdefault(_sorted(*pair), []).append(str(fault))
            cut.update([_sorted(*pair)] * (not isinstance(fault, ImpairLink)))
    named = set(faults)
    for link in facts.links:
        pair = _sorted(link["from"], link["to"])
        cut.update([pair] * bool(link.get("blocked")))
        if pair not in named:
            faults.setdefault(pair, []).append(f"{link['from']} → {link['to']}: {link_words(link)}")
    return [
        Pair(*pair, tuple(states.get(pair, ())), tuple(faults.get(pair, ())), pair in cut)
        for pair in sorted({*states, *faults})
    ]


def _sorted(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a <= b else (b, a)


def draw_topology(facts: Facts) -> str:
    """Return the drawing as SVG."""
    pairs = pairs_of(facts)
    names = _drawn(facts, pairs)
    few = len(names) <= _FEW
    box = _BOX if few else _SMALL
    height = 88.0 if len(names) <= 2 else 320.0
    places = _places(names, height, box)
    parts = [
        _line(pair, places, labelled=few and (len(pairs) <= _FEW or pair.look != "ready"), alone=len(names) <= 2)
        for pair in pairs
        if pair.a in places and pair.b in places
    ]
    parts += [_node(name, facts, places[name], box) for name in names]
    between = [f"{pair.a} and {pair.b}: {pair.words}" for pair in pairs]
    about = "; ".join([*(f"{name} {facts.nodes[name]}" for name in names), *between])
    head = svg.element("title", "Nodes and links") + svg.element("desc", svg.escape(about))
    return svg.element(
        "svg", head + "".join(parts), class_="topology", viewBox=f"0 0 {_WIDTH:g} {height:g}", role="img"
    )


def _drawn(facts: Facts, pairs: Sequence[Pair]) -> list[str]:
    """Return the nodes to draw, in their order."""
    names = list(facts.nodes)
    if len(names) <= MOST_NODES:
        return names
    troubled = {name for name, state in facts.nodes.items() if state != "up"}
    troubled |= {name for pair in pairs if pair.look != "ready" for name in (pair.a, pair.b)}
    first = sorted(names, key=lambda name: name not in troubled)[:MOST_NODES]
    return [name for name in names if name in first]


def _places(names: Sequence[str], height: float, box: tuple[float, float]) -> dict[str, tuple[float, float]]:
    x, y = _WIDTH / 2, height / 2
    if len(names) <= 2:
        wide = _WIDTH / 2 - box[0] / 2 - 4
        return {name: (x - wide + 2 * wide * number, y) for number, name in enumerate(names)}
    rx, ry = x - box[0] / 2 - 4, y - box[1] / 2 - 4
    angles = [2 * pi * number / len(names) - pi / 2 for number in range(len(names))]
    return {name: (x + rx * cos(at), y + ry * sin(at)) for name, at in zip(names, angles, strict=True)}


def _line(pair: Pair, places: dict[str, tuple[float, float]], *, labelled: bool, alone: bool) -> str:
    (x1, y1), (x2, y2) = places[pair.a], places[pair.b]
    middle = (x1 + x2) / 2, (y1 + y2) / 2
    parts = [svg.line(x1, y1, x2, y2, "way")]
    if pair.look == "broken":
        parts.append(svg.path(f"M{middle[0] - 7:g} {middle[1] - 7:g}l14 14m0 -14l-14 14", "cross"))
    if labelled:
        flat = abs(y2 - y1) < 1
        room = abs(x2 - x1) - _BOX[0] - 8 if flat else _WIDTH / 3
        lines = [pair.words, *pair.faults][: 3 if alone else 1]
        for number, words in enumerate(lines):
            y = middle[1] - 12 if number == 0 else middle[1] + 10 + 13 * number
            parts.append(svg.text(middle[0], y, fit(words, _LABEL_SIZE, room), "label", "middle"))
    return svg.group(parts, f"{pair.a} and {pair.b}: {'; '.join([pair.words, *pair.faults])}", f"pair {pair.look}")


def _node(name: str, facts: Facts, place: tuple[float, float], box: tuple[float, float]) -> str:
    state = facts.nodes[name]
    look = state if state in {"up", "frozen", "starting"} else "down"
    x, y = place
    parts = [svg.box(x - box[0] / 2, y - box[1] / 2, *box, "", 8 if look == "up" else 1)]
    if box == _BOX:
        parts.append(svg.text(x, y - 4, fit(f"{name} · {facts.kinds[name]}", 12, box[0] - 6), "name", "middle"))
        parts.append(svg.text(x, y + 12, f"✕ {state}" if look == "down" else state, "label", "middle"))
    else:
        short = fit(f"✕{name}" if look == "down" else name, 10, box[0] - 4)
        parts.append(svg.text(x, y + 4, short, "name", "middle"))
    return svg.group(parts, f"{name} ({facts.kinds[name]}): {state}", f"node {look}")
