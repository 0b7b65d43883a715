"""Operations of clients on objects, and their effects on an object (docs/clusters.md, workloads)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolkit.checks.index import Index
from toolkit.checks.records import SETTLED, Record

OBSERVERS = frozenset({"read", "omap_get"})
"""Operations that change nothing."""
WRITERS = frozenset({"write", "append", "omap_set"})
"""Operations that create a missing object, and that succeed in every state of it."""
_EXISTS = "EEXIST"
_IS_MISSING = "ENOENT"


class ObjectState(NamedTuple):
    """The state of an object as clients can see it."""

    exists: bool
    data: str
    omap: frozenset[tuple[str, str]]


ABSENT = ObjectState(exists=False, data="", omap=frozenset())


@dataclass(slots=True, eq=False)
class Operation:
    """An operation of a client on an object, with its answer."""

    invoked: Record
    position: int
    """Position of its answer in the history; of its invocation while it has no answer."""
    answer: Record | None = None
    """None if the client got no answer, or one that does not show the effect: the operation may take effect at any
    time or never."""
    lost: Record | None = None
    """The record that there was no answer."""
    refused_as: str = ""
    """Name of the error with which the object's state refused it; empty if it was not refused."""

    @property
    def verb(self) -> str:
        """Its verb, such as ``append``."""
        return str(self.invoked["verb"])

    @property
    def value(self) -> Any:  # noqa: ANN401 - as JSON
        """The value that it writes."""
        return self.invoked.fields.get("value", "")

    @property
    def changes_nothing(self) -> bool:
        """True if it is an observer or was refused."""
        return self.verb in OBSERVERS or bool(self.refused_as)

    @property
    def has_result(self) -> bool:
        """False if it implies nothing: an observer without an answer, or one refused for another reason."""
        if self.answer is None:
            return self.verb not in OBSERVERS
        expected = _EXISTS if self.verb == "create" else _IS_MISSING
        return not self.refused_as or (self.verb not in WRITERS and self.refused_as == expected)

    def __str__(self) -> str:
        return f"{self.verb} {self.invoked['number']} of {self.invoked.node}"

    def applied(self, state: ObjectState) -> ObjectState | None:
        """Return the object after the operation; None if it cannot have had its answer in ``state``."""
        if self.refused_as:
            return state if state.exists == (self.refused_as == _EXISTS) else None
        if self.verb in OBSERVERS:
            return (
                state if self.answer is not None and self.seen(state) == self.answer.fields.get("value") else None
            )
        if self.verb == "create":
            return None if state.exists else ObjectState(exists=True, data="", omap=frozenset())
        if self.verb == "remove":
            return ABSENT if state.exists else None
        if self.verb == "write":
            return ObjectState(exists=True, data=self.value, omap=state.omap)
        if self.verb == "append":
            return ObjectState(exists=True, data=state.data + self.value, omap=state.omap)
        return ObjectState(exists=True, data=state.data, omap=frozenset((dict(state.omap) | self.value).items()))

    def seen(self, state: ObjectState) -> str | dict[str, str] | None:
        """Return what an observer reads in ``state``; None if there is no object."""
        if not state.exists:
            return None
        return state.data if self.verb == "read" else dict(state.omap)


class OperationStep(NamedTuple):
    """The invocation or the answer of an operation."""

    operation: Operation
    is_answer: bool

    @property
    def time_s(self) -> float:
        """Time of the invocation or the answer, in seconds."""
        answer = self.operation.answer
        return answer.time_s if self.is_answer and answer is not None else self.operation.invoked.time_s


class Point(NamedTuple):
    """A possible state of the object, and the operations under way that have taken effect in it."""

    state: ObjectState
    done: frozenset[Operation]


@dataclass(slots=True)
class ObjectLife:
    """The operations on an object, as the history records them."""

    steps: list[OperationStep]
    """The steps in order of time, without operations that had no effect and imply nothing."""
    settled: Record | None = None
    """The record that stands for all answers that were judged already; None if there is none."""
    under_way: tuple[Operation, ...] = ()
    """Operations under way at that record; ``steps`` has their answers, if there are any."""

    def points(self) -> set[Point]:
        """Return the possible points before the steps; empty if they are unknown: then nothing can be judged."""
        if self.settled is None:
            return {Point(ABSENT, frozenset())}
        named = {(each.invoked.node, each.invoked["number"]): each for each in self.under_way}
        try:
            return {_parsed_point(point, named) for point in self.settled.fields.get("points", ())}
        except (KeyError, TypeError, ValueError, AttributeError):  # a history file may contain anything
            return set()


def _parsed_point(point: Mapping[str, Any], named: Mapping[tuple[str, str], Operation]) -> Point:
    state = ObjectState(bool(point["exists"]), str(point["data"]), frozenset(point["omap"].items()))
    return Point(state, frozenset(named[node, number] for node, number in point["done"]))


def point_json(point: Point) -> dict[str, Any]:
    """Return a point in the form of the record of settled operations."""
    state = point.state
    done = sorted([each.invoked.node, each.invoked["number"]] for each in point.done)
    return {"exists": state.exists, "data": state.data, "omap": dict(sorted(state.omap)), "done": done}


def lives_of_objects(index: Index) -> dict[str, ObjectLife]:
    """Return the life of each object, by the object's name.

    At equal times invocations come first, because these operations may have overlapped.
    """
    settled = {record["object"]: record for _, record in operation_records(index) if is_settled(record)}
    objects: dict[str, list[tuple[float, bool, int, Operation]]] = {name: [] for name in settled}
    under_way: dict[str, list[Operation]] = defaultdict(list)
    for name, operation in operations_of(index):
        if not operation.has_result:
            continue
        steps = objects.setdefault(name, [])
        if name in settled and operation.invoked.time_s <= settled[name].time_s:
            under_way[name].append(operation)
        else:
            steps.append((operation.invoked.time_s, False, operation.position, operation))
        if operation.answer is not None:
            steps.append((operation.answer.time_s, True, operation.position, operation))
    return {
        name: ObjectLife(
            [OperationStep(step[3], step[1]) for step in sorted(steps, key=lambda step: step[:3])],
            settled.get(name),
            tuple(under_way[name]),
        )
        for name, steps in objects.items()
    }


def operation_records(index: Index) -> Iterable[tuple[int, Record]]:
    """Return all operation records with their positions."""
    return index.by_kind.get("operation", ())


def is_settled(record: Record) -> bool:
    """True if the record stands for operations on an object that were judged already."""
    return bool(record["action"] == SETTLED)


def operations_of(index: Index) -> Iterator[tuple[str, Operation]]:
    """Yield the operations with the names of their objects, in the order of their records."""
    open_: dict[tuple[str, str], Operation] = {}
    found: list[tuple[str, Operation]] = []
    for position, record in operation_records(index):
        key = (record.node, record["number"])
        if record["action"] == "invoke":
            open_[key] = Operation(record, position)
            found.append((record["object"], open_[key]))
        elif key in open_ and record["action"] == "unknown":
            open_[key].lost = record
        elif key in open_ and record["action"] != SETTLED:
            operation = open_.pop(key)
            operation.position, operation.answer = position, record
            if record["action"] == "fail":
                operation.refused_as = str(record.fields.get("error", "")) or "error"
    yield from found
