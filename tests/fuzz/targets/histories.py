"""Histories: the text of a file, its records in words, and the verdicts and charts of whatever they claim."""

import json
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from messenger.errors import LocalError
from tests.fuzz.target import Target, require_same
from toolkit.checks.describe import describe
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.records import KINDS
from toolkit.report.plain import plain_chart
from toolkit.report.sequence import SequenceChart


def run(data: bytes) -> None:
    """Read a history, write it, describe it, judge it, draw it."""
    try:
        history = History.parse(data.decode("utf-8", "replace"))
    except LocalError:
        return
    text = history.dump()
    again = History.parse(text)
    require_same("read, written and read again", again.dump(), text)
    for record in history:
        assert isinstance(describe(record), str)
    for result in check(history):
        repr(result)
    plain_chart(history)
    ET.fromstring(SequenceChart(history).svg())


def record(kind: str, time_s: float, node: str = "a", **changes: object) -> str:
    """A line of a kind with every field at some value that it may have."""
    fields: dict[str, object] = {"time": time_s, "node": node, "kind": kind}
    for name, field in KINDS[kind].items():
        usual = {int: 1, str: "a/1" if name == "link" else "x", dict: {"seq": 1}, list: [], float: 0.5}
        fields[name] = min(field.choices) if field.choices else usual[field.types[0]]
    return json.dumps(fields | changes) + "\n"


def seeds() -> Iterator[bytes]:
    """A line of every kind, a short life of a session, and what is not a history."""
    for kind in KINDS:
        yield record(kind, 0.0).encode()
    states = ("CONNECTING", "READY", "STANDBY", "CLOSED")
    yield "".join(
        record("state", at / 10, state=state, policy="lossless_peer") for at, state in enumerate(states)
    ).encode()
    yield (
        record("process", 0, action="start")
        + record("link", 0.1, action="dial")
        + record("frame", 0.2, tag="CLIENT_IDENT", fields={"flags": 1, "addrs": "v2:10.0.0.1:1/1"})
        + record("send", 0.3, tid=1)
        + record("deliver", 0.4, "b", tid=1)
        + record("end", 0.5)
    ).encode()
    for odd in (float("nan"), float("inf"), 1 << 4000, json.loads("[" * 300 + "]" * 300), "\ud800\n"):
        yield record("frame", 0, tag="AUTH_REQUEST", fields={"method": odd}).encode()
    yield record("frame", 0, tag="ACK", fields={"seq": 0}).replace('"seq": 0', '"seq": 1e999').encode()
    yield (record("state", 0, "network") + record("frame", 1, "scenario") + record("cut", 2, "network")).encode()
    yield from (b"{}", b"[1]\n", b'{"time": NaN}\n', b"\xff\n", b"null\n\n", b'{"time": 1e999}\n')


TARGETS = (Target(name="history", run=run, seeds=seeds, mutations=300, max_bytes=1500, allowance_bytes=1 << 20),)
