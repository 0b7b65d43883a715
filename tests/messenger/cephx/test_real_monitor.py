"""The client's side of cephx with a real ceph-mon, over v2 (docs/protocol.md §5.5, §5.6, §5.8)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient, MonitorExchange
from messenger.cephx.exchange import AuthOpening, AuthResult, ClientExchange
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import MAuthRequest
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.none import NoneClient
from messenger.cephx.refusal import RefusedError
from messenger.cephx.rotating import RotatingKeyring
from messenger.cephx.structures import AuthMode, Prelude, RequestHeader, TicketBlob
from messenger.cephx.tickets import Ticket, open_ticket
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.denc.layout import encoded
from messenger.dispatch import Dispatcher
from messenger.errors import FaultError
from messenger.messages.fields import encode_paxos
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.messenger import Messenger
from messenger.session.policy import LOSSY_CLIENT
from tests.support.cephx import ADMIN, AES256K, HOUR_S
from toolkit.cluster.monitor import Mode, RealMonitor

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
Monitors = Callable[[Mode], RealMonitor]
AUTH, MON, OSD, MGR = (EntityType[name] for name in ("AUTH", "MON", "OSD", "MGR"))
TIMEOUT_S = 10.0
OSD_7 = AuthName(OSD, "7")
Reply = tuple[int, int, int, bytes]


class Session(Dispatcher):
    """One v2 session with the monitor, and MAuth messages over it."""

    def __init__(self, messenger: Messenger, addr: str) -> None:
        self._replies: asyncio.Queue[Reply] = asyncio.Queue()
        self.messenger = messenger
        messenger.dispatcher = self
        self.connection = messenger.connect(addr, MON, LOSSY_CLIENT)

    @property
    def result(self) -> AuthResult:
        link = self.connection.session.link
        assert link is not None
        assert link.auth_result is not None
        return link.auth_result

    async def ask(self, request: MAuthRequest) -> Reply:
        front = Encoder()
        encode_paxos(front, 0)
        front.u32(request.protocol)
        front.blob(request.payload)
        front.u32(0)
        self.connection.send(Message(MessageType.AUTH, front=front.getvalue()))
        async with asyncio.timeout(TIMEOUT_S):
            return await self._replies.get()

    async def renew(self, client: MonAuthClient, now_s: float) -> list[str]:
        """Send all requests that are due; returns the first bytes of each."""
        kinds = []
        request = client.due(now_s)
        while request is not None:
            kinds.append(request.payload[:2].hex())
            request = client.handle(*await self.ask(request), now_s)
        return kinds

    def ms_dispatch(self, _connection, message: Message) -> None:
        if message.type == MessageType.AUTH_REPLY:
            front = Decoder(message.front)
            self._replies.put_nowait((front.u32(), front.i32(), front.u64(), front.blob()))


def with_session(
    monitor: RealMonitor, auth, use: Callable[[Session], Awaitable[None]], name: EntityName | None = None
) -> None:
    async def run() -> None:
        async with Messenger(name, auth_client=auth) as messenger:
            session = Session(messenger, monitor.addr_v2)
            await session.connection.ready(TIMEOUT_S)
            await use(session)

    asyncio.run(run())


def admin(monitor: RealMonitor) -> CephxClient:
    return CephxClient(ADMIN, Keyring.load(monitor.keyring).key(ADMIN))


def osd(monitor: RealMonitor) -> CephxClient:
    text = monitor.ceph("auth", "get-or-create-key", str(OSD_7), "mon", "allow profile osd", "osd", "allow *")
    return CephxClient(OSD_7, CryptoKey.from_base64(text.strip()))


@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_renewal_over_an_established_session(real_monitor: Monitors, mode: Mode) -> None:
    """Also of the AUTH ticket, which answers the challenge of the handshake once more."""
    client = admin(real_monitor(mode))

    async def use(session: Session) -> None:
        mauth = MonAuthClient(client, Random(1), established=session.result)
        now_s = time.time()
        assert await session.renew(mauth, now_s) == []
        for later_s, requests in ((0.8 * HOUR_S, ["0002"]), (60 * HOUR_S, ["0001", "0002"])):
            old = dict(client.tickets)
            assert await session.renew(mauth, now_s + later_s) == requests
            renewed = {service for service in old if client.tickets[service] != old[service]}
            assert renewed == ({MON, OSD, MGR} if len(requests) == 1 else {AUTH, MON, OSD, MGR})
            assert client.services_to_renew(now_s + later_s) == 0
        assert client.global_id == session.result.global_id

    with_session(real_monitor(mode), client, use)


def test_rotating_keys_open_the_tickets_for_the_service(real_monitor: Monitors) -> None:
    monitor = real_monitor("crc")
    client, daemon, keyring = admin(monitor), osd(monitor), RotatingKeyring(OSD)

    async def fetch(session: Session) -> None:
        mauth = MonAuthClient(daemon, Random(1), established=session.result, rotating=keyring)
        assert await session.renew(mauth, time.time()) == ["0004"]

    async def nothing(_session: Session) -> None:
        pass

    with_session(monitor, daemon, fetch, EntityName(OSD, 7))
    with_session(monitor, client, nothing)
    assert len(keyring.secrets) == 3
    assert not keyring.needs_refresh(time.time())
    for holder in (client, daemon):
        ticket = holder.tickets[OSD]
        info = open_ticket(ticket.blob, keyring.secrets)
        assert info.session_key == ticket.session_key
        assert (info.ticket.name, info.ticket.global_id) == (holder.name, holder.global_id)
        assert Decoder(info.ticket.caps.caps).string() == "allow *"
        validity_s = info.ticket.expires.to_seconds() - info.ticket.created.to_seconds()
        assert validity_s == pytest.approx(HOUR_S)


BAD_REQUESTS = [
    (encoded(RequestHeader(0x800)), 22),
    (b"", 1),
    (b"\1", 1),
    (encoded(RequestHeader(0x100)) + b"\3", 1),
    (encoded(RequestHeader(0x200)) + b"\1", 13),
    (encoded(RequestHeader(0x400)), 13),
]
"""As in test_mauth.py, which holds our monitor to the same."""


def test_errnos_of_bad_requests(real_monitor: Monitors) -> None:
    client = admin(real_monitor("crc"))

    async def use(session: Session) -> None:
        for payload, errno in BAD_REQUESTS:
            protocol, result, global_id, _ = await session.ask(MAuthRequest(2, payload))
            assert (protocol, result, global_id) == (2, -errno, client.global_id), payload
        ticket = client.tickets[AUTH]
        forged = replace(ticket, blob=TicketBlob(ticket.blob.secret_id, bytes(96)))
        for offset, old_ticket, errno in ((0, None, 13), (1, ticket, 13), (0, forged, 13), (0, ticket, 0)):
            proof = client.prove(session.result.server_challenge + offset, old_ticket, 0x20, Random(1))
            assert (await session.ask(MAuthRequest(2, proof)))[1] == -errno

    with_session(real_monitor("crc"), client, use)


# ---- reclaiming a global_id


def log_in(monitor: RealMonitor, client, name: EntityName | None = None) -> None:
    async def nothing(_session: Session) -> None:
        pass

    with_session(monitor, client, nothing, name)


def test_reclaim(real_monitor: Monitors) -> None:
    client = admin(real_monitor("crc"))
    log_in(real_monitor("crc"), client)
    first_id, first = client.global_id, client.tickets[AUTH]
    log_in(real_monitor("crc"), client)
    assert client.global_id == first_id
    assert client.tickets[AUTH] != first


class Claimant(CephxClient):
    """Claims a global_id with a ticket of the test's choice."""

    claim: tuple[int, Ticket | None] = (0, None)

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng) -> ClientExchange:
        exchange = MonitorExchange(self, wall_time_s, rng)
        claimed, exchange._old_ticket = self.claim
        introduction = encoded(Prelude(AuthMode.MON, self.name, claimed))
        exchange.start = lambda: AuthOpening(2, introduction)  # type: ignore[method-assign]
        return exchange


@pytest.mark.parametrize(
    ("claims_own_id", "ticket", "errno"),
    [
        (True, "own", None),
        (True, "none", "EACCES"),
        (True, "forged", "EACCES"),
        (True, "another's", "EACCES"),
        (False, "own", "EINVAL"),
    ],
)
def test_claims(real_monitor: Monitors, claims_own_id, ticket: str, errno: str | None) -> None:
    monitor = real_monitor("crc")
    client, other = admin(monitor), osd(monitor)
    log_in(monitor, client)
    log_in(monitor, other, EntityName(OSD, 7))
    own = client.tickets[AUTH]
    forged = replace(own, blob=TicketBlob(own.blob.secret_id, bytes(96)))
    tickets = {"own": own, "none": None, "forged": forged, "another's": other.tickets[AUTH]}
    claimant = Claimant(ADMIN, client.key)
    claimant.claim = client.global_id if claims_own_id else 0, tickets[ticket]
    if errno is None:
        log_in(monitor, claimant)
        assert claimant.global_id == client.global_id
        return
    with pytest.raises(FaultError, match=errno):
        log_in(monitor, claimant)


# ---- refused clients


def guest(monitor: RealMonitor, *caps: str) -> CephxClient:
    text = monitor.ceph("auth", "get-or-create-key", "client.capless", *caps)
    return CephxClient(AuthName.parse("client.capless"), CryptoKey.from_base64(text.strip()))


def test_no_caps_at_the_monitors(real_monitor: Monitors) -> None:
    monitor = real_monitor("crc")
    with pytest.raises(FaultError, match="EACCES"):
        log_in(monitor, guest(monitor, "osd", "allow r"))


@pytest.mark.parametrize("key_type", [KeyType.AES, AES256K])
@pytest.mark.parametrize("name", ["client.admin", "client.nobody"])
def test_wrong_key_and_unknown_entity(real_monitor: Monitors, name: str, key_type: KeyType) -> None:
    with pytest.raises(FaultError, match="EACCES"):
        log_in(real_monitor("crc"), CephxClient(AuthName.parse(name), CryptoKey.generate(Random(4), 0, key_type)))


def test_method_that_is_not_allowed(real_monitor: Monitors) -> None:
    with pytest.raises(FaultError, match="EOPNOTSUPP; the peer allows cephx"):
        log_in(real_monitor("crc"), NoneClient(ADMIN))


def test_no_ticket_before_the_monitor_was_asked(real_monitor: Monitors) -> None:
    client = admin(real_monitor("crc"))
    with pytest.raises(RefusedError, match="has no ticket for osd"):
        client.exchange(OSD, time.time(), Random(1)).start()
