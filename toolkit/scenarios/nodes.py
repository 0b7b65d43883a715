"""What a node of a scenario is, and the application that runs on it; the same on every backend."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.service import CephxService
from messenger.cephx.tickets import ServiceKey
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection, Driver
from messenger.errors import Fault, LocalError
from messenger.messages.message import PRIORITY_DEFAULT, Message
from messenger.messages.types import MessageType
from messenger.outputs import TraceRecord
from messenger.session.policy import POLICIES, PolicySet

SERVICE_SECRET_ID = 1

_ENTITY_NUMBER = re.compile("-?[0-9]{1,18}")
"""What surely fits into the 64 bits of the wire."""


@dataclass(slots=True, kw_only=True)
class NodeSpec:
    """Everything a node needs to know to start, as plain JSON values."""

    name: str
    entity: str
    """Messenger name as TYPE.NUM, for example ``osd.1``."""
    addr: str
    """Own address; a client that does not listen has port 0."""
    policy: str
    """Policy towards every peer."""
    mode: str
    """Connection mode: crc or secure."""
    service_key: str
    """The key all nodes share, in its text form; authentication is cephx with tickets made from it."""
    peers: dict[str, str]
    """Addresses of all nodes by name."""
    peer_entities: dict[str, str]
    """Messenger names of all nodes by name."""
    routes: dict[str, str] = field(default_factory=dict)
    """HOST:PORT to dial instead of a peer's address, by the peer's name."""
    options: dict[str, Any] = field(default_factory=dict)
    """Config options other than their defaults."""
    workers: int = 0
    """Other shards that run the data phases; 0: everything on one."""
    incarnation: int = 1
    seed: int = 0
    start_s: float = 0.0
    """Monotonic time at which the run began."""

    def as_json(self) -> dict[str, Any]:
        """The JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The spec in a JSON object.

        Raises:
            LocalError: a field is missing or unknown.
        """
        try:
            return cls(**values)
        except TypeError as error:
            raise LocalError(f"node spec: {error}") from None

    @property
    def listens(self) -> bool:
        """Whether peers can dial it."""
        return bool(self.addrs.front.port)

    @property
    def addrs(self) -> AddrVec:
        """Own addresses."""
        return AddrVec.parse(self.addr)

    @property
    def entity_name(self) -> EntityName:
        """Own messenger name."""
        return parse_entity(self.entity)

    @property
    def key(self) -> CryptoKey:
        """The shared key."""
        return CryptoKey.from_base64(self.service_key)

    def auth_client(self) -> MintingClient:
        """How this node authenticates to others: by tickets it makes with the shared key."""
        entity = self.entity_name
        service_key = ServiceKey(SERVICE_SECRET_ID, self.key)
        services = {parse_entity(text).type: service_key for text in self.peer_entities.values()}
        return MintingClient(AuthName(entity.type, str(entity.num)), entity.num, services)

    def auth_server(self) -> CephxService:
        """How others authenticate here."""
        return CephxService(self.entity_name.type, {SERVICE_SECRET_ID: self.key})

    def policies(self) -> PolicySet:
        """The same policy towards everybody."""
        if self.policy not in POLICIES:
            raise LocalError(f"unknown policy {self.policy!r}; known: {', '.join(POLICIES)}")
        return PolicySet(POLICIES[self.policy])

    def config(self) -> Config:
        """Options with the connection mode applied."""
        try:
            mode = ConMode[self.mode.upper()]
        except KeyError:
            raise LocalError(f"unknown mode {self.mode!r}; known: crc, secure") from None
        try:
            return Config.only_mode(mode, **self.options)
        except TypeError as error:
            raise LocalError(f"node options: {error}") from None


def parse_entity(text: str) -> EntityName:
    """A messenger name from ``TYPE.NUM``.

    Raises:
        LocalError: it is not one.
    """
    label, _, number = text.partition(".")
    if not _ENTITY_NUMBER.fullmatch(number):
        raise LocalError(f"entity {text!r} is not TYPE.NUMBER, as in osd.1")
    return EntityName(EntityType.from_label(label), int(number))


Writer = Callable[[float, str, dict[str, Any]], None]
"""Takes a history record of this node: time in seconds since the run began, kind, fields."""


class NodeApp(Dispatcher):
    """Sends numbered messages and writes down what it sends, receives and is told.

    Args:
        spec: who it is.
        write: takes history records.
    """

    def __init__(self, spec: NodeSpec, write: Writer) -> None:
        self.spec = spec
        self._write = write
        self._driver: Driver | None = None
        self._names = {AddrVec.parse(addr).front.nonce: name for name, addr in spec.peers.items()}
        self._connections: dict[str, Connection] = {}
        self._sent: dict[str, int] = {}

    def attach(self, driver: Driver) -> None:
        """Use this messenger from now on."""
        self._driver = driver

    @property
    def driver(self) -> Driver:
        """The messenger it runs on."""
        assert self._driver is not None
        return self._driver

    # ---- commands

    def connect(self, peer: str) -> None:
        """Open a session with a peer."""
        self._connection(peer)

    def send(self, peer: str, count: int, size_bytes: int) -> None:
        """Send ``count`` messages with payloads of ``size_bytes``, numbered by their tid."""
        connection = self._connection(peer)
        for _ in range(count):
            tid = self._sent[peer] = self._sent.get(peer, 0) + 1
            payload = _payload(self.spec.name, self.spec.incarnation, tid, size_bytes)
            self._record_message("send", connection, {"tid": tid, "priority": PRIORITY_DEFAULT}, payload)
            connection.send(Message(MessageType.PING, data=payload, tid=tid))

    def keepalive(self, peer: str) -> None:
        """Ask a peer for a sign of life."""
        self._connection(peer).keepalive()

    def mark_down(self, peer: str) -> None:
        """End the session with a peer."""
        self._connection(peer).mark_down()
        del self._connections[peer]

    def snapshot(self) -> dict[str, Any]:
        """The endpoint's counters."""
        return self.driver.endpoint.snapshot()

    def _connection(self, peer: str) -> Connection:
        connection = self._connections.get(peer)
        if connection is None:
            addrs = AddrVec.parse(self.spec.peers[peer])
            peer_type = parse_entity(self.spec.peer_entities[peer]).type
            connection = self._connections[peer] = self.driver.connect(addrs, peer_type)
        return connection

    # ---- what the messenger tells

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        """Write down a message."""
        seen = {"tid": message.tid, "seq": message.seq}
        self._record_message("deliver", connection, seen, bytes(message.data))

    def ms_handle_accept(self, connection: Connection) -> None:
        """Remember who came, to be able to answer."""
        self._connections[self._peer_name(connection)] = connection

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:  # noqa: ARG002 - the trace has it
        """Forget a session that ended."""
        peer = self._peer_name(connection)
        if self._connections.get(peer) is connection:
            del self._connections[peer]

    # ---- history

    def trace(self, record: TraceRecord) -> None:
        """Take a line of the core's history, with names for its numbers."""
        fields = dict(record.fields)
        if "link" in fields:
            fields["link"] = self._link_name(fields["link"])
        if "session" in fields and "peer" in fields:
            fields["peer"] = self._name_of(str(fields["peer"]))
        self._put(record.time_s, record.kind, fields)

    def record(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - as JSON
        """Write a record of the application's own."""
        self._put(self.driver.now(), kind, fields)

    def _put(self, now: float, kind: str, fields: dict[str, Any]) -> None:
        self._write(now - self.spec.start_s, kind, fields)

    def _record_message(self, kind: str, connection: Connection, numbers: dict[str, int], payload: bytes) -> None:
        self.record(
            kind,
            session=connection.session.id,
            peer=self._peer_name(connection),
            **numbers,
            digest=hashlib.blake2b(payload, digest_size=8).hexdigest(),
            size=len(payload),
        )

    def _link_name(self, number: object) -> str:
        restarts = "" if self.spec.incarnation == 1 else f".{self.spec.incarnation}"
        return f"{self.spec.name}{restarts}/{number}"

    def _peer_name(self, connection: Connection) -> str:
        return self._name_of(str(connection.session.peer_addrs))

    def _name_of(self, addrs: str) -> str:
        """A peer's node name; every node has a nonce of its own."""
        try:
            return self._names.get(AddrVec.parse(addrs).front.nonce, addrs)
        except LocalError:
            return addrs


def _payload(sender: str, incarnation: int, tid: int, size_bytes: int) -> bytes:
    """Bytes that tell messages apart, whatever their size."""
    label = f"{sender}.{incarnation} message {tid} ".encode()
    return (label * (size_bytes // len(label) + 1))[:size_bytes]
