"""INV-9: what throttles have taken they give back."""

from collections import defaultdict

from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings


def throttles_balance(index: Index, findings: Findings) -> None:
    """INV-9: throttles are zero at rest, never negative, never above their limit by more than one message."""
    largest = _largest_messages(index.history)
    last: dict[tuple[str, str], Record] = {}
    for position, record in enumerate(index.history):
        if record.kind == "throttle":
            _judge_value(findings, position, record, largest[record.node])
            last[record.node, record["name"]] = record
        elif record.kind == "process":
            last = {key: value for key, value in last.items() if key[0] != record.node}
    for node, (position, record) in index.ends.items():
        for (owner, name), throttle in last.items():
            if owner == node and throttle["value"]:
                findings.add(position, f"{node}: throttle {name} still holds {throttle['value']} at rest")
        if record["dispatch_bytes"]:
            findings.add(position, f"{node}: {record['dispatch_bytes']} dispatched bytes are not released at rest")


def _largest_messages(history: History) -> dict[str, int]:
    """The size in bytes of the largest message each node received."""
    largest: dict[str, int] = defaultdict(int)
    for record in history.of("deliver"):
        largest[record.node] = max(largest[record.node], record["size"])
    return largest


def _judge_value(findings: Findings, position: int, record: Record, largest_bytes: int) -> None:
    value, limit = record["value"], record["limit"]
    one_message = largest_bytes if "byte" in record["name"] else 1
    if value < 0:
        findings.add(position, f"{record.node}: throttle {record['name']} is negative: {value}")
    elif limit and value > limit + one_message:
        text = f"throttle {record['name']} holds {value}, its limit is {limit} and one message"
        findings.add(position, f"{record.node}: {text}")
