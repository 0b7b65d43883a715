"""Messengers of msgrlab in threads of this process: they start at once instead of in a second.

``kill`` closes the sockets of such a node and drops its further records. Faults that need its own process,
such as freeze, need :class:`toolkit.cluster.nodes.MessengerNode`.
"""

from typing import Any

from messenger.compat import override
from messenger.messenger import Messenger
from toolkit.cluster.node import open_node
from toolkit.cluster.nodes import MessengerNode
from toolkit.cluster.process import NodeLife
from toolkit.errors import Unsupported
from toolkit.machine.loops import LoopThread
from toolkit.network.namespaces import enter
from toolkit.node import NodeApp, NodeSpec, Writer


class NodeThreads:
    """Event loops for nodes, one for each network namespace."""

    def __init__(self) -> None:
        self._loops: dict[object, LoopThread] = {}

    def of(self, node: MessengerNode) -> LoopThread:
        """Return the loop that runs in the network namespace of a node's host."""
        namespace = node.host.namespace
        if namespace not in self._loops:
            begin = (lambda: None) if namespace is None else (lambda: enter(namespace))
            self._loops[namespace] = LoopThread(f"nodes {namespace.name if namespace else 'here'}", begin)
        return self._loops[namespace]

    def close(self) -> None:
        """Stop the loops; their nodes must have ended."""
        for loop in self._loops.values():
            loop.close()
        self._loops.clear()


class _Life(NodeLife):
    """A messenger on one of the loops."""

    pid = 0

    def __init__(self, loop: LoopThread, spec: NodeSpec, record: Writer) -> None:
        self.name = spec.name
        self._loop = loop
        self._record: Writer | None = record
        self._app = NodeApp(spec, self._write)
        self._messenger: Messenger = loop.do(open_node(spec, self._app))

    def _write(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        if self._record is not None:
            self._record(time_s, kind, fields)

    @override
    def wait_ready(self) -> None:
        """Return at once: the messenger listens since its creation."""

    @override
    def command(self, verb: str, **args: Any) -> dict[str, Any]:
        async def carry_out() -> dict[str, Any]:
            answer = getattr(self._app, verb)(**args)
            return answer if isinstance(answer, dict) else {}

        return self._loop.do(carry_out())

    @override
    def freeze(self, *, frozen: bool) -> None:
        """Raise Unsupported, because only a process can be stopped."""
        action = "freeze" if frozen else "thaw"
        raise Unsupported(f"{action} {self.name}: it shares a process with others: @scenario(processes=True)")

    @override
    def kill(self) -> None:
        """Close the sockets and drop the records that this causes."""
        self._record = None
        self.stop()

    @override
    def stop(self) -> None:
        self._loop.do(self._messenger.shutdown())

    @override
    def last_words(self) -> str:
        return ""


class ThreadNode(MessengerNode):
    """A messenger of msgrlab in a thread of this process, in the network namespace of its host.

    See :class:`MessengerNode` for the other arguments.

    Args:
        threads: the event loops.
    """

    def __init__(self, *about: Any, threads: NodeThreads) -> None:  # noqa: ANN401 - MessengerNode's
        super().__init__(*about)
        self._threads = threads

    @override
    def _launch(self) -> NodeLife:
        life = _Life(self._threads.of(self), self.spec, self._record)
        self._state = "starting"
        return life
