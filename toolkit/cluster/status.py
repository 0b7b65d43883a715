"""What a cluster is doing, as JSON."""

from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.checks.describe import describe
from toolkit.checks.merging import in_order
from toolkit.checks.records import Record
from toolkit.errors import Unsupported

if TYPE_CHECKING:
    from toolkit.cluster.running import Cluster

RECENT = 8
"""So many events are shown."""
JUDGED_RECORDS = 50_000
"""Of a longer history the invariants are asked only by who asks for them."""
_EVENTS = frozenset({"event", "fault", "process", "cut", "path", "mangle", "clock", "exception", "step"})
"""Kinds of records that are events to whoever looks on."""
_MOST_WAYS = 400


def status_of(cluster: "Cluster") -> dict[str, Any]:
    """How a cluster is."""
    history = cluster.history.so_far()
    faults = Counter(record.node for record in history.records if record.kind == "fault")
    nodes = {name: node.status() | {"faults": faults[name]} for name, node in cluster.nodes.items()}
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
        "links": links_of(cluster),
        "faults": [str(fault) for fault in cluster.scene_faults()],
        "nemesis": cluster.nemesis.status() if cluster.nemesis is not None else None,
        "captures": {name: str(taken.path) for name, taken in cluster.captures.taken.items()},
        "proxies": [f"{dialler} {dialled}" for dialler, dialled in cluster.proxies],
        "records": len(history),
        "full_s": cluster.history.full_s,
        "full_why": cluster.history.trouble or None,
        "events": [told(record) for record in recent(history.records)],
        "checks": _checks(cluster, len(history)),
    }


def recent(records: list[Record], count: int = RECENT) -> list[Record]:
    """The last events among records."""
    found: list[Record] = []
    for record in reversed(records):
        if is_event(record):
            found.append(record)
            if len(found) == count:
                break
    return in_order(found[::-1])


def links_of(cluster: "Cluster") -> list[dict[str, Any]]:
    """The ways between nodes that are not as they should be."""
    found: list[dict[str, Any]] = []
    network = cluster.network
    for count, (sender, receiver) in enumerate(permutations(cluster.nodes, 2)):
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
    """Whether somebody who looks on wants to see it: no frame, no number that moves."""
    return record.kind in _EVENTS


def told(record: Record) -> dict[str, Any]:
    """A record, as JSON and in words."""
    return {"time_s": record.time_s, "node": record.node, "kind": record.kind, "what": describe(record)}


def _checks(cluster: "Cluster", records: int) -> dict[str, Any]:
    if not records:
        return {"judged": False, "failed": [], "note": "there are no records to judge"}
    if records > JUDGED_RECORDS:
        return {"judged": False, "failed": [], "note": f"{records} records are not judged again and again"}
    results = cluster.check()
    failed = [
        {"id": each.id, "name": each.name, "violations": [one.text for one in each.violations]}
        for each in results
        if not each.ok
    ]
    return {"judged": True, "passed": len(results) - len(failed), "failed": failed, "note": ""}
