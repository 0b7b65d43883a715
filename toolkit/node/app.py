"""The application on a scenario's node, the same on every backend: it sends messages and records events."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from messenger.denc.address import AddressType, AddrVec
from messenger.denc.codec import Buffer
from messenger.dispatch import Dispatcher
from messenger.driver import Connection, Driver
from messenger.errors import Fault, LocalError
from messenger.files import amount
from messenger.messages.message import PRIORITY_DEFAULT, Message, Payload
from messenger.messages.types import MessageType
from messenger.outputs import EventKind, TraceRecord
from messenger.session.policy import POLICIES
from messenger.session.session import SessionState
from toolkit.faults.points import ArmedPoints, parse_point
from toolkit.node.auth import Credentials
from toolkit.node.inside import Inside
from toolkit.node.login import AUTH_TYPES, Logins
from toolkit.node.message_records import message_fields
from toolkit.node.rhythm import Later, Rhythm
from toolkit.node.spec import NodeSpec, parse_entity

_MOST_BYTES = 2 << 30
"""Most bytes that one command queues."""
_TIDS_OF_A_LIFE = 1_000_000
"""Tids per incarnation: a restarted node continues at the next multiple, so that no tid means two messages."""

_LAST_NONCE = re.compile(r"/([0-9]{1,10})]?$")

Writer = Callable[[float, str, dict[str, Any]], None]
"""Takes a history record of this node: time in seconds since the run began, kind, fields."""

Stop = Callable[[bool, Callable[[], None]], None]
"""Shuts a messenger down, cleanly or not, and calls the second argument when that is done."""


@dataclass(slots=True)
class _Reaction:
    """A command to run while a message is dispatched."""

    due: int
    """Number of deliveries until it runs."""
    command: str
    args: dict[str, Any]
    every: int
    """Deliveries between repetitions; 0 to run once."""


class NodeApp(Inside, Dispatcher):
    """Sends numbered messages, and records messages, session events and commands in the history.

    Args:
        spec: options of the node.
        write: takes history records.
    """

    VERBS: ClassVar[tuple[str, ...]] = (
        *("connect", "send", "send_again", "keepalive", "keep_alive", "mark_down", "shut", "stop", "hold"),
        *("on_delivery", "configure", "jump_clock", "limit_descriptors", "limit_memory", "learn", "moved", "auth"),
        *("forget", "arm", "disarm", "unblock", "hits", "visits", "use_up_nonces", "own_address"),
        *("fail_queue_pair", "withhold_receives"),
        *("perf_dump", "snapshot", "session", "sessions", "resources", "holdings", "traffic", "calls"),
    )
    """Methods that are commands, also over the control channel of a process."""

    def __init__(self, spec: NodeSpec, write: Writer) -> None:
        self.spec = spec
        self._write = write
        self._driver: Driver | None = None
        self._names = {AddrVec.parse(addr).front.nonce: name for name, addr in spec.peers.items()}
        self._outdated: set[int] = set()
        """Nonces that peers had before they got a new address."""
        self._connections: dict[str, Connection] = {}
        self._sent: dict[str, int] = {}
        self._last_message: dict[str, Message] = {}
        self._last_tid = (spec.incarnation - 1) * _TIDS_OF_A_LIFE
        self._kept: list[tuple[Connection, Message]] = []
        self._keeps = False
        self._reactions: list[_Reaction] = []
        self._aliases: dict[str, str] = {}
        self._stop: Stop | None = None
        self._later: Later | None = None
        self._rhythms: dict[tuple[str, bool], Rhythm] = {}
        self._calls: Counter[str] = Counter()
        self.points = ArmedPoints()
        """The messenger's interceptor, with breakpoints."""
        self.logins = Logins(self, Credentials(spec))
        """The node's logins at monitors, or as a monitor those of its peers."""

    def has_connection(self, peer: str) -> bool:
        """True if there is a connection with the peer."""
        return peer in self._connections

    def last_tid(self, peer: str) -> int:
        """Return the tid of the last message sent to a peer; 0 before the first."""
        return self._sent.get(peer, 0)

    def learn(self, peer: str, addr: str, entity: str = "", routes: Mapping[str, str] | None = None) -> None:
        """Add a peer, or change its address. Open connections stay; later ones from the old address are closed.

        Args:
            peer: name of the peer.
            addr: its addresses.
            entity: its entity name, for a new peer.
            routes: addresses to dial instead of its own, see :attr:`ProgramSpec.routes`.
        """
        self.spec.routes.update(routes or {})
        if entity:
            self.spec.peer_entities[peer] = entity
        nonce = AddrVec.parse(addr).front.nonce
        self._outdated |= {known for known, name in self._names.items() if name == peer and known != nonce}
        self.spec.peers[peer] = addr
        self._names[nonce] = peer

    def moved(self, peer: str, addr: str) -> None:
        """Change a peer's address as :meth:`learn` does, and close connections with its previous nonce."""
        self.learn(peer, addr)
        for connection in list(self.driver.connections.values()):
            former = connection.session.peer_addrs.front.nonce in self._outdated
            if former and self.name_of(connection) == peer:
                self.give_up(connection)

    def forget(self, peer: str) -> None:
        """Remove a peer that leaves the cluster: stop traffic to it and close the sessions with it.

        Raises:
            LocalError: there is no such peer.
        """
        if peer not in self.spec.peers:
            raise LocalError(f"no peer {peer!r}; there are {', '.join(self.spec.peers)}")
        for rhythm in [self._rhythms.pop(key) for key in list(self._rhythms) if key[0] == peer]:
            rhythm.end()
        addrs = AddrVec.parse(self.spec.peers.pop(peer))
        del self.spec.peer_entities[peer]
        self._outdated.add(addrs.front.nonce)
        for connection in list(self.driver.connections.values()):
            if self.name_of(connection) == peer:
                self.give_up(connection)
        for addr in addrs:
            self.spec.routes.pop(f"{addr.host}:{addr.port}", None)

    def attach(self, driver: Driver, stop: Stop | None = None, later: Later | None = None) -> None:
        """Set the messenger, the function that shuts it down, and its host's timer."""
        self._driver = driver
        self._stop = stop
        self._later = later

    @property
    def driver(self) -> Driver:
        """The messenger that the application runs on."""
        assert self._driver is not None
        return self._driver

    @property
    def connections(self) -> Mapping[str, Connection]:
        """Connections by the names of peers."""
        return self._connections

    @property
    def wall_s(self) -> float:
        """Unix time of the host's clock."""
        return self.driver.endpoint.wall_time_s(self.driver.now())

    @property
    def keeps(self) -> bool:
        """True while delivered messages are kept (:meth:`hold`)."""
        return self._keeps

    def give_up(self, connection: Connection) -> None:
        """Mark a connection down and remove it."""
        self._mark_down(connection)
        self._forget(connection)

    def _mark_down(self, connection: Connection) -> None:
        self._calls["silenced"] += connection.state is SessionState.CLOSED
        connection.mark_down()

    # ---- commands

    def auth(self, do: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Run a command of :class:`Logins`.

        Raises:
            LocalError: no such command.
        """
        if do not in Logins.COMMANDS:
            raise LocalError(f"unknown command {do!r} of auth; known: {', '.join(sorted(Logins.COMMANDS))}")
        return getattr(self.logins, do)(**args) or {}

    def connect(self, peer: str, policy: str = "", anonymous: bool = False, alias: str = "") -> None:  # noqa: FBT001, FBT002 - JSON
        """Open a session with a peer; see :meth:`Driver.connect`. Later commands may name it by ``alias``."""
        if alias:
            self._aliases[alias] = peer
            peer = alias
        if anonymous:
            self._connections.pop(peer, None)
        self._connection(peer, policy, anonymous=anonymous)

    def connect_by(self, peer: str, addrs: AddrVec) -> None:
        """Open a session with a peer at the given addresses, or use the present one."""
        peer_type = parse_entity(self.spec.peer_entities[peer]).type
        self._connections[peer] = self.driver.connect(addrs, peer_type)

    def send(
        self,
        peer: str,
        count: int = 1,
        size_bytes: int = 100,
        priority: int = PRIORITY_DEFAULT,
        front_bytes: int = 0,
        middle_bytes: int = 0,
        dials: bool = True,  # noqa: FBT001, FBT002 - JSON
    ) -> None:
        """Send ``count`` messages with data of ``size_bytes``, numbered by their tid.

        With ``dials=False`` nothing is sent unless there is a connection.

        Raises:
            LocalError: there is no such peer, or the messages are more than a node can hold: they are queued in
                one turn, in which the node does nothing else.
        """
        if not 0 <= count <= _TIDS_OF_A_LIFE:
            raise LocalError(f"count = {count}: give 0 to {_TIDS_OF_A_LIFE}")
        total_bytes = count * (size_bytes + front_bytes + middle_bytes)
        if total_bytes > _MOST_BYTES:
            raise LocalError(f"{total_bytes} bytes in one command: give at most {amount(_MOST_BYTES)}")
        if not dials and not self.has_connection(peer):
            return
        connection = self._connection(peer)
        peer = self._aliases.get(peer, peer)
        for _ in range(count):
            self._last_tid += 1
            tid = self._sent[peer] = self._last_tid
            label = f"{self.spec.name}.{self.spec.incarnation} message {tid} ".encode()
            data, front, middle = (_payload(label, size) for size in (size_bytes, front_bytes, middle_bytes))
            message = Message(MessageType.PING, front=front, middle=middle, data=data, tid=tid, priority=priority)
            self._last_message[peer] = message
            if connection.send(message):
                self._record_message("send", connection, {"tid": tid}, message)

    def send_parts(self, peer: str, front: Buffer, middle: Buffer, data: Buffer) -> None:
        """Send one message with these segments, with the next tid."""
        connection = self._connection(peer)
        self._last_tid += 1
        self._sent[peer] = self._last_tid
        message = Message(MessageType.PING, front=front, middle=middle, data=data, tid=self._last_tid)
        self._record_message("send", connection, {"tid": message.tid}, message)
        connection.send(message)

    def send_payload(self, connection: Connection, payload: Payload) -> None:
        """Send a message with a payload, with the next tid."""
        self._last_tid += 1
        message = Message.of(payload, tid=self._last_tid)
        message.encode_front(connection.session.features)
        self._record_message("send", connection, {"tid": message.tid}, message)
        connection.send(message)

    def traffic(
        self,
        peer: str,
        every_ms: float,
        size_bytes: int = 100,
        count: int = 0,
        keepalive: bool = False,  # noqa: FBT001, FBT002 - JSON
    ) -> None:
        """Send a message to a peer at regular intervals, or with ``keepalive`` a KEEPALIVE2 frame.

        Args:
            peer: name of the peer; an earlier schedule for it is replaced.
            every_ms: interval; 0 stops the traffic.
            size_bytes: size of each message's data.
            count: number of messages; 0 for no end.
            keepalive: True to send KEEPALIVE2 frames instead of messages.

        Raises:
            LocalError: there is no such peer, or no timer: in a simulation time belongs to the runner.
        """
        if self._later is None:
            raise LocalError("traffic: nodes have no timer here")
        if peer not in self.spec.peers:
            raise LocalError(f"traffic: no peer {peer!r}; there are {', '.join(self.spec.peers)}")
        if before := self._rhythms.pop((peer, keepalive), None):
            before.end()
        if every_ms > 0:
            beat = partial(self.keepalive, peer) if keepalive else partial(self.send, peer, 1, size_bytes)
            self._rhythms[peer, keepalive] = Rhythm(beat, every_ms / 1000, count, self._later)

    def send_again(self, peer: str) -> None:
        """Send the last message object to the peer once more."""
        connection = self._connection(peer)
        message = self._last_message[self._aliases.get(peer, peer)]
        self._record_message("send", connection, {"tid": message.tid}, message)
        connection.send(message)

    def keepalive(self, peer: str) -> None:
        """Send a KEEPALIVE2 to a peer."""
        self._connection(peer).keepalive()

    def keep_alive(self, peer: str, interval_s: float, timeout_s: float) -> None:
        """Send KEEPALIVE2 frames at regular intervals until the session ends."""
        self._connection(peer).keep_alive(interval_s, timeout_s)

    def mark_down(self, peer: str, keep: bool = False) -> None:  # noqa: FBT001, FBT002 - JSON
        """Mark the session with a peer down; with ``keep``, later commands use the closed connection."""
        connection = self._connection(peer)
        self._mark_down(connection)
        if not keep:
            self._connections.pop(peer, None)

    def shut(self, peer: str, keep: bool = False) -> None:  # noqa: FBT001, FBT002 - JSON
        """Close the session once its queue is drained and acknowledged; ``keep`` as for :meth:`mark_down`."""
        self._connection(peer).begin_shutdown()
        if not keep:
            del self._connections[peer]

    def stop(self, graceful: bool) -> None:  # noqa: FBT001 - JSON
        """Shut the messenger down, and record that once it is done."""
        assert self._stop is not None
        incarnation = self.spec.incarnation
        self._stop(graceful, lambda: self.record("process", action="stop", incarnation=incarnation))

    def on_delivery(self, nth: int, command: str, args: dict[str, Any], every: int = 0) -> None:
        """Run a command while the ``nth`` message from now on is dispatched, and at every ``every``-th after it.

        Raises:
            LocalError: no such command.
        """
        if command not in self.VERBS:
            raise LocalError(f"unknown command {command!r}; known: {', '.join(self.VERBS)}")
        self._reactions.append(_Reaction(nth, command, args, every))

    def hold(self, held: bool) -> None:  # noqa: FBT001 - JSON
        """Keep delivered messages from now on; ``held=False`` releases all of them to the dispatch throttle."""
        self._keeps = held
        if not held:
            kept, self._kept = self._kept, []
            for connection, message in kept:
                connection.release(message)

    def configure(self, options: dict[str, Any]) -> None:
        """Change options of the messenger."""
        self.driver.configure(**options)

    def jump_clock(self, seconds: float) -> None:
        """Step the host's wall clock by a number of seconds, forward or back."""
        endpoint = self.driver.endpoint
        for host in (endpoint, *endpoint.shards.hosts):
            host.wall_offset_s += seconds

    def arm(self, point: str, action: str, nth: int) -> None:
        """Arm ``action`` at the ``nth`` pass of ``point`` from now on."""
        self.points.arm(point, action, nth)

    def disarm(self) -> None:
        """Cancel the armed actions that were not taken yet."""
        self.points.disarm()

    def unblock(self, point: str) -> None:
        """Continue the links that are blocked or stalled at a point, or at any if it is empty."""
        for link_id in self.points.held(point):
            self.driver.unblock(link_id)
        self.driver.pump()  # so that its records precede those of the application's next command

    def hits(self, point: str) -> dict[str, int]:
        """Return the number of armed actions that were taken at a point."""
        wanted = parse_point(point)
        return {"hits": sum(a.link_id is not None for a in self.points.armed if a.point == wanted)}

    def visits(self) -> dict[str, list[tuple[str, str, int]]]:
        """Return how often each action was taken at each point."""
        return {"visits": [(point, action, count) for (point, action), count in self.points.visited.items()]}

    def calls(self) -> dict[str, int]:
        """Return how often the messenger has called this application with each kind of session event.

        ``silenced`` counts the connections that were marked down after their session had closed: the application
        may not have been called with the reason, and the history has no mark_down.
        """
        return dict(self._calls)

    def _connection(self, peer: str, policy: str = "", *, anonymous: bool = False) -> Connection:
        connection = self._connections.get(peer)
        if connection is None:
            name = self._aliases.get(peer, peer)
            if name not in self.spec.peers:
                raise LocalError(f"no peer {name!r}; there are {', '.join(self.spec.peers)}")
            addrs = self._dialled(name)
            peer_type = parse_entity(self.spec.peer_entities[name]).type
            own = POLICIES[policy] if policy else None
            connection = self.driver.connect(addrs, peer_type, own, anonymous=anonymous)
            self._connections[peer] = connection
        return connection

    def _dialled(self, peer: str) -> AddrVec:
        """Return the addresses of a peer that this node dials: with ``v1_only`` those of v1, if there are any."""
        addrs = AddrVec.parse(self.spec.peers[peer])
        if not self.spec.v1_only:
            return addrs
        return AddrVec(tuple(addr for addr in addrs if addr.type is AddressType.LEGACY)) or addrs

    # ---- callbacks of the messenger

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        """Record a message, and keep it while :meth:`hold` says so."""
        self._record_message("deliver", connection, {"tid": message.tid, "seq": message.seq}, message)
        if message.type in AUTH_TYPES and self.logins.take(connection, message):
            return None
        if self._reactions:
            self._react()
        if not self._keeps:
            return None
        self._kept.append((connection, message))
        return True

    def _react(self) -> None:
        for reaction in list(self._reactions):
            reaction.due -= 1
            if reaction.due:
                continue
            if reaction.every:
                reaction.due = reaction.every
            else:
                self._reactions.remove(reaction)
            getattr(self, reaction.command)(**reaction.args)

    def ms_handle_connect(self, connection: Connection) -> None:
        """Log in, if the peer is a monitor."""
        self._calls[EventKind.CONNECT] += 1
        self.logins.opened(connection)

    def ms_handle_accept(self, connection: Connection) -> None:
        """Use the connection for later messages; close it if the peer has another nonce now."""
        self._calls[EventKind.ACCEPT] += 1
        if connection.session.peer_addrs.front.nonce in self._outdated:
            self.give_up(connection)
            return
        if connection.state is not SessionState.CLOSED:  # another dispatcher may have refused it
            self._connections[self.name_of(connection)] = connection
            self.logins.accepted(connection)

    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        """Renew tickets, if the peer rejected them."""
        self._calls[EventKind.REFUSED] += 1
        self.logins.refused(connection, fault)

    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - the trace has both
        """Count the event."""
        self._calls[EventKind.REMOTE_RESET] += 1

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - the trace has it
        """Remove the connection of a session that ended."""
        self._calls[EventKind.RESET] += 1
        self.logins.lost(connection)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        for name, known in list(self._connections.items()):
            if known is connection:
                del self._connections[name]

    # ---- history

    def trace(self, record: TraceRecord) -> None:
        """Write a record of the messenger, with names for links and peers."""
        fields = record.fields  # ours from here on
        if "link" in fields:
            fields["link"] = self._link_name(fields["link"])
        if "session" in fields and "peer" in fields:
            fields["peer"] = self._name_of(fields["peer"])
        self._put(record.time_s, record.kind, fields)

    def record(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - as JSON
        """Write a record of the application."""
        self._put(self.driver.moment_s, kind, fields)

    def _put(self, now: float, kind: str, fields: dict[str, Any]) -> None:
        self._write(now - self.spec.start_s, kind, fields)

    def _record_message(
        self, kind: str, connection: Connection, numbers: dict[str, int], message: Message
    ) -> None:
        self.record(kind, **message_fields(connection, self.name_of(connection), numbers, message))

    def _link_name(self, number: object) -> str:
        restarts = "" if self.spec.incarnation == 1 else f".{self.spec.incarnation}"
        return f"{self.spec.name}{restarts}/{number}"

    def name_of(self, connection: Connection) -> str:
        """Return the peer's node name; its addresses if it is not a node."""
        addrs = connection.session.peer_addrs
        return self._names.get(addrs.front.nonce) or str(addrs)

    def _name_of(self, addrs: object) -> str:
        """Return the node name for addresses; a node is identified by the nonce at their end."""
        text = str(addrs)
        nonce = _LAST_NONCE.search(text)
        return text if nonce is None else self._names.get(int(nonce[1]), text)


def _payload(label: bytes, size_bytes: int) -> bytes:
    """Return bytes that differ between messages, as far as their size allows."""
    return (label * (size_bytes // len(label) + 1))[:size_bytes]
