"""The simulated lab of swarm runs, with faults that scenarios do not use, and probes of liveness."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityType
from messenger.driver import Connection
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from toolkit.checks.history import NETWORK
from toolkit.errors import ScenarioFailed
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.sim.wire import Wire
from toolkit.node import NodeSpec
from toolkit.node.auth import SERVICE_SECRET_ID
from toolkit.simulation.draws import NO_INJECTION, Login, Options
from toolkit.simulation.misuse import DECLARED_BYTES, RELEASED, CarelessApp, CarelessError, Stranger, take_back

_ENDING = frozenset({EventKind.RESET.value, EventKind.REMOTE_RESET.value})

MONITOR = "m"
"""The node at which the others log in."""
_STRANGER = "stranger"
_STRANGERS_NUMBER = 900

Probe = tuple[str, str]
"""Sender and receiver."""


class SwarmLab(SimLab):
    """Nodes of a swarm run.

    Args:
        options: the options that the seed drew.
        seed: decides latencies, keys and the random numbers of the messengers.
        intercepted: True if interception points can be armed, which costs time.
        visited: True if the run has an unknown peer.
    """

    def __init__(self, options: Options, seed: int, *, intercepted: bool, visited: bool) -> None:
        super().__init__(options.way, seed, intercepted=intercepted)
        self.frozen: set[str] = set()
        self.expected: dict[Probe, int] = {}
        """Probes that have not arrived, with their tids."""
        self.interrupted: list[Probe] = []
        """Probes that may be lost, because their sender got a reset event."""
        self._network.cut_by_byte = self._cut_by_byte
        self._login = options.login
        self._nodes_of(options)
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

    def _nodes_of(self, options: Options) -> None:
        """Describe the nodes, and the monitor where they log in, if they do."""
        login = options.login
        entities = {node.entity: self.entity() for node in options.nodes} if login else {}
        for node in options.nodes:
            self.node(
                node.name,
                node.entity,
                node.policy if login is None else f"{node.policy} mon=lossy_client",
                listens=node.listens,
                protocols=options.protocols,
                auth=options.auth if login is None else _auth(login, node.entity, entities[node.entity]["key"]),
                **node.options,
            )
        if login is not None:
            self.monitor(
                MONITOR,
                0,
                entities,
                protocols=options.protocols,
                auth_ttl_s=login.auth_ttl_s,
                service_ttl_s=login.service_ttl_s,
                cluster_required=[login.method],
                service_required=[login.method],
            )
        self._was_unready = False
        self._services = {node.entity.partition(".")[0] for node in options.nodes if node.listens}
        """Types of the nodes that others dial, which takes a ticket."""
        self._proved: dict[tuple[str, int], tuple[int, float]] = {}
        """By node and incarnation, the last known global_id, and the unix time until which it can be proved."""

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

    # ---- logins at the monitor

    def set_ready(self, *, ready: bool) -> None:
        """Have the monitor leave the quorum, or join it again."""
        self._was_unready |= not ready
        self.change_auth(MONITOR, ready=ready)

    def log_in(self, name: str) -> None:
        """Have a node dial the monitor unless it is logged in; if it is, send a keepalive and renew its tickets.

        A login that is not complete begins again, as that of a MonClient does after ``mon_client_hunt_interval``.
        """
        self.expect_same_identity(name)
        if MONITOR in self._nodes[name].app.logins.done:
            self.keepalive(name, MONITOR)
            self.renew(name)
            return
        if self.has_connection(name, MONITOR):
            self.mark_down(name, MONITOR)
        self.dial(name, MONITOR)

    def without_login(self) -> list[str]:
        """The nodes that are not logged in, or have no ticket for a service or no service keys yet.

        Raises:
            ScenarioFailed: a node has another global_id than before, although nothing was refused.
        """
        return [name for name in self._specs if name != MONITOR and not self._is_logged_in(name)]

    def _is_logged_in(self, name: str) -> bool:
        assert self._login is not None
        logins = self._nodes[name].app.logins
        state = logins.state()
        if MONITOR not in state["current"]:
            return False
        if self._login.method == "none":
            return True
        self.expect_same_identity(name)
        credentials = logins.credentials
        assert credentials.identity is not None
        due = credentials.identity.services_to_renew(self._nodes[name].app.wall_s)
        has_keys = credentials.rotating is None or bool(credentials.rotating.secrets)
        return not due and has_keys and self._services <= state["tickets"].keys()

    def expect_same_identity(self, name: str) -> None:
        """Require that a node keeps its global_id as long as it has a valid AUTH ticket, which proves it.

        Raises:
            ScenarioFailed: it has got another one, although the monitor has refused nothing.
        """
        app = self._nodes[name].app
        identity = app.logins.credentials.identity
        ticket = identity.tickets.get(EntityType.AUTH) if identity is not None else None
        if identity is None or ticket is None:
            return
        node = name, self._specs[name].incarnation
        known, expires_s = self._proved.get(node, (identity.global_id, 0.0))
        lost = app.wall_s < expires_s and known != identity.global_id
        if lost and not self._refusals() and not self._is_disturbed:
            raise ScenarioFailed(f"{name} could prove global_id {known}, and has got {identity.global_id}")
        self._proved[node] = identity.global_id, ticket.expires_s

    def expect_no_refusal(self) -> None:
        """Require that the monitor has refused no login and no request, unless it or a clock was disturbed.

        Raises:
            ScenarioFailed: it has.
        """
        refusals = self._refusals()
        if refusals and not self._is_disturbed:
            raise ScenarioFailed(f"the monitor refused a login or request: {', '.join(refusals)}")

    def _refusals(self) -> list[str]:
        """What the monitor has refused: in handshakes of v2, and as answers to messages that nodes still know."""
        faults = (record for record in self.history.node(MONITOR) if record.kind == "fault")
        denied = [record["detail"] for record in faults if record["reason"] == FaultReason.AUTH_DENIED.name]
        return denied + [failure for node in self._nodes.values() for failure in node.app.logins.failures]

    @property
    def _is_disturbed(self) -> bool:
        """True if a clock was set, or the monitor was not in the quorum for a while."""
        return self._was_unready or bool(self.history.of("clock"))

    def expect_method(self, since: int) -> None:
        """Require that links opened after a place in the history use the method that the monitor requires.

        Raises:
            ScenarioFailed: one does not.
        """
        if self._login is None:
            return
        for record in self.history.records[since:]:
            if record.kind == "auth" and record["method"] != self._login.method:
                text = f"{record['link']} uses method {record['method']} after a login by {self._login.method}"
                raise ScenarioFailed(text)

    def describe(self, names: Iterable[str]) -> str:
        """The authentication state of nodes, in words."""
        return ", ".join(f"{name}: {self._nodes[name].app.logins.state()}" for name in names)

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


def _auth(login: Login, entity: str, key: str) -> dict[str, Any]:
    """``auth`` of a node that logs in; services accept each method, so that only a login decides which is used."""
    return {
        "login": {"name": entity, "key": key},
        "service_ttl_s": login.service_ttl_s,
        "offers": list(login.offers),
        "allows": ["cephx", "none"],
    }
