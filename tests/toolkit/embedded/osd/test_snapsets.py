"""Snapshots of objects: clones on write, what reads of a snapshot find, rollback, and what is trimmed."""

import errno
from types import SimpleNamespace
from typing import cast

import pytest

from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityName, EntityType
from messenger.driver import Connection
from messenger.messages.osd_objects import NOSNAP, ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OsdOp, RequestFlag
from tests.support.embedded import held
from toolkit.embedded.osd.requests import Requests
from toolkit.embedded.osd.snapsets import SNAPDIR, PoolSnaps, SnapContext, overlap
from toolkit.embedded.osd.store import OBJECT_OVERHEAD_BYTES
from toolkit.embedded.osd.work import Client
from toolkit.rados.placement import object_hash

GROUP = ShardedPgId(PgId(1, 0))


class Writer:
    """A client that sends a snapshot context with each request to one object."""

    def __init__(self) -> None:
        self.requests = Requests()
        self.pool = PoolSnaps()
        self.snaps: list[int] = []
        self._client = Client(EntityName(EntityType.CLIENT, 1), cast(Connection, SimpleNamespace()))
        self._tid = 0

    def ask(self, op: OsdOp, *, snapid: int = NOSNAP, flags: int = 0, seq: int | None = None) -> MOSDOpReply:
        self._tid += 1
        newest = max(self.snaps, default=0) if seq is None else seq
        request = MOSDOp(GROUP, object_hash("o"), 5, flags, ObjectLocator(1), "o", [op], snapid=snapid)
        request.snap_seq, request.snaps = newest, sorted(self.snaps, reverse=True)
        return self.requests.carry_out(request, self._tid, self._client, epoch=5, pg_num=8, snaps=self.pool)

    def write(self, data: bytes) -> None:
        assert self.ask(operation(OpCode.WRITEFULL, data)).result == 0

    def read(self, snapid: int = NOSNAP) -> bytes | int:
        reply = self.ask(operation(OpCode.READ), snapid=snapid)
        return reply.result or bytes(reply.ops[0].data)

    def trim(self, *removed: int) -> None:
        self.pool = PoolSnaps(removed=dict.fromkeys(removed, 1))
        self.requests.store.keep_pools({1: self.pool})


@pytest.fixture
def writer() -> Writer:
    """Its object was ``one`` in the snapshots 1 and 2, ``two`` in 3, and is ``now``."""
    made = Writer()
    made.write(b"one")
    made.snaps = [1, 2]
    made.write(b"two")
    made.snaps = [1, 2, 3]
    made.write(b"was")
    made.write(b"now")
    return made


def rows(reply: MOSDOpReply) -> list[tuple[int, list[int], list[tuple[int, int]], int]]:
    body = Decoder(bytes(reply.ops[0].data)).versioned(2)

    def row() -> tuple[int, list[int], list[tuple[int, int]], int]:
        each = body.versioned(1)
        snapid, snaps = each.u64(), each.sequence(each.u64, 8)
        return snapid, snaps, each.sequence(lambda: (each.u64(), each.u64()), 16), each.u64()

    return body.sequence(row, 6)


def test_reads_of_snapshots_find_the_states_of_their_time(writer: Writer) -> None:
    assert [writer.read(snapid) for snapid in (1, 2, 3, 4)] == [b"one", b"one", b"two", b"now"]
    assert writer.read() == b"now"
    assert held(writer.requests.store) == {1: (3, 9, 2)}


def test_object_that_was_made_after_a_snapshot_is_not_in_it() -> None:
    writer = Writer()
    writer.snaps = [5]
    writer.write(b"new")
    writer.write(b"newer")
    assert (writer.read(5), writer.read(6)) == (-errno.ENOENT, b"newer")


def test_removed_object_stays_in_its_snapshots(writer: Writer) -> None:
    writer.snaps = [1, 2, 3, 4]
    assert writer.ask(operation(OpCode.DELETE)).result == 0
    assert [writer.read(snapid) for snapid in (NOSNAP, 5, 4, 1)] == [-errno.ENOENT, -errno.ENOENT, b"now", b"one"]
    assert [each[0] for each in rows(writer.ask(operation(OpCode.LIST_SNAPS), snapid=SNAPDIR))] == [2, 3, 4]


def test_list_of_snapshots_has_what_states_share() -> None:
    writer = Writer()
    writer.write(bytes(4096))
    writer.snaps = [1]
    assert writer.ask(operation(OpCode.WRITE, b"x" * 512, offset=1024)).result == 0
    listed = rows(writer.ask(operation(OpCode.LIST_SNAPS), snapid=SNAPDIR))
    assert listed == [(1, [1], [(0, 1024), (1536, 2560)], 4096), (NOSNAP, [], [], 4096)]
    assert overlap(b"", b"x") == []


def test_rollback_restores_the_state_in_a_snapshot(writer: Writer) -> None:
    for snapid, state in ((2, b"one"), (3, b"two"), (4, b"two")):
        assert writer.ask(operation(OpCode.ROLLBACK, snapid=snapid)).result == 0
        assert writer.read() == state
    late = Writer()
    late.snaps = [1]
    late.write(b"new")
    assert late.ask(operation(OpCode.ROLLBACK, snapid=1)).result == 0
    assert late.read() == -errno.ENOENT


def test_clones_go_with_their_last_snapshot(writer: Writer) -> None:
    writer.trim(1)
    assert writer.read(2) == b"one"
    writer.trim(1, 2)
    assert held(writer.requests.store) == {1: (2, 6, 1)}
    writer.trim(1, 2, 3)
    assert (held(writer.requests.store), writer.requests.store.held_bytes) == (
        {1: (1, 3, 0)},
        3 + OBJECT_OVERHEAD_BYTES,
    )


def test_removed_snapshot_in_a_context_makes_no_clone(writer: Writer) -> None:
    writer.snaps.append(4)
    writer.trim(4)
    writer.write(b"next")
    assert held(writer.requests.store) == {1: (3, 10, 2)}


def test_context_of_a_pool_replaces_that_of_the_client() -> None:
    writer = Writer()
    writer.write(b"old")
    writer.pool = PoolSnaps(SnapContext(3, (3,)), 3)
    writer.write(b"new")
    assert (writer.read(3), writer.read()) == (b"old", b"new")
    assert [writer.pool.is_removed(snapid) for snapid in (1, 3, 4)] == [True, False, False]


def test_writes_to_snapshots_and_with_old_contexts_are_refused(writer: Writer) -> None:
    write = operation(OpCode.WRITEFULL, b"x")
    assert writer.ask(write, snapid=3).result == -errno.EINVAL
    assert writer.ask(write, flags=RequestFlag.ORDERSNAP, seq=2).result == -errno.ERESTART
    assert writer.read() == b"now"
