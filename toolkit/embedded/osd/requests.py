"""Runs requests: atomically, and only once even if they are resent (docs/protocol.md §6.4)."""

import errno
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from messenger.errors import DecodeError
from messenger.messages.osd_objects import NO_REQUEST_ID, NO_VERSION, NOSNAP, EVersion, RequestId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import input_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import Mode, OpCode, OpFlag, OsdOp, RequestFlag
from messenger.messages.pg import PgId
from toolkit.embedded.osd import attribute_ops, classes, copies, data_ops, listing, snapshot_ops, watches
from toolkit.embedded.osd.classes import hello, lock, rbd, rbd_clones
from toolkit.embedded.osd.snapsets import PoolSnaps, SnapContext, SnapSet
from toolkit.embedded.osd.store import OBJECT_BYTES, ObjectKey, Store, StoredObject
from toolkit.embedded.osd.watches import Watches
from toolkit.embedded.osd.work import HANDLERS, Client, OpError, Source, Work
from toolkit.embedded.release import CAPACITY_BYTES

_HANDLERS = (
    attribute_ops,
    classes,
    copies,
    data_ops,
    hello,
    listing,
    lock,
    rbd,
    rbd_clones,
    snapshot_ops,
    watches,
)
"""The modules that register the handlers of operations and the methods of classes."""

REMEMBERED = 10_000
"""Number of the latest writes whose results are kept for resent requests."""
REMEMBERED_BYTES = 64 << 20
"""Most bytes of outputs in them; results of earlier writes are dropped beyond that."""
REPLY_BYTES = OBJECT_BYTES + (1 << 20)
"""Most bytes of outputs in one reply: all data of the largest object, and something more."""
WRITE_BYTES = 90 << 20
"""Most bytes of input of a request that writes, ``osd_max_write_size``."""
_NO_SNAPS = PoolSnaps()
_TYPE, _OF_GROUPS = 0x0F00, 0x0500
"""The type in an operation's code, and that of operations on a placement group."""
_EOLDSNAPC = errno.ERESTART
"""A write's snapshot context is older than that of an earlier write."""


@dataclass(frozen=True, slots=True)
class _Done:
    """Result of a write."""

    result: int
    return_values: list[int]
    outputs: list[bytes]
    version: EVersion
    user_version: int

    @property
    def held_bytes(self) -> int:
        """Bytes of the outputs."""
        return sum(map(len, self.outputs))


class Requests:
    """Runs requests on the objects of one OSD."""

    def __init__(self) -> None:
        self.store = Store()
        self.watches = Watches()
        self._done: OrderedDict[RequestId, _Done] = OrderedDict()
        self._remembered_bytes = 0

    def carry_out(
        self,
        request: MOSDOp,
        tid: int,
        client: Client,
        *,
        epoch: int,
        pg_num: int,
        snaps: PoolSnaps = _NO_SNAPS,
        sources: Mapping[Source, StoredObject | int] | None = None,
    ) -> MOSDOpReply:
        """Run a request for which this OSD is the primary, and return the reply.

        Args:
            request: the request with its data.
            tid: tid of the message.
            client: its sender.
            epoch: epoch of the OSD's map.
            pg_num: number of placement groups of the pool.
            snaps: snapshots of the pool.
            sources: see :attr:`.Work.sources`.
        """
        number = _request_id(request, tid, client)
        writes = _writes(request)
        known = self._done.get(number) if writes else None
        if known is not None:
            if len(known.outputs) != len(request.ops):  # another request under the number of an earlier one
                return refusal(request, -errno.EINVAL, epoch)
            return _reply(request, known, epoch)
        pgid = request.pgid.pgid
        group = self.store.group(pgid)
        key = ObjectKey(request.locator.nspace, request.locator.key, request.oid)
        work = Work(
            request, client, pgid, pg_num, group, self.watches, group.at(key, request.snapid), sources or {}
        )
        done = self._perform(work, snaps.context_of(request.snap_seq, request.snaps), epoch, writes=writes)
        if writes:
            self._remember(
                number, done if _shows(request, done) else replace(done, outputs=[b""] * len(request.ops))
            )
        return _reply(request, done, epoch)

    def _remember(self, number: RequestId, done: _Done) -> None:
        """Keep a result, and drop the earliest ones beyond the limits."""
        self._done[number] = done
        self._remembered_bytes += done.held_bytes
        while len(self._done) > REMEMBERED or self._remembered_bytes > REMEMBERED_BYTES:
            _, earliest = self._done.popitem(last=False)
            self._remembered_bytes -= earliest.held_bytes

    def _perform(self, work: Work, context: SnapContext, epoch: int, *, writes: bool) -> _Done:
        version = NO_VERSION
        if number := _refusal(work, context, writes=writes):
            count = len(work.request.ops)
            return _Done(-number, [0] * count, [b""] * count, version, work.user_version)
        result, values, outputs = self._run(work)
        user_version = work.user_version
        if result >= 0 and writes:
            result = result if work.request.flags & RequestFlag.RETURNVEC else 0
            if self._is_too_full(work, context):
                return _Done(-errno.ENOSPC, [0] * len(values), [b""] * len(values), version, user_version)
            work.group.version += 1
            work.group.epoch = epoch
            version, user_version = EVersion(work.group.version, epoch), work.group.version
            self._commit(work, context, user_version)
        if result >= 0:
            for effect in work.afterwards:
                effect()
            _count(work, outputs)
        return _Done(result, values, outputs, version, user_version)

    @staticmethod
    def _run(work: Work) -> tuple[int, list[int], list[bytes]]:
        """Run the operations up to the first that fails; returns result, return values and outputs."""
        count = len(work.request.ops)
        values, outputs = [0] * count, [b""] * count
        result = size_bytes = 0
        for position, op in enumerate(work.request.ops):
            work.return_value = 0
            try:
                output = _perform_one(work, op) or b""
                if size_bytes + len(output) > REPLY_BYTES:
                    raise OpError(errno.EMSGSIZE)
                outputs[position], result = output, work.return_value
                size_bytes += len(output)
            except OpError as error:
                result = -error.errno
            values[position] = result
            if result < 0 and op.flags & OpFlag.FAILOK:
                result = 0
            if result < 0:
                break
        return result, values, outputs

    def _is_too_full(self, work: Work, context: SnapContext) -> bool:
        before = work.group.objects.get(work.key)
        is_kept = before is None or _snapset(work).needs_clone(context, before)
        grown = (work.draft.held_bytes if work.draft else 0) - (
            0 if is_kept or before is None else before.held_bytes
        )
        return work.changed and grown > 0 and self.store.held_bytes + grown > CAPACITY_BYTES

    def _commit(self, work: Work, context: SnapContext, user_version: int) -> None:
        if not work.changed:
            return
        draft, key = work.draft, work.key
        if draft is not None:
            draft = replace(draft, mtime=work.request.mtime, user_version=user_version)
        snapset = _snapset(work).written(context, work.group.objects.get(key))
        self.store.put(work.pgid, key, draft)
        self.store.put_snapset(work.pgid, key, snapset)
        if draft is None:
            self.watches.removed((work.pgid, key))


def _count(work: Work, outputs: list[bytes]) -> None:
    """Count the operations of a request that succeeded; a method of a class is one operation."""
    group = work.group
    for op, output in zip(work.request.ops, outputs, strict=True):
        if op.code & _TYPE == _OF_GROUPS:
            continue
        if classes.writes(op) if op.code == OpCode.CALL else bool(op.mode & Mode.WRITE):
            group.writes += 1
            group.write_kb += -(-len(op.data) // 1024)
        else:
            group.reads += 1
            group.read_kb += -(-len(output) // 1024)


def _snapset(work: Work) -> SnapSet:
    return work.group.snapsets.get(work.key, SnapSet())


def _refusal(work: Work, context: SnapContext, *, writes: bool) -> int:
    """Return the error number of a request that is not for this state of the object; 0 if there is none."""
    request = work.request
    if any(op.code & _TYPE == _OF_GROUPS for op in request.ops):
        return 0
    if not request.oid:
        return errno.EINVAL
    if work.key.is_too_long:
        return errno.ENAMETOOLONG
    if not writes:
        return 0 if work.draft is not None or _needs_no_object(request) else errno.ENOENT
    if request.snapid != NOSNAP:
        return errno.EINVAL
    if sum(len(op.data) for op in request.ops) > WRITE_BYTES:
        return errno.EMSGSIZE
    is_late = request.flags & RequestFlag.ORDERSNAP and context.seq < _snapset(work).seq
    return _EOLDSNAPC if is_late else 0


def _needs_no_object(request: MOSDOp) -> bool:
    """True for reads that are not refused with ENOENT without an object."""
    return any(
        op.code in (OpCode.LIST_SNAPS, OpCode.NOTIFY_ACK) or (op.code == OpCode.CALL and not classes.knows(op))
        for op in request.ops
    )


def _perform_one(work: Work, op: OsdOp) -> bytes | None:
    """Run an operation and return its output.

    Raises:
        OpError: the operation fails; EINVAL: malformed input; EOPNOTSUPP: not supported.
    """
    handler = HANDLERS.get(op.code)
    if handler is None:
        raise OpError(errno.EOPNOTSUPP)
    try:
        given = input_of(op)
    except DecodeError:
        raise OpError(errno.EINVAL) from None
    return handler(work, op, given)


def _request_id(request: MOSDOp, tid: int, client: Client) -> RequestId:
    if request.reqid != NO_REQUEST_ID:
        return request.reqid
    return RequestId(client.name.type, client.name.num, tid, request.client_inc)


def _writes(request: MOSDOp) -> bool:
    """True if the request may change the object; for methods of object classes, see :func:`.classes.writes`."""
    return any(classes.writes(op) if op.code == OpCode.CALL else bool(op.mode & Mode.WRITE) for op in request.ops)


def _shows(request: MOSDOp, done: _Done) -> bool:
    """True if a reply has outputs and values; that of a write only if it failed or wants them (RETURNVEC)."""
    return not _writes(request) or done.result < 0 or bool(request.flags & RequestFlag.RETURNVEC)


def refusal(request: MOSDOp, result: int, epoch: int) -> MOSDOpReply:
    """Return the reply to a request that is not run, with a negative error number."""
    count = len(request.ops)
    return _reply(request, _Done(result, [0] * count, [b""] * count, NO_VERSION, 0), epoch)


def _reply(request: MOSDOp, done: _Done, epoch: int) -> MOSDOpReply:
    shows = _shows(request, done)
    ops = []
    for op, output in zip(request.ops, done.outputs, strict=True):
        data = output if shows else b""
        args = {**op.args, "length": len(data)} if op.code == OpCode.READ else op.args
        ops.append(OsdOp(op.code, args, op.flags, len(data), data))
    return MOSDOpReply(
        oid=request.oid,
        pgid=PgId(request.pgid.pgid.pool, request.pgid.pgid.seed),
        flags=request.flags | RequestFlag.ACK | RequestFlag.ONDISK,
        result=done.result,
        osdmap_epoch=epoch,
        ops=ops,
        return_values=done.return_values if shows else [0] * len(ops),
        retry_attempt=request.retry_attempt,
        replay_version=done.version,
        user_version=done.user_version,
    )
