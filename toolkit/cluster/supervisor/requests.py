"""Requests that a supervisor answers."""

import contextlib
import inspect
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.nodes import ProgramNode
from toolkit.cluster.spec.model import Chaos
from toolkit.network.places import Guest
from toolkit.node.arguments import from_text

_MOST_RECORDS = 10_000
_LONGEST_WAIT_S = 30.0


class Requests:
    """Answers requests about a cluster; each is a method that takes its arguments by name."""

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
        "run",
        "start_capture",
        "status",
        "stop_capture",
        "torment",
        "words",
    )

    LASTING = ("guest",)
    """Requests that are undone when their connection ends; see :meth:`lasting`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def answer(self, do: str, args: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON
        """Process a request and return the answer.

        Raises:
            LocalError: no such request, or the error of the request.
        """
        if do not in self.KNOWN:
            raise LocalError(f"unknown request {do!r}; known: {', '.join(self.KNOWN)}")
        return self._call(do, args)

    def lasting(self, do: str, args: dict[str, Any]) -> AbstractContextManager[None]:
        """Return a context manager that does a request and undoes it at the end; raises LocalError."""
        kept: AbstractContextManager[None] = self._call(do, args)
        return kept

    def _call(self, do: str, args: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON
        try:
            inspect.signature(getattr(self, do)).bind(**args)
        except TypeError as error:
            raise LocalError(f"request {do}: {error}") from None
        return getattr(self, do)(**args)

    def guest(self, name: str, network: str, address: str) -> AbstractContextManager[None]:
        """Register a virtual machine that has a port at the switch."""
        return self._cluster.guests.attached(Guest(name, network, address))

    def status(self) -> dict[str, Any]:
        """Return the state of the cluster as JSON."""
        return self._cluster.status()

    def check(self, only: list[str] | None = None) -> list[dict[str, Any]]:
        """Judge the history so far; raises LocalError for an unknown invariant."""
        return [asdict(result) for result in self._cluster.check(only)]

    def fault(self, text: str) -> str:
        """Start a fault, given as text (docs/faults.md); returns a line on its effect."""
        return self._cluster.fault(text)

    def faults(self) -> list[str]:
        """Return the faults in force."""
        return [str(fault) for fault in self._cluster.scene_faults()]

    def words(self) -> list[dict[str, Any]]:
        """Return all words of the fault language, and why this cluster cannot have some of them."""
        from toolkit.faults.language import words  # noqa: PLC0415 - only for clusters that are hurt

        return [asdict(word) for word in words(self._cluster.scene)]

    def draw(self, chaos: dict[str, Any]) -> list[dict[str, Any]]:
        """Draw a timeline of chaos and return it as in a spec, without running it."""
        from toolkit.cluster.nemesis import Crowd, draw  # noqa: PLC0415 - as above

        return draw(Chaos(**chaos), Crowd.of(self._cluster.scene)).values()

    def torment(self, timeline: list[dict[str, Any]], seed: int | None = None) -> dict[str, Any]:
        """Run a timeline and check the invariants; the answer comes after its last step."""
        from toolkit.cluster.nemesis import Timeline, torment  # noqa: PLC0415 - as above

        return torment(self._cluster, Timeline.of_values(timeline), seed=seed).as_json()

    def exec(self, node: str, argv: list[str], image: str = "", shared: list[str] | None = None) -> dict[str, Any]:
        """Return the command line that runs a program on a node's host from anywhere on this machine.

        Args:
            node: name of the node.
            argv: the program and its arguments.
            image: directory of the image that has the program; empty for the host's programs.
            shared: directories that a program of an image sees besides those of clusters.
        """
        host = self._cluster.node(node).host
        if image:
            from toolkit.cluster.ceph.programs import out_of_image  # noqa: PLC0415 - as above

            argv = out_of_image(host, Path(image), argv, [Path(each) for each in shared or []])
        return {"argv": host.entering(argv), "directory": str(host.directory)}

    def run(self, node: str, argv: list[str], stdin: str = "", timeout_s: float = 600.0) -> dict[str, Any]:
        """Run a program on a node's host to its end; it is killed if that takes longer than ``timeout_s``.

        Returns:
            Its exit code ``code``, its output ``stdout``, and the last lines of its errors ``stderr``.

        Raises:
            LocalError: there is no such node or program.
        """
        program = self._cluster.node(node).host.start(argv, piped=True)
        assert program.stdin is not None
        assert program.stdout is not None
        limit = threading.Timer(timeout_s, program.signal, (signal.SIGKILL,))
        limit.start()
        with ThreadPoolExecutor(1) as reading:  # a program may write output before it has read all input
            output = reading.submit(program.stdout.read)
            with contextlib.suppress(BrokenPipeError), program.stdin:
                program.stdin.write(stdin.encode())
                program.stdin.flush()
        code = program.wait(timeout_s)
        limit.cancel()
        return {"code": code, "stdout": output.result().decode(errors="replace"), "stderr": program.errors()}

    def command(
        self, node: str, verb: str, words: list[str] | None = None, args: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a command on a node.

        Args:
            node: name of the node.
            verb: verb of the command; for a Ceph daemon, the command for its admin socket.
            words: positional arguments, as they were typed.
            args: arguments by name, as they were typed.

        Raises:
            LocalError: there is no such node or verb, or the arguments are wrong.
        """
        found = self._cluster.node(node)
        if isinstance(found, ProgramNode):
            return found.command(verb, **found.from_words(verb, words or [], args or {}))
        values = {name: from_text(text) for name, text in (args or {}).items()}
        return found.command(" ".join([verb, *(words or [])]), **values)

    def history(self, after: int = -1, wait_s: float = 0.0) -> dict[str, Any]:
        """Return the events among the records after the first ``after``, and the number of the last record read.

        Args:
            after: number of records that the client has read; -1 for all records so far.
            wait_s: seconds to wait for a record if there is none.
        """
        from toolkit.cluster.status import is_event, record_json  # noqa: PLC0415 - not needed to start

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
        """Remove a node; returns the faults naming it that could not be reverted."""
        return {"node": name, "problems": self._cluster.remove_node(name)}

    def add_link(self, sender: str, receiver: str, values: dict[str, Any]) -> dict[str, Any]:
        """Impair a link; returns it as in a spec."""
        link = self._cluster.add_link(sender, receiver, **values)
        return link.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def remove_link(self, sender: str, receiver: str) -> dict[str, Any]:
        """Remove the impairment of a link."""
        self._cluster.remove_link(sender, receiver)
        return {"from": sender, "to": receiver}

    def add_proxy(self, sender: str, receiver: str, script: list[str]) -> dict[str, Any]:
        """Insert a proxy between two nodes; returns it as in a spec."""
        return self._cluster.add_proxy(sender, receiver, script).model_dump(mode="json", by_alias=True)

    def remove_proxy(self, sender: str, receiver: str) -> dict[str, Any]:
        """Remove a proxy."""
        self._cluster.remove_proxy(sender, receiver)
        return {"from": sender, "to": receiver}

    def start_capture(self, node: str, file: str = "") -> dict[str, Any]:
        """Start to capture a node's packets."""
        return {"node": node, "file": str(self._cluster.start_capture(node, file).path)}

    def stop_capture(self, node: str) -> dict[str, Any]:
        """Stop a capture; returns its file and counters."""
        taken = self._cluster.stop_capture(node)
        return {"node": node, "file": str(taken.path), "packets": taken.packets, "dropped": taken.dropped}

    def proxies(self) -> list[dict[str, Any]]:
        """Return the proxies, with connector, acceptor and listening address of each."""
        return [
            {"from": dialler, "to": dialled, "listens": f"{proxy.host}:{proxy.port}"}
            for (dialler, dialled), proxy in self._cluster.proxies.items()
        ]
