"""Exploring a scope from beginning to end: search, confirm what was found, judge whole histories."""

from collections.abc import Callable

from toolkit.exploration.replay import judge, replay
from toolkit.exploration.scope import Scope
from toolkit.exploration.search import RESTLESS, Explorer, Result, Violation

MAX_STATES = 1_000_000
MOST_ENDS = 200


def explore(
    scope: Scope,
    *,
    max_states: int = MAX_STATES,
    most_violations: int = 1,
    most_ends: int = MOST_ENDS,
    progress: Callable[[Result, int], None] | None = None,
) -> Result:
    """Explore a scope.

    Args:
        scope: how far to go.
        max_states: give up after so many distinct states.
        most_violations: stop after so many different ones.
        most_ends: judge the whole histories of shortest ways to so many terminal states.
        progress: called now and then with the result so far and how many states wait.
    """
    explorer = Explorer(
        scope, max_states=max_states, most_violations=most_violations, most_ends=most_ends, progress=progress
    )
    result = explorer.run()
    for violation in result.violations:
        restless = violation.text.startswith(RESTLESS)
        again = replay(scope, violation.steps, to_rest=restless)
        violation.is_confirmed = any(
            text == violation.text or (restless and text.startswith(RESTLESS)) for text in again.wrong
        )
    known = {violation.text for violation in result.violations}
    for text, way in judge(scope, result.ends):
        if text not in known and len(result.violations) < most_violations:
            known.add(text)
            result.violations.append(Violation(text, tuple(way), is_confirmed=True))
    return result
