"""The class ``lock``, with the input of Ceph's own ``rados lock`` (16.2.15)."""

import errno
from types import SimpleNamespace
from typing import cast

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.utime import EPOCH, UTime
from messenger.driver import Connection
from messenger.messages.osd_objects import ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from toolkit.embedded.osd.classes.lock import (
    BreakOp,
    GetInfoOp,
    LockFlag,
    LockOp,
    LockState,
    LockType,
    SetCookieOp,
    UnlockOp,
    break_lock,
    encoded,
    get_info,
    list_locks,
    lock,
    set_cookie,
    unlock,
)
from toolkit.embedded.osd.store import PlacementGroup, StoredObject
from toolkit.embedded.osd.watches import Watches
from toolkit.embedded.osd.work import Client, OpError, Work

LOCK = "010121000000040000006d696e65010100000063010000007401000000643c0000000000000000"
"""``rados lock get o mine --lock-cookie c --lock-tag t --lock-description d --lock-duration 60``"""
GET_INFO = "010108000000040000006d696e65"
BREAK = "010116000000040000006d696e650807100000000000000100000063"
LIST = "01010c00000001000000040000006d696e65"
"""What its client has read as a list of one lock, ``mine``."""


class Locked:
    """An object, and what clients call on it."""

    def __init__(self) -> None:
        self.stored: StoredObject | None = StoredObject()

    def call(self, method, given: bytes, gid: int = 4100):
        session = SimpleNamespace(peer_addrs=AddrVec.parse("v1:127.0.0.1:0/1"))
        client = Client(EntityName(EntityType.CLIENT, gid), cast(Connection, SimpleNamespace(session=session)))
        request = MOSDOp(ShardedPgId(PgId(1, 0)), 0, 1, 0, ObjectLocator(1), "o", [])
        work = Work(request, client, PgId(1, 0), 8, PlacementGroup(), Watches(), self.stored)
        output = method(work, Decoder(given))
        self.stored = work.draft
        return output

    def take(self, kind: int = LockType.EXCLUSIVE, flags: int = 0, gid: int = 4100, tag: str = "") -> None:
        self.call(lock, encoded(LockOp("mine", kind, "c", tag, "", EPOCH, flags)), gid)

    def info(self) -> LockState:
        return LockState.decode(Decoder(self.call(get_info, encoded(GetInfoOp("mine")))))


def refusal(number: int):
    return pytest.raises(OpError, match=errno.errorcode[number])


def test_lock_operations_of_a_client_decode() -> None:
    given = LockOp.decode(Decoder(bytes.fromhex(LOCK)))
    assert given == LockOp("mine", LockType.EXCLUSIVE, "c", "t", "d", UTime(60), 0)
    assert GetInfoOp.decode(Decoder(bytes.fromhex(GET_INFO))).name == "mine"
    broken = BreakOp.decode(Decoder(bytes.fromhex(BREAK)))
    assert (broken.locker, broken.cookie) == (EntityName(EntityType.CLIENT, 4103), "c")


def test_a_lock_is_listed_and_broken_as_the_client_does_it() -> None:
    locked = Locked()
    locked.call(lock, bytes.fromhex(LOCK), gid=4103)
    assert locked.call(list_locks, b"") == bytes.fromhex(LIST)
    ((locker, info),) = locked.info().lockers
    assert (locker.locker.num, locker.cookie, info.description) == (4103, "c", "d")
    locked.call(break_lock, bytes.fromhex(BREAK))
    assert locked.info().lockers == []


def test_an_exclusive_lock_has_one_owner() -> None:
    locked = Locked()
    locked.take()
    with refusal(errno.EEXIST):
        locked.take()
    locked.take(flags=LockFlag.MAY_RENEW)
    with refusal(errno.EBUSY):
        locked.take(gid=4101)
    with refusal(errno.ENOENT):
        locked.call(unlock, encoded(UnlockOp("mine", "c")), gid=4101)
    locked.call(unlock, encoded(UnlockOp("mine", "c")))
    locked.take(gid=4101)


def test_a_shared_lock_has_several_owners_with_one_tag() -> None:
    locked = Locked()
    locked.take(LockType.SHARED, tag="t")
    locked.take(LockType.SHARED, tag="t", gid=4101)
    with refusal(errno.EBUSY):
        locked.take(LockType.SHARED, tag="other", gid=4102)
    with refusal(errno.EBUSY):
        locked.take(LockType.EXCLUSIVE, tag="t", gid=4102)
    assert len(locked.info().lockers) == 2


def test_renewals_need_a_lock_where_they_must() -> None:
    with refusal(errno.ENOENT):
        Locked().take(flags=LockFlag.MUST_RENEW)
    with refusal(errno.EINVAL):
        Locked().take(flags=LockFlag.MAY_RENEW | LockFlag.MUST_RENEW)
    with refusal(errno.EINVAL):
        Locked().take(kind=7)


def test_expired_lock_is_free() -> None:
    locked = Locked()
    locked.call(lock, encoded(LockOp("mine", LockType.EXCLUSIVE, "c", "", "", UTime(0, 1), 0)))
    locked.take(gid=4101)
    assert [locker.locker.num for locker, _ in locked.info().lockers] == [4101]


def test_an_ephemeral_lock_ends_with_its_object() -> None:
    locked = Locked()
    locked.take(LockType.EXCLUSIVE_EPHEMERAL)
    locked.call(unlock, encoded(UnlockOp("mine", "c")))
    assert locked.stored is None


def test_the_owner_changes_its_cookie() -> None:
    locked = Locked()
    locked.take()
    change = encoded(SetCookieOp("mine", LockType.EXCLUSIVE, "c", "", "d"))
    with refusal(errno.EBUSY):
        locked.call(set_cookie, change, gid=4101)
    locked.call(set_cookie, change)
    assert locked.info().lockers[0][0].cookie == "d"
