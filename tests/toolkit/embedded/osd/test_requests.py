"""Requests at an embedded OSD: once however often they are sent, all or none, in the order of their operations."""

import asyncio
import errno
import tracemalloc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityName, EntityType
from messenger.driver import Connection
from messenger.messages.osd_client import NotifyOp
from messenger.messages.osd_objects import HObject, ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import Listing, operation, output_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OsdOp, RequestFlag
from tests.support.embedded import held
from toolkit.embedded.osd import requests as requests_module
from toolkit.embedded.osd import watches
from toolkit.embedded.osd.attribute_ops import ATTRIBUTE_NAME_BYTES
from toolkit.embedded.osd.listing import end_of
from toolkit.embedded.osd.requests import Requests
from toolkit.embedded.osd.snapsets import PoolSnaps
from toolkit.embedded.osd.store import NAME_BYTES, NAMESPACE_BYTES, OBJECT_BYTES, OBJECT_OVERHEAD_BYTES
from toolkit.embedded.osd.watches import NOTIFICATION_BYTES
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


def test_a_number_of_an_earlier_request_with_other_operations_is_refused(peer: Peer) -> None:
    append = operation(OpCode.APPEND, b"x")
    assert peer.ask("a", append, append, tid=7).result == 0
    assert peer.ask("a", append, tid=7).result == -errno.EINVAL
    assert peer.ask("a", append, append, tid=7).result == 0


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


def test_results_beyond_the_remembered_bytes_are_dropped(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "REMEMBERED_BYTES", 25)
    peer.ask("a", operation(OpCode.WRITEFULL, b"0123456789"))
    grow = operation(OpCode.READ), operation(OpCode.APPEND, b"x")
    shown = [peer.ask("a", *grow, tid=tid, flags=RequestFlag.RETURNVEC).ops[0].data for tid in (70, 71)]
    for tid in range(80, 90):
        assert peer.ask("a", *grow, tid=tid).ops[0].data == b"", "what no reply shows is not remembered"
    again = [peer.ask("a", *grow, tid=tid, flags=RequestFlag.RETURNVEC).ops[0].data for tid in (70, 71)]
    assert again == shown
    peer.ask("a", *grow, tid=72, flags=RequestFlag.RETURNVEC)
    assert len(peer.ask("a", *grow, tid=71, flags=RequestFlag.RETURNVEC).ops[0].data) > len(shown[1])


def test_failed_writes_with_outputs_need_bounded_memory(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "REMEMBERED_BYTES", 1 << 20)
    peer.ask("a", operation(OpCode.WRITEFULL, bytes(1 << 17)))
    read, fails = operation(OpCode.READ, offset=1, length=0), operation(OpCode.CREATE, op_flags=1)
    tracemalloc.start()
    try:
        for _ in range(100):
            assert peer.ask("a", read, fails).result == -errno.EEXIST
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2 << 20


def test_a_request_has_no_more_outputs_than_fit_a_reply(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "REPLY_BYTES", 20)
    peer.ask("a", operation(OpCode.WRITEFULL, b"0123456789"))
    reads = [operation(OpCode.READ)] * 3
    assert peer.ask("a", *reads[:2]).result == 0
    reply = peer.ask("a", *reads, operation(OpCode.DELETE))
    assert (reply.result, reply.ops[2].data) == (-errno.EMSGSIZE, b"")
    assert peer.ask("a", operation(OpCode.STAT)).result == 0, "the request has no effect"


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


def test_greeting_is_recorded_once(peer: Peer) -> None:
    record, replay = (operation(OpCode.CALL, "hello", name, b"") for name in ("record_hello", "replay"))
    assert peer.ask("a", replay).result == -errno.ENOENT
    assert [peer.ask("a", record).result for _ in range(2)] == [0, -errno.EEXIST]
    assert peer.ask("a", replay).ops[0].data == b"Hello, world!"


@pytest.mark.parametrize(
    ("op", "number"),
    [
        (operation(OpCode.WRITE, b"x", offset=OBJECT_BYTES), errno.EFBIG),
        (operation(OpCode.TRUNCATE, offset=OBJECT_BYTES), errno.EFBIG),
        (operation(OpCode.WRITESAME, b"abc", offset=0, length=10), errno.EINVAL),
        (operation(OpCode.CREATE, op_flags=1), errno.EEXIST),
        (operation(OpCode.COPY_FROM, "none", ObjectLocator(1)), errno.ENOENT),
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
    monkeypatch.setattr(requests_module, "CAPACITY_BYTES", OBJECT_OVERHEAD_BYTES + 10)
    assert peer.ask("a", operation(OpCode.WRITEFULL, b"12345678")).result == 0
    assert peer.ask("b", operation(OpCode.WRITEFULL, b"12345678")).result == -errno.ENOSPC
    assert peer.ask("a", operation(OpCode.DELETE)).result == 0
    assert peer.ask("b", operation(OpCode.WRITEFULL, b"12345678")).result == 0
    assert held(peer.requests.store) == {1: (1, 8, 0)}


def test_empty_objects_fill_an_osd(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "CAPACITY_BYTES", 3 * OBJECT_OVERHEAD_BYTES)
    results = [peer.ask(name, operation(OpCode.CREATE)).result for name in "abcd"]
    assert results == [0, 0, 0, -errno.ENOSPC]


@pytest.mark.parametrize(
    ("oid", "nspace"), [("é" * (NAME_BYTES // 2 + 1), ""), ("ab", "n" * (NAMESPACE_BYTES + 1))]
)
def test_too_long_names_are_refused(peer: Peer, oid: str, nspace: str) -> None:
    assert peer.ask(oid[:-1], operation(OpCode.CREATE), nspace=nspace[:-1]).result == 0
    for op in (operation(OpCode.WRITEFULL, b"x"), operation(OpCode.STAT)):
        assert peer.ask(oid, op, nspace=nspace).result == -errno.ENAMETOOLONG
    assert held(peer.requests.store) == {1: (1, 0, 0)}


def test_objects_of_pools_that_are_gone_are_dropped(peer: Peer) -> None:
    peer.ask("a", operation(OpCode.WRITEFULL, b"12345678"))
    peer.requests.store.keep_pools({2: PoolSnaps()})
    assert (held(peer.requests.store), peer.requests.store.held_bytes) == ({}, 0)


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


def test_waiting_notifications_need_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MOST_HELD_BYTES", 2 * NOTIFICATION_BYTES + 10)

    async def watched() -> None:
        requests = Requests()
        watcher, notifier = watching(requests, 9), Peer(requests, gid=4200)
        results = [
            notifier.ask("a", operation(OpCode.NOTIFY, 1, 4_000_000_000, payload, cookie=5)).result
            for payload in (b"12345678", b"1", b"1")
        ]
        assert results == [0, 0, -errno.EBUSY]
        one, two = watcher.sent
        requests.watches.acknowledge(one.notify_id, (watcher.client.name, 9), b"too large a reply")
        assert notifier.sent[0].payload.return_code == -errno.ETIMEDOUT
        requests.watches.acknowledge(two.notify_id, (watcher.client.name, 9), b"12")
        assert notifier.sent[1].payload.return_code == 0
        assert notifier.ask("a", operation(OpCode.NOTIFY, 1, 30, b"12345678", cookie=5)).result == 0

    asyncio.run(watched())


@pytest.mark.parametrize(
    ("of_client", "in_total", "second_gid", "second"),
    [(2, 9, 4100, -errno.EBUSY), (2, 9, 4200, 0), (9, 2, 4200, -errno.EBUSY)],
    ids=["one client", "another client", "all clients"],
)
def test_watches_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, of_client: int, in_total: int, second_gid: int, second: int
) -> None:
    monkeypatch.setattr(watches, "MOST_WATCHES_OF_CLIENT", of_client)
    monkeypatch.setattr(watches, "MOST_WATCHES", in_total)

    async def limited() -> None:
        requests = Requests()
        watcher, other = watching(requests, 1), Peer(requests, gid=second_gid)
        other.tid = 100  # the numbers of its requests differ, also if it is the same client
        other.client.connection.session = watcher.client.connection.session  # type: ignore[misc]

        def watch(peer: Peer, *cookies: int) -> int:
            return peer.ask("a", *(operation(OpCode.WATCH, cookie=cookie, op=3) for cookie in cookies)).result

        assert watch(watcher, 2, 3) == -errno.EBUSY, "both watches of a request count"
        assert watch(watcher, 2) == 0
        assert watch(other, 4) == second
        assert watch(watcher, 2) == 0, "a watch that exists already"
        watcher.ask("a", operation(OpCode.WATCH, cookie=1, op=0))
        assert watch(other, 4) == 0

    asyncio.run(limited())


@pytest.mark.parametrize(
    ("oid", "op", "number"),
    [
        ("", operation(OpCode.WRITEFULL, b"x"), errno.EINVAL),
        ("", operation(OpCode.STAT), errno.EINVAL),
        ("a", operation(OpCode.SETXATTR, "k" * (ATTRIBUTE_NAME_BYTES + 1), b"v"), errno.ENAMETOOLONG),
        ("a", operation(OpCode.WRITEFULL, b"x" * 201), errno.EMSGSIZE),
        ("none", operation(OpCode.CALL, "hello", "say_hello", b""), errno.ENOENT),
        ("none", operation(OpCode.CALL, "hello", "shout", b""), errno.EOPNOTSUPP),
        ("none", operation(OpCode.CMPEXT, b"x", offset=0, length=1), errno.ENOENT),
    ],
)
def test_requests_that_no_osd_takes(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, oid: str, op: OsdOp, number: int
) -> None:
    monkeypatch.setattr(requests_module, "WRITE_BYTES", 200)
    peer.ask("a", operation(OpCode.WRITEFULL, b"x" * 200))
    peer.ask("a", operation(OpCode.SETXATTR, "k" * ATTRIBUTE_NAME_BYTES, b"v"))
    assert peer.ask(oid, op).result == -number
    assert held(peer.requests.store) == {1: (1, 200, 0)}


def test_a_watch_ends_without_pings_though_its_client_is_connected() -> None:
    """A client that is stopped, not dead: the owner of an exclusive lock would keep it for ever."""

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        real, late_s = loop.time, [0.0]
        loop.time = lambda: real() + late_s[0]  # type: ignore[method-assign]

        async def pass_s(seconds: float) -> None:
            late_s[0] += seconds
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        requests = Requests()
        watcher, other = watching(requests, 9), Peer(requests, gid=4200)
        watcher.ask("a", operation(OpCode.WATCH, cookie=8, op=3))  # another one, without pings
        for _ in range(3):
            await pass_s(watches.DEFAULT_TIMEOUT_S - 1)
            assert watcher.ask("a", operation(OpCode.WATCH, cookie=9, op=7)).result == 0
        assert watcher.ask("a", operation(OpCode.WATCH, cookie=8, op=7)).result == -errno.ENOTCONN
        other.ask("a", operation(OpCode.NOTIFY, 1, 4 * watches.DEFAULT_TIMEOUT_S, b"hi", cookie=5))
        await pass_s(watches.DEFAULT_TIMEOUT_S + 1)
        events = [(event.cookie, event.opcode) for event in watcher.sent]
        assert events == [(8, NotifyOp.DISCONNECT), (9, NotifyOp.NOTIFY), (9, NotifyOp.DISCONNECT)]
        assert other.sent[0].payload.return_code == -errno.ETIMEDOUT
        assert watcher.ask("a", operation(OpCode.WATCH, cookie=9, op=7)).result == -errno.ENOTCONN

    asyncio.run(watched())


def test_listing_follows_objects_that_come_and_go(peer: Peer) -> None:
    def listed() -> list[str]:
        listing = output_of(peer.ask("", operation(OpCode.PGNLS, HObject(), count=100, start_epoch=5)).ops[0])
        return sorted(entry.oid for entry in listing["listing"].entries)

    for name in "abc":
        peer.ask(name, operation(OpCode.CREATE))
    assert listed() == ["a", "b", "c"]
    peer.ask("b", operation(OpCode.DELETE))
    peer.ask("d", operation(OpCode.CREATE))
    peer.ask("a", operation(OpCode.APPEND, b"x"))
    assert listed() == ["a", "c", "d"]
