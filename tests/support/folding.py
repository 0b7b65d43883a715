"""Histories whose settled records leave, as those of running clusters do."""

from collections.abc import Iterable, Mapping

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.invariants import check
from toolkit.checks.long_run import LongRun
from toolkit.checks.records import Record
from toolkit.checks.settled_records import foldable
from toolkit.simulation.swarm import live


def fold(history: History, changes: Mapping[int, Record | None]) -> None:
    """Replace or remove records, by their ids."""
    kept = [changes.get(id(record), record) for record in history.records]
    history.records[:] = [record for record in kept if record is not None]


def remaining(records: Iterable[Record], until_s: float) -> list[Record]:
    """Return a history without the records that are settled at a time in seconds."""
    history = History(records)
    changes = foldable(Index(history), until_s)
    kept = [changes.get(place, record) for place, record in enumerate(history.records)]
    return [record for record in kept if record is not None]


def long_run(history: History, every: int, settled_s: float) -> LongRun:
    """Return the judgement of a history that the caller lets grow."""
    return LongRun(history, lambda changes: fold(history, changes), every, settled_s)


def alarms(seed: int, every: int) -> list[str]:
    """Return the invariants that a simulated life breaks if settled records leave while it goes on."""
    outcome = live(seed)
    history = History()
    run = long_run(history, every, settled_s=0.5)
    for record in outcome.history:
        if record.kind != "end":
            history.records.append(record)
            run.look()
    ends = [record for record in outcome.history if record.kind == "end"]
    judged = [*check(History([*history.records, *ends])), *run.results]
    return [each.id for each in judged if not each.ok]
