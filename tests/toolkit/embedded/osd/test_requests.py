"""Requests at an embedded OSD: once however often they are sent, all or none, in the order of their operations."""

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityName, EntityType
from messenger.driver import Connection
from messenger.messages.osd_objects import HObject, ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import Listing, operation, output_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OsdOp, RequestFlag
from toolkit.embedded.osd import requests as requests_module
from toolkit.embedded.osd.listing import end_of
from toolkit.embedded.osd.requests import Requests
from toolkit.embedded.osd.store import OBJECT_BYTES
from toolkit.embedded.osd.work import Client
from toolkit.rados.placement import object_hash, stable_mod

GROUP = ShardedPgId(PgId(1, 0))


class Peer:
    """A client, and the tids of its requests."""

    def __init__(self, requests: Requests, gid: int = 4100) -> None:
        self.requests = requests
        self.sent: list[Any] = []
        connection = SimpleNamespace(send=self.sent.append)
        self.client = Client(EntityName(EntityType.CLIENT, gid), cast(Connection, connection))
        self.tid = 0

    def ask(self, oid: str, *ops: OsdOp, tid: int = 0, flags: int = 0, nspace: str = "") -> MOSDOpReply:
        self.tid += 1
        request = MOSDOp(GROUP, object_hash(oid), 5, flags, ObjectLocator(1, nspace=nspace), oid, list(ops))
        return self.requests.carry_out(request, tid or self.tid, self.client, epoch=5, pg_num=8)


@pytest.fixture
def peer() -> Peer:
    return Peer(Requests())


def test_a_write_that_is_resent_is_not_done_again(peer: Peer) -> None:
    append = operation(OpCode.APPEND, b"x")
    first = peer.ask("a", append, tid=7)
    again = peer.ask("a", append, tid=7)
    assert (again.result, again.replay_version, again.user_version) == (0, first.replay_version, 1)
    assert peer.ask("a", operation(OpCode.READ)).ops[0].data == b"x"
    Peer(peer.requests, gid=4101).ask("a", append, tid=7)  # another client's tid is another request
    assert peer.ask("a", operation(OpCode.READ)).ops[0].data == b"xx"


def test_resent_request_gets_the_same_refusal(peer: Peer) -> None:
    assert peer.ask("a", operation(OpCode.DELETE), tid=7).result == -errno.ENOENT
    peer.ask("a", operation(OpCode.CREATE))
    assert peer.ask("a", operation(OpCode.DELETE), tid=7).result == -errno.ENOENT


def test_resent_read_is_executed_again(peer: Peer) -> None:
    peer.ask("a", operation(OpCode.WRITEFULL, b"1"))
    assert peer.ask("a", operation(OpCode.READ), tid=7).ops[0].data == b"1"
    peer.ask("a", operation(OpCode.WRITEFULL, b"2"))
    assert peer.ask("a", operation(OpCode.READ), tid=7).ops[0].data == b"2"


def test_versions_grow_with_each_change(peer: Peer) -> None:
    versions = [peer.ask("a", operation(OpCode.APPEND, b"x")).user_version for _ in range(3)]
    assert versions == [1, 2, 3]
    assert peer.ask("a", operation(OpCode.READ)).user_version == 3
    assert peer.ask("a", operation(OpCode.ASSERT_VER, ver=3), operation(OpCode.READ)).result == 0
    assert peer.ask("a", operation(OpCode.ASSERT_VER, ver=2)).result == -errno.ERANGE
    assert peer.ask("a", operation(OpCode.ASSERT_VER, ver=4)).result == -errno.EOVERFLOW


def test_return_values_of_writes_only_on_request(peer: Peer) -> None:
    ops = operation(OpCode.CREATE), operation(OpCode.CALL, "hello", "say_hello", b"")
    assert peer.ask("a", *ops).ops[1].data == b""
    assert peer.ask("a", *ops, flags=RequestFlag.RETURNVEC).ops[1].data == b"Hello, world!"


@pytest.mark.parametrize(
    ("op", "number"),
    [
        (operation(OpCode.WRITE, b"x", offset=OBJECT_BYTES), errno.EFBIG),
        (operation(OpCode.TRUNCATE, offset=OBJECT_BYTES + 1), errno.EFBIG),
        (operation(OpCode.WRITESAME, b"abc", offset=0, length=10), errno.EINVAL),
        (operation(OpCode.CREATE, op_flags=1), errno.EEXIST),
        (operation(OpCode.ROLLBACK, snapid=1), errno.EOPNOTSUPP),
        (operation(OpCode.CMPEXT, b"old!", offset=0, length=4), 4095 + 3),
        (OsdOp(OpCode.OMAPSETVALS, {}, 0, 3, b"bad"), errno.EINVAL),
        (OsdOp(0x2299), errno.EOPNOTSUPP),
    ],
)
def test_refused_writes_change_nothing(peer: Peer, op: OsdOp, number: int) -> None:
    peer.ask("a", operation(OpCode.WRITEFULL, b"old"), operation(OpCode.SETXATTR, "k", b"v"))
    assert peer.ask("a", operation(OpCode.SETXATTR, "k", b"w"), op).result == -number
    reply = peer.ask("a", operation(OpCode.READ), operation(OpCode.GETXATTR, "k"))
    assert [bytes(each.data) for each in reply.ops] == [b"old", b"v"]


def test_write_beyond_the_capacity_fails_with_enospc(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "CAPACITY_BYTES", 10)
    assert peer.ask("a", operation(OpCode.WRITEFULL, b"12345678")).result == 0
    assert peer.ask("b", operation(OpCode.WRITEFULL, b"12345678")).result == -errno.ENOSPC
    assert peer.ask("a", operation(OpCode.DELETE)).result == 0
    assert peer.ask("b", operation(OpCode.WRITEFULL, b"12345678")).result == 0
    assert peer.requests.store.use() == {1: (1, 8)}


def test_objects_of_pools_that_are_gone_are_dropped(peer: Peer) -> None:
    peer.ask("a", operation(OpCode.WRITEFULL, b"12345678"))
    peer.requests.store.keep_pools([2])
    assert (peer.requests.store.use(), peer.requests.store.held_bytes) == ({}, 0)


def test_listing_continues_at_its_cursor(peer: Peer) -> None:
    names = sorted(f"object{number}" for number in range(10))
    for name in names:
        peer.ask(name, operation(OpCode.CREATE))
    peer.ask("other", operation(OpCode.CREATE), nspace="space")
    found: list[str] = []
    cursor = HObject()
    for _ in range(4):
        reply = peer.ask("", operation(OpCode.PGNLS, cursor, count=3, start_epoch=5))
        listing = output_of(reply.ops[0])["listing"]
        assert isinstance(listing, Listing)
        found += [entry.oid for entry in listing.entries]
        cursor = listing.cursor
    assert sorted(found) == names
    assert cursor == end_of(PgId(1, 0), 8)


@pytest.mark.parametrize("pg_num", [1, 2, 5, 8, 12])
def test_placement_groups_follow_each_other_in_the_order_of_names(pg_num: int) -> None:
    """The cursor behind a group is the first name of another one, until all groups are through."""
    begin, seen = HObject(pool=1), []
    while not begin.max:
        seed = stable_mod(begin.hash, pg_num)
        seen.append(seed)
        begin = end_of(PgId(1, seed), pg_num)
    assert sorted(seen) == list(range(pg_num))


def test_a_notification_waits_for_watchers_until_its_time_is_over() -> None:
    async def watched() -> None:
        requests = Requests()
        watcher, notifier = Peer(requests), Peer(requests, gid=4200)
        addr = SimpleNamespace(front=None)
        watcher.client.connection.session = SimpleNamespace(peer_addrs=addr)  # type: ignore[misc]
        watcher.ask("a", operation(OpCode.CREATE), operation(OpCode.WATCH, cookie=9, op=3))
        assert watcher.ask("a", operation(OpCode.WATCH, cookie=9, op=7)).result == 0
        assert watcher.ask("a", operation(OpCode.WATCH, cookie=8, op=7)).result == -errno.ENOTCONN
        notifier.ask("a", operation(OpCode.NOTIFY, 1, 1, b"hi", cookie=5))
        (event,) = watcher.sent
        assert (event.cookie, event.payload, event.notifier_gid) == (9, b"hi", 4200)
        assert notifier.sent == []
        await asyncio.sleep(1.05)
        (message,) = notifier.sent
        assert message.payload.return_code == -errno.ETIMEDOUT
        decoder = Decoder(message.data)
        assert (decoder.u32(), decoder.u32(), decoder.u64(), decoder.u64()) == (0, 1, 4100, 9)

    asyncio.run(watched())


def watching(requests: Requests, cookie: int) -> Peer:
    """A client that has created the object ``a`` and watches it."""
    watcher = Peer(requests)
    addr = SimpleNamespace(front=None)
    watcher.client.connection.session = SimpleNamespace(peer_addrs=addr)  # type: ignore[misc]
    watcher.ask("a", operation(OpCode.CREATE), operation(OpCode.WATCH, cookie=cookie, op=3))
    return watcher


def test_reconnected_watcher_gets_the_unanswered_notification() -> None:
    async def watched() -> None:
        requests = Requests()
        watcher, notifier = watching(requests, 9), Peer(requests, gid=4200)
        requests.watches.lost(watcher.client.connection)
        notifier.ask("a", operation(OpCode.NOTIFY, 1, 30, b"hi", cookie=5))
        watcher.sent.clear()  # it went down with the link
        watcher.ask("a", operation(OpCode.WATCH, cookie=9, op=5, gen=1))
        (event,) = watcher.sent
        assert (event.cookie, event.payload, event.notifier_gid) == (9, b"hi", 4200)
        requests.watches.acknowledge(event.notify_id, (watcher.client.name, 9), b"yes")
        (message,) = notifier.sent
        assert message.payload.return_code == 0
        watcher.ask("a", operation(OpCode.WATCH, cookie=9, op=5, gen=2))
        assert len(watcher.sent) == 1  # what was answered is not sent again

    asyncio.run(watched())


def test_notification_does_not_wait_for_removed_watchers() -> None:
    async def watched() -> None:
        requests = Requests()
        watcher, notifier = watching(requests, 9), Peer(requests, gid=4200)
        notifier.ask("a", operation(OpCode.NOTIFY, 1, 30, b"hi", cookie=5))
        assert notifier.sent == []
        watcher.ask("a", operation(OpCode.WATCH, cookie=9, op=0))
        (message,) = notifier.sent
        assert message.payload.return_code == 0

    asyncio.run(watched())
