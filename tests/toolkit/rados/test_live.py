"""Objects of a real cluster, by this client and by Ceph's own, in every mode."""

import asyncio
import errno
import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.messages.osd_op_data import operation, output_of
from messenger.messages.osd_operations import OpCode, OpFlag
from tests.support.aio import on_loop
from tests.support.rados import Clusters, client, pool_of, protocol, refusal
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError
from toolkit.rados.ioctx import ALL_NAMESPACES

pytestmark = [pytest.mark.needs("ceph-osd"), pytest.mark.xdist_group("real_cluster")]

CMP_EQUAL = CMP_STRING = 1
CRC32C = 2
CHECK = 0xE3069283 ^ 0xFFFFFFFF
"""The check value of CRC-32C, its checksum of the digits 1 to 9, without the final xor."""
KINDS = [(3, "crc", "cephx"), (1, "secure", "cephx"), (1, "crc", "none")]


@pytest.fixture(autouse=True, params=Protocol)
def used_protocol(request: pytest.FixtureRequest) -> Iterator[Protocol]:
    """Everything holds with either protocol; on v1 OSDs insist on signed messages."""
    token = protocol.set(request.param)
    yield request.param
    protocol.reset(token)


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_connections_use_the_given_mode_and_protocol(
    kind, real_cluster: Clusters, used_protocol: Protocol
) -> None:
    cluster = real_cluster(*kind)
    async with client(cluster) as rados:
        await (await pool_of(rados)).write_full("mode", b"")
        modes = {connection.connection_mode for connection in rados._messenger.connections.values()}
        assert modes == {ConMode[kind[1].upper()] if used_protocol is Protocol.V2 else ConMode.CRC}
        assert {connection.protocol for connection in rados._messenger.connections.values()} == {used_protocol}
        assert rados.global_id > 0


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_data(kind, real_cluster: Clusters) -> None:
    async with client(real_cluster(*kind)) as rados:
        pool = await pool_of(rados)
        await pool.write_full("data", b"hello")
        await pool.append("data", b" world")
        await pool.write("data", b"J")
        assert await pool.read("data") == b"Jello world"
        assert await pool.read("data", 5, 6) == b"world"
        assert await pool.read("data", 10, 100) == b""
        stat = await pool.stat("data")
        assert stat.size_bytes == 11
        await pool.truncate("data", 5)
        await pool.write("data", b"!", 7)
        await pool.zero("data", 1, 2)
        assert await pool.read("data") == b"J\0\0lo\0\0!"
        assert (await pool.stat("data")).mtime > stat.mtime
        await pool.remove("data")
        with refusal(errno.ENOENT):
            await pool.read("data")
        large = bytes(range(256)) * (1 << 14)
        await pool.write_full("data", memoryview(large))
        assert await pool.read("data") == large


@pytest.mark.parametrize("kind", KINDS[:1])
@on_loop
async def test_checksums_of_data(kind, real_cluster: Clusters) -> None:
    async with client(real_cluster(*kind)) as rados:
        pool = await pool_of(rados)
        await pool.write_full("sums", b"123456789" * 2)

        async def sums(
            chunk_size: int, length: int = 18, offset: int = 0, kind: int = CRC32C, seed: bytes = b"\xff" * 4
        ) -> list[int]:
            extent = {"offset": offset, "length": length, "chunk_size": chunk_size, "type": kind}
            reply = await pool.operate("sums", operation(OpCode.CHECKSUM, seed, **extent))
            found = reply.ops[0].data
            return list(struct.unpack(f"<{len(found) // 4}I", found))

        assert await sums(9) == await sums(9, 27) == [2, CHECK, CHECK]
        assert await sums(0, 9, 9) == [1, CHECK]
        assert await sums(0, 0) == await sums(0, 36)
        assert await sums(9, 9, 18) == await sums(0, 0, 18) == []
        for wrong in ({"chunk_size": 4}, {"chunk_size": 9, "length": 0}, {"chunk_size": 9, "kind": 7}):
            with refusal(errno.EINVAL):
                await sums(**wrong)
        with refusal(errno.EINVAL):
            await sums(9, seed=b"\xff" * 2)


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_attributes_and_omap(kind, real_cluster: Clusters) -> None:
    async with client(real_cluster(*kind)) as rados:
        pool = await pool_of(rados)
        await pool.create("attributes", exclusive=False)
        await pool.setxattr("attributes", "colour", b"blue")
        await pool.setxattr("attributes", "größe", b"")
        assert await pool.getxattr("attributes", "colour") == b"blue"
        assert await pool.getxattrs("attributes") == {"colour": b"blue", "größe": b""}
        await pool.rmxattr("attributes", "colour")
        with refusal(errno.ENODATA):
            await pool.getxattr("attributes", "colour")
        values = {f"key{n:05}": b"%d" % n for n in range(2300)}  # more than an OSD gives at once
        await pool.omap_set("attributes", values | {"other": b""})
        assert await pool.omap_get("attributes", "key") == values
        assert await pool.omap_get_keys("attributes") == [*values, "other"]
        await pool.omap_rm_keys("attributes", list(values)[1:])
        assert await pool.omap_get("attributes") == {"key00000": b"0", "other": b""}
        assert await pool.omap_get_by_keys("attributes", ["other", "none"]) == {"other": b""}
        await pool.omap_set_header("attributes", b"header")
        assert await pool.omap_get_header("attributes") == b"header"
        await pool.omap_clear("attributes")
        assert await pool.omap_get("attributes") == {}


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_ceph_and_the_client_read_each_others_objects(kind, real_cluster: Clusters) -> None:
    cluster = real_cluster(*kind)
    async with client(cluster) as rados:
        pool = await pool_of(rados)
        await pool.write_full("ours", b"written here")
        await pool.setxattr("ours", "k", b"v")
        await pool.omap_set("ours", {"key": b"value"})
        spaced = rados.pool("objects", "space")
        await spaced.write_full("ours", b"another")
        in_pool = ("-p", "objects")
        assert cluster.rados(*in_pool, "get", "ours", "-") == "written here"
        assert cluster.rados(*in_pool, "-N", "space", "get", "ours", "-") == "another"
        assert cluster.rados(*in_pool, "getxattr", "ours", "k") == "v"
        assert "value (5 bytes)" in cluster.rados(*in_pool, "listomapvals", "ours")
        assert " size 12" in cluster.rados(*in_pool, "stat", "ours")
        cluster.rados(*in_pool, "put", "theirs", "-", stdin="written there")
        cluster.rados(*in_pool, "setxattr", "theirs", "k", "w")
        cluster.rados(*in_pool, "setomapval", "theirs", "key", "other")
        assert await pool.read("theirs") == b"written there"
        assert await pool.getxattrs("theirs") == {"k": b"w"}
        assert await pool.omap_get("theirs") == {"key": b"other"}
        listed = {
            (entry.nspace, entry.oid) async for entry in rados.pool("objects", ALL_NAMESPACES).list_objects()
        }
        theirs = json.loads(cluster.rados(*in_pool, "ls", "--all", "--format", "json"))
        assert listed == {(entry["namespace"], entry["name"]) for entry in theirs}
        assert {("", "ours"), ("", "theirs"), ("space", "ours")} <= listed
        assert [entry.oid async for entry in spaced.list_objects()] == ["ours"]
        cluster.rados(*in_pool, "rm", "ours")
        with refusal(errno.ENOENT):
            await pool.stat("ours")


@on_loop
async def test_several_operations_are_done_all_or_none(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        pool = await pool_of(rados)
        await pool.write_full("several", b"as it was")
        await pool.setxattr("several", "k", b"v")
        other_value = operation(OpCode.CMPXATTR, "k", b"w", cmp_op=CMP_EQUAL, cmp_mode=CMP_STRING)
        with refusal(errno.ECANCELED):
            await pool.operate("several", operation(OpCode.WRITEFULL, b"x"), other_value)
        assert await pool.read("several") == b"as it was"
        await pool.operate("several", operation(OpCode.WRITEFULL, b"abc"), operation(OpCode.SETXATTR, "k", b"v"))
        reply = await pool.operate(
            "several",
            operation(OpCode.READ, length=2),
            operation(OpCode.GETXATTR, "none", op_flags=OpFlag.FAILOK),
            operation(OpCode.GETXATTR, "k"),
        )
        assert reply.return_values[1] == -errno.ENODATA
        assert [output_of(op) for op in reply.ops] == [{"data": b"ab"}, {}, {"value": b"v"}]


@on_loop
async def test_methods_of_classes(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        pool = await pool_of(rados)
        await pool.create("class", exclusive=False)
        assert await pool.exec("class", "hello", "say_hello", b"you") == b"Hello, you!"
        with refusal(errno.EOPNOTSUPP):
            await pool.exec("class", "no-such-class", "method")


@on_loop
async def test_locator_keys_place_objects_together(real_cluster: Clusters) -> None:
    cluster = real_cluster(*KINDS[0])
    async with client(cluster) as rados:
        await pool_of(rados)
        keyed = rados.pool("objects", "keyed", locator_key="together")
        for name in "abc":
            await keyed.write_full(name, name.encode())
        assert await keyed.read("b") == b"b"
        listed = [entry async for entry in rados.pool("objects", "keyed").list_objects()]
        assert sorted((entry.oid, entry.locator) for entry in listed) == [(name, "together") for name in "abc"]
        with refusal(errno.ENOENT):
            await rados.pool("objects", "keyed").read("b")
        assert (
            cluster.rados("-p", "objects", "-N", "keyed", "--object-locator", "together", "get", "c", "-") == "c"
        )


@on_loop
async def test_a_watched_object_notifies(real_cluster: Clusters) -> None:
    cluster = real_cluster(*KINDS[0])
    async with client(cluster) as rados, client(cluster) as other:
        pool = await pool_of(rados)
        await pool.create("watched", exclusive=False)
        with refusal(errno.ENOENT):
            await pool.watch("not there")
        async with await pool.watch("watched") as watch, await pool.watch("watched") as second:
            notifying = asyncio.create_task(other.pool("objects").notify("watched", b"wake up"))
            for one, reply in ((watch, b"yes"), (second, b"")):
                notification = await one.get()
                assert (notification.payload, notification.notifier_gid) == (b"wake up", other.global_id)
                await notification.ack(reply)
            me = rados.global_id
            result = await notifying
            assert result.replies == {(me, watch.cookie): b"yes", (me, second.cookie): b""}
            assert result.missed == []
            listed = {(watcher.name.num, watcher.cookie) for watcher in await pool.list_watchers("watched")}
            assert listed == {(me, watch.cookie), (me, second.cookie)}
            theirs = asyncio.create_task(
                asyncio.to_thread(cluster.rados, "-p", "objects", "notify", "watched", "hi")
            )
            for one in (watch, second):
                notification = await one.get()
                assert notification.payload == b"\2\0\0\0hi"
                await notification.ack(b"\1\0\0\0k")
            assert (await theirs).count(f"reply client.{me}") == 2
        assert await pool.list_watchers("watched") == []
        with refusal(errno.ENOTCONN):
            await watch.get()
        assert (await pool.notify("watched", b"anybody?")).replies == {}


@on_loop
async def test_watchers_without_acknowledgement_are_reported(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        pool = await pool_of(rados)
        await pool.create("ignored", exclusive=False)
        async with await pool.watch("ignored") as watch:
            result = await pool.notify("ignored", b"", timeout_s=1)
            assert (result.replies, result.missed) == ({}, [(rados.global_id, watch.cookie)])


@on_loop
async def test_a_removed_object_ends_its_watches(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        pool = await pool_of(rados)
        await pool.create("removed", exclusive=False)
        async with await pool.watch("removed") as watch:
            await pool.remove("removed")
            with refusal(errno.ENOTCONN):
                await watch.get()


@on_loop
async def test_answers_of_the_monitors(real_cluster: Clusters) -> None:
    cluster = real_cluster(*KINDS[0])
    async with client(cluster) as rados:
        assert str(rados.monmap.fsid) == cluster.monitor.fsid
        reply = await rados.command({"prefix": "osd ls", "format": "json"})
        assert json.loads(reply.output) == [0, 1, 2]
        with pytest.raises(RadosError, match=r"osd pool create.*EINVAL|invalid"):
            await rados.create_pool("")
        with refusal(errno.ENOENT):
            await rados.pool("no such pool").read("x")


@on_loop
async def test_commands_for_osds(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        reply = await rados.osd_command(1, {"prefix": "version", "format": "json"})
        assert json.loads(reply.output)["version"].count(".") == 2
        with refusal(errno.EINVAL):
            await rados.osd_command(1, {"prefix": "no such command"})
        with refusal(errno.ENXIO):
            await rados.osd_command(77, {"prefix": "version"})


@on_loop
async def test_the_next_monitor_is_dialled_when_one_does_not_answer(real_cluster: Clusters) -> None:
    monitor = real_cluster(1, "crc", "none").monitor
    async with Rados.connect(["v2:127.0.0.1:1", monitor.addr_v2], config=Config.only_mode(ConMode.CRC)) as rados:
        assert str(rados.monmap.fsid) == monitor.fsid


@on_loop
async def test_tickets_are_renewed_during_requests(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        pool = await pool_of(rados)
        before = rados._auth.tickets[EntityType.OSD]
        rados._auth.ticket_refused(before)
        rados._monitors.renew_tickets(time.time())
        await pool.write_full("renewed", b"x")
        await rados.command({"prefix": "osd ls"})
        assert rados._auth.tickets[EntityType.OSD] is not before
        assert await pool.read("renewed") == b"x"


@on_loop
async def test_refused_client_gets_an_error(real_cluster: Clusters, tmp_path: Path) -> None:
    cluster = real_cluster(*KINDS[0])
    wrong = tmp_path / "keyfile"
    wrong.write_text("AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==")  # K1 of docs/protocol.md §10
    with pytest.raises(RadosError, match="EACCES") as refused:
        async with client(cluster, keyring=wrong):
            pass
    assert refused.value.errno == errno.EACCES
    with refusal(errno.EOPNOTSUPP):
        async with client(cluster, keyring=None):
            pass
    with refusal(errno.ETIMEDOUT):
        async with Rados.connect("v2:127.0.0.1:1", timeout_s=0.5):
            pass


def test_connect_refuses_invalid_addresses() -> None:
    for addrs in ([], "v2:nowhere", "[]"):
        with pytest.raises(LocalError):
            Rados.connect(addrs)


@on_loop
async def test_caps_are_kept(real_cluster: Clusters) -> None:
    cluster = real_cluster(*KINDS[0])
    async with client(cluster) as rados:
        await (await pool_of(rados)).write_full("readable", b"data")
        command = {"prefix": "auth get-or-create", "entity": "client.reader"}
        reply = await rados.command({**command, "caps": ["mon", "allow r", "osd", "allow r pool=objects"]})
        (cluster.monitor.directory / "reader").write_bytes(reply.output)
    async with client(cluster, entity="client.reader", keyring=cluster.monitor.directory / "reader") as reader:
        assert await reader.pool("objects").read("readable") == b"data"
        with refusal(errno.EPERM):
            await reader.pool("objects").write_full("readable", b"")


@on_loop
async def test_closed_client_fails_all_requests(real_cluster: Clusters) -> None:
    async with client(real_cluster(*KINDS[0])) as rados:
        pool = await pool_of(rados)
        await pool.create("end", exclusive=False)
        watch = await pool.watch("end")
        waiting = asyncio.create_task(watch.get())
        notifying = asyncio.create_task(pool.notify("end"))
        while len(watch._lingering) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        notification = await waiting
        assert notification.payload == b""
    with refusal(errno.ESHUTDOWN):
        await notifying
    with refusal(errno.ESHUTDOWN):
        await watch.get()
    with refusal(errno.ESHUTDOWN):
        await pool.read("end")
