"""The objecter with a map, and with monitors and OSDs that a test scripts."""

import asyncio
import errno
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from messenger.denc.address import AddrVec
from messenger.errors import DecodeError
from messenger.messages.message import Message
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_client import BackoffOp, MOSDBackoff, MWatchNotify, NotifyOp
from messenger.messages.osd_objects import HObject, ObjectLocator, RequestRedirect
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, RequestFlag
from messenger.messages.osdmap import OSDMap, OsdState
from messenger.messages.osdmap_incremental import Incremental
from messenger.messages.pool import PoolFlag
from messenger.messages.types import MessageType
from tests.support.aio import on_loop
from tests.support.rados import refusal
from toolkit.rados.errors import RadosError
from toolkit.rados.ioctx import IoCtx
from toolkit.rados.objecter import Objecter
from toolkit.rados.placement import Placement, object_hash

IMAGE = (Path(__file__).parent / "data" / "osdmap.bin").read_bytes()
OSDMAP = OSDMap.decode(IMAGE)
POOL = "two"
POOL_ID = 1  # where osd.0 has every group while osd.1 is down


class FakeConnection:
    """One that keeps what is sent."""

    def __init__(self, addrs: AddrVec) -> None:
        self.addrs = addrs
        self.sent: list[Message] = []
        self.user: object = None
        self.is_down = False

    def send(self, message: Message | MOSDBackoff) -> bool:
        self.sent.append(message if isinstance(message, Message) else Message.of(message))
        return True

    def mark_down(self) -> None:
        self.is_down = True

    @property
    def requests(self) -> list[MOSDOp]:
        """Requests sent, as they were when sent."""
        return [message.payload for message in self.sent if isinstance(message.payload, MOSDOp)]


class Cluster:
    """An objecter whose messenger and monitors are tests' own."""

    def __init__(self) -> None:
        self.connections: list[FakeConnection] = []
        self.objecter = Objecter(self, self)
        self.take({}, {OSDMAP.epoch: IMAGE})
        self.pool = IoCtx(self.objecter, POOL)

    # as a messenger
    def connect(self, addrs: AddrVec, _peer: object, _policy: object) -> FakeConnection:
        self.connections.append(FakeConnection(addrs))
        return self.connections[-1]

    # as monitors
    def got(self, what: str, epoch: int) -> None:
        assert (what, epoch) == ("osdmap", self.objecter.epoch)

    def usable(self, addrs: AddrVec) -> AddrVec:
        return addrs

    async def newest_epoch(self, _what: str) -> int:
        return self.objecter.epoch

    # for tests
    def take(self, incrementals: dict[int, bytes], full: dict[int, bytes] | None = None) -> None:
        self.objecter.take_maps(MOSDMap(OSDMAP.fsid, incrementals, full or {}))

    def change(self, **changes: object) -> None:
        """The next map."""
        epoch = self.objecter.epoch + 1
        self.take({epoch: Incremental(OSDMAP.fsid, epoch, **changes).encode()})

    def reply(self, connection: FakeConnection, at: int = -1, data: bytes = b"", **changes: object) -> None:
        """Answer one of the requests sent."""
        message = connection.sent[at]
        request = message.payload
        parts = {"oid": request.oid, "pgid": request.pgid.pgid, "flags": 0, "result": 0, "osdmap_epoch": 1}
        parts |= {"ops": [replace(op, payload_len=len(data)) for op in request.ops]}
        parts |= {"return_values": [0] * len(request.ops), "retry_attempt": request.retry_attempt}
        reply = MOSDOpReply(**parts | changes)
        answer = Message(MessageType.OSD_OPREPLY, data=data, tid=message.tid)
        self.objecter.take_reply(connection, answer, reply)


async def started(work: Awaitable[object]) -> "asyncio.Task[object]":
    """A task that has run as far as it can."""
    task = asyncio.ensure_future(work)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


@on_loop
async def test_a_request_and_its_reply() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    (request,) = osd.requests
    assert osd.addrs == OSDMAP.osds[0].client_addrs
    assert (request.oid, request.retry_attempt, request.osdmap_epoch) == ("foo", 0, OSDMAP.epoch)
    assert request.flags == RequestFlag.ONDISK | RequestFlag.READ | RequestFlag.KNOWN_REDIR
    assert (request.mtime.sec, osd.sent[0].tid, osd.sent[0].priority) == (0, 1, 63)
    cluster.reply(osd, data=b"data")
    assert await reading == b"data"


@on_loop
async def test_writes_carry_the_time() -> None:
    cluster = Cluster()
    writing = await started(cluster.pool.write_full("foo", b"x"))
    (request,) = cluster.connections[0].requests
    assert request.flags == RequestFlag.ONDISK | RequestFlag.WRITE | RequestFlag.KNOWN_REDIR
    assert request.mtime.sec > 1 << 30
    cluster.reply(cluster.connections[0])
    await writing


@on_loop
async def test_requests_to_one_osd_share_a_connection_and_go_in_order() -> None:
    cluster = Cluster()
    tasks = [await started(cluster.pool.append("foo", b"%d" % number)) for number in range(5)]
    (osd,) = cluster.connections
    assert [message.tid for message in osd.sent] == [1, 2, 3, 4, 5]
    cluster.objecter.lost(osd)
    again = cluster.connections[1]
    assert [message.tid for message in again.sent] == [1, 2, 3, 4, 5]
    assert {request.retry_attempt for request in again.requests} == {1}
    assert all(request.flags & RequestFlag.RETRY for request in again.requests)
    for at in range(5):
        cluster.reply(again, at)
    await asyncio.gather(*tasks)


@on_loop
async def test_replies_that_are_not_for_the_last_sending_do_not_count() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    first = cluster.connections[0]
    cluster.objecter.lost(first)
    second = cluster.connections[1]
    cluster.reply(first, data=b"from a connection that ended")
    cluster.reply(second, data=b"to an earlier sending", retry_attempt=0)
    cluster.reply(second, data=b"", result=0, retry_attempt=7)
    await asyncio.sleep(0)
    assert not reading.done()
    cluster.reply(second, data=b"right", retry_attempt=-1)  # from an OSD that does not report it
    assert await reading == b"right"
    cluster.reply(second, data=b"once more")


@on_loop
async def test_redirects_are_followed() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    cluster.reply(osd, redirect=RequestRedirect(ObjectLocator(POOL_ID, nspace="elsewhere"), "bar"))
    there = osd.requests[-1]
    assert (there.oid, there.locator.nspace, there.retry_attempt, osd.sent[-1].tid) == ("bar", "elsewhere", 0, 2)
    assert there.flags & RequestFlag.REDIRECTED
    cluster.reply(osd, data=b"data")
    assert await reading == b"data"


@on_loop
async def test_eagain_resends_the_request_under_a_new_tid() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    cluster.reply(osd, result=-errno.EAGAIN)
    assert [message.tid for message in osd.sent] == [1, 2]
    cluster.reply(osd, result=-errno.EPERM)
    with refusal(errno.EPERM):
        await reading


@on_loop
async def test_reply_with_wrong_data_length_closes_the_connection() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    reply = MOSDOpReply(
        "foo", osd.requests[0].pgid.pgid, 0, 0, 1, [replace(osd.requests[0].ops[0], payload_len=9)], [0]
    )
    with pytest.raises(DecodeError):
        cluster.objecter.take_reply(osd, Message(MessageType.OSD_OPREPLY, data=b"short", tid=1), reply)
    cluster.objecter.lost(osd)
    cluster.reply(cluster.connections[1], data=b"data")
    assert await reading == b"data"


@on_loop
async def test_a_backoff_holds_what_it_covers() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    session, pgid = cluster.objecter.session_of(osd), osd.requests[0].pgid
    backoff = MOSDBackoff(pgid, 7, BackoffOp.BLOCK, 3, HObject(), HObject(max=True))
    cluster.objecter.take_backoff(session, backoff)
    assert osd.sent[-1].payload == replace(backoff, op=BackoffOp.ACK_BLOCK)
    second = await started(cluster.pool.read("foo"))
    other = await started(cluster.pool.read(another_group("foo")))
    assert len(osd.requests) == 2  # the first, and the one to another group
    cluster.objecter.take_backoff(session, replace(backoff, op=BackoffOp.UNBLOCK, id=99))
    assert len(osd.requests) == 2
    cluster.objecter.take_backoff(session, replace(backoff, op=BackoffOp.UNBLOCK))
    assert [message.tid for message in osd.sent[-2:]] == [1, 2]
    assert [request.retry_attempt for request in osd.requests[-2:]] == [1, 0]
    for at in (-1, -2, -3):
        cluster.reply(osd, at, b"data")
    assert await asyncio.gather(reading, second, other) == [b"data"] * 3


def another_group(oid: str) -> str:
    """A name in another placement group."""
    placement = Placement(OSDMAP)
    here = placement.pg_of(POOL_ID, object_hash(oid))
    return next(name for name in "abcdef" if placement.pg_of(POOL_ID, object_hash(name)) != here)


@on_loop
async def test_an_osd_that_went_down_and_came_back_elsewhere() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (before,) = cluster.connections
    cluster.change(new_state={0: OsdState.UP})
    assert before.is_down
    assert cluster.objecter.session_of(before) is None
    assert len(cluster.connections) == 1  # no OSD is left to ask
    elsewhere = AddrVec.parse("v2:127.0.0.1:7000/1")
    cluster.change(new_up_client={0: elsewhere})
    after = cluster.connections[1]
    assert after.addrs == elsewhere
    assert (after.sent[0].tid, after.requests[0].retry_attempt) == (1, 1)
    cluster.reply(after, data=b"data")
    assert await reading == b"data"


@on_loop
async def test_a_change_that_is_undone_in_the_same_message_is_still_one() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    addrs, epoch = OSDMAP.osds[0].client_addrs, OSDMAP.epoch
    changes = {epoch + 1: {"new_state": {0: OsdState.UP}}, epoch + 2: {"new_up_client": {0: addrs}}}
    cluster.take({n: Incremental(OSDMAP.fsid, n, **change).encode() for n, change in changes.items()})
    assert [request.retry_attempt for request in osd.requests] == [0, 1]
    cluster.reply(osd, data=b"data")
    assert await reading == b"data"


@on_loop
async def test_request_is_not_resent_for_irrelevant_maps() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    cluster.change(new_weight={2: 0x10000})
    cluster.take({}, {OSDMAP.epoch: IMAGE})  # an old one
    cluster.take({OSDMAP.epoch + 9: b"too far ahead"})
    assert (len(osd.sent), cluster.objecter.epoch) == (1, OSDMAP.epoch + 1)
    cluster.reply(osd, data=b"data")
    assert await reading == b"data"


@on_loop
async def test_pools_may_force_requests_to_be_sent_again() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (osd,) = cluster.connections
    (request,) = cluster.objecter._requests.values()
    forced = replace(OSDMAP.pools[POOL_ID], last_force_op_resend=OSDMAP.epoch + 1)
    osdmap = replace(OSDMAP, pools={POOL_ID: forced})
    assert request.target is not None
    assert request.must_be_resent(request.target, osdmap)
    assert not request.must_be_resent(request.target, OSDMAP)
    cluster.reply(osd, data=b"")
    await reading


@on_loop
async def test_full_pools_stop_writes_but_not_reads() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (request,) = cluster.objecter._requests.values()
    full = replace(OSDMAP, pools={POOL_ID: replace(OSDMAP.pools[POOL_ID], flags=PoolFlag.FULL)})
    assert not request.is_paused(full)
    request.flags |= RequestFlag.WRITE
    assert request.is_paused(full)
    request.flags |= RequestFlag.FULL_TRY
    assert not request.is_paused(full)
    cluster.reply(cluster.connections[0], data=b"")
    await reading


@on_loop
async def test_requests_go_to_the_cache_tier() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    (request,) = cluster.objecter._requests.values()
    tiered = replace(OSDMAP, pools=OSDMAP.pools | {POOL_ID: replace(OSDMAP.pools[POOL_ID], read_tier=2)})
    placement = Placement(tiered)
    assert request.aim(placement).pgid.pgid.pool == 2
    request.flags |= RequestFlag.IGNORE_OVERLAY
    assert request.aim(placement).pgid.pgid.pool == POOL_ID
    request.flags = RequestFlag.WRITE
    assert request.aim(placement).pgid.pgid.pool == POOL_ID
    cluster.reply(cluster.connections[0], data=b"")
    await reading


@on_loop
async def test_requests_end_with_their_pool() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    cluster.change(old_pools=[POOL_ID])
    with refusal(errno.ENOENT):
        await reading
    with refusal(errno.ENOENT):
        await IoCtx(cluster.objecter, POOL).read("foo")


@on_loop
async def test_a_cancelled_request_is_forgotten() -> None:
    cluster = Cluster()
    reading = await started(cluster.pool.read("foo"))
    reading.cancel()
    await asyncio.wait([reading])
    assert not cluster.objecter._requests
    cluster.reply(cluster.connections[0], data=b"too late")


@on_loop
async def test_requests_that_are_not_to_be_repeated() -> None:
    cluster = Cluster()
    once = await started(cluster.pool.operate("foo", operation(OpCode.STAT), once=True))
    cluster.objecter.lost(cluster.connections[0])
    with refusal(errno.ECONNRESET):
        await once


@on_loop
async def test_maps_of_another_cluster_are_refused() -> None:
    cluster = Cluster()
    with pytest.raises(DecodeError, match="maps of cluster"):
        cluster.objecter.take_maps(MOSDMap(UUID(int=1), {}, {OSDMAP.epoch + 1: IMAGE}))


@on_loop
async def test_notification_is_sent_again_after_the_loss_of_its_osd() -> None:
    cluster = Cluster()
    notifying = await started(cluster.pool.notify("foo", b"hey"))
    (osd,) = cluster.connections
    cluster.reply(osd, data=bytes(8))
    await started(asyncio.sleep(0))
    cluster.objecter.lost(osd)
    await started(asyncio.sleep(0))
    again = cluster.connections[1]
    cookie = again.requests[0].ops[0].args["cookie"]
    assert cookie != osd.requests[0].ops[0].args["cookie"]
    cluster.reply(again, data=bytes(8))
    complete = MWatchNotify(1, NotifyOp.NOTIFY_COMPLETE, cookie, 0, 0)
    bad = Message(MessageType.WATCH_NOTIFY, data=b"\1")
    with pytest.raises(DecodeError):
        cluster.objecter.take_notify(bad, complete)
    cluster.objecter.take_notify(Message(MessageType.WATCH_NOTIFY, data=bytes(8)), complete)
    assert (await notifying).replies == {}  # type: ignore[attr-defined]
    cluster.objecter.take_notify(bad, complete)  # of one that is over


@on_loop
async def test_a_watch_that_the_osd_forgot_ends() -> None:
    cluster = Cluster()
    opening = await started(cluster.pool.watch("foo"))
    (osd,) = cluster.connections
    cluster.reply(osd)
    watch = await opening
    cluster.objecter.lost(osd)
    await started(asyncio.sleep(0))
    again = cluster.connections[1]
    assert (again.requests[0].ops[0].args["op"], again.requests[0].ops[0].args["gen"]) == (5, 1)
    cluster.reply(again, result=-errno.ENOTCONN)
    with refusal(errno.ENOTCONN):
        await watch.get()
    await watch.close()
    assert isinstance(watch.error, RadosError)
    assert len(again.sent) == 1
    await cluster.objecter.stop()
