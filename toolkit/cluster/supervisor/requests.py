"""What a supervisor is asked."""

import inspect
from dataclasses import asdict
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.nodes import MessengerNode, ProgramNode
from toolkit.cluster.running import Cluster
from toolkit.cluster.spec.model import Chaos
from toolkit.cluster.status import is_event, record_json
from toolkit.node import NodeApp

_MOST_RECORDS = 10_000
_LONGEST_WAIT_S = 30.0


class Requests:
    """Answers requests about a cluster: each is a method, with its arguments by name."""

    KNOWN = (
        "add_link",
        "add_node",
        "add_proxy",
        "check",
        "command",
        "draw",
        "exec",
        "fault",
        "faults",
        "history",
        "proxies",
        "remove_link",
        "remove_node",
        "remove_proxy",
        "start_capture",
        "status",
        "stop_capture",
        "torment",
        "words",
    )

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def answer(self, do: str, args: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON
        """Do what is asked.

        Raises:
            LocalError: no such request, or what it came to.
        """
        if do not in self.KNOWN:
            raise LocalError(f"unknown request {do!r}; known: {', '.join(self.KNOWN)}")
        try:
            inspect.signature(getattr(self, do)).bind(**args)
        except TypeError as error:
            raise LocalError(f"request {do}: {error}") from None
        return getattr(self, do)(**args)

    def status(self) -> dict[str, Any]:
        """The status, as JSON."""
        return self._cluster.status()

    def check(self, only: list[str] | None = None) -> list[dict[str, Any]]:
        """The verdict of the invariants on its history so far; raises LocalError if there is no such invariant."""
        return [asdict(result) for result in self._cluster.check(only)]

    def fault(self, text: str) -> str:
        """Do a fault, by the words of docs/faults.md; returns what came of it."""
        return self._cluster.fault(text)

    def faults(self) -> list[str]:
        """Those that last now."""
        return [str(fault) for fault in self._cluster.scene_faults()]

    def words(self) -> list[dict[str, Any]]:
        """Those that there are, and why some cannot be had here."""
        from toolkit.faults.language import words  # noqa: PLC0415 - only for clusters that are hurt

        return [asdict(word) for word in words(self._cluster.scene)]

    def draw(self, chaos: dict[str, Any]) -> list[dict[str, Any]]:
        """The timeline of chaos, as in a spec; nothing is done."""
        from toolkit.cluster.nemesis import Crowd, draw  # noqa: PLC0415 - as above

        return draw(Chaos(**chaos), Crowd.of(self._cluster.scene)).values()

    def torment(self, timeline: list[dict[str, Any]], seed: int | None = None) -> dict[str, Any]:
        """Do a timeline to the cluster, and judge; the answer comes when all is over."""
        from toolkit.cluster.nemesis import Timeline, torment  # noqa: PLC0415 - as above

        return torment(self._cluster, Timeline.of_values(timeline), seed=seed).as_json()

    def exec(self, node: str, argv: list[str]) -> dict[str, Any]:
        """How a program is run on a node's host from anywhere on this machine."""
        host = self._cluster.node(node).host
        return {"argv": host.entering(argv), "directory": str(host.directory)}

    def command(
        self, node: str, verb: str, words: list[str] | None = None, args: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Have a node do something.

        Args:
            node: which.
            verb: what; of a real daemon, the command for its admin socket.
            words: arguments in the verb's own order.
            args: arguments by name.

        Raises:
            LocalError: there is no such node or verb, or the arguments are not its own.
        """
        found = self._cluster.node(node)
        if isinstance(found, MessengerNode):
            return found.command(verb, **_named(verb, words or [], args or {}))
        if isinstance(found, ProgramNode) and words:
            raise LocalError(f"{node}: {verb}: give its arguments by name: --NAME VALUE")
        return found.command(" ".join([verb, *(words or [])]), **(args or {}))

    def history(self, after: int = -1, wait_s: float = 0.0) -> dict[str, Any]:
        """The events among the records behind the first ``after``, and how many records that makes.

        Args:
            after: so many are known already; -1: all that there are.
            wait_s: for so long it is waited for records, if there are none.
        """
        history = self._cluster.history
        known = history.count if after < 0 else after
        if wait_s:
            history.wait_beyond(known, min(wait_s, _LONGEST_WAIT_S))
        known, records = history.behind(known, _MOST_RECORDS)
        return {"next": known, "records": [record_json(each) for each in records if is_event(each)]}

    def add_node(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """Add a node; returns its status."""
        return {"node": name, **self._cluster.add_node(name, **values).status()}

    def remove_node(self, name: str) -> dict[str, Any]:
        """Remove a node; returns what could not be undone of faults that name it."""
        return {"node": name, "problems": self._cluster.remove_node(name)}

    def add_link(self, sender: str, receiver: str, values: dict[str, Any]) -> dict[str, Any]:
        """Impair a link; returns it as in a spec."""
        link = self._cluster.add_link(sender, receiver, **values)
        return link.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def remove_link(self, sender: str, receiver: str) -> dict[str, Any]:
        """Impair it no longer."""
        self._cluster.remove_link(sender, receiver)
        return {"from": sender, "to": receiver}

    def add_proxy(self, sender: str, receiver: str, script: list[str]) -> dict[str, Any]:
        """Put a proxy between two nodes; returns it as in a spec."""
        return self._cluster.add_proxy(sender, receiver, script).model_dump(mode="json", by_alias=True)

    def remove_proxy(self, sender: str, receiver: str) -> dict[str, Any]:
        """End it."""
        self._cluster.remove_proxy(sender, receiver)
        return {"from": sender, "to": receiver}

    def start_capture(self, node: str, file: str = "") -> dict[str, Any]:
        """Capture a node's packets."""
        return {"node": node, "file": str(self._cluster.start_capture(node, file).path)}

    def stop_capture(self, node: str) -> dict[str, Any]:
        """End that; returns what it has."""
        taken = self._cluster.stop_capture(node)
        return {"node": node, "file": str(taken.path), "packets": taken.packets, "dropped": taken.dropped}

    def proxies(self) -> list[dict[str, Any]]:
        """The proxies, with the nodes on both sides of each."""
        return [
            {"from": dialler, "to": dialled, "listens": f"{proxy.host}:{proxy.port}"}
            for (dialler, dialled), proxy in self._cluster.proxies.items()
        ]


def _named(verb: str, words: list[str], args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a verb of NodeApp, all by name."""
    if verb not in NodeApp.VERBS:
        raise LocalError(f"no verb {verb!r}; there are {', '.join(sorted(NodeApp.VERBS))}")
    signature = inspect.signature(getattr(NodeApp, verb))
    try:
        bound = signature.bind(None, *words, **args)
    except TypeError as error:
        wanted = " ".join(name for name in signature.parameters if name != "self")
        raise LocalError(f"{verb}: {error}; it takes {wanted or 'nothing'}") from None
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if name != "self":
            is_rest = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            named |= value if is_rest else {name: value}
    return named
