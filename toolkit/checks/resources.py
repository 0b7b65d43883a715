"""INV-9: what throttles have taken they give back."""

from collections import defaultdict

from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry


def throttles_balance(index: Index, findings: Findings) -> None:
    """INV-9: throttles are zero at rest."""
    last: dict[tuple[str, str], Entry] = {}
    for entry in index.by_kind.get("throttle", ()):
        last[entry[1].node, entry[1].fields["name"]] = entry
    for position, record in index.by_kind.get("process", ()):
        for owner, name in [key for key, entry in last.items() if key[0] == record.node and entry[0] < position]:
            del last[owner, name]
    for node, (position, record) in index.ends.items():
        for (owner, name), (_, throttle) in last.items():
            if owner == node and throttle["value"]:
                findings.add(position, f"{node}: throttle {name} still holds {throttle['value']} at rest")
        if record["dispatch_bytes"]:
            findings.add(position, f"{node}: {record['dispatch_bytes']} dispatched bytes are not released at rest")


def throttles_limited(index: Index, findings: Findings) -> None:
    """Throttles are never negative, and never above their limit by more than one message.

    Other shards have a part of the limit each, so each of them may exceed its part by one.
    """
    suspicious = []
    for position, record in index.by_kind.get("throttle", ()):
        fields = record.fields
        if fields["value"] < 0 or fields["value"] > fields["limit"] > 0:
            suspicious.append((position, record))
    if suspicious:
        largest = _largest_messages(index)
        for position, record in suspicious:
            _judge_value(findings, position, record, largest[record.node], index.shards.get(record.node, 1))


def _largest_messages(index: Index) -> dict[str, int]:
    """The size in bytes of the largest message each node received, delivered or dropped before that.

    Or that a peer declared to it by hand, and did not send.
    """
    largest: dict[str, int] = defaultdict(int)
    for _, record in index.by_kind.get("step", ()):
        if record["verb"] == "declare":
            node, size_bytes = record["args"].split(", ")
            largest[node] = max(largest[node], int(size_bytes))
    for _, record in index.by_kind.get("deliver", ()):
        largest[record.node] = max(largest[record.node], record["size"])
    for _, record in index.by_kind.get("send", ()):
        largest[record["peer"]] = max(largest[record["peer"]], record["size"])
    return largest


def _judge_value(findings: Findings, position: int, record: Record, largest_bytes: int, shards: int) -> None:
    value, limit = record["value"], record["limit"]
    one_message = largest_bytes if "byte" in record["name"] else 1
    if value < 0:
        findings.add(position, f"{record.node}: throttle {record['name']} is negative: {value}")
    elif limit and value > limit + one_message * shards:
        each = f" on each of {shards} shards" if shards > 1 else ""
        text = f"throttle {record['name']} holds {value}, its limit is {limit} and one message{each}"
        findings.add(position, f"{record.node}: {text}")
