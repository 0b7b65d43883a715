"""One endpoint under test, and everything that comes out of it."""

from collections import deque
from random import Random

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import AuthClient, AuthMethod, AuthServer, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.negotiation import ClientAuth
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.service import CephxService
from messenger.cephx.tickets import ServiceKey
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.endpoint import Endpoint
from messenger.errors import FaultReason
from messenger.interception import Interceptor
from messenger.messages.message import PRIORITY_DEFAULT, Message
from messenger.messages.types import MessageType
from messenger.outputs import (
    CloseLink,
    Deliver,
    Escaped,
    EventKind,
    OpenLink,
    PauseLink,
    SessionEvent,
    ShutLink,
    TraceRecord,
    WriteLink,
)
from messenger.session.policy import LOSSLESS_PEER, Policy, PolicySet
from messenger.session.session import Session

WALL_OFFSET_S = 1_700_000_000.0
SECRET_ID = 1
SHARED_KEY = CryptoKey(KeyType.AES, bytes(range(16)))
OTHER_KEY = CryptoKey(KeyType.AES, bytes(range(1, 17)))
A_ADDR = "v2:10.0.0.1:6801/1"
B_ADDR = "v2:10.0.0.2:6802/2"
CLIENT_ADDR = "any:0.0.0.0:0/77"

_MAX_DRAINS = 20_000

LinkOutput = OpenLink | WriteLink | ShutLink | CloseLink | PauseLink


class Clock:
    """The time of all nodes of a test, in monotonic seconds."""

    def __init__(self) -> None:
        self.now = 0.0


def cephx_client(name: EntityName, key: CryptoKey = SHARED_KEY, secret_id: int = SECRET_ID) -> MintingClient:
    """Authenticates to any type of peer by tickets made with ``key``."""
    services = dict.fromkeys(EntityType, ServiceKey(secret_id, key))
    return MintingClient(AuthName(name.type, str(name.num)), max(name.num, 0), services)


def cephx_server(name: EntityName) -> CephxService:
    """Accepts tickets made with the shared key."""
    return CephxService(name.type, {SECRET_ID: SHARED_KEY})


def auth_pair(auth: str, name: EntityName) -> tuple[AuthClient, AuthServer]:
    """Both halves of an authentication method, ``none`` or ``cephx``."""
    if auth == "none":
        return NoneClient(AuthName(name.type, str(name.num)), max(name.num, 0)), NoneServer()
    return cephx_client(name), cephx_server(name)


def prefer_cephx(node: "Node") -> None:
    """A node has both methods, and tries cephx first."""
    name = node.endpoint.name
    methods = {AuthMethod.CEPHX: cephx_client(name), AuthMethod.NONE: auth_pair("none", name)[0]}
    node.endpoint.me.auth_client = ClientAuth(methods)


def new_endpoint(
    name: EntityName,
    addrs: str,
    *,
    auth: str = "none",
    mode: ConMode | None = None,
    policy: Policy = LOSSLESS_PEER,
    seed: int = 0,
    tracing: bool = True,
    interceptor: Interceptor | None = None,
    **options: object,
) -> Endpoint:
    """An endpoint with the same policy towards everybody; one connection mode only, if it is given."""
    client, server = auth_pair(auth, name)
    return Endpoint(
        name,
        AddrVec.parse(addrs),
        rng=Random(f"{seed} {name}"),
        auth_client=client,
        auth_server=server,
        policies=PolicySet(policy),
        config=Config(**options) if mode is None else Config.only_mode(mode, **options),  # type: ignore[arg-type]
        wall_offset_s=WALL_OFFSET_S,
        tracing=tracing,
        interceptor=interceptor,
    )


def numbered(number: int, size_bytes: int = 8, priority: int = PRIORITY_DEFAULT) -> Message:
    """A message identified by its tid and, from 8 bytes on, by its data."""
    data = (b"%08d" % number * (size_bytes // 8 + 1))[:size_bytes]
    return Message(MessageType.PING, data=data, tid=number, priority=priority)


class Node:
    """An endpoint with a clock; records deliveries, events and history, and hands on what concerns links."""

    def __init__(self, endpoint: Endpoint, clock: Clock | None = None) -> None:
        self.endpoint = endpoint
        self.clock = clock or Clock()
        self.delivered: list[tuple[Session, Message]] = []
        self.events: list[SessionEvent] = []
        self.log: list[EventKind | int] = []
        """Events, and deliveries by their tid, in the order the application sees them."""
        self.trace: list[TraceRecord] = []
        self.escaped: list[str] = []
        """Exceptions of code around the core."""
        self.outbox: deque[LinkOutput] = deque()
        """What a transport has to do."""
        self.hoarding = False
        """Keep delivered messages against the throttle instead of releasing them at once."""
        self.held: deque[tuple[Session, Message]] = deque()
        """Those that are kept."""

    def __repr__(self) -> str:
        return f"<Node {self.endpoint.name}>"

    @property
    def now(self) -> float:
        return self.clock.now

    def pump(self) -> bool:
        """Take everything the endpoint puts out; whether that was anything."""
        for drains in range(_MAX_DRAINS):
            outputs = self.endpoint.drain(self.now)
            if not outputs:
                return drains > 0
            for output in outputs:
                if isinstance(output, Deliver):
                    self.delivered += [(output.session, message) for message in output.messages]
                    self.log += [message.tid for message in output.messages]
                    if self.hoarding:
                        self.held += [(output.session, message) for message in output.messages]
                    else:
                        self.endpoint.release(output.size_bytes, self.now, output.session, len(output.messages))
                elif isinstance(output, SessionEvent):
                    self.events.append(output)
                    self.log.append(output.kind)
                elif isinstance(output, TraceRecord):
                    self.trace.append(output)
                elif isinstance(output, Escaped):
                    self.escaped.append(str(output.error))
                else:
                    self.outbox.append(output)
        raise AssertionError(f"{self} does not come to rest")

    def run(self, seconds: float) -> None:
        """Let time pass for this node alone, timer by timer."""
        end_s = self.now + seconds
        self.pump()
        while (due_s := self.endpoint.next_deadline()) is not None and due_s <= end_s:
            self.clock.now = max(self.now, due_s)
            self.endpoint.timer(self.now)
            self.pump()
        self.clock.now = end_s

    # ---- what an application does

    def connect(self, addrs: str, peer_type: EntityType = EntityType.OSD, policy: Policy | None = None) -> Session:
        return self.endpoint.connect(AddrVec.parse(addrs), peer_type, self.now, policy)

    def send(self, session: Session, *numbers: int, size_bytes: int = 8) -> None:
        for number in numbers:
            assert self.endpoint.send(session, numbered(number, size_bytes), self.now)

    def release(self, count: int = 1 << 30) -> None:
        """Release so many of the kept messages, the oldest first."""
        for _ in range(min(count, len(self.held))):
            session, message = self.held.popleft()
            assert message.held_bytes is not None
            self.endpoint.release(message.held_bytes, self.now, session)

    def mark_down(self, session: Session) -> None:
        self.endpoint.mark_down(session, self.now)

    # ---- what was recorded

    @property
    def tids(self) -> list[int]:
        """The numbers of the delivered messages, in order."""
        return [message.tid for _, message in self.delivered]

    @property
    def kinds(self) -> list[EventKind]:
        """The session events, in order."""
        return [event.kind for event in self.events]

    @property
    def faults(self) -> list[FaultReason]:
        """Return the reasons for which links of this node broke, in order."""
        return [reason for reason, _ in self._faults()]

    @property
    def fault_texts(self) -> list[str]:
        """Return this node's texts about its broken links, in order."""
        return [text for _, text in self._faults()]

    def _faults(self) -> list[tuple[FaultReason, str]]:
        """Each with its text, which must be one clear line."""
        assert self.endpoint.tracing, "faults are read from the history"
        records = [record.fields for record in self.trace if record.kind == "fault"]
        faults = [(FaultReason[str(fields["reason"])], str(fields["detail"])) for fields in records]
        for _, text in faults:
            assert text.isprintable(), repr(text[:300])
            assert 0 < len(text) < 300, f"{len(text)} characters: {text[:300]}"
        return faults

    def frames(self, direction: str) -> list[str]:
        """Tags of the frames sent (``tx``) or received (``rx``), in order."""
        records = [record.fields for record in self.trace if record.kind == "frame"]
        return [str(fields["tag"]) for fields in records if fields["direction"] == direction]


def new_node(addr: str = A_ADDR, **options: object) -> Node:
    """osd.1 alone, with options of :func:`new_endpoint`."""
    return Node(new_endpoint(EntityName(EntityType.OSD, 1), addr, **options))  # type: ignore[arg-type]
