"""The simulated lab of swarm runs, with faults that scenarios do not use, and probes of liveness."""

from collections.abc import Mapping
from random import Random
from typing import Any

from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.driver import Connection
from messenger.outputs import EventKind
from toolkit.checks.history import NETWORK
from toolkit.lab.sim.wire import Wire
from toolkit.node import NodeSpec
from toolkit.node.auth import SERVICE_SECRET_ID
from toolkit.simulation.draws import NO_INJECTION, Options
from toolkit.simulation.login_lab import LoginLab
from toolkit.simulation.misuse import DECLARED_BYTES, RELEASED, CarelessApp, CarelessError, Stranger, take_back

_ENDING = frozenset({EventKind.RESET.value, EventKind.REMOTE_RESET.value})

_STRANGER = "stranger"
_STRANGERS_NUMBER = 900

Probe = tuple[str, str]
"""Sender and receiver."""


class SwarmLab(LoginLab):
    """Nodes of a swarm run.

    Args:
        options: the options that the seed drew.
        seed: decides latencies, keys and the random numbers of the messengers.
        intercepted: True if interception points can be armed, which costs time.
        visited: True if the run has an unknown peer.
    """

    def __init__(self, options: Options, seed: int, *, intercepted: bool, visited: bool) -> None:
        super().__init__(options, seed, intercepted=intercepted)
        self.frozen: set[str] = set()
        self.expected: dict[Probe, int] = {}
        """Probes that have not arrived, with their tids."""
        self.interrupted: list[Probe] = []
        """Probes that may be lost, because their sender got a reset event."""
        self._network.cut_by_byte = self._cut_by_byte
        self._careless: dict[str, CarelessApp] = {}
        """The careless applications of running nodes, by node."""
        self._has_taken_back = False
        self._stranger: Stranger | None = None
        if visited:
            peer = self.raw(_STRANGER, f"{options.roles.entities[0]}.{_STRANGERS_NUMBER}", listens=False)
            self._stranger = Stranger(peer.dial, Random(f"stranger {seed}"))
        self._unannounced: dict[str, list[tuple[str, Connection]]] = {}
        """By node that restarted with another nonce, the peers' connections to its former nonce."""
        self._secret_id, self._service_key = SERVICE_SECRET_ID, self._key.to_base64()
        """The id of the newest service key, and the key."""
        self._skews: dict[str, float] = {}

    # ---- what a node can do now

    def runs(self, name: str) -> bool:
        """True if a node's process runs."""
        return name in self._nodes

    def usable(self, name: str) -> bool:
        """True if a node runs and is not frozen."""
        return name in self._nodes and name not in self.frozen

    def has_connection(self, name: str, peer: str) -> bool:
        """True if a node's application has a connection with a peer."""
        return self._nodes[name].app.has_connection(peer)

    def is_taken_for_another(self, name: str, peer: str) -> bool:
        """True if a peer has a session with a node's former nonce, so that the node would get a second one."""
        return any(other == peer for other, _ in self._unannounced.get(name, ()))

    # ---- faults

    @override
    def freeze(self, name: str) -> None:
        super().freeze(name)
        self.frozen.add(name)

    @override
    def thaw(self, name: str) -> None:
        super().thaw(name)
        self.frozen.discard(name)

    @override
    def kill(self, name: str) -> None:
        super().kill(name)
        self.frozen.discard(name)
        self._skews.pop(name, None)
        self._careless.pop(name, None)

    def rename(self, name: str, *, announced: bool = True) -> None:
        """Start a killed node with another nonce; the others learn its address.

        Args:
            name: name of the node.
            announced: True if the others first mark down their connections with it; if not, they dial its former
                nonce until :meth:`announce_name`.
        """
        self._unannounced.setdefault(name, []).extend(
            (other, connection)
            for other, node in self._nodes.items()
            for connection in node.connections.values()
            if node.app.name_of(connection) == name  # the application may have forgotten it for a newer one
        )
        if announced:
            self.announce_name(name)
        self.revive(name, new_nonce=True)

    def announce_name(self, name: str) -> None:
        """Have the others mark down their connections to a node's former nonce."""
        for other, connection in self._unannounced.pop(name, []):
            if not self.usable(other) or connection not in self._nodes[other].connections.values():
                continue
            if self._nodes[other].app.connections.get(name) is connection:
                self.mark_down(other, name)
            else:
                self._step("mark_down", other, name)
                connection.mark_down()

    def rotate_keys(self, name: str) -> None:
        """Generate a new service key and give it to one node, which then only accepts tickets sealed with it."""
        self._secret_id += 1
        self._service_key = self.new_key()
        self._give_keys(name, mints=False)

    def fetch_keys(self, name: str) -> None:
        """Give a node the newest service key, for its tickets as well."""
        self._give_keys(name, mints=True)

    def _give_keys(self, name: str, *, mints: bool) -> None:
        changes: dict[str, Any] = {"secrets": {str(self._secret_id): self._service_key}}
        if mints:
            newest = {"secret_id": self._secret_id, "key": self._service_key}
            changes["mints"] = {**self._specs[name].auth.get("mints", {}), **newest}
        self._specs[name].auth |= changes  # a restarted node keeps it
        self.change_auth(name, **changes)

    def skew(self, name: str, seconds: float) -> None:
        """Set a node's wall clock ahead of the others' by ``seconds``."""
        jump_s = seconds - self._skews.pop(name, 0.0)
        if seconds:
            self._skews[name] = seconds
        if jump_s:
            self.jump_clock(name, jump_s)

    def heal_between(self, a: str, b: str) -> None:
        """Undo the faults of the paths between two nodes."""
        self._step("heal", a, b)
        self._path("heal", a, b)
        self.network.heal(a, b)

    def late_dial(self, a: str, b: str, seconds: float) -> None:
        """Delay the next dial of a to b."""
        self._step("late_dial", a, b, seconds)
        self._network.delay_dial(a, b, seconds)

    def cut_at_byte(self, a: str, b: str, byte: int, stream: int) -> None:
        """Cut a later stream between a and b once ``byte`` bytes of a have passed."""
        self._step("cut_at_byte", a, b, byte, stream)
        self._network.cut_at_byte(a, b, byte, stream)

    def _cut_by_byte(self, wire: Wire, sender: str, byte: int) -> None:
        a, b = wire.connector.name, wire.acceptor.name
        self._write(NETWORK, "cut", a=a, b=b, at={}, detail=f"after {byte} bytes of {sender}")

    # ---- careless applications, and a stranger

    def _spawn(self, spec: NodeSpec) -> None:
        super()._spawn(spec)
        self._nodes[spec.name].takes_error = self._takes_error

    def _takes_error(self, error: BaseException) -> bool:
        return isinstance(error, CarelessError) or (self._has_taken_back and str(error).endswith(RELEASED))

    def react(self, name: str, callback: str, nth: int, deed: str) -> None:
        """Have a node's application misuse the messenger in a callback; see :class:`CarelessApp`."""
        self._step("react", name, callback, nth, deed)
        careless = self._careless.get(name)
        if careless is None:
            node = self._nodes[name]
            careless = self._careless[name] = CarelessApp(node.app)
            node.add_dispatcher_head(careless)
        careless.react(callback, nth, deed)

    def take_back(self, name: str, peer: str, part: int) -> None:
        """Send a message, and release its buffer at once."""
        self._step("take_back", name, peer, part)
        self._has_taken_back = True
        take_back(self._nodes[name].app, peer, part)

    def dial_one(self, name: str, peer: str, which: int) -> None:
        """Open a session by one of a peer's addresses, unless there is one that this dial would return."""
        addrs = self._specs[peer].addrs
        addr = addrs.addrs[which % len(addrs.addrs)]
        self._step("dial_one", name, peer, str(addr))
        self._nodes[name].app.connect_by(peer, AddrVec((addr,)))

    def stranger(self, name: str, victim: str, ending: str, steps: int) -> None:
        """Have the unknown peer dial a node; see :meth:`Stranger.visit`."""
        assert self._stranger is not None
        if ending in {"declare", "stall"}:
            self._step("declare", name, DECLARED_BYTES)
        if ending == "squat" and self._specs[name].options.get("peer_identity") == "addresses":
            ending = "own"  # by its address alone, a squatter is a peer that lost its session
        claimed = {"squat": self._specs[victim].addrs, "own": self._specs[name].addrs}.get(ending)
        self._stranger.visit(name, claimed, ending, steps)

    def end_faults(self) -> None:
        """Heal the network, start all nodes, release everything that is held, and disarm all faults."""
        for careless in self._careless.values():
            careless.forget()
        if self._stranger is not None:
            self._stranger.leave()
            self._step("leave", _STRANGER)
        self.heal()
        self._network.disarm()
        for breakpoints in self._breakpoints.values():
            breakpoints[:] = [breakpoint_ for breakpoint_ in breakpoints if breakpoint_.hit]
        for name in self._specs:
            if name in self.frozen:
                self.thaw(name)
            if name not in self._nodes:
                self.revive(name)
            self.skew(name, 0.0)
            if self._secret_id != SERVICE_SECRET_ID:
                self.fetch_keys(name)
            self._nodes[name].app.points.disarm()
            self.unblock(name)
            self.release(name)
            if self._nodes[name].endpoint.injector is not None:
                self.configure(name, **NO_INJECTION)
        for name in list(self._unannounced):
            self.announce_name(name)
        if self._was_unready:
            self.set_ready(ready=True)

    # ---- liveness

    def probe(self, sender: str, receiver: str) -> None:
        """Send a message, and await its delivery."""
        self.send(sender, receiver, 1, 20)
        self.expected[sender, receiver] = self._nodes[sender].app.last_tid(receiver)

    def is_answered(self, name: str, since: int) -> bool:
        """True if a node has received a KEEPALIVE2_ACK since a place in the history, or a link has broken."""
        return any(
            record.kind == "fault"
            or (record.node == name and record.kind == "frame" and _is_keepalive_answer(record.fields))
            for record in self.history.records[since:]
        )

    def is_at_rest(self) -> bool:
        """True if no node has a message to send, an acknowledgement to wait for, or a dial to make."""
        return all(self._at_rest(name) for name in self._specs)

    def write_ends(self) -> None:
        """Record the final counters."""
        for name in self._specs:
            held = self._nodes[name].endpoint.resources()
            throttles = {counter: held[counter] for counter in ("throttled", "arrivals")}
            self._write(name, "end", **self._snapshot(name), **throttles)

    # ---- records

    def _take(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        super()._take(time_s, node, kind, fields)
        if not self.expected:
            return
        if kind == "deliver":
            if self.expected.get((fields["peer"], node)) == fields["tid"]:
                del self.expected[fields["peer"], node]
        elif kind == "event" and fields["event"] in _ENDING:
            probe = (node, fields["peer"])
            if self.expected.pop(probe, None) is not None:
                self.interrupted.append(probe)


def _is_keepalive_answer(frame: Mapping[str, Any]) -> bool:
    return bool(frame["tag"] == "KEEPALIVE2_ACK" and frame["direction"] == "rx")
