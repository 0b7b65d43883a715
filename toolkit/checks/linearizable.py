"""linearizable: every object of a cluster behaves as if operations on it were done one by one.

The search is that of Wing and Gong with Lowe's just-in-time order: answers are taken in the order of time, and
only when one comes, operations that are under way are put in an order that explains it. What is remembered of all
orders is the object's state and which operations of those under way have been done.
"""

from collections import deque
from collections.abc import Iterator

from toolkit.checks.index import Index
from toolkit.checks.operations import OBSERVERS, ObjectLife, ObjectState, Operation, Point, lives_of_objects
from toolkit.checks.result import Findings

MOST_TRIALS = 50_000
"""So many orders are tried for an object, and ``TRIALS_OF_A_STEP`` more for each invocation and answer."""
TRIALS_OF_A_STEP = 100
_SHOWN_STATES = 3
_SHOWN_CHARS = 60


class TooManyOrders(Exception):
    """There are more orders than are tried."""


class Search:
    """An object's life so far, in all orders that explain it.

    Args:
        life: of the object.
        until_s: steps that are later are left out.
    """

    def __init__(self, life: ObjectLife, until_s: float = float("inf")) -> None:
        self._steps = [step for step in life.steps if step.time_s <= until_s]
        self._left = MOST_TRIALS + TRIALS_OF_A_STEP * len(self._steps)
        self._changers = {each for each in life.under_way if not each.changes_nothing}
        """Operations under way that change the object."""
        self._observers = {each for each in life.under_way if each.changes_nothing}
        """Those that do not."""
        self._points = life.points()

    @property
    def points(self) -> list[Point]:
        """Where the object may be; none before the first step if it was not known any more."""
        return self._sorted()

    @property
    def concurrent(self) -> int:
        """So many operations are under way."""
        return len(self._changers) + len(self._observers)

    def unexplained(self) -> Iterator[tuple[Operation, list[ObjectState]]]:
        """The first operation whose answer no order explains, with the states that it could have met.

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
        """Go on to the points at which an operation has been done; returns the states on the way."""
        seen = _Essential()
        open_ = deque(point for point in self._sorted() if seen.take(point))
        found: list[Point] = []
        while open_:  # what has little done comes first, since it makes other points needless
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
        """The point with all done that change nothing and fit: doing them now excludes nothing later."""
        fitting = [
            each for each in self._observers if each not in point.done and each.applied(point.state) is not None
        ]
        return Point(point.state, point.done.union(fitting)) if fitting else point


class _Essential:
    """Points without those of which another one leaves more open.

    That is one of the same state at which less of what is never answered has been done.
    """

    def __init__(self) -> None:
        self._silent: dict[tuple[ObjectState, frozenset[Operation]], list[frozenset[Operation]]] = {}

    def take(self, point: Point) -> bool:
        """Take a point, unless it is needless."""
        silent = frozenset(each for each in point.done if each.answer is None)
        kept = self._silent.setdefault((point.state, point.done - silent), [])
        if any(less <= silent for less in kept):
            return False
        kept.append(silent)
        return True

    @property
    def states(self) -> list[ObjectState]:
        """Those of all points."""
        return list(dict.fromkeys(state for state, _ in self._silent))


def linearizable(index: Index, findings: Findings) -> None:
    """linearizable: an order of the operations on each object, between call and answer, explains all answers.

    So what was acknowledged is there, nothing older is read, an append is done once, and of two exclusive creates
    one is refused. An operation whose answer was lost may have been done or not.
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
    """What an operation was answered, and when."""
    answer = operation.answer
    assert answer is not None
    told = f"refused with {operation.refused_as}" if operation.refused_as else "acknowledged"
    if operation.verb in OBSERVERS and not operation.refused_as:
        told = f"answered with {_short(answer.fields.get('value'))}"
    return f"{operation} is {told} at {answer.time_s:.3f} s"


def _expected(operation: Operation, met: list[ObjectState]) -> str:
    """How the object can have been."""
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
