"""A history that is judged in parts."""

from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.parts import audit_parts, check_parts
from toolkit.checks.result import CheckResult


def crashes(*times_s: float) -> History:
    """A history in which the process of a node ends by itself at these times."""
    history = History()
    for number, time_s in enumerate(times_s):
        history.append(0.0, f"n{time_s}", "process", action="start", incarnation=number)
        history.append(
            0.0, f"n{time_s}", "link", link=f"n{time_s}/1", action="dial", peer="v2:10.0.0.9:1/0", session=None
        )
        history.append(time_s, f"n{time_s}", "process", action="exit", incarnation=number)
    return history


def result_of(results: list[CheckResult], name: str) -> CheckResult:
    return next(result for result in results if result.name == name)


def test_one_part_is_judged_like_a_history() -> None:
    history = crashes(3.0, 1.0)
    assert check_parts([history]) == check(history)
    assert check_parts([]) == []
    assert audit_parts([history]).broken == []


def test_violations_of_several_parts_come_in_order_of_time() -> None:
    found = result_of(check_parts([crashes(2.0, 5.0), crashes(1.0), crashes(4.0)]), "table_total")
    assert not found.ok
    assert [violation.text.partition(":")[0] for violation in found.violations] == ["n1.0", "n2.0", "n4.0", "n5.0"]
    assert [violation.record for violation in found.violations] == [8, 2, 11, 5]


def test_an_invariant_is_judged_if_it_is_in_one_part() -> None:
    events = History()
    events.append(0.0, "a", "event", session=1, peer="b", event="connect", detail="")
    alone = result_of(check_parts([crashes(1.0)]), "event_grammar")
    both = result_of(check_parts([crashes(1.0), events]), "event_grammar")
    assert (alone.judged, alone.note) == (False, "nothing to judge by: no event or state records")
    assert (both.judged, both.note) == (True, "")
