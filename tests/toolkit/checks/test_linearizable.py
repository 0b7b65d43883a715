"""linearizable: valid histories of operations on objects pass, and each damage to one is found."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.operations import Op, damaged, history_of, is_linearizable, life
from toolkit.checks import linearizable
from toolkit.checks.history import History
from toolkit.checks.invariants import find
from toolkit.checks.result import CheckResult, Outcome


def judged(*operations: Op) -> CheckResult:
    """The verdict on a history of these operations."""
    return find("linearizable")(History.parse(history_of(*operations).dump()))


def one_by_one(*steps: tuple[str, Any, Any]) -> list[Op]:
    """Operations of one client, each after the other: verb, what it writes, what is read or the error."""
    found = []
    for number, (verb, value, answer) in enumerate(steps):
        error = answer if answer in ("ENOENT", "EEXIST") else ""
        action = "fail" if error else "ok"
        found.append(Op("a", verb, number, number + 0.5, value, action, None if error else answer, error))
    return found


def test_sequential_operations_are_linearizable() -> None:
    steps = one_by_one(
        ("read", None, "ENOENT"),
        ("create", None, None),
        ("create", None, "EEXIST"),
        ("read", None, ""),
        ("append", "a;", None),
        ("append", "b;", None),
        ("read", None, "a;b;"),
        ("omap_set", {"k": "1"}, None),
        ("omap_set", {"l": "2"}, None),
        ("omap_get", None, {"k": "1", "l": "2"}),
        ("write", "c;", None),
        ("read", None, "c;"),
        ("omap_get", None, {"k": "1", "l": "2"}),
        ("remove", None, None),
        ("remove", None, "ENOENT"),
        ("omap_get", None, "ENOENT"),
        ("append", "d;", None),
        ("omap_get", None, {}),
        ("read", None, "d;"),
    )
    result = judged(*steps)
    assert (result.outcome, result.note, result.violations) == (Outcome.HOLDS, "", [])


WRONG = {
    "a lost write": [("write", "a;", None), ("write", "b;", None), ("read", None, "a;")],
    "a lost object": [("write", "a;", None), ("read", None, "ENOENT")],
    "an append done twice": [("append", "a;", None), ("read", None, "a;a;")],
    "a lost append": [("append", "a;", None), ("append", "b;", None), ("read", None, "b;")],
    "appends in another order": [("append", "a;", None), ("append", "b;", None), ("read", None, "b;a;")],
    "a second exclusive create": [("create", None, None), ("create", None, None)],
    "a create refused for nothing": [("create", None, "EEXIST")],
    "an object that was removed": [("write", "a;", None), ("remove", None, None), ("read", None, "a;")],
    "a lost omap value": [("omap_set", {"k": "1"}, None), ("omap_get", None, {})],
    "an omap value that nobody set": [("omap_set", {"k": "1"}, None), ("omap_get", None, {"k": "2"})],
    "an omap that outlives its object": [
        ("omap_set", {"k": "1"}, None),
        ("remove", None, None),
        ("create", None, None),
        ("omap_get", None, {"k": "1"}),
    ],
}


@pytest.mark.parametrize("what", WRONG)
def test_violation_is_reported_at_the_answer_that_no_order_explains(what: str) -> None:
    steps = WRONG[what]
    result = judged(*one_by_one(*steps))
    assert [violation.record for violation in result.violations] == [2 * len(steps) - 1]
    assert judged(*one_by_one(*steps[:-1])).ok


def test_violation_lists_possible_values() -> None:
    (violation,) = judged(*one_by_one(*WRONG["a lost write"])).violations
    text = "objects/register0: read 1.2 of a is answered with 'a;' at 2.500 s, but there can only have been 'b;'"
    assert violation.text == text
    (violation,) = judged(*one_by_one(*WRONG["a second exclusive create"])).violations
    text = "create 1.1 of a is acknowledged at 1.500 s, but there can only have been an object"
    assert violation.text == f"objects/register0: {text}"


def test_concurrent_operations_have_any_order() -> None:
    writes = [Op("a", "write", 0, 10, "a;"), Op("b", "write", 1, 9, "b;")]
    for first, second, ok in (("a;", "b;", True), ("b;", "a;", True), ("b;", "b;", True)):
        reads = [Op("c", "read", 2, 3, answer=first), Op("c", "read", 4, 5, answer=second)]
        assert judged(*writes, *reads).ok is ok
    there_and_back = [Op("c", "read", at, at + 0.5, answer=seen) for at, seen in ((2, "a;"), (4, "b;"), (6, "a;"))]
    assert not judged(*writes, *there_and_back).ok
    assert not judged(*writes, Op("c", "read", 11, 12, answer="b;"), Op("c", "read", 13, 14, answer="a;")).ok


def test_of_concurrent_creates_one_succeeds() -> None:
    one, other = Op("a", "create", 0, 10), Op("b", "create", 1, 9)
    assert not judged(one, other).ok
    assert judged(one, replace(other, action="fail", error="EEXIST")).ok
    assert not judged(
        replace(one, action="fail", error="EEXIST"), replace(other, action="fail", error="EEXIST")
    ).ok


@pytest.mark.parametrize("action", ["", "unknown"])
def test_unanswered_operation_may_apply_late_or_never_but_not_twice(action: str) -> None:
    first, lost = Op("a", "write", 0, 1, "a;"), Op("b", "append", 2, 3, "b;", action=action)

    def reads(*seen: str) -> Iterator[Op]:
        return (Op("c", "read", 4 + at, 4.5 + at, answer=text) for at, text in enumerate(seen))

    for seen in (("a;", "a;"), ("a;b;", "a;b;"), ("a;", "a;b;")):
        assert judged(first, lost, *reads(*seen)).ok
    for seen in (("a;b;", "a;"), ("a;b;b;",), ("a;", "a;b;", "a;b;b;")):
        assert not judged(first, lost, *reads(*seen)).ok


def test_refused_operation_has_no_effect() -> None:
    refused = Op("a", "append", 0, 1, "a;", action="fail", error="ENOSPC")
    assert judged(refused, Op("a", "read", 2, 3, action="fail", error="ENOENT")).ok
    assert not judged(refused, Op("a", "read", 2, 3, answer="a;")).ok


def test_objects_are_judged_apart() -> None:
    wrong = one_by_one(*WRONG["a lost write"])
    other = [replace(op, object="objects/other") for op in one_by_one(("write", "x;", None), ("read", None, "x;"))]
    assert len(judged(*wrong, *other).violations) == 1
    assert len(judged(*wrong, *(replace(op, object="more/register0") for op in wrong)).violations) == 2


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizable, "MOST_TRIALS", 2000)
    many = [Op(f"c{number}", "append", 0, 1, f"{number};", action="") for number in range(9)]
    read = Op("a", "read", 2, 3, answer="876543210;9;8;7;6;5;4;3;2;1;0;")
    result = judged(*many, read)
    assert (result.outcome, result.violations) == (Outcome.NOT_JUDGED, [])
    assert "objects/register0 was not judged: 10 operations are concurrent" in result.note
    held = judged(*many, read, Op("a", "create", 2, 3, object="objects/other"))
    assert held.outcome is Outcome.HOLDS
    assert "register0 was not judged" in held.note


def test_unanswered_writes_of_a_long_run_do_not_add_up() -> None:
    run = []
    for at in range(0, 75, 3):
        run += [Op("a", "write", at, at + 1, f"{at};", action=""), Op("b", "write", at + 1, at + 2, f"b{at};")]
        run.append(Op("b", "read", at + 2, at + 2.5, answer=f"b{at};"))
    assert judged(*run).outcome is Outcome.HOLDS


def test_unanswered_operations_that_no_read_shows_are_any_number() -> None:
    lost = [Op(f"c{number}", verb, 0, 1, f"{number};", action="") for number, verb in enumerate(WRITES * 30)]
    omaps = [
        Op(f"c{number}", "omap_set", 0, 1, {f"k{number % 3}": f"{number};"}, action="") for number in range(30)
    ]
    others = [Op(f"c{number}", verb, 0, 1, action="") for number, verb in enumerate(("create", "remove") * 30)]
    seen = one_by_one(
        ("write", "a;", None),
        ("append", "b;", None),
        ("read", None, "a;b;"),
        ("omap_set", {"k0": "1"}, None),
        ("omap_get", None, {"k0": "1"}),
    )
    late = [replace(op, begin_s=op.begin_s + 5, end_s=op.end_s + 5) for op in seen]
    result = judged(*lost, *omaps, *others, *late)
    assert (result.outcome, result.note) == (Outcome.HOLDS, "")
    wrong = judged(*lost, *omaps, *others, *late, Op("a", "read", 11, 12, answer="b;"))
    assert len(wrong.violations) == 1


WRITES = ("write", "append")


@pytest.mark.parametrize("verb", ["write", "append", "omap_set", "create"])
def test_unanswered_operation_creates_a_missing_object_once(verb: str) -> None:
    value = {"k": "1"} if verb == "omap_set" else "a;"
    lost = Op("a", verb, 0, 1, value, action="")
    meets = Op("b", "create", 2, 3, action="fail", error="EEXIST"), Op("b", "remove", 4, 5)
    assert judged(lost, *meets).ok
    again = replace(meets[0], begin_s=6, end_s=7)
    assert not judged(lost, *meets, again).ok
    assert judged(lost, *meets, replace(lost, client="c"), again).ok
    early = replace(meets[0], begin_s=-3, end_s=-2)
    assert not judged(lost, early).ok


def test_created_object_shows_no_value_that_was_not_written() -> None:
    lost = Op("a", "append", 0, 1, "a;", action="")
    assert judged(lost, Op("b", "omap_get", 2, 3, answer={})).ok
    assert not judged(lost, Op("b", "read", 2, 3, answer="")).ok
    assert judged(replace(lost, verb="omap_set", value={"k": "1"}), Op("b", "read", 2, 3, answer="")).ok
    meets = Op("b", "create", 2, 3, action="fail", error="EEXIST")
    (violation,) = judged(lost, meets, Op("b", "read", 4, 5, answer="")).violations
    assert "there can only have been '(unread)'" in violation.text


# ---- drawn histories


SEEDS = st.integers(0, 1 << 32)


@given(SEEDS, st.sampled_from([0.3, 0.7]), st.sampled_from([0.0, 3.0, 20.0]), st.sampled_from([2, 1000]))
def test_verdict_is_that_of_the_definition(seed: int, lost: float, late_s: float, values: int) -> None:
    ops = life(seed, count=8, lost=lost, late_s=late_s, values=values)
    assert is_linearizable(ops)
    assert judged(*ops).outcome is Outcome.HOLDS
    wrong = damaged(ops, Random(seed))
    assert judged(*wrong).outcome is (Outcome.HOLDS if is_linearizable(wrong) else Outcome.VIOLATED)


@given(SEEDS)
def test_true_histories_hold(seed: int) -> None:
    result = judged(*life(seed))
    assert (result.outcome, result.note) == (Outcome.HOLDS, "")


def unanswered_removes(ops: list[Op]) -> bool:
    """True if there are removes that may be done yet, which explains much."""
    return any(op.verb == "remove" and op.action in {"", "unknown"} for op in ops)


@given(SEEDS)
def test_merged_points_raise_no_alarm(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linearizable, "MOST_ALIKE", 1)
        assert judged(*life(seed, lost=0.5, late_s=20.0)).ok


@given(SEEDS)
def test_a_lost_acknowledged_write_is_found(seed: int) -> None:
    ops, end_s = life(seed), max(op.end_s for op in life(seed))
    write = Op("c0", "write", end_s + 1, end_s + 2, "last;")
    read = Op("c1", "read", end_s + 3, end_s + 4, answer="last;")
    assert judged(*ops, write, read).ok
    assert not judged(*ops, write, replace(read, answer="before;")).ok
    if not unanswered_removes(ops):
        assert not judged(*ops, write, replace(read, action="fail", answer=None, error="ENOENT")).ok


@given(SEEDS)
def test_a_stale_read_is_found(seed: int) -> None:
    ops = life(seed)
    end_s = max(op.end_s for op in ops)
    stale = [op for op in ops if op.verb == "read" and op.action == "ok" and op.answer]
    assume(stale)
    writes = [Op("c0", "write", end_s + at, end_s + at + 0.5, f"new{at};") for at in (1, 2)]
    assert judged(*ops, *writes, Op("c1", "read", end_s + 3, end_s + 4, answer="new2;")).ok
    for seen in ("new1;", stale[-1].answer):
        assert not judged(*ops, *writes, Op("c1", "read", end_s + 3, end_s + 4, answer=seen)).ok


@given(SEEDS, st.data())
def test_a_doubled_append_is_found(seed: int, data: st.DataObject) -> None:
    ops = life(seed)
    reads = [place for place, op in enumerate(ops) if op.verb == "read" and op.action == "ok" and op.answer]
    assume(reads)
    place = data.draw(st.sampled_from(reads))
    tokens = ops[place].answer.split(";")[:-1]
    twice = data.draw(st.integers(0, len(tokens) - 1))
    doubled = "".join(f"{token};" for token in (*tokens[: twice + 1], *tokens[twice:]))
    assert not judged(*ops[:place], replace(ops[place], answer=doubled), *ops[place + 1 :]).ok


@given(SEEDS)
def test_two_exclusive_creates_are_found(seed: int) -> None:
    ops = life(seed)
    end_s = max(op.end_s for op in ops) + 1
    removed = Op("c0", "remove", end_s, end_s + 1)
    sure = Op("c0", "write", end_s - 0.9, end_s - 0.1, "x;")
    one, other = Op("c1", "create", end_s + 2, end_s + 5), Op("c2", "create", end_s + 3, end_s + 4)
    assume(not unanswered_removes(ops))
    assert judged(*ops, sure, removed, one, replace(other, action="fail", error="EEXIST")).ok
    assert not judged(*ops, sure, removed, one, other).ok
