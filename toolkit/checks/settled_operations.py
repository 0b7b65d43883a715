"""Finds the settled records of operations on objects, and the record that replaces them.

The life of an object is cut after an answer. Later operations depend on earlier answers only through the states
that the object may have at the cut, which the search of :mod:`toolkit.checks.linearizable` computes. Therefore the
verdict on the remaining records equals that on all records. Operations under way at the cut keep their records,
even if they never get an answer, until it is certain that they have taken effect.

The search does not try an operation without an answer whose value no read has shown. At a cut this must hold for
later reads, too. It does if an operation that began after the cut hides the value: a read that does not show it,
a write, or one that met a missing object. Then the operation either took effect before the cut and is never seen,
or takes effect after it. So the cut is as late as such operations allow.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from toolkit.checks.index import Index
from toolkit.checks.linearizable import Search, TooManyOrders
from toolkit.checks.operations import (
    WRITERS,
    ObjectLife,
    Operation,
    Point,
    lives_of_objects,
    operation_records,
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
    ends_s = _ends_s(index)
    for name, life in lives_of_objects(index).items():
        last = _last_answer(life, until_s, _open_s(life, ends_s))
        if last is None:
            continue
        points, spent = _points(life, last.time_s)
        for record in _settled(life, last.time_s, spent):
            yield places[id(record)], None
        yield places[id(last)], _stands_for(name, last, points)


def _ends_s(index: Index) -> dict[str, float]:
    """Return, by node, the time in seconds at which its process ended or started last."""
    return {
        record.node: record.time_s
        for _, record in index.by_kind.get("process", ())
        if record["action"] in _LIFE_ENDS
    }


def _open_s(life: ObjectLife, ends_s: Mapping[str, float]) -> float:
    """Return the time in seconds at which the first operation began that may still get an answer."""
    open_s = (
        each.invoked.time_s
        for each in (*life.operations, *life.void)
        if each.answer is None
        and each.lost is None
        and ends_s.get(each.invoked.node, float("-inf")) < each.invoked.time_s
    )
    return min(open_s, default=float("inf"))


def _last_answer(life: ObjectLife, until_s: float, open_s: float) -> Record | None:
    """Return the answer after which a life can be cut; None if there is none.

    No operation that may still get an answer may be under way there, because the search needs its answer.

    Args:
        life: the operations on the object.
        until_s: time in seconds; later answers do not count.
        open_s: time in seconds at which the first operation began that may still get an answer.
    """
    answered = [
        (each, each.answer)
        for each in life.operations
        if each.answer is not None and each.answer.time_s <= until_s and each.answer.time_s < open_s
    ]
    hidden_s = dict.fromkeys(WRITERS, float("-inf"))
    for each, _ in answered:
        for verb in each.hides:
            hidden_s[verb] = max(hidden_s[verb], each.invoked.time_s)
    before_s = float("inf")
    for each in set(life.operations) - life.shown().keys():
        if each.answer is None and each.verb in WRITERS and each.invoked.time_s < before_s:
            before_s = min(before_s, max(each.invoked.time_s, hidden_s[each.verb]))
    return max(
        (answer for _, answer in answered if answer.time_s < before_s),
        key=lambda answer: answer.time_s,
        default=None,
    )


def _points(life: ObjectLife, cut_s: float) -> tuple[list[Point], set[Operation]]:
    """Return the points at a cut, and the operations without an answer that certainly took effect before it.

    There are no points if the search found no order or tried too many.
    """
    search = Search(life, cut_s)
    try:
        is_explained = not list(search.unexplained())
    except TooManyOrders:
        is_explained = False
    if not is_explained:
        return [], set()
    silent = [each for each in life.operations if each.answer is None and each.invoked.time_s <= cut_s]
    spent = {each for each in silent if all(each in point.done for point in search.points)}
    removes = [each for each in silent if each.verb == "remove"]
    removed = min(point.removed for point in search.points)
    left = [point._replace(done=point.done - spent, removed=point.removed - removed) for point in search.points]
    return left, spent.union(removes[:removed])


def _settled(life: ObjectLife, cut_s: float, spent: set[Operation]) -> Iterator[Record]:
    """Yield the records up to a cut that later verdicts do not need."""
    if life.settled is not None:
        yield life.settled
    for each in (*life.operations, *life.void):
        is_over = each in spent or (each.answer is not None and each.answer.time_s <= cut_s)
        is_void = not each.has_result and each.answer is None and each.invoked.time_s <= cut_s
        if is_over or is_void:
            yield from (record for record in (each.invoked, each.lost, each.answer) if record is not None)


def _stands_for(name: str, last: Record, points: Iterable[Point]) -> Record:
    """Return the record of the states an object may have at a cut."""
    about = {
        "number": last["number"],
        "action": SETTLED,
        "verb": last["verb"],
        "object": name,
        "points": list(map(point_json, points)),
    }
    return replace(last, fields=about)
