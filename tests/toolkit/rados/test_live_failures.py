"""OSDs that go, come back and are cut off: what was acknowledged stays, and nothing is done twice."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from messenger.errors import FaultReason
from messenger.session.session import SessionState
from tests.support.aio import on_loop, until, within
from tests.support.rados import Clusters, client, pool_of, refusal
from toolkit.cluster.osd import RealOsd
from toolkit.cluster.real import RealCluster
from toolkit.rados.client import Rados
from toolkit.rados.ioctx import IoCtx
from toolkit.rados.placement import object_hash

pytestmark = [pytest.mark.needs("ceph-osd"), pytest.mark.xdist_group("real_cluster")]

THREE = (3, "crc", "cephx")


class Load:
    """Objects written and one object appended to, by several writers at once, as long as it lasts."""

    def __init__(self, pool: IoCtx, prefix: str) -> None:
        self._pool = pool
        self._prefix = prefix
        self.written: dict[str, bytes] = {}
        """What was acknowledged."""
        self.appended = 0
        self._ending = False

    async def _write(self, writer: int) -> None:
        number = 0
        while not self._ending:
            name, data = f"{self._prefix}-{writer}-{number}", b"%d" % number * 50
            await self._pool.write_full(name, data)
            self.written[name] = data
            number += 1

    async def _append(self) -> None:
        while not self._ending:
            await self._pool.append(self._prefix, b"%08d" % self.appended)
            self.appended += 1

    @property
    def count(self) -> int:
        return len(self.written) + self.appended

    async def more(self, count: int) -> None:
        """Wait until so much more was acknowledged."""
        target = self.count + count
        await until(lambda: self.count >= target, 20.0)

    async def check(self) -> None:
        """Everything acknowledged is there, once."""
        for name, data in self.written.items():
            assert await self._pool.read(name) == data, name
        expected = b"".join(b"%08d" % number for number in range(self.appended))
        assert await self._pool.read(self._prefix) == expected

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        async with asyncio.TaskGroup() as writers:
            for writer in range(4):
                writers.create_task(self._write(writer))
            writers.create_task(self._append())
            await self.more(20)
            yield self
            await self.more(50)
            self._ending = True


def primary_of(cluster: RealCluster, rados: Rados, oid: str) -> RealOsd:
    pool_id = next(number for number, name in rados.osdmap.pool_names.items() if name == "objects")
    placement = rados.placement
    return cluster.osds[placement.mapping(placement.pg_of(pool_id, object_hash(oid))).acting_primary]


async def restart(cluster: RealCluster, osd: RealOsd, end: Callable[[RealOsd], None]) -> None:
    """End an OSD, wait until the map has it down, start it again and wait until it serves."""
    await asyncio.to_thread(end, osd)
    await asyncio.to_thread(cluster.ceph, "osd", "down", str(osd.id))
    osd.start()
    await asyncio.to_thread(osd.wait_until_up)


@on_loop
async def test_an_osd_that_restarts_loses_nothing(real_cluster: Clusters) -> None:
    cluster = real_cluster(*THREE)
    async with client(cluster) as rados:
        load = Load(await pool_of(rados), "restarted")
        async with load.running():
            await restart(cluster, primary_of(cluster, rados, "restarted"), RealOsd.stop)
        await load.check()


@on_loop
async def test_an_osd_that_crashes_loses_nothing(real_cluster: Clusters) -> None:
    cluster = real_cluster(*THREE)
    async with client(cluster) as rados:
        load = Load(await pool_of(rados), "crashed")
        async with load.running():
            await restart(cluster, primary_of(cluster, rados, "crashed"), RealOsd.kill)
        await load.check()


@on_loop
async def test_osd_wrongly_marked_down_loses_no_write(real_cluster: Clusters) -> None:
    cluster = real_cluster(*THREE)
    async with client(cluster) as rados:
        load = Load(await pool_of(rados), "marked")
        async with load.running():
            primary = primary_of(cluster, rados, "marked")
            await rados.command({"prefix": "osd down", "ids": [str(primary.id)]})
        await load.check()


def cut(rados: Rados) -> int:
    """Break every byte stream to an OSD, as a network would; returns how many."""
    messenger = rados._messenger
    cut_off = 0
    for connection in list(messenger.connections.values()):
        session = connection.session
        if session.peer_type.label == "osd" and session.state is SessionState.READY:
            messenger.endpoint.link_failed(session.link.id, FaultReason.SOCKET, "cut by the test", messenger.now())
            cut_off += 1
    messenger.pump()
    return cut_off


@on_loop
async def test_broken_connections_lose_and_repeat_no_write(real_cluster: Clusters) -> None:
    async with client(real_cluster(*THREE)) as rados:
        load, cuts = Load(await pool_of(rados), "cut"), 0
        async with load.running():
            for _ in range(30):
                cuts += cut(rados)
                await load.more(5)
        assert cuts > 30
        await load.check()


@on_loop
async def test_a_watch_survives(real_cluster: Clusters) -> None:
    cluster = real_cluster(*THREE)

    async def notifies(pool: IoCtx, watch) -> None:
        notifying = asyncio.create_task(pool.notify("watched", b"still there?", timeout_s=20))
        await (await watch.get()).ack(b"yes")
        assert list((await notifying).replies.values()) == [b"yes"]

    async with client(cluster) as rados, client(cluster) as other:
        pool, notifying_pool = await pool_of(rados), other.pool("objects")
        await pool.create("watched", exclusive=False)
        async with await pool.watch("watched") as watch:
            await notifies(notifying_pool, watch)
            cut(rados)
            await until(lambda: watch.settled)
            await notifies(notifying_pool, watch)
            await restart(cluster, primary_of(cluster, rados, "watched"), RealOsd.stop)
            await rados.wait_for_newest_map()
            await until(lambda: watch.settled)
            await notifies(notifying_pool, watch)


@on_loop
async def test_writes_wait_for_the_flag_of_the_map(real_cluster: Clusters) -> None:
    async with client(real_cluster(*THREE)) as rados:
        pool = await pool_of(rados)
        await pool.write_full("paused", b"before")

        async def flag(prefix: str) -> None:
            await rados.command({"prefix": prefix, "key": "pause"})
            await rados.wait_for_newest_map()

        await flag("osd set")
        writing: Awaitable[None] = asyncio.create_task(pool.write_full("paused", b"after"))
        reading = asyncio.create_task(pool.read("paused"))
        done, _ = await asyncio.wait([writing, reading], timeout=0.3)
        assert not done
        await flag("osd unset")
        await writing
        assert await reading in (b"before", b"after")


@on_loop
async def test_requests_to_a_pool_that_goes_end(real_cluster: Clusters) -> None:
    async with client(real_cluster(*THREE)) as rados:
        pool = await rados.create_pool("going", 4)
        await pool.write_full("x", b"")
        await rados.command({"prefix": "osd set", "key": "pause"})
        await rados.wait_for_newest_map()
        writing = asyncio.create_task(pool.write_full("x", b"never"))
        remove = {
            "prefix": "osd pool delete",
            "pool": "going",
            "pool2": "going",
            "yes_i_really_really_mean_it": True,
        }
        await rados.command(remove)
        with refusal(errno.ENOENT):
            await writing
        await rados.command({"prefix": "osd unset", "key": "pause"})
        await rados.wait_for_newest_map()
        with refusal(errno.ENOENT):
            await pool.read("x")


@on_loop
async def test_the_monitor_may_go_away_for_a_while(real_cluster: Clusters) -> None:
    async with client(real_cluster(*THREE)) as rados:
        pool = await pool_of(rados)
        messenger = rados._messenger
        (monitor,) = (one for one in messenger.connections.values() if one.session.peer_type.label == "mon")
        asking = asyncio.create_task(rados.command({"prefix": "osd ls"}))
        await asyncio.sleep(0)
        messenger.endpoint.link_failed(monitor.session.link.id, FaultReason.SOCKET, "cut", messenger.now())
        messenger.pump()
        assert (await asking).output.split() == [b"0", b"1", b"2"]
        before = rados.osdmap.epoch
        await rados.command({"prefix": "osd set", "key": "noout"})
        await rados.wait_for_epoch(before + 1)
        await rados.command({"prefix": "osd unset", "key": "noout"})
        await pool.write_full("still", b"there")


@partial(within, 120.0)  # daemons start and stop five times
async def test_client_obeys_and_acknowledges_backoffs_of_a_peering_osd(real_cluster: Clusters) -> None:
    cluster = real_cluster(*THREE)

    def seen() -> set[str]:
        logs = [path.read_text(errors="replace") for path in cluster.monitor.directory.glob("osd.*.log")]
        words = ("block", "ack-block", "unblock")
        return {word for word in words if any(f" {word} id " in log for log in logs)}

    async with client(cluster) as rados:
        load = Load(await pool_of(rados), "peering")
        async with load.running():
            for _ in range(5):  # whether anybody writes at the right moment is a matter of luck
                await restart(cluster, primary_of(cluster, rados, "peering"), RealOsd.stop)
                if len(seen()) == 3:
                    break
        await load.check()
    assert seen() == {"block", "ack-block", "unblock"}
