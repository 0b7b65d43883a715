"""The state of a cluster as JSON."""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

from messenger.errors import FaultReason, LocalError
from toolkit.checks.describe import describe
from toolkit.checks.history import History
from toolkit.checks.merge import in_order
from toolkit.checks.records import Record
from toolkit.checks.result import CheckResult, Outcome, tally
from toolkit.errors import Unsupported

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster
    from toolkit.cluster.nodes import RunningNode

RECENT = 8
"""Number of events in the status."""
JUDGED_RECORDS = 50_000
"""Most records for which a status includes verdicts; for a longer history the user has to ask for them."""
_EVENTS = frozenset({"event", "fault", "process", "cut", "path", "mangle", "clock", "exception", "step"})
"""Kinds of records that are shown as events."""
_MOST_WAYS = 400
_OPENED = frozenset({"connect", "accept"})
"""Events that open a session."""
_LOST = frozenset({FaultReason.RACE.name, FaultReason.REPLACED.name})
_CLOSED = frozenset({FaultReason.EOF.name, FaultReason.SOCKET.name})
_ACCEPTING = "_ACCEPTING"
"""Part of the name of an acceptor's state before the session is ready."""
_RACE_S = 1.0


def status_of(cluster: "Cluster") -> dict[str, Any]:
    """Return the state of a cluster."""
    history = cluster.history.so_far()
    races = Races(history)
    faults = Counter(record.node for record in history.of("fault") if record not in races)
    lost = cluster.backend.lost()
    machine_of = {name: machine for machine, names in lost.items() for name in names}
    nodes = {
        name: (_lost(node, machine_of[name]) if name in machine_of else node.status()) | {"faults": faults[name]}
        for name, node in cluster.nodes.items()
    }
    return {
        "name": cluster.name,
        "spec": cluster.spec.name,
        "about": cluster.spec.about,
        "backend": cluster.backend.name,
        "state": "up" if all(node["state"] == "up" for node in nodes.values()) else "hurt",
        "up_s": round(cluster.now(), 3),
        "ready_s": round(cluster.ready_s, 3),
        "directory": str(cluster.directory),
        "nodes": nodes,
        "lost": lost,
        "guests": cluster.guests.status(),
        "links": links_of(cluster),
        "faults": [str(fault) for fault in cluster.scene_faults()],
        "nemesis": cluster.nemesis.status() if cluster.nemesis is not None else None,
        "captures": {name: str(taken.path) for name, taken in cluster.captures.taken.items()},
        "proxies": [f"{dialler} {dialled}" for dialler, dialled in cluster.proxies],
        **cluster.judging.status(),
        "full_s": cluster.history.full_s,
        "full_why": cluster.history.trouble or None,
        "events": [record_json(record, races) for record in recent(history.records)],
        "checks": _checks(cluster, len(history)),
    }


def _lost(node: "RunningNode", machine: str) -> dict[str, Any]:
    """Return the state of a node whose machine does not answer."""
    return {
        "kind": node.kind,
        "state": "lost",
        "pid": 0,
        "address": node.address,
        "host": dict(node.host.addresses),
        "last_words": f"{machine} does not answer",
    }


def recent(records: list[Record], count: int = RECENT) -> list[Record]:
    """Return the last events among the records."""
    found: list[Record] = []
    for record in reversed(records):
        if is_event(record):
            found.append(record)
            if len(found) == count:
                break
    return in_order(found[::-1])


def links_of(cluster: "Cluster") -> list[dict[str, Any]]:
    """Return the impaired or blocked pairs of nodes, and of virtual machines on their network."""
    found: list[dict[str, Any]] = []
    network = cluster.network
    for count, (sender, receiver) in enumerate(permutations([*cluster.nodes, *network.guests], 2)):
        if count >= _MOST_WAYS:
            break
        try:
            state = network.link(sender, receiver).model_dump(exclude_defaults=True, mode="json")
        except (Unsupported, LocalError):
            continue
        if network.is_blocked(sender, receiver):
            state["blocked"] = True
        if state:
            found.append({"from": sender, "to": receiver, **state})
    return found


def is_event(record: Record) -> bool:
    """True if the record is shown as an event: it is neither a frame nor a counter."""
    return record.kind in _EVENTS


def record_json(record: Record, races: "Races | None" = None) -> dict[str, Any]:
    """Return a record as JSON, with a description in words."""
    what = describe(record)
    if races is not None and record in races:
        what = f"{record['link']}: the handshake ended as another one succeeded (connection race)"
    return {"time_s": record.time_s, "node": record.node, "kind": record.kind, "what": what}


class Races:
    """Finds the link faults of a history that are only lost connection races.

    The loser of a race either reports it, or sees its peer close a link that it was accepting while another link
    becomes ready.
    """

    def __init__(self, history: History) -> None:
        self._opened_s: dict[str, list[float]] = {}
        """Times at which sessions opened, by node."""
        for record in history.of("event"):
            if record["event"] in _OPENED:
                self._opened_s.setdefault(record.node, []).append(record.time_s)

    def __contains__(self, record: Record) -> bool:
        if record.kind != "fault":
            return False
        if record["reason"] in _LOST:
            return True
        if record["reason"] not in _CLOSED or _ACCEPTING not in record["detail"]:
            return False
        return any(abs(at_s - record.time_s) < _RACE_S for at_s in self._opened_s.get(record.node, ()))


def _checks(cluster: "Cluster", records: int) -> dict[str, Any]:
    if not records:
        return {"judged": False, "failed": [], "note": "there are no records to judge"}
    long_run = cluster.judging.long_run
    if records <= JUDGED_RECORDS:
        results = cluster.check()
    elif long_run is not None and long_run.judged_until_s is not None:
        results = long_run.results
    else:
        return {"judged": False, "failed": [], "note": f"{records} records are not judged again and again"}
    return verdicts_json(results)


def verdicts_json(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the verdicts of invariants as JSON."""
    failed = [
        {"id": each.id, "name": each.name, "violations": [one.text for one in each.violations]}
        for each in results
        if not each.ok
    ]
    counts = tally(results)
    return {
        "judged": counts[Outcome.HOLDS] + counts[Outcome.VIOLATED] > 0,
        "passed": counts[Outcome.HOLDS],
        "failed": failed,
        "not_judged": [each.id for each in results if each.outcome is Outcome.NOT_JUDGED],
        "note": "" if counts[Outcome.HOLDS] or failed else "not judged: nothing has happened between nodes",
    }
