"""Converts a history to the rows of its chart."""

from itertools import chain

from toolkit.checks.describe import cut_point
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.report.frames import arrows
from toolkit.report.rows import Arrow, Chip, Cut, Gap, Marks, Row, Steps

_PROCESS_WORDS = {"stop": "stopped", "kill": "killed", "exit": "exited", "freeze": "frozen", "thaw": "thawed"}
_MOST_CHIPS = 3
"""Chips in one row; more would not fit between two lifelines."""


class Timeline:
    """The rows of a history's chart, in order of time. Records that charts do not show have no row.

    Args:
        history: the history.
        index: index of the history, if there is one already.
    """

    def __init__(self, history: History, index: Index | None = None) -> None:
        index = index or Index(history)
        self.nodes = index.nodes
        self.rows: list[Row] = []
        self._crowded = {log.node for log in index.sessions.values() if log.key.session > 1}
        """Nodes with more than one session, whose chips show the session's number."""
        self._last_details: dict[str, str] = {}
        """By node, the text of its last fault, which the state after it need not repeat."""
        frames, nodes = arrows(index), frozenset(self.nodes)
        omitted = history.omitted
        for place, record in enumerate(history):
            if omitted is not None and place == omitted.place:
                self.rows.append(Gap(omitted.time_s, f"{omitted.frames:,} more frames"))
            if place in frames:
                self.rows.append(frames[place])
            elif record.kind == "cut":
                text = f"cut {cut_point(record['at']) or record['detail']}".rstrip()
                self.rows.append(Cut(record.time_s, record["a"], record["b"], text))
            elif record.kind == "step":
                self._add_step(record)
            elif record.node in nodes and (chip := self._chip(record)) is not None:
                self._add_chip(record, chip)

    def lifelines(self) -> list[str]:
        """Return the names of all lifelines: the nodes, then peers without records, in order of appearance."""
        named = (name for row in self.rows for name in lifelines_of(row))
        return list(dict.fromkeys(chain(self.nodes, named)))

    def _add_step(self, record: Record) -> None:
        line = f"{record['verb']} {record['args']}".rstrip()
        last = self.rows[-1] if self.rows else None
        if isinstance(last, Steps) and last.time_s == record.time_s:
            last.lines.append(line)
        else:
            self.rows.append(Steps(record.time_s, [line]))

    def _add_chip(self, record: Record, chip: Chip) -> None:
        last = self.rows[-1] if self.rows else None
        joins = isinstance(last, Marks) and (last.node, last.time_s) == (record.node, record.time_s)
        if isinstance(last, Marks) and joins and len(last.chips) < _MOST_CHIPS:
            last.chips.append(chip)
        else:
            self.rows.append(Marks(record.time_s, record.node, [chip]))

    # ---- chips

    def _chip(self, record: Record) -> Chip | None:
        """Return the chip of a record; None if charts do not show the record."""
        match record.kind:
            case "state":
                return self._state(record)
            case "event":
                note = "" if record["detail"] == self._last_details.get(record.node) else record["detail"]
                return Chip(record["event"], self._numbered(record, record["event"]), note, _tip(record))
            case "fault":
                self._last_details[record.node] = record["detail"]
                note = record["detail"].partition(": ")[2] or record["detail"]
                return Chip("fault", record["reason"], note, _tip(record))
            case "mark_down":
                return Chip("mark_down", self._numbered(record, "mark_down"), "", _tip(record))
            case "decision" if record["session"] is not None:
                return Chip("decision", record["verdict"], record["why"], _tip(record))
            case "process":
                return _process(record)
            case "link" if "tcp" in record.fields:  # of a capture: opened or closed, by its packets
                kind = "fault" if "RST" in record["tcp"] else "ended"
                return Chip(kind, "RST" if kind == "fault" else "FIN", record["tcp"], _tip(record))
        return None

    def _state(self, record: Record) -> Chip:
        note = record["why"].removeprefix(self._last_details.pop(record.node, "")).removeprefix("; ")
        if note in {"accept", "connect"}:  # the chip of the event shows it already
            note = ""
        text = self._numbered(record, record["state"])
        return Chip(record["state"].lower(), text, note, _tip(record), record["session"])

    def _numbered(self, record: Record, text: str) -> str:
        return f"{text} · {record['session']}" if record.node in self._crowded else text


def lifelines_of(row: Row) -> tuple[str, ...]:
    """Return the lifelines to which a row belongs."""
    match row:
        case Arrow():
            return row.source, row.target
        case Cut():
            return row.a, row.b
        case Marks():
            return (row.node,)
    return ()


def _process(record: Record) -> Chip:
    if record["action"] == "thaw":
        return Chip("started", _PROCESS_WORDS["thaw"], "", _tip(record))
    if record["action"] != "start":
        return Chip("ended", _PROCESS_WORDS[record["action"]], "", _tip(record))
    again = f" again ({record['incarnation']})" if record["incarnation"] > 1 else ""
    return Chip("started", f"started{again}", "", _tip(record))


def _tip(record: Record) -> str:
    """Return all fields of a record, one per line."""
    lines = [f"{name}: {value}" for name, value in record.fields.items() if value != ""]
    return "\n".join([f"{record.node} {record.kind} at {record.time_s:.6f} s", *lines])
