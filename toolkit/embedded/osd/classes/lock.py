"""The class ``lock``: advisory locks, stored in attributes of the object."""

import errno
import time
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from typing import ClassVar

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityName
from messenger.denc.layout import U8
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import Enveloped
from toolkit.embedded.osd.classes import method
from toolkit.embedded.osd.omap import in_order
from toolkit.embedded.osd.work import OpError, Work

_PREFIX = "lock."


class LockType(IntEnum):
    """Kinds of locks."""

    NONE = 0
    EXCLUSIVE = 1
    SHARED = 2
    EXCLUSIVE_EPHEMERAL = 3
    """Unlocking removes the object."""


class LockFlag(IntFlag):
    """Bits of :attr:`LockOp.flags`."""

    MAY_RENEW = 1
    MUST_RENEW = 2


@dataclass(frozen=True, slots=True, order=True)
class LockerId(Enveloped):
    """A client, and the cookie that it chose."""

    VERSION: ClassVar = 1

    locker: EntityName
    cookie: str = ""

    def sort_key(self) -> tuple[int, int, str]:
        """Key that sorts lockers as Ceph does."""
        return self.locker.type, self.locker.num, self.cookie


@dataclass(frozen=True, slots=True)
class LockerInfo(Enveloped):
    """Details of a locker."""

    VERSION: ClassVar = 1

    expiration: UTime
    """Zero if the lock does not expire."""
    addr: EntityAddr
    description: str = ""


@dataclass(frozen=True, slots=True)
class LockState(Enveloped):
    """A lock, as stored and as ``get_info`` returns it."""

    VERSION: ClassVar = 1

    lockers: list[tuple[LockerId, LockerInfo]] = field(default_factory=list)
    type: U8 = LockType.NONE
    tag: str = ""


@dataclass(frozen=True, slots=True)
class LockOp(Enveloped):
    """Input of ``lock``."""

    VERSION: ClassVar = 1

    name: str
    type: U8
    cookie: str
    tag: str
    description: str
    duration: UTime
    flags: U8


@dataclass(frozen=True, slots=True)
class UnlockOp(Enveloped):
    """Input of ``unlock``."""

    VERSION: ClassVar = 1

    name: str
    cookie: str


@dataclass(frozen=True, slots=True)
class BreakOp(Enveloped):
    """Input of ``break_lock``."""

    VERSION: ClassVar = 1

    name: str
    locker: EntityName
    cookie: str


@dataclass(frozen=True, slots=True)
class GetInfoOp(Enveloped):
    """Input of ``get_info``."""

    VERSION: ClassVar = 1

    name: str


@dataclass(frozen=True, slots=True)
class AssertOp(Enveloped):
    """Input of ``assert_locked``."""

    VERSION: ClassVar = 1

    name: str
    type: U8
    cookie: str
    tag: str


@dataclass(frozen=True, slots=True)
class SetCookieOp(Enveloped):
    """Input of ``set_cookie``."""

    VERSION: ClassVar = 1

    name: str
    type: U8
    cookie: str
    tag: str
    new_cookie: str


def encoded(structure: Enveloped) -> bytes:
    """Encode a structure of an object class."""
    encoder = Encoder()
    structure.encode(encoder, 0)
    return encoder.getvalue()


def _load(work: Work, name: str) -> LockState:
    """Return a lock; expired lockers are omitted."""
    if not name:
        raise OpError(errno.EINVAL)
    stored = work.draft.xattrs.get(_PREFIX + name) if work.draft is not None else None
    state = LockState.decode(Decoder(stored)) if stored is not None else LockState()
    now = UTime.from_seconds(time.time())
    valid = [(locker, info) for locker, info in state.lockers if info.expiration == EPOCH or info.expiration > now]
    return replace(state, lockers=valid)


def _save(work: Work, name: str, state: LockState) -> None:
    ordered = replace(state, lockers=sorted(state.lockers, key=lambda entry: entry[0].sort_key()))
    known = work.draft.xattrs if work.draft is not None else {}
    work.change(xattrs={**known, _PREFIX + name: encoded(ordered)})


def _check(condition: bool, number: int) -> None:  # noqa: FBT001 - what is checked
    if not condition:
        raise OpError(number)


@method("lock", "lock", writes=True)
def lock(work: Work, given: Decoder) -> None:
    """Take a lock; EBUSY: another client has it; EEXIST: this client has it already."""
    op = LockOp.decode(given)
    may, must = bool(op.flags & LockFlag.MAY_RENEW), bool(op.flags & LockFlag.MUST_RENEW)
    _check(op.type in (LockType.EXCLUSIVE, LockType.SHARED, LockType.EXCLUSIVE_EPHEMERAL), errno.EINVAL)
    _check(not (may and must), errno.EINVAL)
    state, me = _load(work, op.name), LockerId(work.client.name, op.cookie)
    _check(not state.lockers or state.tag == op.tag, errno.EBUSY)
    others = [(locker, info) for locker, info in state.lockers if locker != me]
    if len(others) < len(state.lockers):
        _check(may or must, errno.EEXIST)
    else:
        _check(not must, errno.ENOENT)
    _check(not others or (op.type == LockType.SHARED and state.type == op.type), errno.EBUSY)
    expiration = EPOCH
    if op.duration != EPOCH:
        expiration = UTime.from_seconds(time.time() + op.duration.to_seconds())
    info = LockerInfo(expiration, work.client.connection.session.peer_addrs.front, op.description)
    _save(work, op.name, LockState([*others, (me, info)], op.type, op.tag))


@method("lock", "unlock", writes=True)
def unlock(work: Work, given: Decoder) -> None:
    """Release a lock; ENOENT: this client does not have it."""
    op = UnlockOp.decode(given)
    _remove(work, op.name, LockerId(work.client.name, op.cookie))


@method("lock", "break_lock", writes=True)
def break_lock(work: Work, given: Decoder) -> None:
    """Remove another client's lock; ENOENT: that client does not have it."""
    op = BreakOp.decode(given)
    _remove(work, op.name, LockerId(op.locker, op.cookie))


def _remove(work: Work, name: str, removed: LockerId) -> None:
    work.existing()
    state = _load(work, name)
    others = [(locker, info) for locker, info in state.lockers if locker != removed]
    _check(len(others) < len(state.lockers), errno.ENOENT)
    if state.type == LockType.EXCLUSIVE_EPHEMERAL:
        work.remove()
    else:
        _save(work, name, replace(state, lockers=others))


@method("lock", "get_info")
def get_info(work: Work, given: Decoder) -> bytes:
    """Return the lockers of a lock."""
    work.existing()
    return encoded(_load(work, GetInfoOp.decode(given).name))


@method("lock", "list_locks")
def list_locks(work: Work, _given: Decoder) -> bytes:
    """Return the names of the object's locks."""
    names = [name.removeprefix(_PREFIX) for name in work.existing().xattrs if name.startswith(_PREFIX)]
    encoder = Encoder()
    with encoder.versioned(1, 1):
        encoder.sequence(in_order(names), encoder.string)
    return encoder.getvalue()


@method("lock", "assert_locked")
def assert_locked(work: Work, given: Decoder) -> None:
    """Fail with EBUSY unless this client has the lock with this type, tag and cookie."""
    op = AssertOp.decode(given)
    state = _load(work, op.name)
    held = any(locker == LockerId(work.client.name, op.cookie) for locker, _ in state.lockers)
    _check(held and state.type == op.type and state.tag == op.tag, errno.EBUSY)


@method("lock", "set_cookie", writes=True)
def set_cookie(work: Work, given: Decoder) -> None:
    """Change the cookie of a lock; EBUSY unless this client has it with this type, tag and cookie."""
    op = SetCookieOp.decode(given)
    state = _load(work, op.name)
    old, new = LockerId(work.client.name, op.cookie), LockerId(work.client.name, op.new_cookie)
    lockers = dict(state.lockers)
    _check(old in lockers and new not in lockers, errno.EBUSY)
    _check(state.type == op.type and state.tag == op.tag, errno.EBUSY)
    lockers[new] = lockers.pop(old)
    _save(work, op.name, replace(state, lockers=list(lockers.items())))
