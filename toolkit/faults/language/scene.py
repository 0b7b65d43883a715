"""Starts and reverts the faults of a cluster, keeps those in force, and records them in the history."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any, Protocol

from messenger.errors import LocalError
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.errors import Unsupported
from toolkit.faults.language.fault import Fault
from toolkit.network.faults import NetworkFaults
from toolkit.scanner import did_you_mean

if TYPE_CHECKING:
    from toolkit.network.state import LinkState

MESSENGER = "messenger"
"""Kind of the nodes that are messengers of msgrlab."""
_TICKER_END_S = 5.0


class NodeHere(Protocol):
    """Interface of a node; see :class:`toolkit.cluster.nodes.RunningNode`."""

    name: str
    kind: str
    keeps_devices: bool
    """True if its programs keep the RDMA devices of all nodes open until they end."""

    @property
    def alive(self) -> bool:
        """True if its process exists, running or frozen."""

    @property
    def pid(self) -> int:
        """Process id on this machine; 0 if it runs elsewhere."""

    @property
    def address(self) -> str:
        """Addresses that it listens on."""

    def ready(self) -> bool:
        """True if it accepts commands."""

    def kill(self) -> None:
        """Kill its process (SIGKILL)."""

    def stop(self) -> None:
        """Stop it cleanly."""

    def freeze(self, frozen: bool) -> None:  # noqa: FBT001 - as RunningNode has it
        """Stop its process with SIGSTOP, or continue it."""

    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:
        """Restart it, after killing it if it runs, and wait until it is ready."""

    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Run a command on it and return the answer."""


class TrafficHere(Protocol):
    """Interface of an item of traffic; see :class:`toolkit.cluster.spec.parts.Traffic` and ``Workload``."""

    sender: str
    count: int

    @property
    def beginning(self) -> tuple[str, dict[str, Any]]:
        """The command that starts it: verb and arguments."""

    @property
    def ending(self) -> tuple[str, dict[str, Any]]:
        """The command that stops it: verb and arguments."""


Write = Callable[[str, dict[str, Any], float], None]
"""Writes a record about the network: its kind, its fields, and the seconds since it happened."""


class RuledProxy(Protocol):
    """Interface of a proxy that takes rules; see :class:`toolkit.faults.proxy.FaultProxy`."""

    def add_rule(self, rule: str, write: Write) -> Callable[[], None]:
        """Add a rule of a script; returns the function that removes it. ``write`` is called for each action."""

    def release(self, name: str) -> int:
        """Release everything held under ``name``; returns the number of frames and connection attempts."""


class ProxyHere(RuledProxy, Protocol):
    """Interface of a proxy on real sockets."""

    @property
    def host(self) -> str:
        """Address at which it listens."""

    @property
    def port(self) -> int:
        """Port at which it listens."""

    def refuse(self, *, refused: bool = True) -> None:
        """Refuse new connections; ``refused=False`` accepts them again."""

    def heal(self) -> None:
        """Revert all holds, delays, rate limits and refusals."""


class ClusterHere(Protocol):
    """Interface of a cluster; see :class:`toolkit.cluster.cluster.Cluster`."""

    @property
    def history(self) -> History:
        """History so far."""

    @property
    def nodes(self) -> Mapping[str, Any]:
        """Nodes by name, with the interface :class:`NodeHere`."""

    @property
    def network(self) -> NetworkFaults:
        """The network faults between the nodes."""

    @property
    def proxies(self) -> Mapping[tuple[str, str], RuledProxy]:
        """Proxies that take rules, by connector and acceptor."""

    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> Iterable[ProxyHere]:
        """Return all proxies from ``dialler`` to ``dialled``; with ``port``, only those to that port."""


class _Ticker:
    """Runs the steps of a fault in a thread until it is stopped."""

    def __init__(self, name: str, steps: Generator[float, None, None], failed: Callable[[str], None]) -> None:
        pause_s = next(steps)  # run the first step here, so that the caller gets its error
        self._ended = threading.Event()
        self._failed = failed
        self._thread = threading.Thread(target=self._run, args=(pause_s, steps), name=name, daemon=True)
        self._thread.start()

    def _run(self, pause_s: float, steps: Generator[float, None, None]) -> None:
        try:
            with closing(steps):
                while not self._ended.wait(pause_s):
                    pause_s = next(steps)
        except LocalError as error:
            self._failed(str(error))

    def end(self) -> None:
        """Stop the thread, and wait for the step in progress."""
        self._ended.set()
        self._thread.join(_TICKER_END_S)


class Scene:
    """The faults of one cluster; from any thread.

    Args:
        cluster: the cluster.
        now: returns the seconds since its history began; since the creation of this object unless given.
    """

    def __init__(self, cluster: ClusterHere, now: Callable[[], float] | None = None) -> None:
        began_s = time.monotonic()
        self._cluster = cluster
        self._now = now or (lambda: time.monotonic() - began_s)
        self._lock = threading.RLock()
        self._in_force: dict[Fault, None] = {}
        self._blocked: Counter[tuple[str, str, int]] = Counter()
        self._base_links: dict[tuple[str, str], LinkState] = {}
        self._links: dict[tuple[str, str], dict[Fault, LinkState]] = defaultdict(dict)
        self._frozen: set[str] = set()
        self._unrecorded: dict[str, set[str]] = defaultdict(set)
        """Nodes with a new address, by the frozen peer that has to be informed when it thaws."""
        self._remembered: dict[Fault, Any] = {}
        self._tickers: dict[Fault, _Ticker] = {}
        self._leaving: set[str] = set()
        """Nodes and virtual machines that are being removed."""

    # ---- doing

    def do(self, fault: Fault) -> str:
        """Start a fault; returns a text on its effect, as :meth:`Fault.do`.

        Raises:
            Unsupported: this cluster cannot have the fault.
            LocalError: it is not possible now, or there are no such nodes.
        """
        with self._lock:
            for name in fault.nodes:
                if not (fault.takes_guests and self._is_guest(name)):
                    self.node(name)
            if fault.LASTS and fault in self._in_force:
                raise LocalError(f"{fault}: it is in force already")
            self._step(fault)
            outcome = fault.do(self)
            for other in [one for one in self._in_force if one.undone_by(fault)]:
                del self._in_force[other]
            if fault.LASTS:
                self._in_force[fault] = None
            return outcome

    def undo(self, fault: Fault) -> None:
        """Revert a fault that lasts.

        Raises:
            LocalError: it is not in force, or cannot be reverted; it remains in force then.
        """
        with self._lock:
            if fault not in self._in_force:
                known = did_you_mean(str(fault), [str(one) for one in self._in_force]) or "; nothing is"
                raise LocalError(f"undo: {fault} is not in force{known}")
            fault.undo(self)
            self._in_force.pop(fault, None)

    def undo_all(self) -> list[str]:
        """Revert all lasting faults, the last one first; returns a line for each that could not be reverted."""
        return self._undo_those(lambda _fault: True)

    def _undo_those(self, are_selected: Callable[[Fault], bool]) -> list[str]:
        failed = []
        with self._lock:
            for fault in [one for one in self._in_force if are_selected(one)][::-1]:
                try:
                    self.undo(fault)
                except LocalError as error:
                    failed.append(f"{fault}: {error}")
                    self._in_force.pop(fault, None)
        return failed

    @contextmanager
    def leaving(self, name: str) -> Iterator[list[str]]:
        """Revert the lasting faults that name a node, which leaves the cluster during the ``with`` block.

        During the block faults cannot name it; other threads may try.

        Yields:
            A line for each fault that could not be reverted.
        """
        try:
            yield self._leave(name)
        finally:
            with self._lock:
                self._leaving.discard(name)

    def _leave(self, name: str) -> list[str]:
        with self._lock:
            failed = self._undo_those(lambda fault: name in fault.nodes)
            self._leaving.add(name)
            self._ended(name)
            for blocked in [way for way in self._blocked if name in way[:2]]:
                del self._blocked[blocked]
            for ways in (self._base_links, self._links):
                for way in [way for way in ways if name in way]:
                    del ways[way]
            return failed

    def set_base(self, sender: str, receiver: str, state: "LinkState") -> None:
        """Set the impairment of a link outside of faults; while a fault impairs it, from the fault's end on."""
        with self._lock:
            if (sender, receiver) in self._base_links:
                self._base_links[sender, receiver] = state
            else:
                self.network.set_link(sender, receiver, state)

    def make_whole(self) -> list[str]:
        """Revert all lasting faults, heal the network, thaw frozen nodes and start those that do not run.

        Returns:
            A line for each step that failed.
        """
        with self._lock:
            failed = self.undo_all()
            attempts: list[tuple[str, Callable[[], None]]] = [("heal", self._heal)]
            attempts += [(f"thaw {name}", partial(self.thaw, name)) for name in sorted(self._frozen)]
            attempts += [
                (f"start {name}", partial(self.restart, name)) for name in self.names if not self._runs(name)
            ]
            for what, attempt in attempts:
                try:
                    attempt()
                except LocalError as error:
                    failed.append(f"{what}: {error}")
        return failed

    def _heal(self) -> None:
        self.whole_network()
        self.path("heal")

    def _runs(self, name: str) -> bool:
        return bool(self.node(name).alive)

    @property
    def in_force(self) -> tuple[Fault, ...]:
        """The lasting faults in force, in the order in which they started."""
        return tuple(self._in_force)

    def drop(self, fault: Fault) -> None:
        """Remove a fault from those in force, because something else has reverted it."""
        self._in_force.pop(fault, None)

    def close(self) -> None:
        """Stop the threads of faults."""
        for fault in list(self._tickers):
            self.still(fault)

    # ---- traffic that the spec has nodes make

    def resume_traffic(self, *names: str) -> None:
        """Start the endless traffic of nodes; a restarted node does not have it."""
        for traffic in self._traffic(names):
            if not traffic.count:
                self._command(traffic.sender, *traffic.beginning)

    def pause_traffic(self, *names: str) -> None:
        """Stop the traffic of nodes."""
        for traffic in self._traffic(names):
            self._command(traffic.sender, *traffic.ending)

    def is_at_work(self, name: str) -> bool:
        """True if a client whose traffic was stopped still waits for replies."""
        return any(self._command(name, *traffic.ending).get("busy") for traffic in self._traffic([name]))

    def _traffic(self, names: Iterable[str]) -> list[TrafficHere]:
        spec = getattr(self._cluster, "spec", None)
        return [] if spec is None else [one for one in spec.traffic if one.sender in names]

    # ---- for faults

    @property
    def history(self) -> History:
        """History of the cluster."""
        return self._cluster.history

    def now_s(self) -> float:
        """Return the seconds since the history began."""
        return self._now()

    @property
    def names(self) -> list[str]:
        """Names of all nodes."""
        return [name for name in self._cluster.nodes if name not in self._leaving]

    @property
    def hosts(self) -> list[str]:
        """Names of all nodes, and of the virtual machines on their network."""
        return [*self.names, *filter(self._is_guest, self.network.guests)]

    def _is_guest(self, name: str) -> bool:
        return name in self.network.guests and name not in self._leaving

    @property
    def network(self) -> NetworkFaults:
        """The faults of the network between the nodes."""
        return self._cluster.network

    def node(self, name: str) -> NodeHere:
        """Return the node of that name.

        Raises:
            LocalError: there is none.
            Unsupported: it is a virtual machine on the network, not a node.
        """
        found: NodeHere | None = self._cluster.nodes.get(name)
        if found is None and self._is_guest(name):
            raise Unsupported(f"{name} is a virtual machine: only faults of the network act on it")
        if found is None or name in self._leaving:
            raise LocalError(f"no node {name!r}{did_you_mean(name, self.hosts)}")
        return found

    def command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Run a command on a messenger of msgrlab.

        Raises:
            Unsupported: the node is a Ceph daemon or a client.
            LocalError: it does not run, is frozen, or rejects the command.
        """
        node = self.node(name)
        if node.kind != MESSENGER:
            raise Unsupported(self.not_ours(name))
        return self._command(name, verb, args)

    def _command(self, name: str, verb: str, args: Mapping[str, Any]) -> dict[str, Any]:
        node = self.node(name)
        if not node.alive:
            raise LocalError(f"{name} does not run: start {name}")
        if name in self._frozen:
            raise LocalError(f"{name} is frozen: thaw {name}")
        return node.command(verb, **args)

    def not_ours(self, name: str) -> str:
        """Return why a node takes no commands; empty if it does."""
        kind = self.node(name).kind
        return "" if kind == MESSENGER else f"{name} is a real {kind}: only nodes of ours take such commands"

    def keeps_devices(self) -> str:
        """Return why the kernel cannot remove an RDMA device; empty if it can."""
        keepers = [name for name, node in self._cluster.nodes.items() if node.keeps_devices]
        return f"{keepers[0]} is of Ceph, whose programs keep the devices of all nodes open" if keepers else ""

    def lacks(self, what: str) -> str:
        """Return why the network cannot do something (a method of :class:`NetworkFaults`); empty if it can."""
        return self.network.lacks.get(what, "")

    def proxy(self, a: str, b: str) -> RuledProxy:
        """Return the proxy between two nodes, in either direction.

        Raises:
            Unsupported: there is none.
        """
        found = self._cluster.proxies.get((a, b)) or self._cluster.proxies.get((b, a))
        if found is None:
            raise Unsupported(self.no_proxy(a, b))
        return found

    def no_proxy(self, a: str, b: str) -> str:
        """Return why there is no proxy between two nodes; empty if there is one."""
        pairs = self._cluster.proxies
        if (a, b) in pairs or (b, a) in pairs:
            return ""
        known = ", ".join(f"{one} and {other}" for one, other in pairs)
        others = f" (there is one between {known})" if known else ""
        return f"no proxy between {a} and {b}{others}: the spec takes proxies: [{{from: {a}, to: {b}}}]"

    def freeze(self, name: str) -> None:
        """Stop a node's process with SIGSTOP."""
        self.running(name).freeze(frozen=True)
        self._frozen.add(name)

    def thaw(self, name: str) -> None:
        """Continue a frozen node, and send it the peers' new addresses."""
        self.node(name).freeze(frozen=False)
        self._frozen.discard(name)
        for peer in self._unrecorded.pop(name, ()):
            self.command(name, "moved", peer=peer, addr=self.node(peer).address)

    def end(self, name: str, *, in_order: bool = False) -> None:
        """Kill a node's process, or with ``in_order`` stop it cleanly."""
        node = self.running(name)
        (node.stop if in_order else node.kill)()
        self._ended(name)

    def restart(self, name: str, *, new_nonce: bool = False, wiped: bool = False) -> None:
        """Restart a node, after killing it if it runs, and resume its traffic."""
        node = self.node(name)
        self._ended(name)
        node.restart(new_nonce=new_nonce, wiped=wiped)
        if new_nonce:
            for other in self._frozen:
                if not self.not_ours(other):
                    self._unrecorded[other].add(name)
        self.resume_traffic(name)

    def _ended(self, name: str) -> None:
        self._frozen.discard(name)
        self._unrecorded.pop(name, None)

    def running(self, name: str) -> NodeHere:
        """Return a node that runs.

        Raises:
            LocalError: it does not run.
        """
        node = self.node(name)
        if not node.alive:
            raise LocalError(f"{name} does not run: start {name}")
        return node

    def remember(self, fault: Fault, what: Any) -> None:  # noqa: ANN401 - by fault
        """Store the data that reverting a fault needs."""
        self._remembered[fault] = what

    def recall(self, fault: Fault) -> Any:  # noqa: ANN401 - by fault
        """Return the stored data of a fault, and remove it."""
        return self._remembered.pop(fault)

    @property
    def frozen_nodes(self) -> frozenset[str]:
        """Names of the frozen nodes."""
        return frozenset(self._frozen)

    def block(self, sender: str, receiver: str, port: int = 0) -> None:
        """Block packets between two nodes; each block has to be removed by :meth:`unblock`."""
        if not self._blocked[sender, receiver, port]:
            self.network.block(sender, receiver, port=port)
        self._blocked[sender, receiver, port] += 1

    def unblock(self, sender: str, receiver: str, port: int = 0) -> None:
        """Remove one block; packets pass again once none is left."""
        left = self._blocked[sender, receiver, port] - 1
        if left <= 0:
            self.network.unblock(sender, receiver, port=port)
        self._blocked[sender, receiver, port] = max(left, 0)

    def refuse(self, sender: str, receiver: str, port: int = 0, *, refused: bool = True) -> None:
        """Refuse connections, or accept them again; a proxy on the connector's host has to do the same."""
        self.network.refuse(sender, receiver, port=port, refused=refused)
        for proxy in self._cluster.proxies_on(sender, receiver, port):
            proxy.refuse(refused=refused)

    def set_link(self, fault: Fault, sender: str, receiver: str, state: "LinkState") -> None:
        """Impair a link for a fault; the last fault's impairment applies."""
        way = (sender, receiver)
        base = self._base_links.get(way) or self.network.link(*way)
        self.network.set_link(*way, state)
        self._base_links[way] = base
        self._links[way][fault] = state

    def unset_link(self, fault: Fault, sender: str, receiver: str) -> None:
        """Remove a fault's impairment: that of the fault before it applies, or the state before all faults."""
        way = (sender, receiver)
        self._links[way].pop(fault, None)
        others = list(self._links[way].values())
        self.network.set_link(*way, others[-1] if others else self._base_links[way])
        if not others:
            del self._base_links[way]

    def whole_network(self) -> None:
        """Revert everything that was done to the network."""
        for fault in list(self._tickers):
            self.still(fault)
        for way in permutations(self.names, 2):
            for proxy in self._cluster.proxies_on(*way):
                proxy.heal()
        self.network.heal()
        self._blocked.clear()
        self._links.clear()
        self._base_links.clear()

    def tick(self, fault: Fault, steps: Generator[float, None, None]) -> None:
        """Run the first step of a fault now, and the others in a thread, until :meth:`still`.

        A step yields the seconds to wait before the next one. If a step fails in the thread, the history records
        it.

        Raises:
            LocalError: the first step fails.
            Unsupported: this cluster cannot have the fault.
        """
        self._tickers[fault] = _Ticker(str(fault), steps, partial(self.not_done, fault))

    def still(self, fault: Fault) -> None:
        """Stop the steps of a fault."""
        ticker = self._tickers.pop(fault, None)
        if ticker is not None:
            ticker.end()

    # ---- records

    def _step(self, fault: Fault) -> None:
        word, _, args = str(fault).partition(" ")
        self.write(SCENARIO, "step", verb=word, args=args)

    def not_done(self, fault: Fault, why: str) -> None:
        """Record that a fault of a timeline failed."""
        self.write(SCENARIO, "step", verb="not done", args=f"{fault}: {why}")

    def path(self, fault: str, a: str = "", b: str = "", detail: str = "") -> None:
        """Record a change of the link from one node to another; of all links if none is named."""
        self.write(NETWORK, "path", a=a, b=b, fault=fault, detail=detail)

    def cut(self, a: str, b: str, detail: str) -> None:
        """Record that the connections of two nodes were broken."""
        self.write(NETWORK, "cut", a=a, b=b, at={}, detail=detail)

    def write(self, node: str, kind: str, /, **fields: Any) -> None:  # noqa: ANN401 - as JSON
        """Append a record with the current time."""
        self._cluster.history.append(self._now(), node, kind, **fields)

    def write_past(self, kind: str, fields: dict[str, Any], age_s: float) -> None:
        """Append a record about the network, of an event that happened ``age_s`` seconds ago."""
        self._cluster.history.append(self._now() - age_s, NETWORK, kind, **fields)

    # ---- what can be had

    def likes_of(self, fault: Fault) -> Iterator[Fault]:
        """Yield the fault with each choice of nodes of the cluster, 200 at most."""
        named = list(dict.fromkeys(fault.nodes))
        for chosen in islice(permutations(self.names, len(named)), 200):
            renamed = dict(zip(named, chosen, strict=True))
            yield fault.among(renamed)
