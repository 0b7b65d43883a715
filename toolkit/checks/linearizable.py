"""linearizable: operations on each object of a cluster behave as if they ran one by one.

The search is Wing and Gong's with Lowe's just-in-time linearization: for each answer, in the order of time, it
tries every order of the operations under way that explains the answer. It keeps of each order only the object's
state and the set of operations under way that have taken effect.

An operation without an answer stays under way for ever. So that such operations do not multiply the orders, the
search tries only those whose value a later read may have shown. Any other order that contains a ``write``,
``append`` or ``omap_set`` explains the same answers without it, unless it created the object: nothing was read
between its effect and the next write or remove, or else a read would have shown it. So these operations, and
``create``, which shows nothing either, can only create a missing object, each of them once. Others can see that
the object exists, but not the value. It does not matter which of them creates it, nor which ``remove`` removes it,
so they are counted. A value that was read is tried only where no later operation hid it before that read. None of
this needs unique values, or an assumption about when a daemon drops the operations of a client that has gone.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from toolkit.checks.index import Index
from toolkit.checks.operations import (
    ABSENT,
    OBSERVERS,
    UNREAD,
    Creation,
    ObjectLife,
    ObjectState,
    Operation,
    Point,
    lives_of_objects,
    merged,
)
from toolkit.checks.result import Findings

MOST_TRIALS = 50_000
"""Number of steps that the search may try for an object, besides ``TRIALS_OF_A_STEP`` for each invocation and
answer."""
TRIALS_OF_A_STEP = 100
MOST_ALIKE = 16
"""Number of points that may differ only in operations without an answer; more of them are merged, so that such
operations cannot multiply the points."""
_SHOWN_STATES = 3
_SHOWN_CHARS = 60


class TooManyOrders(Exception):
    """More orders are possible than the search tries."""


class Search:
    """The search over all orders of an object's operations that explain their answers.

    Args:
        life: the operations on the object.
        until_s: time in seconds; later steps are ignored, except that they show which values were read.
    """

    def __init__(self, life: ObjectLife, until_s: float = float("inf")) -> None:
        self._steps = [step for step in life.steps if step.time_s <= until_s]
        self._left = MOST_TRIALS + TRIALS_OF_A_STEP * len(self._steps)
        self._shown = life.shown()
        self._changers: set[Operation] = set()
        """Operations under way that change the object, of those without an answer only the shown ones."""
        self._observers: set[Operation] = set()
        """Operations under way that change nothing."""
        self._creators: dict[ObjectState, list[Operation]] = {}
        """Operations without an answer that create a missing object, by what they create; each list is in the
        order of invocations."""
        self._removers = 0
        """Number of ``remove`` operations without an answer."""
        for each in life.under_way:
            self._begin(each)
        self._points = life.points()

    @property
    def points(self) -> list[Point]:
        """The possible points of the object; empty if its state was unknown from the start."""
        return self._sorted()

    @property
    def concurrent(self) -> int:
        """Number of operations under way among which the search tries all orders."""
        return len(self._changers) + len(self._observers)

    def unexplained(self) -> Iterator[tuple[Operation, list[ObjectState]]]:
        """Yield the first operation whose answer no order explains, with the possible states of the object.

        Raises:
            TooManyOrders: so many operations are concurrent that not all orders can be tried.
        """
        for operation, is_answer in self._steps:
            if not is_answer:
                self._begin(operation)
                if operation.changes_nothing:
                    self._points = set(map(self._observed, self._points))
                continue
            met = self._explain(operation)
            if not self._points:
                yield operation, met
                return
            self._changers.discard(operation)
            self._observers.discard(operation)
            essential = _Essential()
            for point in self._sorted():
                essential.take(point._replace(done=point.done - {operation}))
            self._points = essential.points()

    def _begin(self, operation: Operation) -> None:
        if operation.changes_nothing:
            self._observers.add(operation)
        elif operation.answer is not None:
            self._changers.add(operation)
        elif operation.verb == "remove":
            self._removers += 1
        else:
            self._creators.setdefault(operation.created, []).append(operation)
            if operation in self._shown:
                self._changers.add(operation)

    def _explain(self, operation: Operation) -> list[ObjectState]:
        """Advance to the points at which the operation has taken effect; returns the states on the way."""
        assert operation.answer is not None
        at_s = operation.answer.time_s
        changers = {each for each in self._changers if each.answer is not None or self._may_show(each, at_s)}
        seen = _Essential()
        open_ = deque(point for point in self._sorted() if seen.take(point))
        found: list[Point] = []
        while open_:  # points with few completed operations first, because they make others redundant
            point = open_.popleft()
            if operation in point.done:
                found.append(point)
                continue
            for after in map(self._observed, self._next(point, changers, at_s)):
                if seen.take(after):
                    open_.append(after)
            if self._left < 0:
                raise TooManyOrders
        self._points = set(found)
        return seen.states

    def _may_show(self, operation: Operation, at_s: float) -> bool:
        """True if a read may show what an operation without an answer did just before a time in seconds."""
        return any(begin_s <= at_s <= end_s for begin_s, end_s in self._shown[operation])

    def _next(self, point: Point, changers: set[Operation], at_s: float) -> Iterator[Point]:
        """Yield the points after one more operation has taken effect at a time in seconds."""
        for each in changers - point.done:
            self._left -= 1
            state = each.applied(point.state)
            if state is not None:
                after = point._replace(state=state, done=point.done | {each})
                if each.answer is not None or self._can_have_created(after):
                    yield after
        if point.state.exists and point.removed < self._removers:
            self._left -= 1
            yield point._replace(state=ABSENT, removed=point.removed + 1)
        if not point.state.exists:
            yield from self._created(point, changers, at_s)

    def _created(self, point: Point, changers: set[Operation], at_s: float) -> Iterator[Point]:
        """Yield the points after an operation without an answer has created the object, and another has met it.

        Unless an observer, a refused ``create`` or an answered ``remove`` meets it, it need not be created.
        """
        removes = [each for each in changers - point.done if each.verb == "remove"]
        for state in self._creators:
            self._left -= 1
            created = point._replace(state=state, created=(*point.created, Creation(state, at_s)))
            after = self._observed(created)
            if (len(after.done) > len(point.done) or removes) and self._can_have_created(created):
                if len(after.done) > len(point.done):
                    yield after
                for each in removes:
                    yield after._replace(state=ABSENT, done=after.done | {each})

    def _can_have_created(self, point: Point) -> bool:
        """True if the operations that a point does not name suffice for its creations."""
        for state, times_s in point.created_s().items():
            begun_s = [each.invoked.time_s for each in self._creators.get(state, ()) if each not in point.done]
            if not all(bisect_right(begun_s, at_s) > place for place, at_s in enumerate(times_s)):
                return False
        return True

    def _sorted(self) -> list[Point]:
        return sorted(self._points, key=lambda point: (len(point.done), point.removed, len(point.created)))

    def _observed(self, point: Point) -> Point:
        """Mark every fitting observer as done: doing it now excludes nothing later."""
        fitting = [
            each for each in self._observers if each not in point.done and each.applied(point.state) is not None
        ]
        return point._replace(done=point.done.union(fitting)) if fitting else point


class _Essential:
    """A set of points that drops redundant ones.

    A point is redundant if another one has the same state and fewer of the operations that are never answered have
    taken effect at it.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[ObjectState, frozenset[Operation]], list[Point]] = {}

    def take(self, point: Point) -> bool:
        """Add a point; returns False if it is redundant."""
        kept = self._kept.setdefault((point.state, point.answered), [])
        if any(less.leaves_more_than(point) for less in kept):
            return False
        kept.append(point)
        return True

    def points(self) -> set[Point]:
        """Return the points; those that are too many because of operations without an answer are merged."""
        return {
            point
            for alike in self._kept.values()
            for point in (alike if len(alike) <= MOST_ALIKE else [merged(alike)])
        }

    @property
    def states(self) -> list[ObjectState]:
        """The states of all points."""
        return list(dict.fromkeys(state for state, _ in self._kept))


def linearizable(index: Index, findings: Findings) -> None:
    """linearizable: some order of the operations on each object explains all answers.

    Each operation takes effect between its invocation and its answer. So an acknowledged write is never lost, no
    read returns an older state, an append is done once, and of two exclusive creates one is refused. An operation
    whose answer was lost may have taken effect or not.
    """
    judged = False
    lives = lives_of_objects(index)
    for name, life in lives.items():
        if life.settled is not None and not life.points():
            findings.note(f"{name} was not judged from {life.settled.time_s:.3f} s on: its state was not known")
            continue
        search = Search(life)
        try:
            for operation, met in search.unexplained():
                findings.add(operation.position, f"{name}: {_answer(operation)}, but {_expected(operation, met)}")
            judged = True
        except TooManyOrders:
            findings.note(f"{name} was not judged: {search.concurrent} operations are concurrent")
    if lives and not judged:
        findings.skip("no object could be judged")


def _answer(operation: Operation) -> str:
    """Describe an operation's answer and its time."""
    answer = operation.answer
    assert answer is not None
    result = f"refused with {operation.refused_as}" if operation.refused_as else "acknowledged"
    if operation.verb in OBSERVERS and not operation.refused_as:
        result = f"answered with {_short(answer.fields.get('value'))}"
    return f"{operation} is {result} at {answer.time_s:.3f} s"


def _expected(operation: Operation, met: list[ObjectState]) -> str:
    """Describe the states that the object can have had."""
    if operation.verb in OBSERVERS and not operation.refused_as:
        possible = {_short(operation.seen(state)) if state.exists else "no object" for state in met}
    else:
        possible = {"an object" if state.exists else "no object" for state in met}
    shown = sorted(possible)
    more = f" or {len(shown) - _SHOWN_STATES} others" if len(shown) > _SHOWN_STATES else ""
    return f"there can only have been {' or '.join(shown[:_SHOWN_STATES])}{more}"


def _short(value: object) -> str:
    text = repr(dict(sorted(value.items())) if isinstance(value, dict) else value).replace(UNREAD, "(unread)")
    return text if len(text) <= _SHOWN_CHARS else f"...{text[-_SHOWN_CHARS:]}"
