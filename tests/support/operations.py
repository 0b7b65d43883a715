"""Histories of operations on objects."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from toolkit.checks.history import History

OBJECT = "objects/register0"
VERBS = ("write", "append", "create", "remove", "omap_set", "read", "omap_get")


@dataclass(frozen=True)
class Op:
    """An operation of a client, from when to when, and its answer; ``action`` is empty where none came."""

    client: str
    verb: str
    begin_s: float
    end_s: float
    value: Any = None
    action: str = "ok"
    answer: Any = None
    error: str = ""
    object: str = OBJECT


def history_of(*operations: Op) -> History:
    """A history of these operations."""
    records = []
    for number, op in enumerate(operations):
        about = {"number": f"1.{number}", "verb": op.verb, "object": op.object}
        given_ = {} if op.value is None else {"value": op.value}
        records.append((op.begin_s, op.client, {**about, "action": "invoke", **given_}))
        if op.action:
            answered = {} if op.answer is None else {"value": op.answer}
            failed = {"error": op.error} if op.error else {}
            records.append((op.end_s, op.client, {**about, "action": op.action, **answered, **failed}))
    history = History()
    for time_s, node, fields in sorted(records, key=lambda record: record[0]):
        history.append(time_s, node, "operation", **fields)
    return history


def life(
    seed: int,
    clients: int = 3,
    count: int = 40,
    lost: float = 0.1,
    late_s: float = 0.0,
    values: int = 1 << 32,
    verbs: Sequence[str] = VERBS,
) -> list[Op]:
    """Return the clients' view of a correct object: each operation takes effect between its call and its answer.

    Args:
        seed: determines everything.
        clients: number of clients; each runs one operation after the other.
        count: number of operations.
        lost: probability that an operation gets no answer.
        late_s: most seconds from the call of such an operation until it takes effect; 0: like all others.
            A third of those that may be late never take effect.
        values: number of different values that are written.
        verbs: verbs to draw from.
    """
    random = Random(seed)
    drawn = []
    for client in range(clients):
        at_s = random.random()
        for _ in range(count // clients):
            end_s = at_s + random.random()
            verb = random.choice(verbs)
            is_lost = verb not in {"read", "omap_get"} and random.random() < lost
            done_s = random.uniform(at_s, end_s)
            if is_lost and late_s:
                done_s = random.choice((at_s + random.uniform(0, late_s), done_s, _NEVER_S))
            drawn.append((done_s, at_s, end_s, f"c{client}", verb, is_lost))
            at_s = end_s + random.random() * 0.3
    state: _Seen = None
    found = []
    for number, (done_s, begin_s, end_s, name, verb, is_lost) in enumerate(sorted(drawn)):
        token = f"{number % values};"
        value = {f"k{number % 3}": token} if verb == "omap_set" else token if verb in {"write", "append"} else None
        op = Op(name, verb, begin_s, end_s, value)
        after, op = _carried_out(op, state)
        state = state if done_s == _NEVER_S else after
        found.append(replace(op, action=random.choice(("", "unknown")), answer=None, error="") if is_lost else op)
    return found


_NEVER_S = 1e9
_Seen = tuple[str, dict[str, str]] | None
"""Data and omap of an object; None if there is none."""


def _carried_out(op: Op, state: _Seen) -> tuple[_Seen, Op]:
    """Return the object after an operation, and the operation with its answer."""
    if op.verb == "create":
        return (("", {}), op) if state is None else (state, replace(op, action="fail", error="EEXIST"))
    if op.verb in {"write", "append", "omap_set"}:
        data, omap = state or ("", {})
        if op.verb == "omap_set":
            return (data, omap | op.value), op
        return ((data if op.verb == "append" else "") + op.value, omap), op
    if state is None:
        return None, replace(op, action="fail", error="ENOENT")
    if op.verb == "remove":
        return None, op
    return state, replace(op, answer=state[0] if op.verb == "read" else dict(state[1]))


# ---- the definition of linearizability, tried out


def is_linearizable(operations: list[Op]) -> bool:
    """True if some order of operations on one object explains the answers; tries all, so give few operations.

    It contains every answered operation and any of those without an answer; one that was answered before another
    was invoked comes first.
    """
    answered = [op for op in operations if op.action in {"ok", "fail"}]
    silent = [op for op in operations if op.action not in {"ok", "fail"} and op.verb not in {"read", "omap_get"}]
    return _can_follow(None, answered, silent)


def _can_follow(state: _Seen, answered: list[Op], silent: list[Op]) -> bool:
    if not answered:
        return True
    first_end_s = min(op.end_s for op in answered)
    for op in (*answered, *silent):
        if op.begin_s > first_end_s:
            continue
        after, done = _carried_out(replace(op, action="ok", answer=None, error=""), state)
        is_explained = op in silent or (done.action, done.answer, done.error) == (op.action, op.answer, op.error)
        if is_explained and _can_follow(after, _without(answered, op), _without(silent, op)):
            return True
    return False


def _without(operations: list[Op], operation: Op) -> list[Op]:
    return [each for each in operations if each is not operation]


def damaged(operations: list[Op], random: Random) -> list[Op]:
    """The operations with one answer changed: what was read, or whether there was an object."""
    answered = [place for place, op in enumerate(operations) if op.action in {"ok", "fail"}]
    changed = list(operations)
    if not answered:
        return changed
    place = random.choice(answered)
    op = operations[place]
    if op.error or (op.answer is not None and random.random() < 0.3):
        others = [each for each in operations if each.verb == op.verb and each.error != op.error]
        other = random.choice(others) if others else op
        changed[place] = replace(op, action=other.action, answer=other.answer, error=other.error)
    elif op.verb == "read":
        tokens = [f"{number};" for number in range(len(operations))]
        changed[place] = replace(op, answer="".join(random.sample(tokens, random.randint(0, 3))))
    elif op.verb == "omap_get":
        values = [each.value for each in operations if each.verb == "omap_set"]
        changed[place] = replace(op, answer=dict(op.answer) | random.choice(values) if values else {"k1": "x"})
    return changed
