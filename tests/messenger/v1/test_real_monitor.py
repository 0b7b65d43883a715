"""v1 sessions with a real ceph-mon: no authorizer, then MAuth, then messages (docs/protocol.md §3.3, §5.6)."""

import asyncio
import time
from collections.abc import Iterator
from random import Random

import pytest

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthClient
from messenger.cephx.keyring import Keyring
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.none import NoneClient
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import Feature, has_feature
from messenger.dispatch import Dispatcher
from messenger.errors import FaultError, FaultReason
from messenger.link import Protocol
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.message import Message
from messenger.messages.mon import MMonGetMap, MMonSubscribe, Subscription
from messenger.messages.monmap import MMonMap
from messenger.messages.osd import MOSDMap
from messenger.messenger import Connection, Messenger
from messenger.session.policy import LOSSY_CLIENT
from messenger.session.session import SessionState
from tests.support.aio import until
from toolkit.cluster.monitor import RealMonitor

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
ADMIN = AuthName(EntityType.CLIENT, "admin")
TIMEOUT_S = 10.0


class MonitorClient(Dispatcher):
    """Talks to a monitor over v1; messages are waited for by their payload's type."""

    def __init__(self, auth: AuthClient, addr: str, **options: object) -> None:
        self.auth = auth
        self.arrived: list[Message] = []
        self._something = asyncio.Event()
        self.messenger = Messenger(auth_client=auth, dispatcher=self)
        for name, value in options.items():
            setattr(self.messenger.endpoint.config, name, value)
        self.connection: Connection = self.messenger.connect(addr, EntityType.MON, LOSSY_CLIENT)

    def ms_dispatch(self, _connection: object, message: Message) -> None:
        self.arrived.append(message)
        self._something.set()

    async def answer(self, kind: type) -> object:
        async with asyncio.timeout(TIMEOUT_S):
            while not any(isinstance(message.payload, kind) for message in self.arrived):
                self._something.clear()
                await self._something.wait()
        found = next(message for message in self.arrived if isinstance(message.payload, kind))
        self.arrived.remove(found)
        return found.payload

    async def log_in(self) -> MonAuthClient:
        mauth = MonAuthClient(self.auth, Random(1))
        request = mauth.start(time.time())
        while request is not None:
            self.connection.send(MAuth(request.protocol, request.payload))
            reply = await self.answer(MAuthReply)
            assert isinstance(reply, MAuthReply)
            request = mauth.handle(
                reply.protocol, reply.result, reply.global_id, bytes(reply.result_bl), time.time()
            )
        return mauth


@pytest.fixture(scope="module")
def monitor() -> Iterator[RealMonitor]:
    """One that takes auth none too."""
    options = {"auth_service_required": "cephx, none", "auth_cluster_required": "cephx, none"}
    with RealMonitor("crc", options=options) as running:
        yield running


def identity(method: str, monitor: RealMonitor) -> AuthClient:
    return NoneClient(ADMIN) if method == "none" else CephxClient(ADMIN, Keyring.load(monitor.keyring).key(ADMIN))


@pytest.mark.parametrize("options", [{}, {"ms_crc_data": False}], ids=["as usual", "without data crc"])
@pytest.mark.parametrize("method", ["none", "cephx"])
def test_a_session_opens_and_messages_flow(method: str, options: dict[str, object], monitor: RealMonitor) -> None:
    async def run() -> None:
        client = MonitorClient(identity(method, monitor), monitor.addr_v1, **options)
        async with client.messenger:
            await client.connection.ready(TIMEOUT_S)
            session = client.connection.session
            assert session.link is not None
            assert session.link.PROTOCOL is Protocol.V1
            assert session.lossy
            assert has_feature(session.features, Feature.MSG_AUTH)
            mauth = await client.log_in()
            assert mauth.authenticated
            client.connection.send(MMonGetMap())
            monmap = await client.answer(MMonMap)
            assert isinstance(monmap, MMonMap)
            assert str(monmap.monmap.fsid) == monitor.fsid
            client.connection.send(MMonSubscribe({"osdmap": Subscription()}))
            assert isinstance(await client.answer(MOSDMap), MOSDMap)
            assert str(session.peer_name) == "mon.0"
            client.connection.keepalive()
            await until(lambda: session.keepalive_acked_s)
            assert session.skipped_messages == session.old_messages == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("nonce", FaultReason.WRONG_TARGET),
        ("protocol", FaultReason.V2_PEER),
        ("type", FaultReason.PROTOCOL_VERSION),
    ],
)
def test_mismatch_with_the_monitor_gives_its_fault_reason(
    changed: str, reason: FaultReason, monitor: RealMonitor
) -> None:
    addr, peer_type = monitor.addr_v1, EntityType.MON
    if changed == "nonce":
        addr = addr.removesuffix("/0") + "/7"
    elif changed == "protocol":
        addr = monitor.addr_v2.replace("v2:", "v1:")
    else:
        peer_type = EntityType.MGR  # whose protocol version is 0, not 15

    async def run() -> None:
        auth = NoneClient(ADMIN)
        async with Messenger(auth_client=auth) as messenger:
            connection = messenger.connect(addr, peer_type, LOSSY_CLIENT)
            with pytest.raises(FaultError) as raised:
                await connection.ready(TIMEOUT_S)
            assert raised.value.fault.reason is reason
            assert connection.state is SessionState.CLOSED

    asyncio.run(run())


def test_session_ends_with_the_monitor() -> None:
    async def run() -> None:
        with RealMonitor("crc") as own:
            client = MonitorClient(identity("cephx", own), own.addr_v1)
            async with client.messenger:
                await client.connection.ready(TIMEOUT_S)
                await client.log_in()
                own.stop()
                await until(lambda: client.connection.state is SessionState.CLOSED)

    asyncio.run(run())
