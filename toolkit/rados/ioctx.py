"""The objects of one pool: what an application does with them."""

import errno
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from messenger.denc.codec import Buffer
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.osd_objects import HObject, ObjectLocator
from messenger.messages.osd_op_data import ListEntry, Listing, Watcher, operation, output_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OpFlag, OsdOp, RequestFlag
from toolkit.rados.errors import RadosError
from toolkit.rados.objecter import Objecter
from toolkit.rados.request import Request, flags_for
from toolkit.rados.watching import Notify, NotifyResult, Watch

ALL_NAMESPACES = "\x01"
"""As the namespace of an IoCtx that lists objects: those of all."""

PAGE_ENTRIES = 1000
"""How many names or values are asked for at once; OSDs may give fewer."""

_cookies = count(1)


@dataclass(frozen=True, slots=True)
class Stat:
    """What an OSD knows of an object."""

    size_bytes: int
    mtime: UTime


class IoCtx:
    """A pool, and a namespace in it. Every method raises RadosError where the cluster refuses.

    Args:
        objecter: carries requests out.
        pool: its name; looked up at the first request.
        namespace: objects of the same name in different ones are different objects.
        locator_key: placed by this instead of by their names, if not empty.
    """

    def __init__(self, objecter: Objecter, pool: str, namespace: str = "", locator_key: str = "") -> None:
        self.pool = pool
        self.namespace = namespace
        self.locator_key = locator_key
        self._objecter = objecter
        self._pool_id: int | None = None

    # ---- whole objects

    async def write_full(self, oid: str, data: Buffer) -> None:
        """Make this the object, whatever it was."""
        await self.operate(oid, operation(OpCode.WRITEFULL, data))

    async def write(self, oid: str, data: Buffer, offset: int = 0) -> None:
        """Overwrite a part of the object; what is between its end and ``offset`` becomes zeros."""
        await self.operate(oid, operation(OpCode.WRITE, data, offset=offset))

    async def append(self, oid: str, data: Buffer) -> None:
        """Write behind the end of the object."""
        await self.operate(oid, operation(OpCode.APPEND, data))

    async def read(self, oid: str, length: int = 0, offset: int = 0) -> bytes:
        """A part of the object, to its end if ``length`` is 0; less where there is less."""
        return bytes(await self._ask(oid, operation(OpCode.READ, offset=offset, length=length), "data", b""))

    async def stat(self, oid: str) -> Stat:
        """Size and modification time."""
        reply = await self.operate(oid, operation(OpCode.STAT))
        return Stat(*output_of(reply.ops[0]).values())

    async def truncate(self, oid: str, size_bytes: int) -> None:
        """Cut the object off, or fill it with zeros, to that size."""
        await self.operate(oid, operation(OpCode.TRUNCATE, offset=size_bytes))

    async def zero(self, oid: str, offset: int, length: int) -> None:
        """Make a part of the object zeros."""
        await self.operate(oid, operation(OpCode.ZERO, offset=offset, length=length))

    async def create(self, oid: str, *, exclusive: bool = True) -> None:
        """Make an empty object; EEXIST if there is one, unless that is all right."""
        await self.operate(oid, operation(OpCode.CREATE, op_flags=OpFlag.EXCL if exclusive else 0))

    async def remove(self, oid: str) -> None:
        """Remove the object."""
        await self.operate(oid, operation(OpCode.DELETE))

    async def list_objects(self) -> AsyncIterator[ListEntry]:
        """The objects of the namespace, in the order of their hashes.

        What is there from beginning to end is listed once; what comes or goes meanwhile may be.
        """
        pool_id = await self._resolve()
        cursor = HObject()
        while not cursor.max:
            locator = ObjectLocator(pool_id, nspace=self.namespace, hash=cursor.hash)
            op = operation(OpCode.PGNLS, cursor, count=PAGE_ENTRIES, start_epoch=self._objecter.epoch)
            flags = flags_for([op]) | RequestFlag.PGOP
            reply = await self._objecter.submit(Request(locator, "", [op], flags))
            listing = output_of(reply.ops[0]).get("listing")
            if not isinstance(listing, Listing):
                raise RadosError(errno.EIO, f"list of pool {self.pool!r}")
            for entry in listing.entries:
                yield entry
            cursor = listing.cursor

    # ---- extended attributes

    async def setxattr(self, oid: str, name: str, value: Buffer) -> None:
        """Set one."""
        await self.operate(oid, operation(OpCode.SETXATTR, name, value))

    async def getxattr(self, oid: str, name: str) -> bytes:
        """The value of one; ENODATA if there is none."""
        return bytes(await self._ask(oid, operation(OpCode.GETXATTR, name), "value", b""))

    async def getxattrs(self, oid: str) -> dict[str, bytes]:
        """All of them."""
        return dict(await self._ask(oid, operation(OpCode.GETXATTRS), "xattrs", {}))

    async def rmxattr(self, oid: str, name: str) -> None:
        """Remove one."""
        await self.operate(oid, operation(OpCode.RMXATTR, name))

    # ---- the map that every object of a replicated pool has

    async def omap_set(self, oid: str, values: Mapping[str, Buffer]) -> None:
        """Set some values."""
        await self.operate(oid, operation(OpCode.OMAPSETVALS, values))

    async def omap_get(self, oid: str, prefix: str = "") -> dict[str, bytes]:
        """All values whose keys begin with ``prefix``."""
        values: dict[str, bytes] = {}
        more = True
        while more:
            after = max(values, key=_as_bytes, default="")
            reply = await self.operate(oid, operation(OpCode.OMAPGETVALS, after, PAGE_ENTRIES, prefix))
            page = output_of(reply.ops[0])
            values |= page["values"]
            more = page["truncated"] and bool(page["values"])
        return values

    async def omap_get_keys(self, oid: str) -> list[str]:
        """All keys, sorted."""
        keys: list[str] = []
        more = True
        while more:
            after = keys[-1] if keys else ""
            reply = await self.operate(oid, operation(OpCode.OMAPGETKEYS, after, PAGE_ENTRIES))
            page = output_of(reply.ops[0])
            keys += page["keys"]
            more = page["truncated"] and bool(page["keys"])
        return keys

    async def omap_get_by_keys(self, oid: str, keys: Collection[str]) -> dict[str, bytes]:
        """The values of these keys, of those that are there."""
        return dict(await self._ask(oid, operation(OpCode.OMAPGETVALSBYKEYS, keys), "values", {}))

    async def omap_rm_keys(self, oid: str, keys: Collection[str]) -> None:
        """Remove some keys."""
        await self.operate(oid, operation(OpCode.OMAPRMKEYS, keys))

    async def omap_clear(self, oid: str) -> None:
        """Remove all keys, and the header."""
        await self.operate(oid, operation(OpCode.OMAPCLEAR))

    async def omap_set_header(self, oid: str, header: Buffer) -> None:
        """Set the header."""
        await self.operate(oid, operation(OpCode.OMAPSETHEADER, header))

    async def omap_get_header(self, oid: str) -> bytes:
        """The header; empty if there is none."""
        return bytes(await self._ask(oid, operation(OpCode.OMAPGETHEADER), "header", b""))

    # ---- classes, watches

    async def exec(self, oid: str, cls: str, method: str, data: Buffer = b"") -> bytes:
        """What a method of an object class gives for ``data``."""
        return bytes(await self._ask(oid, operation(OpCode.CALL, cls, method, data), "output", b""))

    async def watch(self, oid: str, timeout_s: int = 0) -> Watch:
        """Watch an object for notifications; leave the watch, or close it, to end that.

        Args:
            oid: which; ENOENT if it does not exist.
            timeout_s: how long the OSD waits for a watcher that it cannot reach; 0 is the OSD's own default.
        """
        watch = Watch(self, self._objecter.lingering, oid, next(_cookies), timeout_s)
        return await watch.open()

    async def notify(self, oid: str, payload: Buffer = b"", timeout_s: int = 10) -> NotifyResult:
        """Notify the watchers of an object, and wait until each has acknowledged or had time to."""
        while True:
            cookie, notify = next(_cookies), Notify(oid)
            self._objecter.lingering[cookie] = notify
            try:
                op = operation(OpCode.NOTIFY, 1, timeout_s, payload, cookie=cookie)
                await self.operate(oid, op, on_success=notify.settle)
                result = await notify.result
            finally:
                del self._objecter.lingering[cookie]
            if result is not None:
                return result

    async def list_watchers(self, oid: str) -> list[Watcher]:
        """The watchers of an object."""
        return list(await self._ask(oid, operation(OpCode.LIST_WATCHERS), "watchers", []))

    # ---- several at once

    async def operate(
        self,
        oid: str,
        *ops: OsdOp,
        once: bool = False,
        on_success: Callable[[Request], None] | None = None,
    ) -> MOSDOpReply:
        """Operations on one object, done all or none.

        Args:
            oid: the object.
            ops: made with :func:`messenger.messages.osd_op_data.operation`.
            once: fail with ECONNRESET rather than ask again when the OSD is lost before it answers.
            on_success: called as soon as the OSD has done them.

        Returns:
            The reply; :func:`messenger.messages.osd_op_data.output_of` reads what its operations give.
        """
        locator = ObjectLocator(await self._resolve(), key=self.locator_key, nspace=self.namespace)
        flags = flags_for(ops)
        # methods of classes may write, whatever their operation's mode
        writes = flags & RequestFlag.WRITE or any(op.code == OpCode.CALL for op in ops)
        mtime = UTime.from_seconds(time.time()) if writes else EPOCH
        return await self._objecter.submit(
            Request(locator, oid, list(ops), flags, mtime, once=once, on_success=on_success)
        )

    async def _ask(self, oid: str, op: OsdOp, name: str, otherwise: Any) -> Any:  # noqa: ANN401 - by the table
        reply = await self.operate(oid, op)
        return output_of(reply.ops[0]).get(name, otherwise)

    async def _resolve(self) -> int:
        """The pool's id, which a later renaming does not change."""
        if self._pool_id is None:
            self._pool_id = await self._objecter.pool_id(self.pool)
        return self._pool_id


def _as_bytes(key: str) -> bytes:
    """OSDs sort keys by their bytes."""
    return key.encode("utf-8", "surrogateescape")
