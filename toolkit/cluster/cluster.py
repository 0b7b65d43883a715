"""A running cluster: its nodes, its network and its history."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import Backend
from toolkit.cluster.beginnings import Beginnings
from toolkit.cluster.changes import Changes, link_states
from toolkit.cluster.guests import Guests
from toolkit.cluster.history_checks import Judging
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
from toolkit.cluster.retention import SERVICE_KEYS, keep_files
from toolkit.cluster.spec.model import ClusterSpec, LinkSpec, Proxy
from toolkit.cluster.taps import Captures, Middlemen
from toolkit.dissect.keys import KeyBook
from toolkit.errors import Unsupported
from toolkit.machine.leases import Lease
from toolkit.machine.private import write_private
from toolkit.network.faults import NetworkFaults

if TYPE_CHECKING:
    from toolkit.capture.recorder import Taken
    from toolkit.checks.result import CheckResult
    from toolkit.cluster.failure import NotUp
    from toolkit.cluster.nemesis import Nemesis
    from toolkit.cluster.view import ClusterView
    from toolkit.faults.language import Fault, Scene
    from toolkit.faults.language.scene import ProxyHere
    from toolkit.report.rates import RateChart
    from toolkit.report.sequence import SequenceChart

HISTORY_FILE = "history.ndjson"

Progress = Callable[[str, str], None]
"""Callback for the progress of nodes: node name, and one of ``host``, ``started``, ``ready``."""


class Cluster:
    """A running cluster, or one that :meth:`up` is going to start.

    Programs and notebooks get theirs from :func:`toolkit.cluster.up`, which starts it::

        cluster = up("two-peers")
        cluster.nodes["a"].command("send", peer="b", count=3)
        cluster.down()

    Args:
        spec: spec of the cluster.
        lease: the cluster's name, directory and journal; the caller holds it.
        backend: name of the backend that runs the nodes; empty for the spec's.
        report: called with a short text at each step, for display.
        progress: called with the progress of each node.
        announce: called with a line before something is fetched or run that was not requested by name, such as the
            packages of an image; ``report`` unless given.

    Raises:
        Unsupported: the backend does not work on this machine, or not with this spec.
        LocalError: no such backend, or its networks and the spec's addresses do not fit.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        lease: Lease,
        backend: str = "",
        report: Callable[[str], None] = lambda _words: None,
        progress: Progress = lambda _node, _stage: None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        kind = backend_named(backend or spec.backend, spec.transport)
        spec = with_release(spec, kind, announce or report)
        kind.check(network_wishes(spec), host_wishes(spec))
        self.spec = spec
        self.lease = lease
        self.backend: Backend = kind(lease, report)
        self.backend.announce = announce or report
        self.nodes: dict[str, RunningNode] = {}
        self.history = LiveHistory(lease.directory / HISTORY_FILE, spec.records, spec.disk_bytes)
        self.judging = Judging(self.history, spec.judged_every if spec.records else 0)
        self.began_s = time.monotonic()
        """Monotonic time at which the history began."""
        self.ready_s = 0.0
        """Seconds from the beginning of the history until all nodes were ready; 0 until then."""
        self.stage = "up"
        """Stage of the cluster's life: ``up``; during :meth:`take_down` first ``ending`` (nodes and networks
        stop), then ``keeping`` and ``removing`` (of files)."""
        self.captures = Captures(self)
        self.middlemen = Middlemen(self)
        """The proxies of the cluster."""
        self.guests = Guests(self)
        self.shared_key = new_shared_key(spec)
        """The service key that all messengers of msgrlab share."""
        self.last_nonce = FIRST_NONCE - 1
        """Nonce of the messenger that was added last."""
        self._changes = Changes(self)
        self._progress = progress
        self._undo = ExitStack()
        self._going_down = threading.Lock()
        self._is_down = False
        self._beginnings: Beginnings | None = None
        self._scene: Scene | None = None
        self._view: ClusterView | None = None
        self.nemesis: Nemesis | None = None
        """The thread that runs the spec's timeline and chaos; None if the spec has neither."""

    # ---- up

    def up(self, logs: Path | None = None, *, keep: bool = False) -> None:
        """Start the cluster: hosts and networks, then all nodes at once, then traffic, timeline and chaos.

        Args:
            logs: directory that receives the logs if the cluster does not start; a temporary one unless given.
            keep: True to leave a cluster that does not start as it is, for inspection.

        Raises:
            NotUp: some nodes do not start; the error has the relevant lines of their logs.
            LocalError: another failure; the cluster has been taken down again.
        """
        try:
            self._bring_up()
        except LocalError as error:
            if not self.nodes or isinstance(error, Unsupported):
                self.take_down()
                raise
            raise self._not_up(str(error), logs, keep=keep) from None
        except BaseException:
            self.take_down()
            raise

    def _not_up(self, reason: str, logs: Path | None, *, keep: bool) -> "NotUp":
        from toolkit.cluster.failure import NotUp, notable_lines, suspects  # noqa: PLC0415 - seldom needed

        failed = suspects(self.nodes.values())
        if keep:
            self._gather()
            return NotUp(reason, self.directory, notable_lines(self.directory, failed), is_kept=True)
        directory = logs or Path(mkdtemp(prefix=f"msgrlab-{self.name}-"))
        problems = self.take_down(directory)
        return NotUp("; ".join([reason, *problems]), directory, notable_lines(directory, failed))

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
        """Start the script of each proxy, one ``proxy`` fault per rule; raises LocalError."""
        for proxy in proxies:
            for rule in proxy.script:
                from toolkit.faults.language.messengers import Proxy as Ruled  # noqa: PLC0415 - as the scene
                from toolkit.faults.script import Rule  # noqa: PLC0415

                try:
                    self.scene.do(Ruled(proxy.sender, proxy.receiver, str(Rule.parse(rule))))
                except LocalError as error:
                    raise LocalError(f"proxy from {proxy.sender} to {proxy.receiver}: {rule!r}: {error}") from None

    def routes(self, name: str) -> dict[str, str]:
        """Return the proxy addresses that a messenger dials, ``HOST:PORT`` by the peer's own ``HOST:PORT``."""
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
        """Start the activities that need all nodes up: checks of a long history, traffic and the nemesis."""
        self.judging.start()
        self._beginnings = Beginnings(self.nodes, self.history, self.spec.traffic)
        self._beginnings.start()
        if self.spec.timeline or self.spec.chaos is not None:
            from toolkit.cluster.nemesis import Nemesis  # noqa: PLC0415 - only for clusters that have one

            self.nemesis = Nemesis.of(self).start()

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Return the address that ``dialler`` connects to in order to reach ``address`` of ``dialled``.

        That is a proxy's address where a proxy stands between the two, else ``address`` itself.
        """
        return self.middlemen.route(dialler, dialled, address)

    # ---- what there is

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self.lease.label.name

    @property
    def network(self) -> NetworkFaults:
        """The network faults between the nodes."""
        return self.backend.network

    @property
    def proxies(self) -> "dict[tuple[str, str], ProxyHere]":
        """Proxies of the spec and those that were added later, by connector and acceptor."""
        return self.middlemen.proxies

    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> "Sequence[ProxyHere]":
        """Return all proxies from ``dialler`` to ``dialled``; with ``port``, only those to that port."""
        return self.backend.proxies_on(dialler, dialled, port)

    @property
    def ceph_conf(self) -> Path | None:
        """A ceph.conf for Ceph's own clients on this machine; its keyring has ``client.admin``.

        None without a monitor, or where the nodes have their own networks, which only their hosts can reach.
        """
        monitor = next((name for name, daemon in self.spec.daemons().items() if daemon.ceph == "mon"), None)
        if monitor is None or self.backend.name != "process":
            return None
        return self.nodes[monitor].host.directory / "ceph.conf"

    @property
    def ceph_keyring(self) -> Path | None:
        """The keyring of ``client.admin`` that :attr:`ceph_conf` names; None if that is None."""
        return self.ceph_conf and self.ceph_conf.with_name("keyring")

    @property
    def directory(self) -> Path:
        """Directory of the cluster's files."""
        return self.lease.directory

    def now(self) -> float:
        """Return the seconds since the history began."""
        return time.monotonic() - self.began_s

    def messengers(self) -> list[MessengerNode]:
        """Return the nodes that are messengers of msgrlab, not Ceph daemons or clients."""
        return [node for node in self.nodes.values() if isinstance(node, MessengerNode)]

    def node(self, name: str) -> RunningNode:
        """Return the node of that name.

        Raises:
            LocalError: there is none.
        """
        if name not in self.nodes:
            raise LocalError(f"no node {name!r} in cluster {self.name!r}; there are {', '.join(self.nodes)}")
        return self.nodes[name]

    @property
    def scene(self) -> "Scene":
        """The faults of the cluster: it starts and reverts them, and lists those in force."""
        if self._is_down:
            raise LocalError(f"cluster {self.name!r} is down")
        if self._scene is None:
            from toolkit.faults.language import Scene  # noqa: PLC0415 - only for clusters that are hurt

            self._scene = Scene(self, self.now)
            self._undo.callback(self._scene.close)
        return self._scene

    def scene_faults(self) -> "tuple[Fault, ...]":
        """Return the faults in force."""
        return self._scene.in_force if self._scene is not None else ()

    def fault(self, fault: "Fault | str") -> str:
        """Start a fault, given as an object or as text (docs/faults.md); returns a line on its effect.

        ::

            cluster.fault("partition a b")

        Raises:
            Unsupported: this cluster cannot have that fault.
            LocalError: no such fault, or it is not possible now.
        """
        from toolkit.faults.language import Fault, parse  # noqa: PLC0415 - as above

        if not isinstance(fault, str | Fault):
            raise LocalError(f"fault = {fault!r}: give a fault, or its text as in 'partition a b'")
        return self.scene.do(parse(fault) if isinstance(fault, str) else fault)

    # ---- changes

    def add_node(self, name: str, **values: Any) -> MessengerNode:  # noqa: ANN401 - as in a spec
        """Add a messenger of msgrlab while the cluster runs, start it and add it to the peers of the others.

        ::

            cluster.add_node("c", entity="osd.3", options={"ms_max_backoff": 2})

        Args:
            name: name of the node; that of a removed node may be used again, the new node has another nonce.
            values: fields of the node, as in a spec.

        Raises:
            Unsupported: the backend cannot add hosts, or the values describe no messenger of msgrlab.
            LocalError: a value is wrong, a node is frozen, or the node does not start; it is not added then.
        """
        return self._changes.add_node(name, values)

    def remove_node(self, name: str) -> list[str]:
        """Stop a messenger of msgrlab cleanly; the others close their sessions with it and drop it as a peer.

        Its links, traffic, proxies and captures leave the spec, and faults that name it are reverted.

        Returns:
            A line for each such fault that could not be reverted.

        Raises:
            Unsupported: the backend cannot remove hosts, or the node is no messenger of msgrlab.
            LocalError: there is no such node, it is the only one, or another node is frozen.
        """
        return self._changes.remove_node(name)

    def add_link(self, sender: str, receiver: str, **values: Any) -> LinkSpec:  # noqa: ANN401 - as in a spec
        """Impair packets from ``sender`` to ``receiver``, as ``links`` of a spec; ``heal`` does not revert it.

        Raises:
            Unsupported: this backend cannot impair links.
            LocalError: a value is wrong, or the spec has that link already.
        """
        return self._changes.add_link({"from": sender, "to": receiver, **values})

    def remove_link(self, sender: str, receiver: str) -> None:
        """Remove the impairment of a link; raises LocalError if there is no such link."""
        self._changes.remove_link(sender, receiver)

    def add_proxy(self, dialler: str, dialled: str, script: Sequence[str] = ()) -> Proxy:
        """Insert a proxy from ``dialler`` to ``dialled``. It takes new connections; open ones bypass it.

        Raises:
            Unsupported: this backend cannot insert proxies.
            LocalError: no such nodes, a rule of the script is wrong, or there is a proxy between them already.
        """
        return self._changes.add_proxy(dialler, dialled, script)

    def remove_proxy(self, dialler: str, dialled: str) -> None:
        """Remove a proxy and its rules, and close the connections through it; raises LocalError without one."""
        self._changes.remove_proxy(dialler, dialled)

    def start_capture(self, node: str, file: str = "") -> "Taken":
        """Start to capture a node's packets into a file in the cluster's directory, NODE.pcapng unless given.

        Raises:
            Unsupported: this process may not capture here.
            LocalError: no such node, its packets are captured already, or the file exists.
        """
        return self._changes.start_capture(node, file)

    def stop_capture(self, node: str) -> "Taken":
        """Stop the capture of a node and return its counters and file; raises LocalError if there is none."""
        return self._changes.stop_capture(node)

    def check(self, only: Iterable[str] | None = None) -> "list[CheckResult]":
        """Judge the history so far; returns a result per invariant. Raises LocalError for an unknown invariant.

        Args:
            only: ids of the invariants to judge; all unless given.
        """
        from toolkit.checks.live import check_standing  # noqa: PLC0415 - a third of a second

        results = check_standing(self.history, only)
        return self.judging.completed(results, (record.time_s for record in self.history.so_far()))

    def chart(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "SequenceChart":
        """Return a sequence chart of the frames between ``begin_s`` and ``end_s``, in seconds of the history."""
        from toolkit.checks.merge import in_order  # noqa: PLC0415 - only charts need it
        from toolkit.report.sequence import SequenceChart  # noqa: PLC0415

        records = in_order(self.history.so_far())
        return SequenceChart(History(records), (*self.nodes, *self._changes.former), between=(begin_s, end_s))

    def rates(self, begin_s: float = 0.0, end_s: float = float("inf")) -> "RateChart":
        """Return charts of messages and bytes per second and of latencies, with the faults marked.

        Args:
            begin_s: start of the charts, in seconds of the history.
            end_s: end of the charts.
        """
        from toolkit.checks.merge import in_order  # noqa: PLC0415 - only charts need it
        from toolkit.report.rates import RateChart  # noqa: PLC0415

        return RateChart.of(History(in_order(self.history.so_far())), between=(begin_s, end_s))

    def status(self) -> dict[str, Any]:
        """Return the state of the cluster as JSON."""
        from toolkit.cluster.status import status_of  # noqa: PLC0415 - only status needs it

        return status_of(self)

    def view(self) -> "ClusterView":
        """Return a live view for notebooks, with buttons for faults; a cell that ends with it displays it.

        Raises:
            MissingExtra: anywidget is not installed.
        """
        if self._view is None:
            from toolkit.cluster.view import ClusterView  # noqa: PLC0415 - for notebooks

            self._view = ClusterView(self)
            self._undo.callback(self._view.close)
        return self._view

    def _repr_html_(self) -> str:
        from toolkit.cluster.status_html import html_of  # noqa: PLC0415 - for notebooks

        return html_of(self.status())

    def __repr__(self) -> str:
        states = ", ".join(f"{node.name} {node.state}" for node in self.nodes.values())
        return f"<Cluster {self.name} on {self.backend.name}: {states or 'no nodes'}>"

    # ---- down

    def take_down(self, keep: Path | None = None, *, keep_keys: bool = False) -> list[str]:
        """Take the cluster down; a second call does nothing.

        Args:
            keep: directory that receives its history, captures and logs; they are deleted unless given.
            keep_keys: True to keep key logs, keyrings and the keys in captures there, too.

        Returns:
            A line for each thing that could not be undone.
        """
        with self._going_down:
            if self._is_down:
                return []
            self._is_down = True
            self.stage = "ending"
            self._changes.end()
            if self._beginnings is not None:
                self._beginnings.stop()
            self.judging.stop()
            self._undo.close()
            self._quietly(self.backend.lost)  # then requests to lost machines do not wait long
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
            return problems + self.lease.journal.undo(keep_directory=bool(problems))

    def _gather(self) -> None:
        """Copy all logs to the cluster's directory, also from the file systems of containers."""
        self.history.flush()
        self._for_all(self._quietly, [node.gather for node in self.nodes.values()])

    def _quietly(self, step: Callable[[], object]) -> None:
        """Run one step of the teardown; report a failure and go on: the journal undoes what remains."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - as said
            self.backend.report(f"{type(error).__name__}: {error}")

    @staticmethod
    def _for_all(what: Callable[[Any], None], things: Iterable[Any]) -> None:
        """Call ``what`` for all things in parallel; raise the first failure without waiting for the others."""
        todo, begun = list(things), list[Future[None]]()
        if not todo:
            return
        threads = ThreadPoolExecutor(len(todo), thread_name_prefix="cluster")
        try:
            try:
                for each in todo:
                    begun.append(threads.submit(what, each))
            except RuntimeError:  # an interpreter that ends starts no more threads
                for each in todo[len(begun) :]:
                    what(each)
            for done in as_completed(begun):
                done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """Append a node's record to the history; from any thread."""
        self.history.put(time_s, node, kind, fields)


__all__ = ["Cluster", "LocalError", "Progress", "Unsupported"]
