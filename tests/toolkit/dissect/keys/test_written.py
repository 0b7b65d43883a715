"""Key logs of messengers and of a proxy between them, which has keyrings alone; also with a real ceph-mon."""

from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import ConMode
from messenger.cephx.keyring import Keyring
from messenger.config import Config
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.keylog import LinkSecrets, parse_key_log
from messenger.link import Protocol
from messenger.messenger import Messenger
from messenger.session.policy import LOSSY_CLIENT
from tests.support.aio import messenger, on_loop
from tests.support.cephx import ADMIN
from tests.support.node import SECRET_ID, SHARED_KEY
from toolkit.cluster.daemons import Mode
from toolkit.cluster.monitor import RealMonitor
from toolkit.dissect.keys import KeyBook
from toolkit.faults.proxy import FaultProxy

HOST = "127.0.0.1"
OSD = EntityType.OSD
WAYS = [(Protocol.V2, ConMode.CRC), (Protocol.V2, ConMode.SECURE), (Protocol.V1, ConMode.CRC)]


def secrets_in(text: str) -> list[LinkSecrets]:
    """The keys of links; an observer knows when a key was made, the two ends do not keep that."""
    return [entry for entry in parse_key_log(text) if isinstance(entry, LinkSecrets)]


def same(one: LinkSecrets, other: LinkSecrets) -> bool:
    """The same link with the same keys."""
    keys = one.session_key, other.session_key
    assert keys[0].type == keys[1].type
    return (one.protocol, one.link, keys[0].secret, one.connection_secret) == (
        other.protocol,
        other.link,
        keys[1].secret,
        other.connection_secret,
    )


@pytest.mark.parametrize(("protocol", "mode"), WAYS)
@on_loop
async def test_a_proxy_with_the_services_key_writes_what_the_ends_write(
    protocol: Protocol, mode: ConMode, tmp_path: Path
) -> None:
    lines: list[str] = []
    log = tmp_path / "keys.log"
    async with messenger(2, mode=mode) as server:
        address = await server.bind(protocol=protocol)
        book = KeyBook(services={OSD: {SECRET_ID: SHARED_KEY}})
        with FaultProxy("a", "b", (HOST, address.port), keys=book, key_log=log) as proxy:

            def through_proxy(_addr: EntityAddr) -> tuple[str, int]:
                return HOST, proxy.port

            async with messenger(1, mode=mode, route=through_proxy, key_log=lines.append) as client:
                await client.connect(address, OSD).ready(10.0)
    (mine,), (theirs,) = secrets_in("".join(lines)), secrets_in(log.read_text())
    assert same(mine, theirs)
    assert (mine.protocol, len(mine.connection_secret)) == (protocol, 64 * (mode is ConMode.SECURE))


@pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")
@pytest.mark.parametrize("mode", ["crc", "secure"])
@on_loop
async def test_the_keyring_of_a_client_opens_its_link_to_a_real_monitor(
    real_monitor: Callable[[Mode], RealMonitor], mode: Mode, tmp_path: Path
) -> None:
    monitor = real_monitor(mode)
    key = Keyring.load(monitor.keyring).key(ADMIN)
    lines: list[str] = []
    log = tmp_path / "keys.log"
    book = KeyBook({ADMIN: key})
    auth = CephxClient(ADMIN, key)
    with FaultProxy("a", "mon", (HOST, monitor.port_v2), keys=book, key_log=log) as proxy:

        def through_proxy(_addr: EntityAddr) -> tuple[str, int]:
            return HOST, proxy.port

        config = Config.only_mode(ConMode[mode.upper()])
        async with Messenger(auth_client=auth, config=config, route=through_proxy, key_log=lines.append) as client:
            await client.connect(monitor.addr_v2, EntityType.MON, LOSSY_CLIENT).ready(10.0)
    (mine,), (theirs,) = secrets_in("".join(lines)), secrets_in(log.read_text())
    assert same(mine, theirs)
    for ticket in auth.tickets.values():
        assert book.session_key(ticket.blob) == ticket.session_key
