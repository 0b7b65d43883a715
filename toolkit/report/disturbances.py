"""Finds the periods of a history with a fault: of processes, and of paths between nodes."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from toolkit.checks.records import Record

_ENDED = {"stop": "stopped", "kill": "killed", "exit": "exited"}
_HEALED = "heal"
_LASTING = frozenset(
    {"partition", "link", "block", "refuse", "black hole", "black_hole", "nat", "delay", "slow", "lose", "impair"}
)
"""Faults of a path that last until it is healed; others are momentary."""
_UNDONE = "refused=0"
"""Detail of the record that ends a refusal."""


@dataclass(slots=True)
class Band:
    """A period with a fault."""

    text: str
    begin_s: float
    end_s: float | None = None
    """None if the fault has not ended; equal to ``begin_s`` if it was momentary."""


@dataclass(slots=True)
class Disturbances:
    """Finds the periods with faults in a history, record by record."""

    bands: list[Band] = field(default_factory=list)
    """The periods, in the order of their begin."""
    _open: dict[Hashable, Band] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Read one record."""
        if record.kind == "process":
            self._process(record)
        elif record.kind == "path":
            self._path(record)
        elif record.kind == "cut":
            self.bands.append(Band(f"cut {record['a']} {record['b']}", record.time_s, record.time_s))

    def _process(self, record: Record) -> None:
        node, action = record.node, record["action"]
        if action == "freeze":
            self._begin(("frozen", node), f"{node} frozen", record.time_s)
        elif action == "thaw":
            self._end(("frozen", node), record.time_s)
        elif action in _ENDED:
            self._end(("frozen", node), record.time_s)
            self._begin(("ended", node), f"{node} {_ENDED[action]}", record.time_s)
        else:
            self._end(("ended", node), record.time_s)

    def _path(self, record: Record) -> None:
        a, b, fault = record["a"], record["b"], record["fault"]
        between = frozenset((a, b))
        if fault == _HEALED or record.fields.get("detail") == _UNDONE:
            for key in [key for key in self._open if isinstance(key, _PathFault)]:
                if not a or key.between == between:
                    self._end(key, record.time_s)
        elif fault in _LASTING:
            self._begin(_PathFault(between, fault), f"{fault} {a} {b}", record.time_s)
        else:
            self.bands.append(Band(f"{fault} {a} {b}", record.time_s, record.time_s))

    def _begin(self, key: Hashable, text: str, time_s: float) -> None:
        if key not in self._open:
            self._open[key] = band = Band(text, time_s)
            self.bands.append(band)

    def _end(self, key: Hashable, time_s: float) -> None:
        if key in self._open:
            self._open.pop(key).end_s = time_s


@dataclass(frozen=True, slots=True)
class _PathFault:
    """A fault between two nodes, in either direction."""

    between: frozenset[str]
    fault: str
