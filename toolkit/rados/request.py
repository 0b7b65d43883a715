"""A request to an object, from the application's call to the final reply (docs/protocol.md §6.4.1)."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from messenger.denc.utime import EPOCH, UTime
from messenger.messages.message import Message
from messenger.messages.osd_objects import NOSNAP, HObject, ObjectLocator, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import Mode, OsdOp, RequestFlag
from messenger.messages.osdmap import MapFlag, OSDMap
from messenger.messages.pool import PoolFlag
from toolkit.rados.errors import RadosError
from toolkit.rados.placement import PgMapping, Placement, object_hash

_ALWAYS = RequestFlag.ONDISK | RequestFlag.KNOWN_REDIR
_REDIRECTED = RequestFlag.REDIRECTED | RequestFlag.IGNORE_CACHE | RequestFlag.IGNORE_OVERLAY
_TRIES_WHEN_FULL = RequestFlag.FULL_TRY | RequestFlag.FULL_FORCE


@dataclass(frozen=True, slots=True)
class Target:
    """Where one map sends a request. If two targets are equal, the request need not be resent."""

    osd: int
    """The acting primary; -1 if there is none."""
    pgid: ShardedPgId
    mapping: PgMapping
    layout: tuple[int, int, int, int]
    """Size, min_size and pg_num of the pool, and map flags whose change starts a new interval."""


@dataclass(slots=True, eq=False)
class Request:
    """A request and its progress."""

    locator: ObjectLocator
    oid: str
    ops: list[OsdOp]
    flags: int
    mtime: UTime = EPOCH
    snapid: int = NOSNAP
    """The snapshot to read; NOSNAP for the newest state."""
    tid: int = 0
    attempts: int = 0
    """Number of times it was sent."""
    sent_epoch: int = 0
    """Epoch of the map by which it was last sent."""
    target: Target | None = None
    session: object = None
    """The OSD session that it was sent on; None if it has none."""
    once: bool = False
    """True to fail with ECONNRESET instead of being resent."""
    on_success: "Callable[[Request], None] | None" = None
    """Called with the reply, before further events of its session."""
    answer: "asyncio.Future[MOSDOpReply]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def what(self) -> str:
        """Operations and object, for messages."""
        names = "+".join(op.name.lower() for op in self.ops)
        return f"{names} of {self.oid!r}" if self.oid else f"{names} of placement group {self.locator.hash:x}"

    @property
    def hash(self) -> int:
        """Hash that places it; for requests to a placement group, its seed."""
        if self.locator.hash >= 0:
            return self.locator.hash
        return object_hash(self.oid, self.locator.key, self.locator.nspace)

    @property
    def hobject(self) -> HObject:
        """The object as backoffs identify and order it."""
        pool_id = self.locator.pool if self.target is None else self.target.pgid.pgid.pool
        return HObject(self.locator.key, self.oid, NOSNAP, self.hash, nspace=self.locator.nspace, pool=pool_id)

    def aim(self, placement: Placement) -> Target:
        """Return the target by a map.

        Raises:
            RadosError: ENOENT: there is no such pool.
        """
        pool_id = self._pool_behind_overlay(placement.osdmap)
        pool = placement.osdmap.pools[pool_id]
        pgid = placement.pg_of(pool_id, self.hash)
        mapping = placement.mapping(pgid)
        layout = (pool.size, pool.min_size, pool.pg_num, placement.osdmap.flags & MapFlag.SORTBITWISE)
        return Target(mapping.acting_primary, placement.sharded(pgid), mapping, layout)

    def _pool_behind_overlay(self, osdmap: OSDMap) -> int:
        """The pool to ask: a cache tier stands in for the pool behind it, unless the request bypasses it."""
        pool = osdmap.pools.get(self.locator.pool)
        if pool is None:
            raise RadosError(errno.ENOENT, f"pool {self.locator.pool}")
        tier = pool.write_tier if self.flags & RequestFlag.WRITE else pool.read_tier
        overlaid = tier >= 0 and tier in osdmap.pools and not self.flags & RequestFlag.IGNORE_OVERLAY
        return tier if overlaid else self.locator.pool

    def must_be_resent(self, target: Target, osdmap: OSDMap) -> bool:
        """True if the new target differs, or the map forces resends in the pool."""
        pool = osdmap.pools[target.pgid.pgid.pool]
        return target != self.target or pool.last_force_op_resend > self.sent_epoch

    def is_paused(self, osdmap: OSDMap) -> bool:
        """True if flags of the map or the pool pause such requests."""
        if self.flags & RequestFlag.READ and osdmap.flags & MapFlag.PAUSERD:
            return True
        if not self.flags & RequestFlag.WRITE:
            return False
        pool = osdmap.pools.get(self.locator.pool)
        full = osdmap.flags & MapFlag.FULL or (pool is not None and pool.flags & PoolFlag.FULL)
        return bool(osdmap.flags & MapFlag.PAUSEWR or (full and not self.flags & _TRIES_WHEN_FULL))

    def message(self, osdmap: OSDMap) -> Message:
        """Return the message to send next, to its target."""
        assert self.target is not None
        request = MOSDOp(
            pgid=self.target.pgid,
            hash=self.hash,
            osdmap_epoch=osdmap.epoch,
            flags=self.flags | (RequestFlag.RETRY if self.attempts else 0),
            locator=replace(self.locator, pool=self.target.pgid.pgid.pool),
            oid=self.oid,
            ops=self.ops,
            mtime=self.mtime,
            snapid=self.snapid,
            retry_attempt=self.attempts,
        )
        self.attempts += 1
        self.sent_epoch = osdmap.epoch
        return request.message(self.tid)

    def redirect(self, reply: MOSDOpReply) -> None:
        """Redirect the request to the object that an OSD's reply names."""
        assert reply.redirect is not None
        self.locator = reply.redirect.locator
        self.oid = reply.redirect.oid or self.oid
        self.flags |= _REDIRECTED


def flags_for(ops: Sequence[OsdOp]) -> int:
    """The flags that requests with these operations need."""
    mode = Mode(0)
    for op in ops:
        mode |= op.mode
    return (
        _ALWAYS | (RequestFlag.READ if mode & Mode.READ else 0) | (RequestFlag.WRITE if mode & Mode.WRITE else 0)
    )
