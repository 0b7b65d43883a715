"""The application that runs on a node of a scenario; the same on every backend."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from messenger.denc.address import AddressType, AddrVec
from messenger.denc.codec import Buffer
from messenger.dispatch import Dispatcher
from messenger.driver import Connection, Driver
from messenger.errors import Fault, LocalError
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

_TIDS_OF_A_LIFE = 1_000_000
"""A node that comes back counts on from here: no number means two messages, however empty they are."""

_LAST_NONCE = re.compile(r"/([0-9]{1,10})]?$")

Writer = Callable[[float, str, dict[str, Any]], None]
"""Takes a history record of this node: time in seconds since the run began, kind, fields."""

Stop = Callable[[bool, Callable[[], None]], None]
"""Shuts a messenger down, gracefully or not, and says when that is done."""


@dataclass(slots=True)
class _Reaction:
    """A command to be carried out while a message is dispatched."""

    due: int
    """At which delivery from now on."""
    command: str
    args: dict[str, Any]
    every: int
    """Again after so many more; 0: once."""


class NodeApp(Inside, Dispatcher):
    """Sends numbered messages and records what it sends and receives, and its events.

    Args:
        spec: what it is to be.
        write: takes history records.
    """

    VERBS = (
        *("connect", "send", "send_again", "keepalive", "keep_alive", "mark_down", "shut", "stop", "hold"),
        *("on_delivery", "configure", "jump_clock", "limit_descriptors", "limit_memory", "learn", "moved", "auth"),
        *("forget", "arm", "disarm", "unblock", "hits", "visits", "use_up_nonces", "own_address"),
        "fail_queue_pair",
        *("perf_dump", "snapshot", "session", "sessions", "resources", "holdings", "traffic", "calls"),
    )
    """Methods that are commands, also over the control channel of a process."""

    def __init__(self, spec: NodeSpec, write: Writer) -> None:
        self.spec = spec
        self._write = write
        self._driver: Driver | None = None
        self._names = {AddrVec.parse(addr).front.nonce: name for name, addr in spec.peers.items()}
        self._outdated: set[int] = set()
        """Nonces of addresses that peers no longer have."""
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
        """Its interceptor."""
        self.logins = Logins(self, Credentials(spec))
        """What it says to monitors, or says as one."""

    def has_connection(self, peer: str) -> bool:
        """True if there is a connection with a peer."""
        return peer in self._connections

    def last_tid(self, peer: str) -> int:
        """The number of the message sent last to a peer; 0 before the first."""
        return self._sent.get(peer, 0)

    def learn(self, peer: str, addr: str, entity: str = "", routes: Mapping[str, str] | None = None) -> None:
        """A peer has another address now; what was opened with the old one stays, what comes late does not.

        Args:
            peer: which.
            addr: where it is.
            entity: its messenger name, of one that was not there before.
            routes: where to dial instead of its addresses, see :attr:`ProgramSpec.routes`.
        """
        self.spec.routes.update(routes or {})
        if entity:
            self.spec.peer_entities[peer] = entity
        nonce = AddrVec.parse(addr).front.nonce
        self._outdated |= {known for known, name in self._names.items() if name == peer and known != nonce}
        self.spec.peers[peer] = addr
        self._names[nonce] = peer

    def moved(self, peer: str, addr: str) -> None:
        """As :meth:`learn`; and end connections to the peer's former life: no peer has that nonce any more."""
        self.learn(peer, addr)
        for connection in list(self.driver.connections.values()):
            former = connection.session.peer_addrs.front.nonce in self._outdated
            if former and self.name_of(connection) == peer:
                self.give_up(connection)

    def forget(self, peer: str) -> None:
        """A peer leaves the cluster: send it nothing more, and end the sessions with it.

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
        """Use this messenger from now on; ``stop`` is how it is shut down, ``later`` its host's timer."""
        self._driver = driver
        self._stop = stop
        self._later = later

    @property
    def driver(self) -> Driver:
        """The messenger it runs on."""
        assert self._driver is not None
        return self._driver

    @property
    def connections(self) -> Mapping[str, Connection]:
        """The connections it has, by the names of peers."""
        return self._connections

    @property
    def wall_s(self) -> float:
        """Unix time by its host's clock."""
        return self.driver.endpoint.wall_time_s(self.driver.now())

    @property
    def keeps(self) -> bool:
        """True while it keeps what arrives."""
        return self._keeps

    def give_up(self, connection: Connection) -> None:
        """End a connection."""
        self._mark_down(connection)
        self._forget(connection)

    def _mark_down(self, connection: Connection) -> None:
        self._calls["silenced"] += connection.state is SessionState.CLOSED
        connection.mark_down()

    # ---- commands

    def auth(self, do: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Carry out one of the commands of :class:`Logins`.

        Raises:
            LocalError: no such command.
        """
        if do not in Logins.COMMANDS:
            raise LocalError(f"unknown command {do!r} of auth; known: {', '.join(sorted(Logins.COMMANDS))}")
        return getattr(self.logins, do)(**args) or {}

    def connect(self, peer: str, policy: str = "", anonymous: bool = False, alias: str = "") -> None:  # noqa: FBT001, FBT002 - JSON
        """Open a session with a peer; see :meth:`Driver.connect`. Commands find it by ``alias`` as well."""
        if alias:
            self._aliases[alias] = peer
            peer = alias
        if anonymous:
            self._connections.pop(peer, None)
        self._connection(peer, policy, anonymous=anonymous)

    def connect_by(self, peer: str, addrs: AddrVec) -> None:
        """Open a session with a peer at some of its addresses, or take the one that there is with it."""
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

        Unless it ``dials``, nothing is sent where there is no connection any more.
        """
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
        """Send one message with such parts, numbered like all others."""
        connection = self._connection(peer)
        self._last_tid += 1
        self._sent[peer] = self._last_tid
        message = Message(MessageType.PING, front=front, middle=middle, data=data, tid=self._last_tid)
        self._record_message("send", connection, {"tid": message.tid}, message)
        connection.send(message)

    def say(self, connection: Connection, payload: Payload) -> None:
        """Send a message with a meaning, numbered like all others."""
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
        """Send a message to a peer every so many milliseconds, or with ``keepalive`` ask for signs of life.

        Args:
            peer: to whom; replaces an earlier schedule for the same peer.
            every_ms: 0: no more.
            size_bytes: of each message.
            count: so many in all; 0: for good.
            keepalive: KEEPALIVE2 frames instead of messages.

        Raises:
            LocalError: there is no timer here; time of simulations is the runner's.
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
        """Send the message that was sent last once more: the same object."""
        connection = self._connection(peer)
        message = self._last_message[self._aliases.get(peer, peer)]
        self._record_message("send", connection, {"tid": message.tid}, message)
        connection.send(message)

    def keepalive(self, peer: str) -> None:
        """Ask a peer for a sign of life."""
        self._connection(peer).keepalive()

    def keep_alive(self, peer: str, interval_s: float, timeout_s: float) -> None:
        """Ask the peer for a sign of life at regular times, until the session ends."""
        self._connection(peer).keep_alive(interval_s, timeout_s)

    def mark_down(self, peer: str, keep: bool = False) -> None:  # noqa: FBT001, FBT002 - JSON
        """End the session with a peer; with ``keep``, commands go on with the ended one."""
        connection = self._connection(peer)
        self._mark_down(connection)
        if not keep:
            self._connections.pop(peer, None)

    def shut(self, peer: str, keep: bool = False) -> None:  # noqa: FBT001, FBT002 - JSON
        """End the session with a peer once what is queued has been acknowledged; ``keep`` as above."""
        self._connection(peer).begin_shutdown()
        if not keep:
            del self._connections[peer]

    def stop(self, graceful: bool) -> None:  # noqa: FBT001 - JSON
        """Shut the messenger down, and write so once that is done."""
        assert self._stop is not None
        incarnation = self.spec.incarnation
        self._stop(graceful, lambda: self.record("process", action="stop", incarnation=incarnation))

    def on_delivery(self, nth: int, command: str, args: dict[str, Any], every: int = 0) -> None:
        """While the ``nth`` message from now on is dispatched, carry out a command; again at every so many more.

        Raises:
            LocalError: no such command.
        """
        if command not in self.VERBS:
            raise LocalError(f"unknown command {command!r}; known: {', '.join(self.VERBS)}")
        self._reactions.append(_Reaction(nth, command, args, every))

    def hold(self, held: bool) -> None:  # noqa: FBT001 - JSON
        """Keep what arrives from now on, or be done with all that was kept."""
        self._keeps = held
        if not held:
            kept, self._kept = self._kept, []
            for connection, message in kept:
                connection.release(message)

    def configure(self, options: dict[str, Any]) -> None:
        """Change options."""
        self.driver.configure(**options)

    def jump_clock(self, seconds: float) -> None:
        """The host's wall clock is set that much forward or back."""
        endpoint = self.driver.endpoint
        for host in (endpoint, *endpoint.shards.hosts):
            host.wall_offset_s += seconds

    def arm(self, point: str, action: str, nth: int) -> None:
        """Take ``action`` when the conversation comes to ``point`` for the ``nth`` time from now on."""
        self.points.arm(point, action, nth)

    def disarm(self) -> None:
        """Cancel the armed actions that have not struck yet."""
        self.points.disarm()

    def unblock(self, point: str) -> None:
        """Let what is blocked or stalled go on."""
        for link_id in self.points.held(point):
            self.driver.unblock(link_id)
        self.driver.pump()  # what comes of it is written down before what the application does next

    def hits(self, point: str) -> dict[str, int]:
        """Number of armings of a point that have taken effect."""
        wanted = parse_point(point)
        return {"hits": sum(a.link_id is not None for a in self.points.armed if a.point == wanted)}

    def visits(self) -> dict[str, list[tuple[str, str, int]]]:
        """How often each action was taken at each point."""
        return {"visits": [(point, action, count) for (point, action), count in self.points.visited.items()]}

    def calls(self) -> dict[str, int]:
        """How often the messenger has called this application with each kind of session event.

        ``silenced`` counts the connections that were marked down when their session was over already: of how it
        ended the application may have heard nothing, and the history has no mark_down.
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
        """The addresses of a peer that are good for this node."""
        addrs = AddrVec.parse(self.spec.peers[peer])
        if not self.spec.v1_only:
            return addrs
        return AddrVec(tuple(addr for addr in addrs if addr.type is AddressType.LEGACY)) or addrs

    # ---- callbacks of the messenger

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        """Write down a message; keep it, if everything is to be kept."""
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
        """Log in, where there is a monitor."""
        self._calls[EventKind.CONNECT] += 1
        self.logins.opened(connection)

    def ms_handle_accept(self, connection: Connection) -> None:
        """Remember the connection for later answers; end it if it belongs to a former life of the peer."""
        self._calls[EventKind.ACCEPT] += 1
        if connection.session.peer_addrs.front.nonce in self._outdated:
            self.give_up(connection)
            return
        if connection.state is not SessionState.CLOSED:  # another dispatcher may have refused it
            self._connections[self.name_of(connection)] = connection
            self.logins.accepted(connection)

    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        """Perhaps other tickets are needed."""
        self._calls[EventKind.REFUSED] += 1
        self.logins.refused(connection, fault)

    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - the trace has both
        """Count it."""
        self._calls[EventKind.REMOTE_RESET] += 1

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - the trace has it
        """Forget a session that ended."""
        self._calls[EventKind.RESET] += 1
        self.logins.lost(connection)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        for name, known in list(self._connections.items()):
            if known is connection:
                del self._connections[name]

    # ---- history

    def trace(self, record: TraceRecord) -> None:
        """Take a line of the core's history, with names for its numbers."""
        fields = record.fields  # ours from here on
        if "link" in fields:
            fields["link"] = self._link_name(fields["link"])
        if "session" in fields and "peer" in fields:
            fields["peer"] = self._name_of(fields["peer"])
        self._put(record.time_s, record.kind, fields)

    def record(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - as JSON
        """Write a record of the application's own."""
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
        """What scenarios call the peer of a connection."""
        addrs = connection.session.peer_addrs
        return self._names.get(addrs.front.nonce) or str(addrs)

    def _name_of(self, addrs: object) -> str:
        """A peer's node name; every node has a nonce of its own, which is what its addresses end in."""
        text = str(addrs)
        nonce = _LAST_NONCE.search(text)
        return text if nonce is None else self._names.get(int(nonce[1]), text)


def _payload(label: bytes, size_bytes: int) -> bytes:
    """Bytes that distinguish messages, whatever their size."""
    return (label * (size_bytes // len(label) + 1))[:size_bytes]
