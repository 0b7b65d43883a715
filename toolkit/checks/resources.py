"""INV-9: throttles return to zero."""

from collections import defaultdict

from toolkit.checks.index import Index
from toolkit.checks.records import Record, largest_of
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry


def throttles_balance(index: Index, findings: Findings) -> None:
    """INV-9: at rest throttles are zero: all messages are released, and none is partly received."""
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
        if record.fields.get("throttled"):
            findings.add(
                position, f"{node}: throttles still hold {record['throttled']} messages and bytes at rest"
            )
        if record.fields.get("arrivals"):
            findings.add(position, f"{node}: {record['arrivals']} messages are still in arrival at rest")


def throttle_turns(index: Index, findings: Findings) -> None:
    """throttle_turns: links that wait for a throttle are admitted in the order in which they began to wait.

    One message at a time may exceed the limits while it arrives, and then overtakes others. Not judged for nodes
    with several shards, which have a throttle each.
    """
    lines: dict[tuple[str, str], list[str]] = defaultdict(list)
    restarts = [entry for entry in index.by_kind.get("process", ()) if entry[1]["action"] == "start"]
    for position, record in sorted((*restarts, *index.by_kind.get("wait", ())), key=lambda entry: entry[0]):
        node = record.node
        if record.kind == "process":
            for line in [line for (owner, _), line in lines.items() if owner == node]:
                line.clear()
        elif index.shards.get(node, 1) > 1:
            findings.note(f"{node} has several shards, so the order of admission was not judged")
        else:
            _judge_turn(findings, position, record, lines[node, record["name"]])


def _judge_turn(findings: Findings, position: int, record: Record, line: list[str]) -> None:
    link, action = record["link"], record["action"]
    if action == "begin":
        line.append(link)
        return
    if link not in line:
        findings.add(position, f"{record.node}: {link} was not waiting for throttle {record['name']}: {action}")
        return
    passed = line[: line.index(link)]
    line.remove(link)
    if action == "admit" and passed:
        text = f"{link} is admitted to throttle {record['name']} before {', '.join(passed)}, which waited longer"
        findings.add(position, f"{record.node}: {text}")


def throttles_limited(index: Index, findings: Findings) -> None:
    """Throttles are never negative, and never exceed their limit by more than one message.

    They may exceed it by two if a message is larger than the limit. Each shard has a part of the limit, so each of
    them may exceed its part.
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
    """Return the size in bytes of the largest message sent to each node.

    Messages that were dropped count, as do those that a ``declare`` step announced without sending them.
    """
    largest: dict[str, int] = defaultdict(int)
    for _, record in index.by_kind.get("step", ()):
        if record["verb"] == "declare":
            node, size_bytes = record["args"].split(", ")
            largest[node] = max(largest[node], int(size_bytes))
    for _, record in index.by_kind.get("settled", ()):
        for node, size_bytes in largest_of(record):
            largest[node] = max(largest[node], size_bytes)
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
        return
    # One message may exceed the limit while it arrives, and by Ceph's rule one that is larger than the limit may.
    most = 1 if one_message * shards <= limit else 2
    if limit and value > limit + most * one_message * shards:
        messages = "one message" if most == 1 else "two messages"
        each = f" on each of {shards} shards" if shards > 1 else ""
        text = f"throttle {record['name']} holds {value}, its limit is {limit} and {messages}{each}"
        findings.add(position, f"{record.node}: {text}")
