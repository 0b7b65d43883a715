"""Evidence about a test, from its clusters, runs, labs, proxies and captures, for the report of its failure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolkit.checks.history import History
    from toolkit.checks.result import CheckResult

_LAST_EVENTS = 12
_LAST_FRAMES = 20
_MOST_VIOLATIONS = 10
SHARED_FIXTURE = "msgrlab_shared_cluster"
_EVENTS = frozenset(
    {"event", "fault", "process", "cut", "mangle", "path", "mark_down", "step", "decision", "exception", "unsent"}
)
"""Kinds of records that the report shows as the last events."""

TEMPORARY: pytest.StashKey[Path] = pytest.StashKey()
"""Key in the stash of the configuration: pytest's temporary directory."""
SHARED: "pytest.StashKey[Callable[[], list[Evidence]]]" = pytest.StashKey()
"""Key in the stash of the configuration: a function that returns the evidence that tests of the session share."""
_OWN: "pytest.StashKey[list[Evidence]]" = pytest.StashKey()


@dataclass(frozen=True, slots=True)
class Scene:
    """The history and the results of checks at the end of a test."""

    history: "History"
    checks: "Sequence[CheckResult]"


@dataclass(slots=True)
class Evidence:
    """Evidence from one cluster, run, lab, proxy or capture of a test."""

    title: str
    scene: Callable[[], Scene]
    """Reads the history and checks it; called once, at the end of the test."""
    save: Callable[[Path], Mapping[str, Path]]
    """Writes its files into an existing directory; returns them by their kinds."""
    replay: str = ""
    """The command that repeats the run without pytest; empty if there is none."""
    seed: int | None = None
    checked: bool = False
    """True if a violated invariant fails the test."""
    notes: list[str] = field(default_factory=list)
    """Further lines for the report."""
    failed: bool = False
    """True if the subject itself failed, such as a run that did not pass."""
    known: set[str] = field(default_factory=set)
    """Violations for which a test has failed already."""
    _seen: Scene | None = None

    @property
    def seen(self) -> Scene:
        """The scene, read at the first access."""
        if self._seen is None:
            self._seen = self.scene()
        return self._seen

    def new_violations(self) -> list[str]:
        """Return violations for which no test has failed yet, a line each, and mark them as reported."""
        found = dict.fromkeys(
            f"{result.id} {result.title}: {one.text}" for result in self.seen.checks for one in result.violations
        )
        new = [line for line in found if line not in self.known]
        self.known.update(new)
        more = len(new) - _MOST_VIOLATIONS
        return new[:_MOST_VIOLATIONS] + ([f"and {more} more"] if more > 0 else [])

    def violations(self) -> list[str]:
        """Return the violated invariants, each followed by the record that shows it and by frames near it."""
        history, found = self.seen.history, []
        for result in self.seen.checks:
            for violation in result.violations:
                found.append(f"{result.id} {result.title}: {violation.text}")
                found += _places(history, violation.record)
        most = _MOST_VIOLATIONS * 3
        return found if len(found) <= most else [*found[:most], "..."]

    @property
    def is_wrong(self) -> bool:
        """True if the subject failed, or if an invariant is violated."""
        return self.failed or any(not result.ok for result in self.seen.checks)

    def text(self, files: Mapping[str, Path], *, brief: bool = False) -> str:
        """Return the text of the report; ``brief`` omits events and frames."""
        from toolkit.report.plain import plain_chart  # noqa: PLC0415 - only failures pay for it

        history = self.seen.history
        blocks = [("", self.notes), ("violated invariants", self.violations())]
        if not brief:
            blocks.append(("last events", _events(history)))
        if not brief and any(record.kind == "frame" for record in history):
            blocks.append((f"last frames of {len(history)} records", plain_chart(history, _LAST_FRAMES)))
        blocks.append(("kept", [f"{name}: {path}" for name, path in files.items()]))
        blocks.append(("seed", [] if self.seed is None else [str(self.seed)]))
        blocks.append(("the same without pytest", [self.replay] if self.replay else []))
        return "\n".join(line for title, lines in blocks if lines for line in _block(title, lines))


def add_evidence(item: pytest.Item, evidence: Evidence) -> None:
    """Add evidence to the report of a test."""
    item.stash.setdefault(_OWN, []).append(evidence)


def evidence_of(item: pytest.Item) -> list[Evidence]:
    """Return the evidence of a test so far, including that of clusters that it shares with others."""
    own = item.stash.setdefault(_OWN, [])
    if SHARED_FIXTURE in getattr(item, "fixturenames", ()) and SHARED in item.config.stash:
        known = {one.title for one in own}
        own += [one for one in item.config.stash[SHARED]() if one.title not in known]
    return own


def save_history(history: "History", directory: Path) -> dict[str, Path]:
    """Write a history and its sequence chart; returns the files."""
    from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - only failures pay for it

    files = {"history": directory / "history.ndjson", "chart": directory / "chart.svg"}
    history.save(files["history"])
    files["chart"].write_text(SequenceChart(history).svg(), encoding="utf-8")
    return files


def _block(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if title else list(lines)


def _places(history: "History", place: int) -> list[str]:
    """Return the lines of a violation's record, and of two frames of its message or else the frame before it."""
    if not 0 <= place < len(history):
        return []
    shown = history[place]
    frames = [at for at, one in enumerate(history) if one.kind == "frame" and one.node == shown.node]
    tid = shown.fields.get("tid")
    of_message = [at for at in frames if tid is not None and history[at]["fields"].get("tid") == tid]
    near = of_message[:2] or [at for at in frames if at <= place][-1:]
    return [f"  {line}" for line in _lines(history, sorted({*near, place}))]


def _events(history: "History") -> list[str]:
    places = [place for place, record in enumerate(history) if record.kind in _EVENTS]
    return _lines(history, places[-_LAST_EVENTS:])


def _lines(history: "History", places: Sequence[int]) -> list[str]:
    from toolkit.checks.describe import describe  # noqa: PLC0415 - only failures pay for it
    from toolkit.report.text import printable  # noqa: PLC0415

    records = [history[place] for place in places]
    width = max((len(record.node) for record in records), default=0)
    return [
        printable(f"{record.time_s:12.6f}  {record.node:{width}}  {record.kind:<9} {describe(record)}")
        for record in records
    ]
