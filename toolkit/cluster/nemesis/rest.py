"""Quiescence of a cluster: every node is ready, all queues are empty, and nothing is sent."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from messenger.errors import LocalError
from toolkit.faults.language import Scene

_POLL_S = 0.02
_MOMENT_S = 0.05
"""Seconds without records after which the cluster counts as quiet: a message may be in flight between two
snapshots."""
_COUNTERS = ("queued", "sent", "dispatch_bytes", "unsettled")


@dataclass(frozen=True, slots=True)
class Rest:
    """Result of the wait for quiescence."""

    waits: tuple[str, ...]
    """A line for each thing that did not become quiet in time."""
    ends: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Final counters of the messengers, as in ``end`` records."""
    at_s: float | None = None
    """Time in seconds at which it was quiet, up to which the records of all nodes have arrived; None if it was
    not. Nodes continue to send keepalives, and a receiver's record may arrive before that of the sender."""

    @property
    def reached(self) -> bool:
        """True if the cluster became quiet."""
        return not self.waits


def come_to_rest(scene: Scene, timeout_s: float) -> Rest:
    """Stop all traffic, and wait until the cluster is quiet.

    Args:
        scene: scene of a cluster whose faults have been healed.
        timeout_s: seconds to wait.
    """
    deadline_s = time.monotonic() + timeout_s
    scene.pause_traffic(*(name for name in scene.names if scene.node(name).alive))
    while True:
        before = len(scene.history)
        waits = _unrest(scene)
        if not waits:
            time.sleep(_MOMENT_S)
            at_s = scene.now_s()
            waits = _unrest(scene)
            if not waits and len(scene.history) == before:
                return Rest((), _ends(scene), at_s)  # a node's reply follows the records that it wrote before
        if time.monotonic() > deadline_s:
            return Rest(tuple(waits or ["frames are still sent, although nothing is queued"]))
        time.sleep(_POLL_S)


def _unrest(scene: Scene) -> list[str]:
    found = []
    for name in scene.names:
        try:
            words = _unrest_of(scene, name)
        except LocalError as error:
            words = str(error)
        if words:
            found.append(f"{name}: {words}")
    return found


def _unrest_of(scene: Scene, name: str) -> str:
    if not scene.running(name).ready():
        return "it is not ready"
    if scene.not_ours(name):
        return "its workload waits for answers" if scene.is_at_work(name) else ""
    snapshot = scene.command(name, "snapshot")
    return ", ".join(f"{counter} {snapshot[counter]}" for counter in _COUNTERS if snapshot[counter])


def _ends(scene: Scene) -> dict[str, dict[str, Any]]:
    ours = [name for name in scene.names if not scene.not_ours(name)]
    return {name: scene.command(name, "snapshot") | scene.command(name, "resources") for name in ours}
