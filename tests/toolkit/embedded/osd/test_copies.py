"""Copies of objects of other OSDs: whole, of one version, and in the order of the client's requests."""

import asyncio
import errno
from collections.abc import Callable

import pytest

from messenger.messages.osd_objects import NOSNAP, ObjectLocator
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_operations import OpCode, OsdOp
from tests.support.aio import on_loop
from tests.support.embedded import StandIn
from toolkit.cluster import Cluster
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError

pytestmark = pytest.mark.xdist_group("embedded")

POOL_ID = 1
OBJECTS = [f"source{number}" for number in range(8)]
"""Placed on different OSDs."""


def copy_of(oid: str, version: int = 0) -> OsdOp:
    locator = ObjectLocator(POOL_ID)
    return operation(OpCode.COPY_FROM, oid, locator, snapid=NOSNAP, src_version=version, flags=0)


@on_loop
async def test_copies_are_whole_and_in_order(msgrlab_cluster: Callable[..., Cluster]) -> None:
    standing = StandIn(msgrlab_cluster("embedded", shared=True, check=True))
    async with Rados.connect(standing.monitor.addr_v2, keyring=standing.keyring) as rados:
        pool = rados.pool("objects")
        omap = {f"key{number:04}": b"value" for number in range(2500)}  # more than an OSD returns at once
        for oid in OBJECTS:
            await pool.write_full(oid, oid.encode())
            await pool.omap_set(oid, omap)
            written = [asyncio.create_task(pool.operate("copied", copy_of(oid)))]
            written += [asyncio.create_task(pool.append("copied", b"+")) for _ in range(3)]
            await asyncio.gather(*written)
            assert await pool.read("copied") == oid.encode() + b"+++"
            assert await pool.omap_get("copied") == omap
        for oid, version, number in ((OBJECTS[0], 1, errno.ERANGE), (OBJECTS[1], 1 << 40, errno.EOVERFLOW)):
            with pytest.raises(RadosError) as refused:
                await pool.operate("copied", copy_of(oid, version))
            assert refused.value.errno == number
        with pytest.raises(RadosError) as refused:
            await pool.operate("copied", copy_of("none"))
        assert refused.value.errno == errno.ENOENT
