"""Histories of operations on objects."""

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


def life(seed: int, clients: int = 3, count: int = 40) -> list[Op]:
    """What clients see of a true object: each operation is done at a moment between its call and its answer."""
    random = Random(seed)
    drawn = []
    for client in range(clients):
        at_s = random.random()
        for _ in range(count // clients):
            end_s = at_s + random.random()
            drawn.append((random.uniform(at_s, end_s), at_s, end_s, f"c{client}", random.choice(VERBS)))
            at_s = end_s + random.random() * 0.3
    data: str | None = None
    omap: dict[str, str] = {}
    found = []
    for number, (_, begin_s, end_s, client, verb) in enumerate(sorted(drawn)):
        value: Any = {
            "write": f"{number};",
            "append": f"{number};",
            "omap_set": {f"k{number % 3}": str(number)},
        }.get(verb)
        op = Op(client, verb, begin_s, end_s, value)
        if verb == "create" and data is not None:
            op = replace(op, action="fail", error="EEXIST")
        elif verb in {"remove", "read", "omap_get"} and data is None:
            op = replace(op, action="fail", error="ENOENT")
        elif verb == "remove":
            data, omap = None, {}
        elif verb == "write":
            data = value
        elif verb in {"append", "create"}:
            data = (data or "") + (value or "")
        elif verb == "omap_set":
            data, omap = data or "", omap | value
        else:
            op = replace(op, answer=data if verb == "read" else dict(omap))
        lost = op.action == "ok" and verb not in {"read", "omap_get"} and random.random() < 0.1
        found.append(replace(op, action=random.choice(("", "unknown"))) if lost else op)
    return found
