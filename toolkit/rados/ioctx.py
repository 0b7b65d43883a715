"""Operations on the objects of one pool."""

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
from toolkit.rados.watches import Notify, NotifyResult, Watch

ALL_NAMESPACES = "\x01"
"""Namespace of an IoCtx that lists the objects of all namespaces."""

PAGE_ENTRIES = 1000
"""Number of names or values per request; OSDs may return fewer."""

_cookies = count(1)


@dataclass(frozen=True, slots=True)
class Stat:
    """Size and modification time of an object."""

    size_bytes: int
    mtime: UTime


class IoCtx:
    """A pool and a namespace in it. Every method raises RadosError if the cluster rejects the request.

    Args:
        objecter: sends the requests.
        pool: name of the pool; looked up at the first request.
        namespace: namespace; objects of the same name in different namespaces are different objects.
        locator_key: if not empty, objects are placed by this key instead of by their names.
    """

    def __init__(self, objecter: Objecter, pool: str, namespace: str = "", locator_key: str = "") -> None:
        self.pool = pool
        self.namespace = namespace
        self.locator_key = locator_key
        self._objecter = objecter
        self._pool_id: int | None = None

    # ---- whole objects

    async def write_full(self, oid: str, data: Buffer) -> None:
        """Replace the data of an object, which is made if it does not exist."""
        await self.operate(oid, operation(OpCode.WRITEFULL, data))

    async def write(self, oid: str, data: Buffer, offset: int = 0) -> None:
        """Overwrite a part of the object; a gap between its end and ``offset`` is filled with zeros."""
        await self.operate(oid, operation(OpCode.WRITE, data, offset=offset))

    async def append(self, oid: str, data: Buffer) -> None:
        """Append to the object."""
        await self.operate(oid, operation(OpCode.APPEND, data))

    async def read(self, oid: str, length: int = 0, offset: int = 0) -> bytes:
        """Return a part of the object, up to its end if ``length`` is 0; the result is shorter at its end."""
        return bytes(await self._ask(oid, operation(OpCode.READ, offset=offset, length=length), "data", b""))

    async def stat(self, oid: str) -> Stat:
        """Return size and modification time."""
        reply = await self.operate(oid, operation(OpCode.STAT))
        return Stat(*output_of(reply.ops[0]).values())

    async def truncate(self, oid: str, size_bytes: int) -> None:
        """Truncate the object to that size, or extend it with zeros."""
        await self.operate(oid, operation(OpCode.TRUNCATE, offset=size_bytes))

    async def zero(self, oid: str, offset: int, length: int) -> None:
        """Overwrite a part of the object with zeros."""
        await self.operate(oid, operation(OpCode.ZERO, offset=offset, length=length))

    async def create(self, oid: str, *, exclusive: bool = True) -> None:
        """Make an empty object; EEXIST if it exists, unless ``exclusive`` is False."""
        await self.operate(oid, operation(OpCode.CREATE, op_flags=OpFlag.EXCL if exclusive else 0))

    async def remove(self, oid: str) -> None:
        """Remove the object."""
        await self.operate(oid, operation(OpCode.DELETE))

    async def list_objects(self) -> AsyncIterator[ListEntry]:
        """Yield the objects of the namespace, in the order of their hashes.

        Objects that exist throughout are listed once; those that are made or removed meanwhile may be listed.
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
        """Set an extended attribute."""
        await self.operate(oid, operation(OpCode.SETXATTR, name, value))

    async def getxattr(self, oid: str, name: str) -> bytes:
        """Return the value of an attribute; ENODATA if it does not exist."""
        return bytes(await self._ask(oid, operation(OpCode.GETXATTR, name), "value", b""))

    async def getxattrs(self, oid: str) -> dict[str, bytes]:
        """Return all attributes."""
        return dict(await self._ask(oid, operation(OpCode.GETXATTRS), "xattrs", {}))

    async def rmxattr(self, oid: str, name: str) -> None:
        """Remove an attribute."""
        await self.operate(oid, operation(OpCode.RMXATTR, name))

    # ---- the map that every object of a replicated pool has

    async def omap_set(self, oid: str, values: Mapping[str, Buffer]) -> None:
        """Set omap values."""
        await self.operate(oid, operation(OpCode.OMAPSETVALS, values))

    async def omap_get(self, oid: str, prefix: str = "") -> dict[str, bytes]:
        """Return all omap values whose keys begin with ``prefix``."""
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
        """Return all omap keys, sorted."""
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
        """Return the values of those of these keys that exist."""
        return dict(await self._ask(oid, operation(OpCode.OMAPGETVALSBYKEYS, keys), "values", {}))

    async def omap_rm_keys(self, oid: str, keys: Collection[str]) -> None:
        """Remove omap keys."""
        await self.operate(oid, operation(OpCode.OMAPRMKEYS, keys))

    async def omap_clear(self, oid: str) -> None:
        """Remove all omap keys and the omap header."""
        await self.operate(oid, operation(OpCode.OMAPCLEAR))

    async def omap_set_header(self, oid: str, header: Buffer) -> None:
        """Set the omap header."""
        await self.operate(oid, operation(OpCode.OMAPSETHEADER, header))

    async def omap_get_header(self, oid: str) -> bytes:
        """Return the omap header; empty if there is none."""
        return bytes(await self._ask(oid, operation(OpCode.OMAPGETHEADER), "header", b""))

    # ---- classes, watches

    async def exec(self, oid: str, cls: str, method: str, data: Buffer = b"") -> bytes:
        """Call a method of an object class with ``data``; returns its output."""
        return bytes(await self._ask(oid, operation(OpCode.CALL, cls, method, data), "output", b""))

    async def watch(self, oid: str, timeout_s: int = 0) -> Watch:
        """Watch an object for notifications; leaving the watch's ``async with`` block or closing it ends it.

        Args:
            oid: name of the object; ENOENT if it does not exist.
            timeout_s: time after which the OSD drops an unreachable watcher; 0 for the OSD's default.
        """
        watch = Watch(self, self._objecter.lingering, oid, next(_cookies), timeout_s)
        return await watch.open()

    async def notify(self, oid: str, payload: Buffer = b"", timeout_s: int = 10) -> NotifyResult:
        """Notify the watchers of an object, and wait until each has acknowledged or the time is over."""
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
        """Return the watchers of an object."""
        return list(await self._ask(oid, operation(OpCode.LIST_WATCHERS), "watchers", []))

    # ---- several at once

    async def operate(
        self,
        oid: str,
        *ops: OsdOp,
        once: bool = False,
        on_success: Callable[[Request], None] | None = None,
    ) -> MOSDOpReply:
        """Run operations on one object; either all of them take effect or none.

        Args:
            oid: name of the object.
            ops: operations, made with :func:`messenger.messages.osd_op_data.operation`.
            once: True to fail with ECONNRESET, instead of resending, if the session is lost before the reply.
            on_success: called as soon as the OSD's reply has arrived.

        Returns:
            The reply; :func:`messenger.messages.osd_op_data.output_of` decodes the output of its operations.
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
        """Return the pool's id, which stays the same when the pool is renamed."""
        if self._pool_id is None:
            self._pool_id = await self._objecter.pool_id(self.pool)
        return self._pool_id


def _as_bytes(key: str) -> bytes:
    """OSDs sort keys by their bytes."""
    return key.encode("utf-8", "surrogateescape")
