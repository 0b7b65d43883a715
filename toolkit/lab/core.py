"""What every backend shares: the nodes of a run, its history, and waiting for a condition.

Backends implement how a node is started and commanded, how time passes and how links are broken.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from typing import Protocol as Interface

from messenger.cephx.keys import CryptoKey
from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.outputs import EventKind
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.dissect.keys import KeyBook
from toolkit.errors import ScenarioFailed
from toolkit.faults.dials import AtDial
from toolkit.faults.mangle import Mangle
from toolkit.faults.strike import Strike
from toolkit.faults.strike_records import strike_record
from toolkit.faults.tap import Breakpoint
from toolkit.lab.ways import Way
from toolkit.network.faults import NetworkFaults
from toolkit.node import NodeSpec, parse_entity
from toolkit.node.auth import SERVICE_SECRET_ID
from toolkit.node.raw.stream import PATIENCE_S

_BUSY_MACHINE = 3
"""Factor by which real processes get more time than simulated ones: other programs share the machine."""

if TYPE_CHECKING:
    from toolkit.faults.proxy import FaultProxy
    from toolkit.node.raw.peer import RawHost, RawPeer


class NotIntercepted(Exception):
    """A scenario arms a point at a node that has no interceptor."""


class Streams(Interface):
    """The faults of the byte streams between two nodes, which every backend implements."""

    def cut(self, a: str, b: str) -> int:
        """Reset all streams between two nodes; returns their number."""

    def half_close(self, a: str, b: str) -> int:
        """End all streams in the direction from ``a``; returns their number."""

    def half_open(self, a: str, b: str) -> None:
        """Have ``b`` lose its streams with ``a`` without an end of stream; ``a`` gets a reset when it writes."""

    def delay_dial(self, a: str, b: str, seconds: float) -> None:
        """Delay the next dial of ``a`` to ``b`` by that many seconds."""


_Node = TypeVar("_Node")


class Running(dict[str, _Node]):
    """The running nodes of a lab, by name."""

    def __missing__(self, name: str) -> _Node:
        raise LocalError(f"node {name!r} does not run; {', '.join(self) or 'no node'} does")


class LabCore(ABC):
    """Nodes and links of one run.

    Args:
        way: protocol, mode, cipher and shards of the nodes, or the way's name.
        seed: decides everything random.
    """

    backend = ""
    """Name of the backend."""
    real_time = False
    """True if the run takes real time; scenarios with long waits are shorter then."""
    is_rdma = False
    """True if nodes communicate by RDMA, so that no frame passes a proxy."""

    def __init__(self, way: Way | str = "v2-crc", seed: int = 1) -> None:
        self.way = Way.parse(way) if isinstance(way, str) else way
        self.seed = seed
        self._history = History()
        self.visited: Counter[tuple[str, str]] = Counter()
        """Number of times that each action was taken at each point of the interception grid, over all nodes."""
        self.defaults: dict[str, Any] = {}
        """Config options of all nodes described after this is set; a node's own options override them."""
        self._rng = Random(f"lab {seed}")
        self._key = CryptoKey.generate(self._rng, 0.0, self.way.key_type)
        self._specs: dict[str, NodeSpec] = {}
        self._raws: dict[str, RawPeer] = {}
        self._breakpoints: dict[frozenset[str], list[Strike]] = {}
        self._struck: list[Strike] = []
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._states: dict[tuple[str, str], str] = {}
        self._faults: defaultdict[str, list[str]] = defaultdict(list)
        self._stopped: set[str] = set()
        """Nodes whose messenger has been shut down, though they run."""

    @property
    def protocol(self) -> Protocol:
        """The protocol of the nodes."""
        return self.way.protocol

    @property
    def is_v1(self) -> bool:
        """True if the nodes use msgr v1."""
        return self.way.protocol is Protocol.V1

    @property
    def is_secure(self) -> bool:
        """True if links are in secure mode."""
        return self.way.mode == "secure"

    @property
    def rng(self) -> Random:
        """Random source for scenarios; the seed decides its numbers."""
        return self._rng

    # ---- what has happened so far

    @property
    def history(self) -> History:
        """The records of all nodes, of the network and of the scenario so far."""
        self._catch_up()
        return self._history

    def delivered(self, sender: str, receiver: str) -> int:
        """Number of messages from ``sender`` that were delivered to ``receiver`` so far."""
        self._catch_up(receiver)
        return self._counts[receiver, "deliver", sender]

    def events(self, node: str, peer: str, event: EventKind | str) -> int:
        """Number of times that an event of a node's sessions with a peer was raised so far."""
        self._catch_up(node)
        return self._counts[node, EventKind(event).value, peer]

    def dials(self, node: str) -> int:
        """Number of times that a node has dialled so far."""
        self._catch_up(node)
        return self._counts[node, "dial", ""]

    def closes(self, node: str) -> int:
        """Number of links of a node that have ended."""
        self._catch_up(node)
        return self._counts[node, "close", ""]

    def session_state(self, node: str, peer: str) -> str:
        """State of a node's newest session with a peer; empty if there was none."""
        self._catch_up(node)
        return self._states.get((node, peer), "")

    def _catch_up(self, node: str = "") -> None:  # noqa: B027 - a simulated node has nothing to collect
        """Collect the records of a node, or of all nodes, up to now; does nothing inside a wait."""

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """Append a record to the history, and update the counters that verbs read."""
        self._history.put(time_s, node, kind, fields)
        if kind == "frame":
            return
        if kind == "deliver":
            self._counts[node, "deliver", fields["peer"]] += 1
        elif kind == "event":
            self._counts[node, fields["event"], fields["peer"]] += 1
        elif kind == "link" and fields["action"] in {"dial", "close"}:
            self._counts[node, fields["action"], ""] += 1
        elif kind == "fault":
            self._faults[node].append(fields["reason"])
        elif kind == "state":
            self._states[node, fields["peer"]] = fields["state"]
        elif kind == "process" and fields["action"] not in {"freeze", "thaw"}:
            if fields["action"] == "stop":
                self._stopped.add(node)
            else:
                self._states = {key: state for key, state in self._states.items() if key[0] != node}
                self._stopped.discard(node)

    # ---- shared by the backends

    @property
    def _parties(self) -> list[NodeSpec]:
        """Nodes and raw peers."""
        return [*self._specs.values(), *(raw.spec for raw in self._raws.values())]

    @property
    def keys(self) -> KeyBook:
        """The keys that decrypt the nodes' secure links."""
        services = {parse_entity(spec.entity).type: {SERVICE_SECRET_ID: self._key} for spec in self._parties}
        logins = [spec.auth["login"] for spec in self._parties if "login" in spec.auth]
        return KeyBook(
            services={**services, EntityType.OSD: {SERVICE_SECRET_ID: self._key}},
            principals={AuthName.parse(one["name"]): CryptoKey.from_base64(one["key"]) for one in logins},
        )

    def breakpoints_between(self, a: str, b: str) -> list[Strike]:
        """The list of breakpoints and other strikes on the links of two nodes; always the same list for a pair."""
        return self._breakpoints.setdefault(frozenset((a, b)), [])

    def _has_struck(self, a: str, b: str, strike: Strike) -> None:
        """Record that a breakpoint cut a link, or that a mangle changed bytes."""
        if isinstance(strike, AtDial | Mangle | Breakpoint):
            kind, fields = strike_record(a, b, strike)
            self._write(NETWORK, kind, **fields)
        self._struck.append(strike)

    def _at_rest(self, name: str) -> bool:
        counters = self._snapshot(name)
        return not any(counters[name] for name in ("queued", "sent", "dispatch_bytes", "unsettled"))

    def _snapshot(self, name: str) -> dict[str, Any]:
        return self._command(name, "snapshot")

    def _step(self, verb: str, *args: object, **named: object) -> None:
        words = [str(arg) for arg in args] + [f"{name}={value}" for name, value in named.items()]
        self._write(SCENARIO, "step", verb=verb, args=", ".join(words))

    def _write(self, node: str, kind: str, **fields: Any) -> None:  # noqa: ANN401 - as JSON
        self._take(self._now(), node, kind, fields)

    def _wait(
        self,
        condition: Callable[[], bool],
        what: str,
        instead: Callable[[], str] = lambda: "it did not happen",
        within_s: float | None = None,
    ) -> None:
        usual_s = PATIENCE_S * _BUSY_MACHINE if self.real_time else PATIENCE_S
        patience_s = usual_s if within_s is None else within_s
        if not self._wait_until(condition, patience_s):
            raise ScenarioFailed(f"expected within {patience_s:g} s: {what}; {instead()}")

    def _collect_visits(self, name: str) -> None:
        """Add the counts of a node's interceptor to :attr:`visited`."""
        for point, action, count in self._command(name, "visits")["visits"]:
            self.visited[point, action] += count

    # ---- what a backend provides

    @abstractmethod
    def _start_s(self) -> float:
        """Monotonic time, in seconds, at which the run began."""

    @abstractmethod
    def _now(self) -> float:
        """Seconds since the run began."""

    @abstractmethod
    def _address(self, protocol: Protocol, host: str) -> EntityAddr:
        """An address at which a new node can listen."""

    @abstractmethod
    def _spawn(self, spec: NodeSpec) -> None:
        """Start a node, and write the record of it."""

    def _started(self, *names: str) -> None:  # noqa: B027 - a simulated node is ready at once
        """Wait until nodes that were just started are ready."""

    @abstractmethod
    def _raw_host(self, spec: NodeSpec) -> "RawHost":
        """Create the host of a raw peer's links; it can be dialled when this returns."""

    @abstractmethod
    def _wall_s(self) -> float:
        """Unix time on the nodes' clocks."""

    @abstractmethod
    def _kill(self, name: str) -> None:
        """End a node without warning, and write the record of it."""

    @abstractmethod
    def _running(self, name: str) -> bool:
        """True if a node's process runs."""

    @abstractmethod
    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Have a node carry out one of NodeApp's commands, and record jumps of its clock; returns its answer."""

    @property
    @abstractmethod
    def network(self) -> NetworkFaults:
        """The faults of the network between the nodes."""

    @property
    @abstractmethod
    def streams(self) -> Streams:
        """The faults of the byte streams between the nodes."""

    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> "Iterable[FaultProxy]":  # noqa: ARG002
        """The fault proxies between two nodes, or in front of one port of ``dialled``; none in simulation."""
        return ()

    def _pid(self, name: str) -> int:  # noqa: ARG002 - in simulation there are no processes
        """The process id of a running node; 0 if it has no process of its own."""
        return 0

    @abstractmethod
    def _freeze(self, name: str, *, frozen: bool) -> None:
        """Stop a node's process, or continue it, and write the record of it."""

    @abstractmethod
    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Let time pass until the condition holds; False if it does not within ``timeout_s``."""

    @abstractmethod
    def _advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""

    @abstractmethod
    def close(self) -> None:
        """End every node, raw peer and proxy of the run."""
