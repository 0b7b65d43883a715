"""A cluster that is up: its nodes, its network, its history."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import Backend
from toolkit.cluster.changing import Changes, link_states
from toolkit.cluster.judging import Judging
from toolkit.cluster.keeping import SERVICE_KEYS, keep_files
from toolkit.cluster.live_history import LiveHistory
from toolkit.cluster.nodes import MessengerNode, RunningNode
from toolkit.cluster.plan import (
    FIRST_NONCE,
    host_wishes,
    network_wishes,
    new_shared_key,
    node_specs,
    service_keys,
    with_release,
)
from toolkit.cluster.spec.model import ClusterSpec, Link, Proxy
from toolkit.cluster.watching import Captures, Middlemen
from toolkit.dissect.keys import KeyBook
from toolkit.errors import Unsupported
from toolkit.machine.leases import Lease
from toolkit.machine.private import write_private
from toolkit.network.faults import NetworkFaults

if TYPE_CHECKING:
    from toolkit.capture.recording import Taken
    from toolkit.checks.result import CheckResult
    from toolkit.cluster.failure import NotUp
    from toolkit.cluster.nemesis import Nemesis
    from toolkit.cluster.view import ClusterView
    from toolkit.faults.language import Fault, Scene
    from toolkit.faults.proxy import FaultProxy
    from toolkit.report.rates import RateChart
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
        lease: its name, directory and journal; the caller holds it.
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
        kind = backend_named(backend or spec.backend, spec.transport)
        spec = with_release(spec, kind, announce or say)
        kind.check(network_wishes(spec), host_wishes(spec))
        self.spec = spec
        self.lease = lease
        self.backend: Backend = kind(lease, say)
        self.backend.announce = announce or say
        self.nodes: dict[str, RunningNode] = {}
        self.history = LiveHistory(lease.directory / HISTORY_FILE, spec.records, spec.disk_bytes)
        self.judging = Judging(self.history, spec.judged_every if spec.records else 0)
        self.began_s = time.monotonic()
        """Monotonic time from which its history counts."""
        self.ready_s = 0.0
        """How long it took to be ready; 0 before."""
        self.stage = "up"
        """What it is doing: ``up``; on its way down ``ending`` (nodes and networks), ``keeping`` and ``removing``
        (files)."""
        self.captures = Captures(self)
        self.middlemen = Middlemen(self)
        """Its proxies."""
        self.shared_key = new_shared_key(spec)
        """The key that all messengers of ours share."""
        self.last_nonce = FIRST_NONCE - 1
        """Of the messenger that came last."""
        self._changes = Changes(self)
        self._progress = progress
        self._undo = ExitStack()
        self._going_down = threading.Lock()
        self._is_down = False
        self._scene: Scene | None = None
        self._view: ClusterView | None = None
        self.nemesis: Nemesis | None = None
        """What the spec's timeline and chaos do to it, if it has any."""

    # ---- up

    def up(self, logs: Path | None = None, *, keep: bool = False) -> None:
        """Bring it up: hosts and networks, then all nodes at once, then traffic and what else the spec has.

        Args:
            logs: a directory for its logs if it does not come up; a temporary one unless given.
            keep: whether a cluster that does not come up is left as it is.

        Raises:
            NotUp: its nodes do not come up; what their logs say, and where they are.
            LocalError: it did not work; everything is taken down again.
        """
        try:
            self._bring_up()
        except LocalError as error:
            if not self.nodes or isinstance(error, Unsupported):
                self.down()
                raise
            raise self._not_up(str(error), logs, keep=keep) from None
        except BaseException:
            self.down()
            raise

    def _not_up(self, reason: str, logs: Path | None, *, keep: bool) -> "NotUp":
        from toolkit.cluster.failure import NotUp, suspects, telling_lines  # noqa: PLC0415 - seldom needed

        failed = suspects(self.nodes.values())
        if keep:
            self._gather()
            return NotUp(reason, self.directory, telling_lines(self.directory, failed), is_kept=True)
        directory = logs or Path(mkdtemp(prefix=f"msgrlab-{self.name}-"))
        problems = self.down(directory)
        return NotUp("; ".join([reason, *problems]), directory, telling_lines(directory, failed))

    def _bring_up(self) -> None:
        self.backend.open(network_wishes(self.spec), host_wishes(self.spec))
        for name in self.backend.hosts:
            self._progress(name, "host")
        self._make_nodes()
        self._apply_links()
        self.captures.start(self.spec.captures)
        self._for_all(self._start, self.nodes.values())
        self.ready_s = self.now()
        self._begin()

    def _make_nodes(self) -> None:
        specs = node_specs(self.spec, self.backend.hosts, self.shared_key, self.began_s)
        self.last_nonce += len(specs)
        key_log = service_keys(self.spec, self.shared_key)
        write_private(self.directory / SERVICE_KEYS, key_log.encode())
        keys = self.backend.keys = KeyBook()
        keys.add_key_log(key_log)
        for name, spec in specs.items():
            host = self.backend.hosts[name]
            self.nodes[name] = MessengerNode(host, spec, self.take, self.now, self.messengers)
        if len(specs) < len(self.spec.nodes):
            from toolkit.cluster.ceph import make_nodes  # noqa: PLC0415 - only for clusters with real daemons

            self.nodes |= make_nodes(self, keys)
        self.middlemen.open(self.spec.proxies)
        for spec in specs.values():
            spec.routes |= self.routes(spec.name)
        self.load_scripts(self.spec.proxies)

    def load_scripts(self, proxies: "Sequence[Proxy]") -> None:
        """Have proxies do what the spec says, each rule a fault that lasts; raises LocalError."""
        for proxy in proxies:
            for rule in proxy.script:
                from toolkit.faults.language.messengers import Proxy as Ruled  # noqa: PLC0415 - as the scene
                from toolkit.faults.script import Rule  # noqa: PLC0415

                try:
                    self.scene.do(Ruled(proxy.sender, proxy.receiver, str(Rule.parse(rule))))
                except LocalError as error:
                    raise LocalError(f"proxy from {proxy.sender} to {proxy.receiver}: {rule!r}: {error}") from None

    def routes(self, name: str) -> dict[str, str]:
        """HOST:PORT where a messenger of ours dials others instead of at their HOST:PORT."""
        found = {}
        for other in self.nodes.values():
            if other.name == name or not other.address:
                continue
            for addr in AddrVec.parse(other.address):
                direct = (addr.host, addr.port)
                onward = self.middlemen.route(name, other.name, direct) if addr.port else direct
                if onward != direct:
                    found[f"{addr.host}:{addr.port}"] = f"{onward[0]}:{onward[1]}"
        return found

    def _apply_links(self) -> None:
        initial = link_states(self.spec.links)
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
        self.judging.start()
        for traffic in self.spec.traffic:
            verb, arguments = traffic.beginning
            self.nodes[traffic.sender].command(verb, **arguments)
        if self.spec.timeline or self.spec.chaos is not None:
            from toolkit.cluster.nemesis import Nemesis  # noqa: PLC0415 - only for clusters that have one

            self.nemesis = Nemesis.of(self).start()

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Where a node has to dial to reach an address of another, which it may only do through a proxy."""
        return self.middlemen.route(dialler, dialled, address)

    # ---- what there is

    @property
    def name(self) -> str:
        """Its name."""
        return self.lease.label.name

    @property
    def network(self) -> NetworkFaults:
        """The faults of the network between the nodes."""
        return self.backend.network

    @property
    def proxies(self) -> "dict[tuple[str, str], FaultProxy]":
        """Those of the spec, by connector and acceptor; those that were added later, too."""
        return self.middlemen.proxies

    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> "list[FaultProxy]":
        """All proxies on the way from one node to another, or to a port of it."""
        return self.backend.proxies.on(dialler, dialled, port)

    @property
    def ceph_conf(self) -> Path | None:
        """The ceph.conf for clients of Ceph on this machine, its ``client.admin`` included.

        None without a monitor, or where the nodes have a network of their own: clients run on their hosts then.
        """
        monitor = next((name for name, daemon in self.spec.daemons().items() if daemon.ceph == "mon"), None)
        if monitor is None or self.backend.name != "process":
            return None
        return self.nodes[monitor].host.directory / "ceph.conf"

    @property
    def ceph_keyring(self) -> Path | None:
        """The keyring of ``client.admin`` that :attr:`ceph_conf` names; None where that is None."""
        return self.ceph_conf and self.ceph_conf.with_name("keyring")

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

    def fault(self, fault: "Fault | str") -> str:
        """Do a fault, or what its text says by the words of docs/faults.md; returns what came of it.

        Raises:
            Unsupported: it cannot be had here.
            LocalError: no such fault, or not now.
        """
        from toolkit.faults.language import parse  # noqa: PLC0415 - as above

        return self.scene.do(parse(fault) if isinstance(fault, str) else fault)

    # ---- changes

    def add_node(self, name: str, **values: Any) -> MessengerNode:  # noqa: ANN401 - as in a spec
        """Add a messenger of ours while the cluster runs; all others know it when this returns.

        ::

            cluster.add_node("c", entity="osd.3", options={"ms_max_backoff": 2})

        Args:
            name: of the node; one that was removed before may come back, with a new identity.
            values: as a spec has them.

        Raises:
            Unsupported: hosts of this backend cannot come and go, or it is no messenger of ours.
            LocalError: a value is wrong, a node is frozen, or it does not start; then it is not there.
        """
        return self._changes.add_node(name, values)

    def remove_node(self, name: str) -> list[str]:
        """End a messenger of ours in order, and have the others end their sessions with it and forget it.

        What the spec says of it goes as well, and so do faults that name it.

        Returns:
            What could not be undone of such faults, a line each.

        Raises:
            Unsupported: hosts of this backend cannot come and go, or it is no messenger of ours.
            LocalError: there is no such node, no other one, or another one is frozen.
        """
        return self._changes.remove_node(name)

    def add_link(self, sender: str, receiver: str, **values: Any) -> Link:  # noqa: ANN401 - as in a spec
        """Impair packets from one node to another from now on, as ``links`` of a spec; ``heal`` leaves it.

        Raises:
            Unsupported: this backend cannot do that.
            LocalError: a value is wrong, or there is such a link already.
        """
        return self._changes.add_link({"from": sender, "to": receiver, **values})

    def remove_link(self, sender: str, receiver: str) -> None:
        """Impair them no longer; raises LocalError if there is no such link."""
        self._changes.remove_link(sender, receiver)

    def add_proxy(self, dialler: str, dialled: str, script: Sequence[str] = ()) -> Proxy:
        """Put a proxy between two nodes; dials go through it from now on, and connections stay as they are.

        Raises:
            Unsupported: this backend cannot do that.
            LocalError: no such nodes, a rule of the script is wrong, or there is one already.
        """
        return self._changes.add_proxy(dialler, dialled, script)

    def remove_proxy(self, dialler: str, dialled: str) -> None:
        """End a proxy, its rules, and the connections through it; raises LocalError if there is none."""
        self._changes.remove_proxy(dialler, dialled)

    def start_capture(self, node: str, file: str = "") -> "Taken":
        """Capture a node's packets from now on into a file of the cluster's directory, NODE.pcapng unless given.

        Raises:
            Unsupported: we may not capture here.
            LocalError: no such node, there is a capture of it already, or the file exists.
        """
        return self._changes.start_capture(node, file)

    def stop_capture(self, node: str) -> "Taken":
        """End the capture of a node; returns what it has. Raises LocalError if there is none."""
        return self._changes.stop_capture(node)

    def check(self, only: Iterable[str] | None = None) -> "list[CheckResult]":
        """The verdict of the invariants on its history so far; raises LocalError if there is no such invariant."""
        from toolkit.checks.live import check_standing  # noqa: PLC0415 - a third of a second

        results = check_standing(self.history, only)
        return self.judging.completed(results, (record.time_s for record in self.history.so_far()))

    def chart(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "SequenceChart":
        """The frames between its nodes in a stretch of time, in seconds since its history began."""
        from toolkit.checks.merging import in_order  # noqa: PLC0415 - only charts need it
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415

        records = in_order(self.history.so_far())
        return SequenceChart(History(records), (*self.nodes, *self._changes.former), between=(begin_s, end_s))

    def rates(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "RateChart":
        """Messages and bytes per second and latencies in a stretch of time, with bands for faults."""
        from toolkit.checks.merging import in_order  # noqa: PLC0415 - only charts need it
        from toolkit.report.rates import RateChart  # noqa: PLC0415

        return RateChart.of(History(in_order(self.history.so_far())), between=(begin_s, end_s))

    def status(self) -> dict[str, Any]:
        """The status, as JSON."""
        from toolkit.cluster.status import status_of  # noqa: PLC0415 - only status needs it

        return status_of(self)

    def view(self) -> "ClusterView":
        """A live view for notebooks: as the last line of a cell it shows itself, with buttons for faults.

        Raises:
            MissingExtra: anywidget is not installed.
        """
        if self._view is None:
            from toolkit.cluster.view import ClusterView  # noqa: PLC0415 - for notebooks

            self._view = ClusterView(self)
            self._undo.callback(self._view.close)
        return self._view

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
            self._changes.end()
            self.judging.stop()
            self._undo.close()
            if keep is not None:
                self._gather()
            steps: list[Callable[[], object]] = [
                *(node.finish for node in self.nodes.values()),
                self.captures.close,
            ]
            self._for_all(self._quietly, steps)
            for step in (self.backend.close, self.history.close):
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

    def _gather(self) -> None:
        """Have all logs in its directory, also those in the file systems of containers."""
        self.history.flush()
        self._for_all(self._quietly, [node.gather for node in self.nodes.values()])

    def _quietly(self, step: Callable[[], object]) -> None:
        """Whatever goes wrong while it goes down, the rest of it does go down; the journal undoes what remains."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - as said
            self.backend.say(f"{type(error).__name__}: {error}")

    @staticmethod
    def _for_all(what: Callable[[Any], None], things: Iterable[Any]) -> None:
        """Do something with all of them at once; the first failure is raised without waiting for the others."""
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
        NotUp: its nodes do not come up; ``logs`` is where their logs are, ``lines`` are those that show why.
        LocalError: the spec is wrong, or it does not come up; then nothing of it is left.
    """
    from toolkit.cluster.choosing import spec_from  # noqa: PLC0415 - only specs in files need YAML

    wanted = spec_from(spec, settings)
    lease = Lease.take(name or wanted.name)
    try:
        with lease.held():
            cluster = Cluster(wanted, lease, backend, say, progress)
            cluster.up(None if keep is None else Path(keep))
            try:
                yield cluster
            finally:
                remains = cluster.down(None if keep is None else Path(keep), keep_keys=keep_keys)
                if remains:
                    raise LocalError("; ".join(remains))
    finally:
        lease.journal.undo()


__all__ = ["Cluster", "LocalError", "Progress", "Unsupported", "up"]
