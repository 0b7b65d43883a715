"""Finds the settled records of operations on objects, and the record that replaces them.

The life of an object is cut after an answer. Later operations depend on earlier answers only through the states
that the object may have at the cut, which the search of :mod:`toolkit.checks.linearizable` computes. Therefore the
verdict on the remaining records equals that on all records. Operations under way at the cut keep their records,
even if they never get an answer.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolkit.checks.index import Index
from toolkit.checks.linearizable import Search, TooManyOrders
from toolkit.checks.operations import (
    ObjectLife,
    Operation,
    lives_of_objects,
    operation_records,
    operations_of,
    point_json,
)
from toolkit.checks.records import SETTLED, Record

_LIFE_ENDS = frozenset({"start", "stop", "kill", "exit"})
"""Actions after which a process gets no answers to earlier operations."""


def foldable_operations(index: Index, until_s: float) -> Iterator[tuple[int, Record | None]]:
    """Yield positions of settled operation records, each with its replacement or None.

    Args:
        index: the history so far.
        until_s: time in seconds; later records stay as they are.
    """
    places = {id(record): place for place, record in operation_records(index)}
    of_objects: dict[str, list[Operation]] = defaultdict(list)
    for name, operation in operations_of(index):
        of_objects[name].append(operation)
    ends_s = _ends_s(index)
    for name, life in lives_of_objects(index).items():
        operations = of_objects[name]
        last = _last_answer(operations, until_s, ends_s)
        if last is None:
            continue
        for record in _settled(life, operations, last.time_s):
            yield places[id(record)], None
        yield places[id(last)], _stands_for(name, life, last)


def _ends_s(index: Index) -> dict[str, float]:
    """Return, by node, the time in seconds at which its process ended or started last."""
    return {
        record.node: record.time_s
        for _, record in index.by_kind.get("process", ())
        if record["action"] in _LIFE_ENDS
    }


def _last_answer(operations: Sequence[Operation], until_s: float, ends_s: dict[str, float]) -> Record | None:
    """Return the answer after which a life can be cut; None if there is none.

    No operation that may still get an answer may be under way there, because the search needs its answer.
    """
    open_s = (
        each.invoked.time_s
        for each in operations
        if each.answer is None
        and each.lost is None
        and ends_s.get(each.invoked.node, float("-inf")) < each.invoked.time_s
    )
    first_open_s = min(open_s, default=float("inf"))
    answers = (each.answer for each in operations if each.answer is not None and each.has_result)
    return max(
        (answer for answer in answers if answer.time_s <= until_s and answer.time_s < first_open_s),
        key=lambda answer: answer.time_s,
        default=None,
    )


def _settled(life: ObjectLife, operations: Sequence[Operation], cut_s: float) -> Iterator[Record]:
    """Yield the records up to a cut that later verdicts do not need."""
    if life.settled is not None:
        yield life.settled
    for each in operations:
        is_over = each.answer is not None and each.answer.time_s <= cut_s
        is_void = not each.has_result and each.answer is None and each.invoked.time_s <= cut_s
        if is_over or is_void:
            yield from (record for record in (each.invoked, each.lost, each.answer) if record is not None)


def _stands_for(name: str, life: ObjectLife, last: Record) -> Record:
    """Return the record of the states an object may have at a cut.

    The record has no points if the search found no order or tried too many.
    """
    search = Search(life, last.time_s)
    try:
        is_explained = not list(search.unexplained())
    except TooManyOrders:
        is_explained = False
    points = [point_json(point) for point in search.points] if is_explained else []
    about = {"number": last["number"], "action": SETTLED, "verb": last["verb"], "object": name, "points": points}
    return replace(last, fields=about)
