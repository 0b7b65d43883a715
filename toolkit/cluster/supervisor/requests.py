"""What a supervisor is asked."""

import inspect
from dataclasses import asdict
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.nodes import MessengerNode, ProgramNode
from toolkit.cluster.running import Cluster
from toolkit.cluster.spec.model import Chaos
from toolkit.cluster.status import is_event, told
from toolkit.scenarios.nodes import NodeApp

_MOST_RECORDS = 10_000
_LONGEST_WAIT_S = 30.0


class Requests:
    """Answers requests about a cluster: each is a method, with its arguments by name."""

    KNOWN = (
        "check",
        "command",
        "draw",
        "exec",
        "fault",
        "faults",
        "history",
        "proxies",
        "status",
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
        """See :meth:`Cluster.status`."""
        return self._cluster.status()

    def check(self, only: list[str] | None = None) -> list[dict[str, Any]]:
        """See :meth:`Cluster.check`."""
        return [asdict(result) for result in self._cluster.check(only)]

    def fault(self, text: str) -> str:
        """See :meth:`Cluster.fault`."""
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
        from toolkit.faults.nemesis import Crowd, draw  # noqa: PLC0415 - as above

        return draw(Chaos(**chaos), Crowd.of(self._cluster.scene)).values()

    def torment(self, timeline: list[dict[str, Any]], seed: int | None = None) -> dict[str, Any]:
        """Do a timeline to the cluster, and judge; the answer comes when all is over."""
        from toolkit.faults.nemesis import Timeline, torment  # noqa: PLC0415 - as above

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
        known = len(history) if after < 0 else after
        if wait_s:
            history.wait_beyond(known, min(wait_s, _LONGEST_WAIT_S))
        records = history.so_far().records[known : known + _MOST_RECORDS]
        return {"next": known + len(records), "records": [told(each) for each in records if is_event(each)]}

    def proxies(self) -> list[dict[str, Any]]:
        """Who stands between which nodes."""
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
