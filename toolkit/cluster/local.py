"""The ``local`` backend: one process per node on loopback, with a fault proxy on every way between two nodes."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.denc.address import EntityAddr
from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.faults.proxy import FaultProxy
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.nodes import NodeSpec

_REPLY_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 5.0
_HOST = "127.0.0.1"


class NodeProcess:
    """A running node and the lines to and from it.

    Args:
        spec: what it is to be.
        record: takes its history records, in a thread of this object.

    Raises:
        LocalError: it did not come up; with what it said on its standard error.
    """

    def __init__(self, spec: NodeSpec, record: Callable[[float, str, dict[str, Any]], None]) -> None:
        self.name = spec.name
        self._record = record
        self._replies: Queue[dict[str, Any]] = Queue()
        self._last_id = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "toolkit.cluster.node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, name=f"node {spec.name}", daemon=True)
        self._reader.start()
        self._write(spec.as_json())

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until it listens; raises LocalError if it does not come up."""
        if "ready" not in (line := self._next_line("start")):
            raise LocalError(f"node {self.name} said {line} instead of being ready")

    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Have it do something; returns its answer.

        Raises:
            LocalError: it refused, or has ended.
        """
        self._last_id += 1
        self._write({"id": self._last_id, "verb": verb, "args": args})
        line = self._next_line(verb)
        if "error" in line:
            raise LocalError(f"node {self.name}: {verb}: {line['error']}")
        answer: dict[str, Any] = line["answer"]
        return answer

    def kill(self) -> None:
        """End it without warning."""
        self._process.kill()
        self._collect()

    def stop(self) -> None:
        """End it in order: it closes its connections."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._collect()

    def _collect(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _write(self, values: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(values).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._gone("it ended") from None

    def _read(self) -> None:
        """Sort its lines: records to the history, answers to whoever asked."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            values = json.loads(line)
            if "record" in values:
                self._record(*values["record"])
            else:
                self._replies.put(values)
        self._replies.put({"gone": True})

    def _next_line(self, verb: str) -> dict[str, Any]:
        try:
            line = self._replies.get(timeout=_REPLY_TIMEOUT_S)
        except Empty:
            raise self._gone(f"no answer to {verb} within {_REPLY_TIMEOUT_S:g} s") from None
        if "gone" in line:
            raise self._gone(f"it ended instead of answering to {verb}")
        return line

    def _gone(self, what: str) -> LocalError:
        self._process.kill()
        _, errors = self._process.communicate()
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["nothing on its standard error"]
        return LocalError(f"node {self.name}: {what}: {last[0]}")


class LocalLab(Lab):
    """Nodes as processes, links through proxies."""

    backend = "local"

    def __init__(
        self,
        mode: str,
        seed: int,
        workers: int = 0,
        protocol: Protocol = Protocol.V2,
        key_type: KeyType = KeyType.AES,
    ) -> None:
        super().__init__(mode, seed, workers, protocol, key_type)
        self._began_s = time.monotonic()
        self._changed = threading.Condition()
        self._nodes: dict[str, NodeProcess] = {}
        self._proxies: dict[tuple[str, str], FaultProxy] = {}
        self._reserved: list[socket.socket] = []

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        with self._changed:
            super()._take(time_s, node, kind, fields)
            self._changed.notify_all()

    def _start_s(self) -> float:
        return self._began_s

    def _now(self) -> float:
        return time.monotonic() - self._began_s

    def _address(self, name: str, nonce: int, *, listens: bool) -> str:  # noqa: ARG002 - the kernel gives ports
        if not listens:
            return f"any:0.0.0.0:0/{nonce}"
        # Bound, but not listening: nobody else is given the port, and the node may still bind it, again and again.
        reserved = socket.socket()
        self._reserved.append(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((_HOST, 0))
        port = reserved.getsockname()[1]
        return str(EntityAddr.from_host(_HOST, port, self.protocol.addr_type).with_nonce(nonce))

    def start(self, *names: str) -> None:
        """Start nodes, all at once."""
        super().start(*names)
        for name in names:
            self._nodes[name].wait_ready()

    def revive(self, name: str) -> None:
        """See :meth:`Lab.revive`."""
        super().revive(name)
        self._nodes[name].wait_ready()

    def _spawn(self, spec: NodeSpec) -> None:
        for peer in self._specs.values():
            if peer.name != spec.name and peer.listens:
                spec.routes[peer.name] = f"{_HOST}:{self._proxy(spec.name, peer).port}"
        self._nodes[spec.name] = NodeProcess(
            spec, lambda time_s, kind, fields: self._take(time_s, spec.name, kind, fields)
        )

    def _proxy(self, connector: str, acceptor: NodeSpec) -> FaultProxy:
        """The proxy on the way from one node to another."""
        way = (connector, acceptor.name)
        if way not in self._proxies:
            target = acceptor.addrs.front
            self._proxies[way] = FaultProxy(
                *way,
                (target.host, target.port),
                self.breakpoints_between(*way),
                self.keys,
                lambda breakpoint_: self._was_cut(*way, breakpoint_),
            )
        return self._proxies[way]

    def _kill(self, name: str) -> None:
        self._nodes.pop(name).kill()

    def _running(self, name: str) -> bool:
        return name in self._nodes

    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        return self._nodes[name].command(verb, **args)

    def _cut(self, a: str, b: str) -> None:
        for way in ((a, b), (b, a)):
            if way in self._proxies:
                self._proxies[way].cut()

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            with self._changed:
                # Something else than a record may make the condition true, a node's counters for one.
                self._changed.wait(min(left_s, 0.02))
        return True

    def _pass(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Stop every node and proxy."""
        for node in self._nodes.values():
            node.stop()
        self._nodes.clear()
        for proxy in self._proxies.values():
            proxy.close()
        self._proxies.clear()
        for reserved in self._reserved:
            reserved.close()
