"""linearizable: operations on each object of a cluster behave as if they ran one by one.

The search is Wing and Gong's with Lowe's just-in-time linearization: for each answer, in the order of time, it
tries every order of the operations under way that explains the answer. It keeps of each order only the object's
state and the set of operations under way that have taken effect.
"""

from collections import deque
from collections.abc import Iterator

from toolkit.checks.index import Index
from toolkit.checks.operations import OBSERVERS, ObjectLife, ObjectState, Operation, Point, lives_of_objects
from toolkit.checks.result import Findings

MOST_TRIALS = 50_000
"""Number of steps that the search may try for an object, besides ``TRIALS_OF_A_STEP`` for each invocation and
answer."""
TRIALS_OF_A_STEP = 100
_SHOWN_STATES = 3
_SHOWN_CHARS = 60


class TooManyOrders(Exception):
    """More orders are possible than the search tries."""


class Search:
    """The search over all orders of an object's operations that explain their answers.

    Args:
        life: the operations on the object.
        until_s: time in seconds; later steps are ignored.
    """

    def __init__(self, life: ObjectLife, until_s: float = float("inf")) -> None:
        self._steps = [step for step in life.steps if step.time_s <= until_s]
        self._left = MOST_TRIALS + TRIALS_OF_A_STEP * len(self._steps)
        self._changers = {each for each in life.under_way if not each.changes_nothing}
        """Operations under way that change the object."""
        self._observers = {each for each in life.under_way if each.changes_nothing}
        """Operations under way that change nothing."""
        self._points = life.points()

    @property
    def points(self) -> list[Point]:
        """The possible points of the object; empty if its state was unknown from the start."""
        return self._sorted()

    @property
    def concurrent(self) -> int:
        """Number of operations under way."""
        return len(self._changers) + len(self._observers)

    def unexplained(self) -> Iterator[tuple[Operation, list[ObjectState]]]:
        """Yield the first operation whose answer no order explains, with the possible states of the object.

        Raises:
            TooManyOrders: so many operations are concurrent that not all orders can be tried.
        """
        for operation, is_answer in self._steps:
            if not is_answer:
                (self._observers if operation.changes_nothing else self._changers).add(operation)
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
            rest = [Point(point.state, point.done - {operation}) for point in self._sorted()]
            self._points = {point for point in rest if essential.take(point)}

    def _explain(self, operation: Operation) -> list[ObjectState]:
        """Advance to the points at which the operation has taken effect; returns the states on the way."""
        seen = _Essential()
        open_ = deque(point for point in self._sorted() if seen.take(point))
        found: list[Point] = []
        while open_:  # points with few completed operations first, because they make others redundant
            point = open_.popleft()
            if operation in point.done:
                found.append(point)
                continue
            for each in self._changers - point.done:
                self._left -= 1
                state = each.applied(point.state)
                if state is not None:
                    after = self._observed(Point(state, point.done | {each}))
                    if seen.take(after):
                        open_.append(after)
            if self._left < 0:
                raise TooManyOrders
        self._points = set(found)
        return seen.states

    def _sorted(self) -> list[Point]:
        return sorted(self._points, key=lambda point: len(point.done))

    def _observed(self, point: Point) -> Point:
        """Mark every fitting observer as done: doing it now excludes nothing later."""
        fitting = [
            each for each in self._observers if each not in point.done and each.applied(point.state) is not None
        ]
        return Point(point.state, point.done.union(fitting)) if fitting else point


class _Essential:
    """A set of points that drops redundant ones.

    A point is redundant if another one has the same state and fewer of the operations that are never answered have
    taken effect at it.
    """

    def __init__(self) -> None:
        self._silent: dict[tuple[ObjectState, frozenset[Operation]], list[frozenset[Operation]]] = {}

    def take(self, point: Point) -> bool:
        """Add a point; returns False if it is redundant."""
        silent = frozenset(each for each in point.done if each.answer is None)
        kept = self._silent.setdefault((point.state, point.done - silent), [])
        if any(less <= silent for less in kept):
            return False
        kept.append(silent)
        return True

    @property
    def states(self) -> list[ObjectState]:
        """The states of all points."""
        return list(dict.fromkeys(state for state, _ in self._silent))


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
    text = repr(dict(sorted(value.items())) if isinstance(value, dict) else value)
    return text if len(text) <= _SHOWN_CHARS else f"...{text[-_SHOWN_CHARS:]}"
