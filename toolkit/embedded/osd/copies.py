"""Copying an object from another one, of this OSD or of another (COPY_FROM, docs/protocol.md §6.4.1)."""

import asyncio
import errno
from collections.abc import Callable, Iterator
from typing import Any

from messenger.errors import DecodeError
from messenger.messages.osd_objects import ObjectLocator
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import input_of, operation, output_of
from messenger.messages.osd_operations import OpCode, OsdOp
from toolkit.embedded.osd.attribute_ops import MOST_ENTRIES
from toolkit.embedded.osd.omap import Omap, as_bytes
from toolkit.embedded.osd.store import StoredObject
from toolkit.embedded.osd.work import OpError, Source, Work, handles
from toolkit.rados.errors import RadosError
from toolkit.rados.objecter import Objecter
from toolkit.rados.request import Request, flags_for


def sources_of(request: MOSDOp) -> Iterator[Source]:
    """Yield the objects that a request copies; malformed operations are skipped, and fail when they are run."""
    for op in request.ops:
        if op.code == OpCode.COPY_FROM:
            try:
                yield _source(op, input_of(op))
            except DecodeError:
                continue


def _source(op: OsdOp, given: dict[str, Any]) -> Source:
    return Source(given["locator"], given["oid"], op.args["snapid"])


async def fetch(objecter: Objecter, source: Source) -> StoredObject | int:
    """Read an object from the OSD that has it; returns its state, or the error number of the refusal."""
    try:
        while True:
            try:
                return await _fetch(objecter, source)
            except RadosError as error:
                if error.errno not in (errno.ERANGE, errno.EOVERFLOW):  # it has changed meanwhile
                    return error.errno
    except DecodeError:
        return errno.EIO


async def _fetch(objecter: Objecter, source: Source) -> StoredObject:
    ops = [operation(OpCode.READ), operation(OpCode.STAT), operation(OpCode.GETXATTRS)]
    ops += [operation(OpCode.OMAPGETHEADER), operation(OpCode.OMAPGETVALS, "", MOST_ENTRIES, "")]
    reply = await objecter.submit(_request(source, ops))
    data, stat, xattrs, header, page = (output_of(op) for op in reply.ops)
    omap: dict[str, bytes] = dict(page.get("values", {}))
    version = reply.user_version
    while page.get("truncated"):
        ops = [operation(OpCode.ASSERT_VER, ver=version)]
        ops.append(operation(OpCode.OMAPGETVALS, max(page["values"], key=as_bytes), MOST_ENTRIES, ""))
        page = output_of((await objecter.submit(_request(source, ops))).ops[1])
        omap |= page["values"]
    return StoredObject(
        bytes(data.get("data", b"")),
        dict(xattrs.get("xattrs", {})),
        Omap(omap),
        bytes(header.get("header", b"")),
        stat["mtime"],
        version,
    )


def _request(source: Source, ops: list[OsdOp]) -> Request:
    locator = ObjectLocator(source.locator.pool, key=source.locator.key, nspace=source.locator.nspace)
    return Request(locator, source.oid, ops, flags_for(ops), snapid=source.snapid)


class Copier:
    """Reads the objects that requests copy from other OSDs; later requests of the connection wait meanwhile."""

    objecter: Objecter
    """Sends requests to other OSDs; its owner sets it, and passes it the events of its connections."""

    def __init__(self) -> None:
        self._reading: set[object] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def holds(self, connection: object) -> bool:
        """True while a request of the connection waits for objects."""
        return connection in self._reading

    def read(self, connection: object, wanted: list[Source], run: Callable[[dict[Source, Any]], None]) -> None:
        """Read objects, then call ``run`` with their states, unless the connection is lost meanwhile."""
        self._reading.add(connection)
        task = asyncio.get_running_loop().create_task(self._read(connection, wanted, run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(
        self, connection: object, wanted: list[Source], run: Callable[[dict[Source, Any]], None]
    ) -> None:
        states = {source: await fetch(self.objecter, source) for source in wanted}
        if connection in self._reading:  # else it is lost: the client sends its requests again
            self._reading.discard(connection)
            run(states)

    def lost(self, connection: object) -> None:
        """Forget the request of a connection."""
        self._reading.discard(connection)

    async def stop(self) -> None:
        """Stop reading."""
        await self.objecter.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@handles(OpCode.COPY_FROM)
def copy_from(work: Work, op: OsdOp, given: dict[str, Any]) -> None:
    """Replace the object with a copy of another; ERANGE, EOVERFLOW: that one has another version."""
    state = work.sources.get(_source(op, given), errno.ENOENT)
    if isinstance(state, int):
        raise OpError(state)
    wanted = op.args["src_version"]
    if wanted and wanted != state.user_version:
        raise OpError(errno.ERANGE if wanted < state.user_version else errno.EOVERFLOW)
    work.change(data=state.data, xattrs=state.xattrs, omap=state.omap, omap_header=state.omap_header)
