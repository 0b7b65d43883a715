"""Runs requests: atomically, and only once even if they are resent (docs/protocol.md §6.4)."""

import errno
from collections import OrderedDict
from dataclasses import dataclass, replace

from messenger.errors import DecodeError
from messenger.messages.osd_objects import NO_REQUEST_ID, NO_VERSION, NOSNAP, EVersion, RequestId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import input_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import Mode, OpCode, OpFlag, OsdOp, RequestFlag
from messenger.messages.pg import PgId
from toolkit.embedded.osd import attribute_ops, classes, data_ops, listing, watches
from toolkit.embedded.osd.classes import hello, lock, rbd
from toolkit.embedded.osd.store import ObjectKey, PlacementGroup, Store
from toolkit.embedded.osd.watches import Watches
from toolkit.embedded.osd.work import HANDLERS, Client, OpError, Work
from toolkit.embedded.release import CAPACITY_BYTES

__all__ = ["Requests", "attribute_ops", "classes", "data_ops", "hello", "listing", "lock", "rbd", "watches"]

REMEMBERED = 10_000
"""Number of the latest writes whose results are kept for resent requests."""


@dataclass(frozen=True, slots=True)
class _Done:
    """Result of a write."""

    result: int
    return_values: list[int]
    outputs: list[bytes]
    version: EVersion
    user_version: int


class Requests:
    """Runs requests on the objects of one OSD."""

    def __init__(self) -> None:
        self.store = Store()
        self.watches = Watches()
        self._done: OrderedDict[RequestId, _Done] = OrderedDict()

    def carry_out(self, request: MOSDOp, tid: int, client: Client, *, epoch: int, pg_num: int) -> MOSDOpReply:
        """Run a request for which this OSD is the primary, and return the reply.

        Args:
            request: the request with its data.
            tid: tid of the message.
            client: its sender.
            epoch: epoch of the OSD's map.
            pg_num: number of placement groups of the pool.
        """
        number = _request_id(request, tid, client)
        writes = _writes(request)
        known = self._done.get(number) if writes else None
        if known is not None:
            return _reply(request, known, epoch)
        pgid = request.pgid.pgid
        group = self.store.group(pgid)
        key = ObjectKey(request.locator.nspace, request.locator.key, request.oid)
        work = Work(request, client, pgid, pg_num, group, self.watches, group.objects.get(key))
        done = self._perform(work, group, epoch, writes=writes)
        if writes:
            self._done[number] = done
            if len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
        return _reply(request, done, epoch)

    def _perform(self, work: Work, group: PlacementGroup, epoch: int, *, writes: bool) -> _Done:
        result, values, outputs = self._run(work)
        user_version = work.user_version
        version = NO_VERSION
        if result >= 0 and writes:
            result = result if work.request.flags & RequestFlag.RETURNVEC else 0
            if self._is_too_full(work):
                return _Done(-errno.ENOSPC, [0] * len(values), [b""] * len(values), version, user_version)
            group.version += 1
            version, user_version = EVersion(group.version, epoch), group.version
            self._commit(work, user_version)
        if result >= 0:
            for effect in work.afterwards:
                effect()
        return _Done(result, values, outputs, version, user_version)

    @staticmethod
    def _run(work: Work) -> tuple[int, list[int], list[bytes]]:
        """Run the operations up to the first that fails; returns result, return values and outputs."""
        count = len(work.request.ops)
        values, outputs = [0] * count, [b""] * count
        result = 0
        for position, op in enumerate(work.request.ops):
            work.return_value = 0
            try:
                outputs[position] = _perform_one(work, op) or b""
                result = work.return_value
            except OpError as error:
                result = -error.errno
            values[position] = result
            if result < 0 and op.flags & OpFlag.FAILOK:
                result = 0
            if result < 0:
                break
        return result, values, outputs

    def _is_too_full(self, work: Work) -> bool:
        before = work.group.objects.get(work.key)
        grown = (work.draft.held_bytes if work.draft else 0) - (before.held_bytes if before else 0)
        return work.changed and grown > 0 and self.store.held_bytes + grown > CAPACITY_BYTES

    def _commit(self, work: Work, user_version: int) -> None:
        if not work.changed:
            return
        draft = work.draft
        if draft is not None:
            draft = replace(draft, mtime=work.request.mtime, user_version=user_version)
        self.store.put(work.pgid, work.key, draft)
        if draft is None:
            self.watches.removed((work.pgid, work.key))


def _perform_one(work: Work, op: OsdOp) -> bytes | None:
    """Run an operation and return its output.

    Raises:
        OpError: the operation fails; EINVAL: malformed input; EOPNOTSUPP: not supported.
    """
    handler = HANDLERS.get(op.code)
    if handler is None or work.request.snapid != NOSNAP:
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


def _reply(request: MOSDOp, done: _Done, epoch: int) -> MOSDOpReply:
    """Return the reply; a write returns outputs and values only if the client requested them (RETURNVEC)."""
    shows = not _writes(request) or done.result < 0 or request.flags & RequestFlag.RETURNVEC
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
