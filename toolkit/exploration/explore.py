"""Explores a scope: searches it, confirms violations by replay, and checks the histories of whole schedules."""

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
        scope: the nodes, messages and faults.
        max_states: maximum number of distinct states.
        most_violations: number of different violations after which to stop.
        most_ends: number of terminal states whose shortest schedule is replayed and its history checked.
        progress: called from time to time with the result so far and the number of states to expand.
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
    for text, schedule in judge(scope, result.ends):
        if text not in known and len(result.violations) < most_violations:
            known.add(text)
            result.violations.append(Violation(text, tuple(schedule), is_confirmed=True))
    return result
