"""A cluster that is up: its nodes, its network, its history."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import Backend
from toolkit.cluster.keeping import SERVICE_KEYS, keep_files
from toolkit.cluster.live_history import LiveHistory
from toolkit.cluster.nodes import MessengerNode, RunningNode
from toolkit.cluster.plan import host_wishes, network_wishes, new_shared_key, node_specs, service_keys
from toolkit.cluster.spec.model import ClusterSpec
from toolkit.cluster.watching import Captures, Middlemen
from toolkit.dissect.keys import KeyBook
from toolkit.errors import Unsupported
from toolkit.machine.leases import Lease
from toolkit.machine.private import write_private
from toolkit.network.faults import NetworkFaults
from toolkit.network.state import LinkState

if TYPE_CHECKING:
    from toolkit.checks.result import CheckResult
    from toolkit.faults.language import Fault, Scene
    from toolkit.faults.nemesis import Nemesis
    from toolkit.faults.proxy import FaultProxy
    from toolkit.report.sequence import SequenceChart

HISTORY_FILE = "history.ndjson"

Progress = Callable[[str, str], None]
"""Told the stages of nodes: name, and one of ``host``, ``started``, ``ready``."""


class Cluster:
    """A cluster.

    ::

        with up("two-peers") as cluster:
            cluster.nodes["a"].command("send", peer="b", count=3)

    Args:
        spec: what it is to be.
        lease: its name, directory and journal; the caller's, who holds it.
        backend: where its nodes are to run, otherwise than the spec says.
        say: told in a few words what is being done.
        progress: told how far each node is.
        announce: called with a line before something is fetched or run that was not asked for by name, such as the
            packages of an image; ``say`` unless given.

    Raises:
        Unsupported: the backend cannot be had here, or not with this spec.
        LocalError: no such backend, or impossible addresses.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        lease: Lease,
        backend: str = "",
        say: Callable[[str], None] = lambda _words: None,
        progress: Progress = lambda _node, _stage: None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        kind = backend_named(backend or spec.backend)
        kind.check(network_wishes(spec), host_wishes(spec))
        self.spec = spec
        self.lease = lease
        self.backend: Backend = kind(lease, say)
        self.backend.announce = announce or say
        self.nodes: dict[str, RunningNode] = {}
        self.history = LiveHistory(lease.directory / HISTORY_FILE, spec.records)
        self.began_s = time.monotonic()
        """Monotonic time from which its history counts."""
        self.ready_s = 0.0
        """How long it took to be ready; 0 before."""
        self.stage = "up"
        """What it is doing: ``up``; on its way down ``ending`` (nodes and networks), ``keeping`` and ``removing``
        (files)."""
        self.captures = Captures(self)
        self._middlemen = Middlemen(self)
        self._progress = progress
        self._undo = ExitStack()
        self._going_down = threading.Lock()
        self._is_down = False
        self._scene: Scene | None = None
        self.nemesis: Nemesis | None = None
        """What the spec's timeline and chaos do to it, if it has any."""

    # ---- up

    def up(self) -> None:
        """Bring it up: hosts and networks, then all nodes at once, then traffic and what else the spec has.

        Raises:
            LocalError: it did not work; everything is taken down again.
        """
        try:
            self.backend.open(network_wishes(self.spec), host_wishes(self.spec))
            for name in self.backend.hosts:
                self._progress(name, "host")
            self._make_nodes()
            self._apply_links()
            self.captures.start(self.spec.captures)
            self._for_all(self._start, self.nodes.values())
            self.ready_s = self.now()
            self._begin()
        except BaseException:
            self.down()
            raise

    def _make_nodes(self) -> None:
        shared_key = new_shared_key(self.spec)
        specs = node_specs(self.spec, self.backend.hosts, shared_key, self.began_s)
        key_log = service_keys(self.spec, shared_key)
        write_private(self.directory / SERVICE_KEYS, key_log.encode())
        keys = self.backend.keys = KeyBook()
        keys.add_key_log(key_log)
        for name, spec in specs.items():
            host = self.backend.hosts[name]
            self.nodes[name] = MessengerNode(host, spec, self.take, self.now, self.messengers)
        if len(specs) < len(self.spec.nodes):
            from toolkit.cluster.ceph import make_nodes  # noqa: PLC0415 - only for clusters with real daemons

            self.nodes |= make_nodes(self, keys)
        self._middlemen.open(self.spec.proxies)
        for spec in specs.values():
            spec.routes |= self._routes(spec.name)
        self._load_scripts()

    def _load_scripts(self) -> None:
        """What the spec's proxies do, each rule a fault that lasts."""
        for proxy in self.spec.proxies:
            for rule in proxy.script:
                from toolkit.faults.language.messengers import Proxy  # noqa: PLC0415 - as the scene
                from toolkit.faults.script import Rule  # noqa: PLC0415

                try:
                    self.scene.do(Proxy(proxy.sender, proxy.receiver, str(Rule.parse(rule))))
                except LocalError as error:
                    raise LocalError(f"proxy from {proxy.sender} to {proxy.receiver}: {rule!r}: {error}") from None

    def _routes(self, name: str) -> dict[str, str]:
        """Where a messenger of ours dials others, if not at their addresses."""
        found = {}
        for other in self.nodes.values():
            if other.name == name or not other.address:
                continue
            for addr in AddrVec.parse(other.address):
                direct = (addr.host, addr.port)
                onward = self._middlemen.route(name, other.name, direct) if addr.port else direct
                if onward != direct:
                    found[f"{addr.host}:{addr.port}"] = f"{onward[0]}:{onward[1]}"
        return found

    def _apply_links(self) -> None:
        initial: dict[tuple[str, str], LinkState] = {}
        for link in self.spec.links:
            state = LinkState(**{name: getattr(link, name) for name in LinkState.model_fields})
            initial[link.sender, link.receiver] = state
            if link.both_ways:
                initial[link.receiver, link.sender] = state
        for (sender, receiver), state in initial.items():
            self.network.set_link(sender, receiver, state)
        self.network.initial = initial

    def _start(self, node: RunningNode) -> None:
        node.start()
        self._progress(node.name, "started")
        node.wait_ready()
        self._progress(node.name, "ready")

    def _begin(self) -> None:
        """What goes on by itself from the moment on at which all are up."""
        for traffic in self.spec.traffic:
            self.nodes[traffic.sender].command(
                "traffic",
                peer=traffic.receiver,
                every_ms=traffic.every_ms,
                size_bytes=traffic.size_bytes,
                count=traffic.count,
                keepalive=traffic.keepalive,
            )
        if self.spec.timeline or self.spec.chaos is not None:
            from toolkit.faults.nemesis import Nemesis  # noqa: PLC0415 - only for clusters that have one

            self.nemesis = Nemesis.of(self).start()

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Where a node has to dial to reach an address of another, which it may only do through a proxy."""
        return self._middlemen.route(dialler, dialled, address)

    # ---- what there is

    @property
    def name(self) -> str:
        """Its name."""
        return self.lease.label.name

    @property
    def network(self) -> NetworkFaults:
        """What can be done to the network between its nodes."""
        return self.backend.network

    @property
    def proxies(self) -> "dict[tuple[str, str], FaultProxy]":
        """Those of the spec, by who dials whom."""
        return self._middlemen.proxies

    @property
    def directory(self) -> Path:
        """Of everything that belongs to it."""
        return self.lease.directory

    def now(self) -> float:
        """Seconds since its history began."""
        return time.monotonic() - self.began_s

    def messengers(self) -> list[MessengerNode]:
        """The nodes that are our own."""
        return [node for node in self.nodes.values() if isinstance(node, MessengerNode)]

    def node(self, name: str) -> RunningNode:
        """A node.

        Raises:
            LocalError: there is none of that name.
        """
        if name not in self.nodes:
            raise LocalError(f"no node {name!r} in cluster {self.name!r}; there are {', '.join(self.nodes)}")
        return self.nodes[name]

    @property
    def scene(self) -> "Scene":
        """Its faults: those that are done by words, and which of them last."""
        if self._scene is None:
            from toolkit.faults.language import Scene  # noqa: PLC0415 - only for clusters that are hurt

            self._scene = Scene(self, self.now)
            self._undo.callback(self._scene.close)
        return self._scene

    def scene_faults(self) -> "tuple[Fault, ...]":
        """The faults that last now."""
        return self._scene.in_force if self._scene is not None else ()

    def fault(self, text: str) -> str:
        """Do a fault, by the words of docs/faults.md; returns what came of it.

        Raises:
            Unsupported: it cannot be had here.
            LocalError: no such fault, or not now.
        """
        from toolkit.faults.language import parse  # noqa: PLC0415 - as above

        return self.scene.do(parse(text))

    def check(self, only: Iterable[str] | None = None) -> "list[CheckResult]":
        """The verdict of the invariants on its history so far; raises LocalError if there is no such invariant."""
        from toolkit.checks.live import check_standing  # noqa: PLC0415 - a third of a second

        return check_standing(self.history, only)

    def chart(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "SequenceChart":
        """The frames between its nodes in a stretch of time, in seconds since its history began."""
        from toolkit.checks.merging import in_order  # noqa: PLC0415 - for whoever looks
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415

        records = in_order(self.history.so_far())
        return SequenceChart(History(records), tuple(self.nodes), between=(begin_s, end_s))

    def status(self) -> dict[str, Any]:
        """How it is, as JSON."""
        from toolkit.cluster.status import status_of  # noqa: PLC0415 - for whoever asks

        return status_of(self)

    def _repr_html_(self) -> str:
        from toolkit.cluster.showing import html_of  # noqa: PLC0415 - for notebooks

        return html_of(self.status())

    def __repr__(self) -> str:
        states = ", ".join(f"{node.name} {node.state}" for node in self.nodes.values())
        return f"<Cluster {self.name} on {self.backend.name}: {states or 'no nodes'}>"

    # ---- down

    def down(self, keep: Path | None = None, *, keep_keys: bool = False) -> list[str]:
        """Take it down; returns what could not be undone, a line each. A second call does nothing.

        Args:
            keep: a directory for its history, captures and logs, which otherwise go as everything does.
            keep_keys: whether keys are kept there, too: key logs, keyrings, and those in captures.
        """
        with self._going_down:
            if self._is_down:
                return []
            self._is_down = True
            self.stage = "ending"
            self._undo.close()
            steps: list[Callable[[], object]] = [
                *(node.finish for node in self.nodes.values()),
                self.captures.close,
            ]
            self._for_all(self._quietly, steps)
            for step in (self._middlemen.close, self.backend.close, self.history.close):
                self._quietly(step)
            problems: list[str] = []
            if keep is not None:
                self.stage = "keeping"
                try:
                    keep_files(self.directory, keep, keys=keep_keys)
                except LocalError as error:
                    problems.append(str(error))
            self.stage = "removing"
            return problems + self.lease.journal.undo()

    def _quietly(self, step: Callable[[], object]) -> None:
        """Whatever goes wrong while it goes down, the rest of it does go down; the journal undoes what remains."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - as said
            self.backend.say(f"{type(error).__name__}: {error}")

    @staticmethod
    def _for_all(what: Callable[[Any], None], things: Iterable[Any]) -> None:
        """Do something with all of them at once; a failure is raised at once, and nobody waits for the others."""
        todo = list(things)
        if not todo:
            return
        threads = ThreadPoolExecutor(len(todo), thread_name_prefix="cluster")
        try:
            for done in as_completed([threads.submit(what, each) for each in todo]):
                done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """Take a record of a node into the history; in any thread."""
        self.history.put(time_s, node, kind, fields)


@contextmanager
def up(
    spec: ClusterSpec | Path | str,
    *,
    backend: str = "",
    name: str = "",
    say: Callable[[str], None] = lambda _words: None,
    progress: Progress = lambda _node, _stage: None,
    settings: Sequence[str] = (),
    keep: Path | str | None = None,
    keep_keys: bool = False,
) -> Iterator[Cluster]:
    """A cluster that is up for as long as the ``with`` block lasts, kept by this process.

    Args:
        spec: a spec, its file, or the name of a ready-made one.
        backend: where its nodes run, otherwise than the spec says.
        name: of the cluster; the spec's unless given.
        say: told in a few words what is being done.
        progress: told how far each node is.
        settings: ``KEY=VALUE``, changes of the spec.
        keep: a directory for its history, captures and logs, which otherwise go as everything does.
        keep_keys: whether keys are kept there, too.

    Raises:
        Unsupported: it cannot be had here.
        LocalError: the spec is wrong, or it does not come up; then nothing of it is left.
    """
    from toolkit.cluster.choosing import spec_from  # noqa: PLC0415 - YAML is for those who have any

    wanted = spec_from(spec, settings)
    lease = Lease.take(name or wanted.name)
    try:
        with lease.held():
            cluster = Cluster(wanted, lease, backend, say, progress)
            cluster.up()
            try:
                yield cluster
            finally:
                remains = cluster.down(None if keep is None else Path(keep), keep_keys=keep_keys)
                if remains:
                    raise LocalError("; ".join(remains))
    finally:
        lease.journal.undo()


__all__ = ["Cluster", "LocalError", "Progress", "Unsupported", "up"]
