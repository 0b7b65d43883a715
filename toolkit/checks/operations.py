"""Operations of clients on objects, and what an object makes of them (docs/clusters.md, workloads)."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolkit.checks.index import Index
from toolkit.checks.records import Record

OBSERVERS = frozenset({"read", "omap_get"})
"""They change nothing."""
WRITERS = frozenset({"write", "append", "omap_set"})
"""They make the object if there is none, and no state of it refuses them."""
_EXISTS = "EEXIST"
_IS_MISSING = "ENOENT"


class ObjectState(NamedTuple):
    """An object as its clients can see it."""

    exists: bool
    data: str
    omap: frozenset[tuple[str, str]]


ABSENT = ObjectState(exists=False, data="", omap=frozenset())


@dataclass(slots=True, eq=False)
class Operation:
    """An operation of a client on an object, and the answer."""

    invoked: Record
    position: int
    """Of its answer in the history; of its invocation while there is none."""
    answer: Record | None = None
    """None if the client did not get one, or does not know what it means: it may be done, yet or never."""
    refused_as: str = ""
    """Name of the error with which the object's state refused it."""

    @property
    def verb(self) -> str:
        """What it does."""
        return str(self.invoked["verb"])

    @property
    def value(self) -> Any:  # noqa: ANN401 - as JSON
        """What it writes."""
        return self.invoked.fields.get("value", "")

    @property
    def changes_nothing(self) -> bool:
        """True if its answer says so, or if it never does."""
        return self.verb in OBSERVERS or bool(self.refused_as)

    def __str__(self) -> str:
        return f"{self.verb} {self.invoked['number']} of {self.invoked.node}"

    def applied(self, state: ObjectState) -> ObjectState | None:
        """The object after it; None if it cannot have had its answer, or any effect, in that state."""
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
        """What an observer sees; None if there is no object."""
        if not state.exists:
            return None
        return state.data if self.verb == "read" else dict(state.omap)


class Step(NamedTuple):
    """A moment in the life of an object: an operation is invoked, or answered."""

    operation: Operation
    is_answer: bool


def steps_of_objects(index: Index) -> dict[str, list[Step]]:
    """What happened to each object, in the order of time; answers that say that nothing was done are left out.

    Of one moment invocations come first: those operations may have overlapped.
    """
    objects: dict[str, list[tuple[float, bool, int, Operation]]] = defaultdict(list)
    for name, operation in _operations(index):
        answer = operation.answer
        if answer is None and operation.verb in OBSERVERS:
            continue
        if operation.refused_as and not _can_be_refused(operation):
            continue
        steps = objects[name]
        steps.append((operation.invoked.time_s, False, operation.position, operation))
        if answer is not None:
            steps.append((answer.time_s, True, operation.position, operation))
    return {
        name: [Step(step[3], step[1]) for step in sorted(steps, key=lambda step: step[:3])]
        for name, steps in objects.items()
    }


def _operations(index: Index) -> Iterator[tuple[str, Operation]]:
    """The operations with their objects, in the order in which they were written down."""
    open_: dict[tuple[str, str], Operation] = {}
    found: list[tuple[str, Operation]] = []
    for position, record in index.by_kind.get("operation", ()):
        key = (record.node, record["number"])
        if record["action"] == "invoke":
            open_[key] = Operation(record, position)
            found.append((record["object"], open_[key]))
        elif key in open_ and record["action"] != "unknown":
            operation = open_.pop(key)
            operation.position, operation.answer = position, record
            if record["action"] == "fail":
                operation.refused_as = str(record.fields.get("error", "")) or "error"
    yield from found


def _can_be_refused(operation: Operation) -> bool:
    expected = _EXISTS if operation.verb == "create" else _IS_MISSING
    return operation.verb not in WRITERS and operation.refused_as == expected
