"""Commands of a client node: write, read and watch objects, and report its state."""

import asyncio
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

from messenger.driver import Connection, Driver
from messenger.errors import LocalError, MsgrError
from toolkit.node.inside import Inside
from toolkit.node.recording_messenger import Write
from toolkit.rados.errors import RadosError
from toolkit.rados.ioctx import IoCtx
from toolkit.rados.node.recording_client import RecordingClient
from toolkit.rados.node.registers import Registers
from toolkit.rados.node.spec import RadosSpec
from toolkit.rados.watches import Watch

CONNECT_TIMEOUT_S = 15.0
WAIT_S = 10.0
"""Default time to wait for an operation's result; after that the operation continues in the background."""
_DIGEST_BYTES = 8


@dataclass(slots=True)
class _Operation:
    """A pending or completed operation."""

    number: int
    verb: str
    oid: str
    task: "asyncio.Task[dict[str, Any]]"

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        if not self.task.done() or self.task.cancelled():
            return ""
        error = self.task.exception()
        return "" if error is None else str(error)

    def as_json(self) -> dict[str, Any]:
        """Return the state of the operation."""
        about = {"operation": self.number, "verb": self.verb, "oid": self.oid}
        if not self.task.done():
            return about | {"state": "pending"}
        return about | ({"state": "failed", "error": self.error} if self.error else {"state": "done"})


@dataclass(slots=True)
class _Written:
    """Expected content of an object."""

    digest: str = ""
    """Digest of the data that was acknowledged last."""
    unsure: set[int] = field(default_factory=set)
    """Writes without a known result, which may still take effect."""


class RadosApp(Inside):
    """Runs commands on the objects of a pool.

    Args:
        spec: options of the client.
        write: takes history records.
    """

    VERBS: ClassVar[tuple[str, ...]] = (
        *("put", "get", "stat", "remove", "fill", "verify", "wait", "operations", "registers"),
        *("watch", "unwatch", "notify", "notifications", "map", "configure"),
        *("perf_dump", "snapshot", "session", "sessions", "resources", "holdings"),
        *("limit_descriptors", "limit_memory", "own_address"),
    )
    """Methods that are commands, over the control channel of a process."""

    def __init__(self, spec: RadosSpec, write: Write) -> None:
        self.spec = spec
        self._client = RecordingClient.connect(
            spec.monitors, entity=spec.rados, keyring=spec.keys, config=spec.config(), timeout_s=CONNECT_TIMEOUT_S
        )
        self._client.become(spec, write)
        self._registers = Registers(spec, lambda: self._pool, write)
        self._numbers = count(1)
        self._operations: list[_Operation] = []
        self._objects: dict[str, _Written] = {}
        self._watches: dict[str, Watch] = {}
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._notifications: list[dict[str, Any]] = []

    async def open(self) -> None:
        """Connect to the cluster.

        Raises:
            LocalError: the monitors reject it, or none answers.
        """
        try:
            await self._client.__aenter__()
        except MsgrError as error:
            raise LocalError(str(error)) from None

    async def close(self) -> None:
        """Cancel all pending operations and disconnect."""
        tasks = [operation.task for operation in self._operations] + list(self._listeners.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._registers.cancel(), *tasks, return_exceptions=True)
        await self._client.__aexit__(None, None, None)

    async def carry_out(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a command and return its answer.

        Raises:
            LocalError: there is no such command.
            MsgrError: it failed.
            TypeError: its arguments are wrong.
        """
        if verb not in self.VERBS:
            raise LocalError(f"unknown verb {verb!r}; known: {', '.join(sorted(self.VERBS))}")
        self._connections: dict[str, Connection] = self._client.connections
        answer = getattr(self, verb)(**args)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer or {}

    @property
    def driver(self) -> Driver:
        """The client's messenger."""
        return self._client.messenger

    @property
    def _pool(self) -> IoCtx:
        return self._client.pool(self.spec.pool)

    # ---- objects

    async def put(self, oid: str, text: str = "", size_bytes: int = 0, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Write an object with this text, or with ``size_bytes`` bytes that no other write has."""
        data = text.encode() if text or not size_bytes else self._payload(oid, size_bytes)
        return await self._answered(self._write(oid, data), wait_s)

    async def fill(
        self, count: int, size_bytes: int = 4096, prefix: str = "object", wait_s: float = WAIT_S
    ) -> dict[str, Any]:
        """Write ``count`` objects at once: PREFIX0 and so on."""
        for number in range(count):
            oid = f"{prefix}{number}"
            self._write(oid, self._payload(oid, size_bytes))
        return await self.wait(wait_s)

    async def get(self, oid: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Read an object; returns its size, a digest, and its text if it is short."""

        async def read() -> dict[str, Any]:
            data = await self._pool.read(oid)
            about = {"size_bytes": len(data), "digest": _digest(data)}
            return about | ({"text": data.decode(errors="replace")} if len(data) <= 1 << 10 else {})

        return await self._answered(self._begin("get", oid, read()), wait_s)

    async def stat(self, oid: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Return size and modification time of an object."""

        async def stat() -> dict[str, Any]:
            found = await self._pool.stat(oid)
            return {"size_bytes": found.size_bytes, "mtime": str(found.mtime)}

        return await self._answered(self._begin("stat", oid, stat()), wait_s)

    async def remove(self, oid: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Remove an object."""

        async def remove() -> dict[str, Any]:
            await self._pool.remove(oid)
            self._objects.pop(oid, None)
            return {}

        return await self._answered(self._begin("remove", oid, remove()), wait_s)

    async def verify(self, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Read back all objects whose last write was acknowledged, and compare their content."""
        certain = {oid: each.digest for oid, each in self._objects.items() if each.digest and not each.unsure}
        wrong = []
        try:
            async with asyncio.timeout(wait_s):
                for oid, digest in certain.items():
                    if await self._digest_of(oid) != digest:
                        wrong.append(oid)
        except TimeoutError:
            raise LocalError(f"not all of {len(certain)} objects could be read within {wait_s:g} s") from None
        return {"checked": len(certain), "wrong": wrong}

    async def _digest_of(self, oid: str) -> str:
        try:
            return _digest(await self._pool.read(oid))
        except RadosError:
            return ""  # it is gone

    def _write(self, oid: str, data: bytes) -> _Operation:
        known = self._objects.setdefault(oid, _Written())

        async def write() -> dict[str, Any]:
            await self._pool.write_full(oid, data)
            known.digest = _digest(data)
            known.unsure.discard(operation.number)
            return {"size_bytes": len(data), "digest": known.digest}

        operation = self._begin("put", oid, write())
        known.unsure.add(operation.number)
        return operation

    def _payload(self, oid: str, size_bytes: int) -> bytes:
        label = f"{self.spec.rados} {self.spec.incarnation} {oid} {next(self._numbers)} ".encode()
        return (label * (size_bytes // len(label) + 1))[:size_bytes]

    async def registers(self, every_ms: float = 50.0, objects: int = 3, count: int = 0) -> dict[str, Any]:
        """Start or stop the workload ``rados-register`` on objects that several clients share.

        Returns whether the workload is still busy. The history has all its operations.

        Args:
            every_ms: interval between operations; 0 stops the workload.
            objects: number of objects.
            count: number of operations; 0 for no end.

        Raises:
            LocalError: too many objects, or a negative number.
        """
        if every_ms:
            await self._registers.begin(objects, every_ms, count)
        else:
            self._registers.end()
        return {"busy": self._registers.is_busy}

    # ---- what goes on

    def operations(self) -> dict[str, Any]:
        """Return the number of completed operations, and the pending and failed ones."""
        done = [operation for operation in self._operations if operation.task.done() and not operation.error]
        others = [operation for operation in self._operations if operation not in done]
        return {
            "done": len(done),
            "pending": [operation.as_json() for operation in others if not operation.error],
            "failed": [operation.as_json() for operation in others if operation.error],
        }

    async def wait(self, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Wait for all pending operations; returns :meth:`operations`."""
        if pending := [operation.task for operation in self._operations if not operation.task.done()]:
            await asyncio.wait(pending, timeout=wait_s)
        return self.operations()

    def _begin(self, verb: str, oid: str, work: Coroutine[Any, Any, dict[str, Any]]) -> _Operation:
        task = asyncio.get_running_loop().create_task(work)
        operation = _Operation(next(self._numbers), verb, oid, task)
        self._operations.append(operation)
        return operation

    @staticmethod
    async def _answered(operation: _Operation, wait_s: float) -> dict[str, Any]:
        """Wait for an operation and return its result, or that it is pending; raises RadosError if it failed."""
        await asyncio.wait([operation.task], timeout=wait_s)
        return operation.as_json() | (operation.task.result() if operation.task.done() else {})

    # ---- watches

    async def watch(self, oid: str, timeout_s: int = 0) -> None:
        """Watch an object, and acknowledge every notification."""
        if oid in self._watches:
            raise LocalError(f"{oid} is watched already")
        watch = await self._pool.watch(oid, timeout_s)
        self._watches[oid] = watch
        self._listeners[oid] = asyncio.get_running_loop().create_task(self._listen(oid, watch))

    async def _listen(self, oid: str, watch: Watch) -> None:
        try:
            while True:
                notification = await watch.get()
                self._notifications.append({"oid": oid, "text": notification.payload.decode(errors="replace")})
                await notification.ack(self.spec.name.encode())
        except MsgrError as error:
            self._notifications.append({"oid": oid, "error": str(error)})

    async def unwatch(self, oid: str) -> None:
        """Stop watching an object."""
        if oid not in self._watches:
            raise LocalError(f"{oid} is not watched")
        self._listeners.pop(oid).cancel()
        await self._watches.pop(oid).close()

    async def notify(self, oid: str, text: str = "", timeout_s: int = 5) -> dict[str, Any]:
        """Notify the watchers of an object; returns their replies, and the watchers that timed out."""
        result = await self._pool.notify(oid, text.encode(), timeout_s)
        replies = [reply.decode(errors="replace") for reply in result.replies.values()]
        return {"replies": replies, "missed": [list(watcher) for watcher in result.missed]}

    def notifications(self) -> dict[str, Any]:
        """Return the notifications received, including errors that ended a watch."""
        return {"heard": self._notifications, "watches": sorted(self._watches)}

    # ---- the rest

    def map(self) -> dict[str, Any]:
        """Return the client's view of the cluster: global id, epoch, monitors and pools."""
        osdmap = self._client.osdmap
        return {
            "global_id": self._client.global_id,
            "epoch": osdmap.epoch,
            "monitors": sorted(self._client.monmap.mon_info),
            "pools": sorted(osdmap.pool_names.values()),
        }

    def configure(self, options: dict[str, Any]) -> None:
        """Change options of its messenger."""
        self.driver.endpoint.configure(**options)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
