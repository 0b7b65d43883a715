"""Nodes in this process: one event loop in a thread of its own runs them all.

A node that is killed here loses its sockets and says nothing any more; whatever else ends with a process needs one
(:class:`toolkit.cluster.process.NodeProcess`).
"""

from typing import Any

from messenger.messenger import Messenger
from toolkit.cluster.node import VERBS, open_node
from toolkit.errors import Unsupported
from toolkit.loops import LoopThread
from toolkit.scenarios.nodes import NodeApp, NodeSpec, Writer


class LoopNode:
    """A running node of the loop's.

    Args:
        loop: runs it.
        spec: what it is to be.
        record: takes its history records, in the loop's thread.

    Raises:
        LocalError: it cannot start.
    """

    def __init__(self, loop: LoopThread, spec: NodeSpec, record: Writer) -> None:
        self.name = spec.name
        self._loop = loop
        self._record: Writer | None = record
        self._app = NodeApp(spec, self._write)
        self._messenger: Messenger = loop.do(open_node(spec, self._app))

    def _write(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        if self._record is not None:
            self._record(time_s, kind, fields)

    def wait_ready(self) -> None:
        """It is."""

    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Have it do something; returns its answer.

        Raises:
            LocalError: it cannot.
        """
        assert verb in VERBS

        async def carry_out() -> dict[str, Any]:
            answer = getattr(self._app, verb)(**args)
            return answer if isinstance(answer, dict) else {}

        return self._loop.do(carry_out())

    def freeze(self, *, frozen: bool) -> None:
        """Only a process can be stopped."""
        raise Unsupported(f"node {self.name} frozen={frozen}: it shares a process with others")

    def kill(self) -> None:
        """End it without warning."""
        self._record = None
        self._loop.do(self._messenger.shutdown())

    def stop(self) -> None:
        """End it in order: it closes its connections."""
        self._loop.do(self._messenger.shutdown())
