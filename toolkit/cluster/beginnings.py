"""The beginning of a cluster's traffic, in parts: a large mesh would overload the machine with handshakes.

If all sessions of a large mesh opened at once, handshakes would exceed ms_connection_ready_timeout and begin
again, and none would end. So a part begins when the sessions of earlier parts are open. A way and its way back
are in different parts, so that the second one finds the session open instead of racing for it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.cluster.spec.model import Traffic, Workload

if TYPE_CHECKING:
    from toolkit.cluster.live_history import LiveHistory
    from toolkit.cluster.nodes import RunningNode

PART = 300
"""Number of ways that begin together; their handshakes take about a second on two cores."""
_LEFT = 100
"""Number of sessions of earlier parts that may not be open yet when a part begins, so that nodes are not idle."""
_PATIENCE_S = 10.0
"""Longest wait for sessions; a peer may be unreachable."""
_BLIND_S = 1.0
_LOOK_S = 0.05
_MOST_RECORDS = 20_000
_SENDERS_AT_ONCE = 32

Command = tuple[str, dict[str, Any]]
Part = Sequence[Traffic | Workload]
"""Traffic that begins together."""


class Beginnings:
    """Starts the traffic of a cluster.

    Args:
        nodes: nodes by name; they may change meanwhile.
        history: history of the cluster, which shows the open sessions.
        traffic: the traffic of its spec.
    """

    def __init__(
        self, nodes: "dict[str, RunningNode]", history: "LiveHistory", traffic: Sequence[Traffic | Workload]
    ) -> None:
        self._nodes = nodes
        self._history = history
        self._parts = parts(list(nodes), traffic)
        self._read = 0
        self._waiting: list[tuple[str, str]] = []
        """Ways whose traffic has begun, and whose sessions may not be open yet."""
        self._ready: set[tuple[str, str]] = set()
        """Nodes, and peers with which they have had an open session."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the first part, and the others in the background; raises LocalError if a command fails."""
        if not self._parts:
            return
        self._begin(self._parts[0], self._command)
        if len(self._parts) > 1:
            self._thread = threading.Thread(target=self._go_on, name="traffic", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Begin no more."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _go_on(self) -> None:
        for part in self._parts[1:]:
            self._wait_open()
            if self._stopped.is_set():
                return
            self._begin(part, self._try_command)

    def _begin(
        self, part: Sequence[Traffic | Workload], command: Callable[[str, Sequence[Command]], None]
    ) -> None:
        self._waiting += [(each.sender, each.receiver) for each in part if isinstance(each, Traffic)]
        by_sender: dict[str, list[Command]] = {}
        for traffic in part:
            by_sender.setdefault(traffic.sender, []).append(traffic.beginning)
        with ThreadPoolExecutor(min(len(by_sender), _SENDERS_AT_ONCE)) as threads:
            list(threads.map(command, by_sender, by_sender.values()))

    def _command(self, name: str, commands: Sequence[Command]) -> None:
        self._nodes[name].commands(commands)

    def _try_command(self, name: str, commands: Sequence[Command]) -> None:
        """Start traffic of a node, unless it is gone or down: its restart starts all of its traffic."""
        while (node := self._nodes.get(name)) is not None:
            try:
                node.commands(commands)
            except LocalError:
                if node.state == "frozen" and not self._stopped.wait(_LOOK_S):
                    continue
            return

    def _wait_open(self) -> None:
        """Wait until nearly all sessions between nodes that are up are open; a second if the history is full."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._history.full_s is None:
            self._look()
            up = {node.name for node in list(self._nodes.values()) if node.state == "up"}
            self._waiting = [way for way in self._waiting if way not in self._ready and up.issuperset(way)]
            if len(self._waiting) <= min(_LEFT, PART // 2) or self._stopped.wait(_LOOK_S):
                return
            if time.monotonic() > deadline_s:
                self._waiting.clear()
                return
        self._stopped.wait(_BLIND_S)

    def _look(self) -> None:
        """Read the history for sessions that have opened."""
        while True:
            read, records = self._history.behind(self._read, _MOST_RECORDS)
            for record in records:
                if record.kind == "state" and record["state"] == "READY":
                    self._ready.add((record.node, record["peer"]))
            if read == self._read:
                return
            self._read = read


def parts(names: Sequence[str], traffic: Iterable[Traffic | Workload]) -> list[list[Traffic | Workload]]:
    """Split traffic into parts: ways from each node to the next one, to the one after that, and so on; then back.

    Args:
        names: names of all nodes.
        traffic: the traffic.
    """
    place = {name: number for number, name in enumerate(names)}

    def order(each: Traffic | Workload) -> tuple[bool, int]:
        if not isinstance(each, Traffic):
            return False, 0
        there = (place[each.receiver] - place[each.sender]) % len(place)
        back = len(place) - there
        return (there, place[each.sender]) > (back, place[each.receiver]), min(there, back)

    ordered = sorted(traffic, key=order)
    if len(ordered) <= PART:
        return [ordered] if ordered else []
    halves = [[each for each in ordered if order(each)[0] is is_back] for is_back in (False, True)]
    return [half[first : first + PART] for half in halves for first in range(0, len(half), PART)]
