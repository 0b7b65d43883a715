"""Operations of clients on objects, and their effects on an object (docs/clusters.md, workloads)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import ge
from typing import Any, NamedTuple

from toolkit.checks.index import Index
from toolkit.checks.records import SETTLED, Record

OBSERVERS = frozenset({"read", "omap_get"})
"""Operations that change nothing."""
WRITERS = frozenset({"write", "append", "omap_set"})
"""Operations that create a missing object, and that succeed in every state of it."""
DATA_WRITERS = frozenset({"write", "append"})
"""Operations whose value a ``read`` shows."""
_EXISTS = "EEXIST"
_IS_MISSING = "ENOENT"


class ObjectState(NamedTuple):
    """The state of an object as clients can see it."""

    exists: bool
    data: str
    omap: frozenset[tuple[str, str]]


ABSENT = ObjectState(exists=False, data="", omap=frozenset())
EMPTY = ObjectState(exists=True, data="", omap=frozenset())
UNREAD = "\N{REPLACEMENT CHARACTER}"
"""Stands for a written value that no observer has read; what clients read is ASCII."""


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
            return None if state.exists else EMPTY
        if self.verb == "remove":
            return ABSENT if state.exists else None
        if self.verb == "write":
            return ObjectState(exists=True, data=self.value, omap=state.omap)
        if self.verb == "append":
            return ObjectState(exists=True, data=state.data + self.value, omap=state.omap)
        return ObjectState(exists=True, data=state.data, omap=frozenset((dict(state.omap) | self.value).items()))

    @property
    def created(self) -> ObjectState:
        """The object that a writer or ``create`` creates if nobody ever reads the value."""
        if self.verb in DATA_WRITERS:
            return EMPTY._replace(data=UNREAD)
        if self.verb == "omap_set":
            return EMPTY._replace(omap=frozenset(dict.fromkeys(self.value, UNREAD).items()))
        return EMPTY

    def seen(self, state: ObjectState) -> str | dict[str, str] | None:
        """Return what an observer reads in ``state``; None if there is no object."""
        if not state.exists:
            return None
        return state.data if self.verb == "read" else dict(state.omap)

    def is_in(self, seen: str | dict[str, str] | None) -> bool:
        """True if what an observer read may contain the value that this writer writes."""
        if self.verb in DATA_WRITERS:
            return isinstance(seen, str) and self.value in seen
        return isinstance(seen, dict) and not seen.items().isdisjoint(self.value.items())

    @property
    def hides(self) -> frozenset[str]:
        """Verbs of writers whose values cannot be read after it, if they were done before it and it shows none.

        It is a read, a write, or it met or left no object.
        """
        if self.answer is None or not self.has_result or self.refused_as == _EXISTS:
            return frozenset()
        if self.verb in {"create", "remove"} or self.refused_as:
            return WRITERS
        if self.verb in {"read", "write"}:
            return DATA_WRITERS
        return frozenset({"omap_set"}) if self.verb == "omap_get" else frozenset()


class OperationStep(NamedTuple):
    """The invocation or the answer of an operation."""

    operation: Operation
    is_answer: bool

    @property
    def time_s(self) -> float:
        """Time of the invocation or the answer, in seconds."""
        answer = self.operation.answer
        return answer.time_s if self.is_answer and answer is not None else self.operation.invoked.time_s


class Creation(NamedTuple):
    """The creation of an object by an operation without an answer, whose value nobody has read."""

    state: ObjectState
    """The object just created, as :attr:`Operation.created`."""
    at_s: float
    """The latest time in seconds at which it can have happened."""


class Point(NamedTuple):
    """A possible state of the object, and the operations under way that have taken effect in it.

    Operations without an answer whose values nobody read are only counted, because it does not matter which of
    them have taken effect (:mod:`toolkit.checks.linearizable`).
    """

    state: ObjectState
    done: frozenset[Operation]
    created: tuple[Creation, ...] = ()
    """Creations of the object by such operations, in the order of time."""
    removed: int = 0
    """Number of ``remove`` operations without an answer that have taken effect."""

    @property
    def answered(self) -> frozenset[Operation]:
        """The operations that have an answer, of those that have taken effect."""
        return frozenset(each for each in self.done if each.answer is not None)

    def created_s(self) -> dict[ObjectState, list[float]]:
        """Return the times in seconds of the creations, in order, by what was created."""
        found: dict[ObjectState, list[float]] = {}
        for state, at_s in self.created:
            found.setdefault(state, []).append(at_s)
        return found

    def leaves_more_than(self, other: "Point") -> bool:
        """True if whatever operations without an answer can do after ``other``, they can do after this one.

        That is so if fewer of them have taken effect here, or the same ones; those that created the object may
        have done that later, because then more of them can have been the one. The states and the operations with
        an answer are the same.
        """
        if self.removed > other.removed or not self.done <= other.done:
            return False
        if not self.created or self.created == other.created:
            return True
        theirs = other.created_s()
        return all(
            len(times_s) <= len(of_other := theirs.get(state, ())) and all(map(ge, times_s, of_other))
            for state, times_s in self.created_s().items()
        )


def merged(points: Sequence[Point]) -> Point:
    """Return a point that allows all that any of the points allows, which differ in operations without an answer.

    It may allow more: it forgets some of the operations that have taken effect.
    """
    first = points[0]
    counted = [point.created_s() for point in points]
    created = [
        Creation(state, max(times_s))
        for state in set(counted[0]).intersection(*counted[1:])
        for times_s in zip(*(each[state] for each in counted), strict=False)
    ]
    return Point(
        first.state,
        first.done.intersection(*(point.done for point in points[1:])),
        tuple(sorted(created, key=lambda creation: creation.at_s)),
        min(point.removed for point in points),
    )


@dataclass(slots=True)
class ObjectLife:
    """The operations on an object, as the history records them."""

    steps: list[OperationStep]
    """The steps in order of time, without those of void operations."""
    settled: Record | None = None
    """The record that stands for all answers that were judged already; None if there is none."""
    under_way: tuple[Operation, ...] = ()
    """Operations under way at that record; ``steps`` has their answers, if there are any."""
    void: tuple[Operation, ...] = ()
    """Operations that had no effect and imply nothing."""

    @property
    def operations(self) -> list[Operation]:
        """The operations that are not void."""
        return list(dict.fromkeys([*self.under_way, *(step.operation for step in self.steps)]))

    def shown(self) -> dict[Operation, list[tuple[float, float]]]:
        """Return the writers without an answer whose values observers may have read.

        Returns:
            For each of them, the times in seconds between which its effect can have led to what was read: from the
            invocation of the last operation that hides it (see :attr:`Operation.hides`) until the answer.
        """
        answered = [(each, each.answer) for each in self.operations if each.answer is not None]
        seen = [answer.fields.get("value") for _, answer in answered]
        data = "\n".join(value for value in seen if isinstance(value, str))
        omap = {item for value in seen if isinstance(value, dict) for item in value.items()}
        silent = [each for each in self.operations if each.answer is None and each.verb in WRITERS]
        may_show = (
            each
            for each in silent
            if (each.is_in(data) if each.verb in DATA_WRITERS else not omap.isdisjoint(each.value.items()))
        )
        return {each: list(_shown(each, answered)) for each in may_show}

    def points(self) -> set[Point]:
        """Return the possible points before the steps; empty if they are unknown: then nothing can be judged."""
        if self.settled is None:
            return {Point(ABSENT, frozenset())}
        named = {(each.invoked.node, each.invoked["number"]): each for each in self.under_way}
        try:
            return {_parsed_point(point, named) for point in self.settled.fields.get("points", ())}
        except (KeyError, TypeError, ValueError, AttributeError):  # a history file may contain anything
            return set()


def _shown(silent: Operation, answered: Iterable[tuple[Operation, Record]]) -> Iterator[tuple[float, float]]:
    """Yield the times of :meth:`ObjectLife.shown` for one operation."""
    reads = {each: answer for each, answer in answered if silent.is_in(answer.fields.get("value"))}
    hides = [pair for pair in answered if silent.verb in pair[0].hides and pair[0] not in reads]
    for read, shows in reads.items():
        begin_s = read.invoked.time_s
        hidden_s = (each.invoked.time_s for each, answer in hides if answer.time_s < begin_s)
        yield max(hidden_s, default=silent.invoked.time_s), shows.time_s


def _parsed_point(point: Mapping[str, Any], named: Mapping[tuple[str, str], Operation]) -> Point:
    done = frozenset(named[node, number] for node, number in point["done"])
    created = (Creation(_parsed_state(each), float(each["at_s"])) for each in point["created"])
    in_order = tuple(sorted(created, key=lambda creation: creation.at_s))
    return Point(_parsed_state(point), done, in_order, int(point["removed"]))


def _parsed_state(fields: Mapping[str, Any]) -> ObjectState:
    return ObjectState(bool(fields["exists"]), str(fields["data"]), frozenset(fields["omap"].items()))


def point_json(point: Point) -> dict[str, Any]:
    """Return a point in the form of the record of settled operations."""
    return {
        **_state_json(point.state),
        "done": sorted([each.invoked.node, each.invoked["number"]] for each in point.done),
        "created": [{**_state_json(state), "at_s": at_s} for state, at_s in point.created],
        "removed": point.removed,
    }


def _state_json(state: ObjectState) -> dict[str, Any]:
    return {"exists": state.exists, "data": state.data, "omap": dict(sorted(state.omap))}


def lives_of_objects(index: Index) -> dict[str, ObjectLife]:
    """Return the life of each object, by the object's name.

    At equal times invocations come first, because these operations may have overlapped.
    """
    settled = {record["object"]: record for _, record in operation_records(index) if is_settled(record)}
    operations: dict[str, list[Operation]] = {name: [] for name in settled}
    for name, operation in operations_of(index):
        operations.setdefault(name, []).append(operation)
    return {name: _life(found, settled.get(name)) for name, found in operations.items()}


def _life(operations: Iterable[Operation], settled: Record | None) -> ObjectLife:
    steps: list[tuple[float, bool, int, Operation]] = []
    under_way, void = [], []
    for operation in operations:
        if not operation.has_result:
            void.append(operation)
            continue
        if settled is not None and operation.invoked.time_s <= settled.time_s:
            under_way.append(operation)
        else:
            steps.append((operation.invoked.time_s, False, operation.position, operation))
        if operation.answer is not None:
            steps.append((operation.answer.time_s, True, operation.position, operation))
    return ObjectLife(
        [OperationStep(step[3], step[1]) for step in sorted(steps, key=lambda step: step[:3])],
        settled,
        tuple(sorted(under_way, key=lambda operation: operation.invoked.time_s)),
        tuple(void),
    )


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
