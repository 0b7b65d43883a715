"""The services with a real ceph-mon at the other end, over both protocols."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from messenger.cephx.client import CephxClient
from messenger.cephx.keyring import Keyring
from messenger.config import Config
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import Feature
from messenger.dispatch import Dispatcher
from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.messenger import Messenger
from messenger.session.policy import PolicySet
from messenger.session.session import SessionState
from tests.support.aio import on_loop, until
from toolkit.cluster.monitor import RealMonitor

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
ADMIN = AuthName(EntityType.CLIENT, "admin")
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def monitor() -> Iterator[RealMonitor]:
    with RealMonitor("crc secure") as running:
        yield running


def client(monitor: RealMonitor, **options: object) -> Messenger:
    """Return a messenger like that of librados."""
    return Messenger(
        auth_client=CephxClient(ADMIN, Keyring.load(monitor.keyring).key(ADMIN)),
        dispatcher=Dispatcher(),
        policies=PolicySet.for_messenger("librados"),
        config=Config(**options),  # type: ignore[arg-type]
    )


def addr_of(monitor: RealMonitor, protocol: Protocol) -> str:
    return monitor.addr_v1 if protocol is Protocol.V1 else monitor.addr_v2


@pytest.mark.parametrize("protocol", Protocol)
def test_a_monitor_answers_regular_keepalives(protocol: Protocol, monitor: RealMonitor) -> None:
    @on_loop
    async def run() -> None:
        async with client(monitor) as messenger:
            connection = messenger.connect(addr_of(monitor, protocol), EntityType.MON)
            await connection.ready(TIMEOUT_S)
            assert connection.has_feature(Feature.MSGR_KEEPALIVE2)
            connection.keep_alive(0.02, 5.0)
            await until(lambda: connection.last_keepalive_ack)
            first = connection.last_keepalive_ack
            await until(lambda: connection.last_keepalive_ack > first)
            assert connection.last_keepalive_ack == pytest.approx(time.time(), abs=5.0)
            await connection.shutdown()
            assert connection.state is SessionState.CLOSED

    run()


@pytest.mark.parametrize("protocol", Protocol)
def test_injected_failures_reset_a_lossy_connection_to_a_monitor(protocol: Protocol, monitor: RealMonitor) -> None:
    @on_loop
    async def run() -> None:
        async with client(monitor) as messenger:
            connection = messenger.connect(addr_of(monitor, protocol), EntityType.MON)
            await connection.ready(TIMEOUT_S)
            messenger.endpoint.configure(ms_inject_socket_failures=3)
            connection.keep_alive(0.01, 0.0)
            await until(lambda: connection.state is SessionState.CLOSED)
            assert connection.last_fault is not None
            assert connection.last_fault.reason in {FaultReason.EOF, FaultReason.SOCKET}
            messenger.endpoint.configure(ms_inject_socket_failures=0)
            await messenger.connect(addr_of(monitor, protocol), EntityType.MON).ready(TIMEOUT_S)

    run()


@on_loop
async def test_anonymous_connections_to_a_monitor(monitor: RealMonitor) -> None:
    async with client(monitor) as messenger:
        connections = [
            messenger.connect(monitor.addr_v2, EntityType.MON, anonymous=True),
            messenger.connect(monitor.addr_v2, EntityType.MON, anonymous=True),
        ]
        await asyncio.gather(*(connection.ready(TIMEOUT_S) for connection in connections))
        connections[0].mark_down()
        connections[1].keepalive()
        await until(lambda: connections[1].last_keepalive_ack)
        assert messenger.perf_dump()["AsyncMessenger::Worker-0"]["msgr_active_connections"] == 1
