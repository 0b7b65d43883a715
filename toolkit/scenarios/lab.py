"""The vocabulary of scenarios: nodes, links between them, faults, and what is expected to happen.

A scenario calls these verbs in order; each is written into the history as a ``step``. Backends say how a node
is started and spoken to, how time passes and how a link is broken.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from random import Random
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.denc.entity import EntityType
from messenger.errors import MsgrError
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.dissect.follow import Keys
from toolkit.faults.tap import Breakpoint
from toolkit.scenarios.nodes import SERVICE_SECRET_ID, NodeSpec, parse_entity

PATIENCE_S = 20.0
"""How long anything expected may take."""


class ScenarioFailed(MsgrError):
    """What a scenario expected did not happen; the text says what did."""


class Lab(ABC):
    """Nodes and links of one run.

    Args:
        mode: connection mode, crc or secure.
        seed: decides everything random.
        workers: how many other shards of each node run data phases.
        protocol: what the nodes speak.
        key_type: of the key that the nodes share.
    """

    backend = ""
    """Name of the backend."""

    def __init__(
        self,
        mode: str,
        seed: int,
        workers: int = 0,
        protocol: Protocol = Protocol.V2,
        key_type: KeyType = KeyType.AES,
    ) -> None:
        self.mode = mode
        self.protocol = protocol
        self.seed = seed
        self.workers = workers
        self.history = History()
        self._rng = Random(f"lab {seed}")
        self._key = CryptoKey.generate(self._rng, 0.0, key_type)
        self._specs: dict[str, NodeSpec] = {}
        self._breakpoints: dict[frozenset[str], list[Breakpoint]] = {}
        self._struck: list[Breakpoint] = []
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._states: dict[tuple[str, str], str] = {}

    # ---- verbs

    def node(self, name: str, entity: str, policy: str, *, listens: bool = True, **options: Any) -> None:  # noqa: ANN401 - Config options
        """Describe a node; all are described before the first is started.

        Args:
            name: what the scenario calls it.
            entity: its messenger name, TYPE.NUM.
            policy: towards every peer.
            listens: whether peers can dial it.
            options: Config options other than their defaults.
        """
        nonce = 1000 + len(self._specs) + 1
        self._specs[name] = NodeSpec(
            name=name,
            entity=entity,
            addr=self._address(name, nonce, listens=listens),
            policy=policy,
            mode=self.mode,
            service_key=self._key.to_base64(),
            peers={},
            peer_entities={},
            options=options,
            workers=self.workers,
            seed=self.seed,
            start_s=self._start_s(),
        )

    def start(self, *names: str) -> None:
        """Start nodes."""
        self._step("start", *names)
        for spec in self._specs.values():
            spec.peers = {other.name: other.addr for other in self._specs.values()}
            spec.peer_entities = {other.name: other.entity for other in self._specs.values()}
        for name in names:
            self._launch(self._specs[name])

    def kill(self, name: str) -> None:
        """End a node's process without warning; its memory is gone."""
        self._step("kill", name)
        self._kill(name)
        self._write(name, "process", action="kill", incarnation=self._specs[name].incarnation)

    def revive(self, name: str) -> None:
        """Start a killed node again at the same address, with nothing remembered."""
        self._step("revive", name)
        self._specs[name].incarnation += 1
        self._launch(self._specs[name])

    def connect(self, node: str, peer: str) -> None:
        """Have a node open a session with a peer, and wait until it is open."""
        self._step("connect", node, peer)
        self._command(node, "connect", peer=peer)
        self._wait(lambda: self.session_state(node, peer) == SessionState.READY, f"{node} connected to {peer}")

    def send(self, node: str, peer: str, count: int = 1, size_bytes: int = 100) -> None:
        """Have a node send numbered messages to a peer."""
        self._step("send", node, peer, count=count, size_bytes=size_bytes)
        self._command(node, "send", peer=peer, count=count, size_bytes=size_bytes)

    def expect_delivered(self, node: str, peer: str, count: int) -> None:
        """Wait until a node has received ``count`` messages from a peer in all."""
        self._step("expect_delivered", node, peer, count)
        self._wait(
            lambda: self.delivered(node, peer) >= count,
            f"{count} messages from {peer} delivered at {node}",
            lambda: f"{self.delivered(node, peer)} were",
        )

    def expect_event(self, node: str, peer: str, event: str, count: int = 1) -> None:
        """Wait until a node was told of an event of its session with a peer ``count`` times in all."""
        kind = EventKind(event)
        self._step("expect_event", node, peer, event, count)
        self._wait(
            lambda: self.events(node, peer, kind) >= count,
            f"event {kind} number {count} at {node} about {peer}",
            lambda: f"{self.events(node, peer, kind)} came",
        )

    def expect_no_event(self, node: str, peer: str, event: str) -> None:
        """A node must not have been told of such an event so far."""
        self._step("expect_no_event", node, peer, event)
        if self.events(node, peer, EventKind(event)):
            raise ScenarioFailed(f"event {event} at {node} about {peer}, which must not happen here")

    def expect_state(self, node: str, peer: str, state: str) -> None:
        """Wait until a node's session with a peer is in a state."""
        wanted = SessionState(state)
        self._step("expect_state", node, peer, state)
        self._wait(
            lambda: self.session_state(node, peer) == wanted,
            f"session of {node} with {peer} in {wanted}",
            lambda: f"it is in {self.session_state(node, peer) or 'no state'}",
        )

    def expect_no_dial(self, seconds: float, *nodes: str) -> None:
        """Let time pass, during which none of the nodes may dial."""
        self._step("expect_no_dial", seconds, *nodes)
        before = {name: self.dials(name) for name in nodes}
        self._pass(seconds)
        for name, count in before.items():
            if self.dials(name) != count:
                raise ScenarioFailed(f"{name} dialled within {seconds:g} s although nothing was to be sent")

    def expect_acked(self, node: str) -> None:
        """Wait until a node has nothing queued and nothing unacknowledged."""
        self._step("expect_acked", node)
        self._wait(
            lambda: self._at_rest(node),
            f"everything {node} sent acknowledged",
            lambda: str(self._snapshot(node)),
        )

    def cut(self, a: str, b: str) -> None:
        """Cut every link between two nodes now; they may dial again at once."""
        self._step("cut", a, b)
        self._cut(a, b)
        self._write(NETWORK, "cut", a=a, b=b, at={}, detail="now")

    def cut_at(self, a: str, b: str, breakpoint_: Breakpoint) -> None:
        """Cut the link between two nodes once a certain frame passes."""
        self._step("cut_at", a, b, str(breakpoint_))
        self._breakpoints.setdefault(frozenset((a, b)), []).append(breakpoint_)

    def expect_cut(self, breakpoint_: Breakpoint) -> None:
        """Wait until a breakpoint was hit."""
        self._step("expect_cut", str(breakpoint_))
        self._wait(lambda: any(struck is breakpoint_ for struck in self._struck), f"cut {breakpoint_}")

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._step("wait", seconds)
        self._pass(seconds)

    def settle(self) -> None:
        """Wait until everything is delivered and acknowledged and nobody dials; take the closing counters."""
        self._step("settle")
        names = [name for name in self._specs if self._running(name)]
        self._wait(
            lambda: all(self._at_rest(name) for name in names),
            "everything delivered and acknowledged, and nobody dialling",
            lambda: ", ".join(f"{name}: {self._snapshot(name)}" for name in names),
        )
        for name in names:
            self._write(name, "end", **self._snapshot(name))

    # ---- what has happened so far

    def delivered(self, node: str, peer: str) -> int:
        """Messages a node has received from a peer."""
        return self._counts[node, "deliver", peer]

    def events(self, node: str, peer: str, event: EventKind) -> int:
        """How often a node was told of an event."""
        return self._counts[node, event.value, peer]

    def dials(self, node: str) -> int:
        """How often a node has dialled."""
        return self._counts[node, "dial", ""]

    def session_state(self, node: str, peer: str) -> str:
        """State of a node's session with a peer; empty before the first."""
        return self._states.get((node, peer), "")

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """A record for the history; what scenarios ask about is counted as it comes."""
        self.history.append(time_s, node, kind, **fields)
        if kind == "deliver":
            self._counts[node, "deliver", fields["peer"]] += 1
        elif kind == "event":
            self._counts[node, fields["event"], fields["peer"]] += 1
        elif kind == "link" and fields["action"] == "dial":
            self._counts[node, "dial", ""] += 1
        elif kind == "state":
            self._states[node, fields["peer"]] = fields["state"]
        elif kind == "process":
            self._states = {key: state for key, state in self._states.items() if key[0] != node}

    # ---- shared by the backends

    @property
    def keys(self) -> Keys:
        """What is needed to read the nodes' secure links."""
        services = {
            parse_entity(spec.entity).type: {SERVICE_SECRET_ID: self._key} for spec in self._specs.values()
        }
        return Keys(services={**services, EntityType.OSD: {SERVICE_SECRET_ID: self._key}})

    def breakpoints_between(self, a: str, b: str) -> list[Breakpoint]:
        """The shared list of breakpoints on the links of two nodes."""
        return self._breakpoints.setdefault(frozenset((a, b)), [])

    def _was_cut(self, a: str, b: str, breakpoint_: Breakpoint) -> None:
        """A breakpoint struck."""
        frame = breakpoint_.hit
        assert frame is not None
        at = {key: value for key, value in asdict(breakpoint_).items() if key in {"sender", "tag", "nth", "byte"}}
        at |= {"index": frame.index, "offset": frame.offset}
        self._write(NETWORK, "cut", a=a, b=b, at=at, detail=str(breakpoint_))
        self._struck.append(breakpoint_)

    def _launch(self, spec: NodeSpec) -> None:
        self._write(spec.name, "process", action="start", incarnation=spec.incarnation, addrs=spec.addr)
        self._spawn(spec)

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
    ) -> None:
        if not self._wait_until(condition, PATIENCE_S):
            raise ScenarioFailed(f"expected within {PATIENCE_S:g} s: {what}; {instead()}")

    # ---- what a backend provides

    @abstractmethod
    def _start_s(self) -> float:
        """Monotonic time of the run's beginning."""

    @abstractmethod
    def _now(self) -> float:
        """Seconds since the run began."""

    @abstractmethod
    def _address(self, name: str, nonce: int, *, listens: bool) -> str:
        """An address for a new node."""

    @abstractmethod
    def _spawn(self, spec: NodeSpec) -> None:
        """Start a node; it is ready when this returns."""

    @abstractmethod
    def _kill(self, name: str) -> None:
        """End a node without warning."""

    @abstractmethod
    def _running(self, name: str) -> bool:
        """Whether a node runs."""

    @abstractmethod
    def _command(self, name: str, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Have a node carry out one of NodeApp's commands; returns its answer."""

    @abstractmethod
    def _cut(self, a: str, b: str) -> None:
        """Cut the links between two nodes."""

    @abstractmethod
    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Let things happen until the condition holds; False if it did not in time."""

    @abstractmethod
    def _pass(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def close(self) -> None:
        """End everything that was started."""
