"""Keepalives: a link whose peer is silent for too long is closed (docs/protocol.md §7.3)."""

from toolkit.checks.index import Index
from toolkit.checks.result import Findings
from toolkit.checks.wires import LinkLog

_ASK, _ANSWER = "KEEPALIVE2", "KEEPALIVE2_ACK"
_TICKS = 2
"""Intervals from the missing answer to the KEEPALIVE2 that detects it, and to the next one."""
_STAMP = ("seconds", "nanoseconds")


def keepalive(index: Index, findings: Findings) -> None:
    """keepalive: the link of a silent peer is closed within the timeout and two intervals of its last answer."""
    watched: dict[tuple[str, int], tuple[float, float]] = {}
    for _, record in index.by_kind.get("keepalive", ()):
        key = record.node, record["session"]
        before = watched.get(key, (0.0, 0.0))
        watched[key] = max(before[0], record["interval_s"]), max(before[1], record["timeout_s"])
    if not watched:
        return
    asked = {id(link): link for _, link, record in index.by_tag.get(_ASK, ()) if record["direction"] == "tx"}
    for link in asked.values():
        interval_s, timeout_s = watched.get((link.key.node, link.session or 0), (0.0, 0.0))
        if timeout_s > 0:
            _judge_link(index, findings, link, timeout_s + _TICKS * interval_s)


def _judge_link(index: Index, findings: Findings, link: LinkLog, patience_s: float) -> None:
    """Judge one link. The messenger counts from the time of the newest KEEPALIVE2 that was answered."""
    records = index.history.records
    questions: dict[tuple[object, ...], float] = {}
    since_s: float | None = None
    last_at = 0
    for position, record in sorted(entry for entry in (*link.tx, *link.rx) if entry[1]["tag"] in {_ASK, _ANSWER}):
        stamp = tuple(str(record["fields"].get(name)) for name in _STAMP)
        if record["direction"] == "tx" and record["tag"] == _ASK:
            questions[stamp] = record.time_s
            since_s = record.time_s if since_s is None else since_s
            last_at = position
        elif record["direction"] == "rx" and record["tag"] == _ANSWER and since_s is not None:
            silence_s = record.time_s - since_s
            if silence_s > patience_s + index.frozen_s(link.key.node, since_s, record.time_s):
                break
            since_s = max(since_s, questions.get(stamp, since_s))
    end = index.process_ends.get(index.process_of(link), len(records) - 1) if link.closed is None else link.closed
    if since_s is None:
        return
    silence_s = records[end].time_s - since_s
    if silence_s > patience_s + index.frozen_s(link.key.node, since_s, records[end].time_s):
        text = f"{link.key.link} is kept although its peer is silent for {silence_s:.3g} s"
        findings.add(last_at, f"{text}, {patience_s:.3g} s are allowed")
