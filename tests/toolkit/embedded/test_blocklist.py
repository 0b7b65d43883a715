"""OSDs do not serve clients on the blocklist, until their entry ends."""

import errno
from collections.abc import Callable

import pytest

from messenger.messages.osd_op_data import operation
from messenger.messages.osd_operations import OpCode
from tests.support.aio import on_loop
from tests.support.embedded import StandIn
from toolkit.cluster import Cluster
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError

pytestmark = pytest.mark.xdist_group("embedded")


def client(standing: StandIn) -> Rados:
    addrs = standing.monitor.addr_v2
    return Rados.connect(addrs, keyring=standing.keyring)


@on_loop
async def test_clients_on_the_blocklist_are_refused(msgrlab_cluster: Callable[..., Cluster]) -> None:
    standing = StandIn(msgrlab_cluster("embedded", shared=True, check=True))
    async with client(standing) as rados, client(standing) as other:
        pool = rados.pool("objects")
        await pool.write_full("a", b"before")
        await pool.watch("a")
        (watcher,) = await pool.list_watchers("a")
        addr = str(watcher.addr).removeprefix("v2:")

        await other.command({"prefix": "osd blocklist", "blocklistop": "add", "addr": addr, "expire": 1000})
        await other.pool("objects").stat("a")  # with the new map, which the OSD then has, too
        for op in (operation(OpCode.WRITEFULL, b"after"), operation(OpCode.READ)):
            with pytest.raises(RadosError) as refused:
                await pool.operate("a", op)
            assert refused.value.errno == errno.ESHUTDOWN
        assert await other.pool("objects").list_watchers("a") == []
        assert await other.pool("objects").read("a") == b"before"

        await other.command({"prefix": "osd blocklist", "blocklistop": "rm", "addr": addr})
        await other.pool("objects").stat("a")
        await pool.write_full("a", b"after")
