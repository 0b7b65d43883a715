"""What every backend shares: the nodes of a run, its history, waiting for something to happen.

Backends say how a node is started and spoken to, how time passes and how links are broken.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

from messenger.cephx.keys import CryptoKey
from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.link import Protocol
from messenger.outputs import EventKind
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.dissect.keys import KeyBook
from toolkit.errors import ScenarioFailed
from toolkit.faults.dials import AtDial
from toolkit.faults.mangle import Mangle
from toolkit.faults.strike import Strike
from toolkit.faults.tap import Breakpoint
from toolkit.faults.told import strike_record
from toolkit.lab.ways import Way
from toolkit.network.faults import NetworkFaults
from toolkit.node import NodeSpec, parse_entity
from toolkit.node.auth import SERVICE_SECRET_ID
from toolkit.node.raw.stream import PATIENCE_S

_BUSY_MACHINE = 3
"""Real processes may take so many times longer: other things run beside them."""

if TYPE_CHECKING:
    from toolkit.faults.proxy import FaultProxy
    from toolkit.node.raw.peer import RawHost, RawPeer


class NotIntercepted(Exception):
    """A point is to be armed at a node that has no interceptor."""


class Streams(Interface):
    """What can be done to the byte streams between two nodes, whatever carries them."""

    def cut(self, a: str, b: str) -> int:
        """Reset all streams between two nodes; returns their number."""

    def half_close(self, a: str, b: str) -> int:
        """End all streams in the direction from ``a``; returns their number."""

    def half_open(self, a: str, b: str) -> None:
        """Have ``b`` lose its streams with ``a``, which gets a reset when it writes."""

    def delay_dial(self, a: str, b: str, seconds: float) -> None:
        """Have the next dial of ``a`` to ``b`` arrive that much later."""


class LabCore(ABC):
    """Nodes and links of one run.

    Args:
        way: what the nodes speak, or its name.
        seed: decides everything random.
    """

    backend = ""
    """Name of the backend."""
    real_time = False
    """True if a second takes a second; scenarios with long waits are shorter then."""

    def __init__(self, way: Way | str = "v2-crc", seed: int = 1) -> None:
        self.way = Way.parse(way) if isinstance(way, str) else way
        self.seed = seed
        self._history = History()
        self.visited: Counter[tuple[str, str]] = Counter()
        """How often each action was taken at each point of the interception grid, over all nodes."""
        self.defaults: dict[str, Any] = {}
        """Config options of all nodes that are described from now on, unless they have others."""
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
        """What the nodes speak."""
        return self.way.protocol

    @property
    def is_v1(self) -> bool:
        """True if that is msgr v1."""
        return self.way.protocol is Protocol.V1

    @property
    def is_secure(self) -> bool:
        """True if links are in secure mode."""
        return self.way.mode == "secure"

    @property
    def rng(self) -> Random:
        """For what a scenario wants to draw; the seed decides it."""
        return self._rng

    # ---- what has happened so far

    @property
    def history(self) -> History:
        """Of all nodes, of the network and of the scenario."""
        self._catch_up()
        return self._history

    def delivered(self, sender: str, receiver: str) -> int:
        """Number of messages that ``receiver`` has received from ``sender``."""
        self._catch_up(receiver)
        return self._counts[receiver, "deliver", sender]

    def events(self, node: str, peer: str, event: EventKind | str) -> int:
        """Number of times that an event was raised at a node."""
        self._catch_up(node)
        return self._counts[node, EventKind(event).value, peer]

    def dials(self, node: str) -> int:
        """How often a node has dialled."""
        self._catch_up(node)
        return self._counts[node, "dial", ""]

    def closes(self, node: str) -> int:
        """Number of links of a node that have ended."""
        self._catch_up(node)
        return self._counts[node, "close", ""]

    def session_state(self, node: str, peer: str) -> str:
        """State of a node's session with a peer; empty before the first."""
        self._catch_up(node)
        return self._states.get((node, peer), "")

    def _catch_up(self, node: str = "") -> None:  # noqa: B027 - not everywhere is there anything to do
        """See to it that what a node, or all, have done so far is known; not while something is waited for."""

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """A record for the history; what scenarios ask about is counted as it comes."""
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
        """What is needed to read the nodes' secure links."""
        services = {parse_entity(spec.entity).type: {SERVICE_SECRET_ID: self._key} for spec in self._parties}
        logins = [spec.auth["login"] for spec in self._parties if "login" in spec.auth]
        return KeyBook(
            services={**services, EntityType.OSD: {SERVICE_SECRET_ID: self._key}},
            principals={AuthName.parse(one["name"]): CryptoKey.from_base64(one["key"]) for one in logins},
        )

    def breakpoints_between(self, a: str, b: str) -> list[Strike]:
        """The shared list of breakpoints and other strikes on the links of two nodes."""
        return self._breakpoints.setdefault(frozenset((a, b)), [])

    def _has_struck(self, a: str, b: str, strike: Strike) -> None:
        """A breakpoint cut a link, or a mangling changed what passed."""
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
        """Take over what a node's interceptor has counted."""
        for point, action, count in self._command(name, "visits")["visits"]:
            self.visited[point, action] += count

    # ---- what a backend provides

    @abstractmethod
    def _start_s(self) -> float:
        """Monotonic time of the run's beginning."""

    @abstractmethod
    def _now(self) -> float:
        """Seconds since the run began."""

    @abstractmethod
    def _address(self, protocol: Protocol, host: str) -> EntityAddr:
        """An address where a new node can listen."""

    @abstractmethod
    def _spawn(self, spec: NodeSpec) -> None:
        """Start a node, and record it."""

    def _started(self, *names: str) -> None:  # noqa: B027 - not everywhere is there anything to wait for
        """Wait until nodes that were just started are ready."""

    @abstractmethod
    def _raw_host(self, spec: NodeSpec) -> "RawHost":
        """Where the links of a raw peer come from; it can be dialled when this returns."""

    @abstractmethod
    def _wall_s(self) -> float:
        """Unix time, as nodes know it."""

    @abstractmethod
    def _kill(self, name: str) -> None:
        """End a node without warning, and record it."""

    @abstractmethod
    def _running(self, name: str) -> bool:
        """True if a node runs."""

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
        """The proxies on the way from one node to another, or to a port of it; none in simulation."""
        return ()

    def _pid(self, name: str) -> int:  # noqa: ARG002 - in simulation there are no processes
        """The process id of a running node; 0 if it has no process of its own."""
        return 0

    @abstractmethod
    def _freeze(self, name: str, *, frozen: bool) -> None:
        """Stop a node, or let it go on, and record it."""

    @abstractmethod
    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Let things happen until the condition holds; False if it did not in time."""

    @abstractmethod
    def _advance(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def close(self) -> None:
        """End everything that was started."""
