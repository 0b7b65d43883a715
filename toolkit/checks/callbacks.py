"""How often applications are told of what, against the numbers that a scenario gives."""

from collections import Counter
from collections.abc import Iterable

from messenger.outputs import EventKind
from toolkit.checks.history import SCENARIO, History
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings


def callback_count(index: Index, findings: Findings) -> None:
    """callback_count: events come exactly as often as the scenario's ``expect`` records say."""
    expected = index.by_kind.get("expect", ())
    if not expected:
        findings.note("the scenario does not say how many events are due")
        return
    heard = count_events(record for _, record in index.by_kind.get("event", ()))
    for position, record in expected:
        of, peer, event, count = record["of"], record["peer"], record["event"], record["count"]
        most = record.fields.get("most", count)
        times = heard[of, peer, event]
        if not count <= times <= most:
            due = str(count) if most == count else f"{count} to {most}"
            findings.add(position, f"{of} heard {event} of {peer} {times} times, {due} are due")


def count_events(records: Iterable[Record]) -> Counter[tuple[str, str, str]]:
    """How often each node was told of each event, by node, peer and event."""
    return Counter((record.node, record["peer"], record["event"]) for record in records if record.kind == "event")


def expect_events(
    history: History,
    time_s: float,
    node: str,
    peer: str,
    /,
    **counts: "int | tuple[int, int]",
) -> None:
    """Write down how often a node is to be told of events of its sessions with a peer in the whole run.

    Args:
        history: where to.
        time_s: seconds since the run began.
        node: who is told.
        peer: of whom.
        counts: by event, exactly how often, or at least and at most.

    Raises:
        LocalError: no such event.
    """
    for event, count in counts.items():
        least, most = count if isinstance(count, tuple) else (count, count)
        fields = {"of": node, "peer": peer, "event": EventKind(event).value, "count": least}
        if most != least:
            fields["most"] = most
        history.append(time_s, SCENARIO, "expect", **fields)
