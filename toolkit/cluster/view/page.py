"""The view of a cluster as HTML: the same parts for the live view and for saved outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from toolkit.cluster.nemesis import Timeline
from toolkit.cluster.spec.model import ClusterSpec
from toolkit.cluster.status_html import link_words
from toolkit.cluster.view.controls import Controls
from toolkit.cluster.view.facts import RATES_S, Facts, Moved, Seen
from toolkit.cluster.view.topology import MOST_NODES, draw_topology
from toolkit.cluster.view.words import fault_text, python_of, test_of
from toolkit.report import svg
from toolkit.report.assets import environment
from toolkit.report.rates import RateChart
from toolkit.report.state_machine import draw_machine
from toolkit.report.text import printable
from toolkit.report.theme import sheet

COLUMNS = (("topology", "controls", "done"), ("sessions", "invariants", "events"), ("machine", "rates"))
"""Parts below the head, in columns; stacked on a narrow screen."""
PARTS = ("head", *(name for column in COLUMNS for name in column))
_CLASS = "msgrlab"
_DRAWN = ("colours", "drawing", "rates")
_SHOWN_STEPS = 8
_RATES_WIDE = 340.0


@dataclass(slots=True)
class Page:
    """Data of the templates."""

    facts: Facts
    controls: Controls
    spec: ClusterSpec
    timeline: Timeline
    checks: Mapping[str, Any] | None
    """Verdicts as in the status; None before the first check."""
    judged_s: float = 0.0
    judged_records: int = 0
    chosen: str = ""
    """Key of the session whose states are shown."""
    refused: str = ""
    """Error of the last fault; empty if it succeeded."""
    outcome: str = ""
    """Text on the effect of the last fault."""
    ended: bool = False
    """True once the cluster is down, which makes this its last state."""
    live: bool = True
    """False in saved outputs, where no kernel handles the buttons."""

    @property
    def state(self) -> str:
        """State of the cluster, for its label."""
        return "down" if self.ended else self.facts.state

    @property
    def off(self) -> str:
        """HTML attribute of the buttons."""
        return "" if self.live and not self.ended else "disabled"

    @property
    def topology(self) -> Markup:
        """The drawing of nodes and links."""
        return self._drawing(draw_topology(self.facts))

    @property
    def impaired(self) -> list[str]:
        """Impaired links, in words."""
        return [f"{link['from']} → {link['to']}: {link_words(link)}" for link in self.facts.links]

    @property
    def undrawn(self) -> int:
        """Number of nodes that the drawing leaves out."""
        return max(0, len(self.facts.nodes) - MOST_NODES)

    @property
    def session(self) -> Seen | None:
        """The session whose states are shown: the chosen one, or else the first."""
        sessions = self.facts.sessions
        return next((one for one in sessions if one.key == self.chosen), sessions[0] if sessions else None)

    @property
    def moved(self) -> Moved | None:
        """The last change of that session's state."""
        return self.session.trail[-1] if self.session and self.session.trail else None

    @property
    def machine(self) -> Markup:
        """The state diagram with the sessions in it."""
        inside: dict[str, list[str]] = {}
        for session in self.facts.sessions:
            inside.setdefault(session.state, []).append(session.name)
        shown = self.session
        trail = [moved.state for moved in shown.trail] if shown else []
        last = (trail[-2], trail[-1]) if len(trail) > 1 else None
        return self._drawing(draw_machine(inside, shown.state if shown else "", last))

    @property
    def rates(self) -> Markup:
        """Chart of the latest deliveries; empty if there are none."""
        facts = self.facts
        begin_s = max(0.0, facts.now_s - RATES_S)
        chart = RateChart(facts.arrived, facts.bands, begin_s, facts.now_s, wide=_RATES_WIDE)
        return self._drawing(chart.drawing()) if facts.arrived else Markup()

    def _drawing(self, drawn: str) -> Markup:
        """Return inline SVG in the live view, else an image, since previews of notebooks remove SVG."""
        return Markup(drawn if self.live else svg.image(drawn, sheet(_CLASS, *_DRAWN), _CLASS))  # noqa: S704 - by svg.py

    @property
    def no_sessions(self) -> str:
        """Text that is shown if there are no sessions."""
        ours = any(state == "up" for state in self.facts.nodes.values())
        return "No node reports sessions: real daemons do not." if ours else "No node is up."

    @property
    def steps(self) -> list[tuple[float, str]]:
        """Time of each of the last faults, and the Python call that starts it."""
        return [(record.time_s, python_of(fault_text(record))) for record in self.facts.steps[-_SHOWN_STEPS:]]

    @property
    def test(self) -> str:
        """All faults as a pytest test."""
        return test_of(self.timeline, self.spec, "test_what_was_done")

    def parts(self) -> dict[str, str]:
        """Return the HTML of each part."""
        module = environment().get_template("live.html.j2").module
        self.chosen = self.session.key if self.session else ""
        return {name: printable(str(getattr(module, name)(self))).strip() for name in PARTS}

    def html(self) -> str:
        """Return a complete page without scripts, for a saved output."""
        return frame(self.parts())


def frame(parts: Mapping[str, str] | None = None) -> str:
    """Return the containers of the parts with their style sheet; empty unless ``parts`` are given."""
    inside = parts or {}
    head = f'<header data-part="head">{inside.get("head", "")}</header>'
    body = "".join(
        "<div>"
        + "".join(f'<section data-part="{name}">{inside.get(name, "")}</section>' for name in column)
        + "</div>"
        for column in COLUMNS
    )
    style = f"<style>{sheet(_CLASS, *_DRAWN, 'live')}</style>"
    inner = f'{style}{head}<div class="grid">{body}</div>'
    return f'<div class="{_CLASS}" data-lm-suppress-shortcuts="true">{inner}</div>'
