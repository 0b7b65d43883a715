"""What an embedded OSD counts of its placement groups, and scrubs of them."""

from types import SimpleNamespace
from typing import cast

from messenger.denc.entity import EntityName, EntityType
from messenger.driver import Connection
from messenger.messages.osd_objects import ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_operations import OpCode, OsdOp
from toolkit.embedded.osd.requests import Requests
from toolkit.embedded.osd.snapsets import Clone, SnapSet
from toolkit.embedded.osd.store import ObjectKey, StoredObject
from toolkit.embedded.osd.work import Client
from toolkit.embedded.usage import GroupState, Scrub, Usage
from toolkit.rados.placement import object_hash

PGID = PgId(1, 0)
WRITER = Client(EntityName(EntityType.CLIENT, 1), cast(Connection, SimpleNamespace()))


def ask(requests: Requests, tid: int, oid: str, *ops: OsdOp) -> int:
    """Send a request under epoch 5, and return its result."""
    request = MOSDOp(ShardedPgId(PGID), object_hash(oid), 5, 0, ObjectLocator(1), oid, list(ops))
    return requests.carry_out(request, tid, WRITER, epoch=5, pg_num=1).result


def test_operations_and_contents_of_a_group_are_counted() -> None:
    requests = Requests()
    ask(requests, 1, "a", operation(OpCode.WRITEFULL, bytes(1025)))
    ask(requests, 2, "a", operation(OpCode.SETXATTR, "k", b"v"))
    ask(requests, 3, "b", operation(OpCode.CREATE))
    ask(requests, 4, "b", operation(OpCode.OMAPSETVALS, {"key": b"value"}))
    ask(requests, 4, "b", operation(OpCode.OMAPSETVALS, {"key": b"value"}))  # resent: done once
    assert ask(requests, 5, "gone", operation(OpCode.READ)) < 0
    ask(requests, 6, "a", operation(OpCode.READ, offset=0, length=4096), operation(OpCode.STAT))
    state = requests.store.states()[PGID]
    use = Usage(2, 1025, omap_objects=1, omap_keys=1, omap_bytes=8, reads=2, read_kb=3, writes=4, write_kb=4)
    assert state == GroupState(use, version=4, epoch=5)
    assert GroupState.from_value(state.value()) == state


def test_a_scrub_is_noted_with_version_and_time() -> None:
    requests = Requests()
    ask(requests, 1, "a", operation(OpCode.WRITEFULL, b"x"))
    group = requests.store.group(PGID)
    group.run_scrub(1000.0, deep=True)
    ask(requests, 2, "a", operation(OpCode.WRITEFULL, b"y"))
    group.run_scrub(2000.0, deep=False)
    state = GroupState.from_value(requests.store.states()[PGID].value())
    assert (state.scrub, state.deep_scrub, state.errors) == (Scrub(2, 5, 2000.0), Scrub(1, 5, 1000.0), 0)


def test_a_scrub_counts_objects_whose_clones_contradict_each_other() -> None:
    requests = Requests()
    stored, key = StoredObject(b"x"), ObjectKey("", "", "a")
    for clones, errors in (
        ([Clone(2, (2, 1), stored), Clone(4, (3,), stored)], 0),
        ([Clone(4, (3,), stored), Clone(2, (2,), stored)], 1),
        ([Clone(2, (), stored)], 1),
        ([Clone(9, (9,), stored)], 1),
    ):
        requests.store.put_snapset(PGID, key, SnapSet(5, tuple(clones)))
        requests.store.group(PGID).run_scrub(1000.0, deep=False)
        assert requests.store.states()[PGID].errors == errors
