"""The workload ``rados-register``: a client operates on a few shared objects, and records every call and reply.

Each written value is unique, so that a read shows which writes it has seen.
"""

import asyncio
import contextlib
import errno
import time
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from messenger.errors import LocalError, MsgrError
from toolkit.node.recording_messenger import Write
from toolkit.rados.errors import RadosError
from toolkit.rados.ioctx import IoCtx
from toolkit.rados.node.spec import RadosSpec

MOST_OBJECTS = 64
ANSWER_S = 30.0
"""Time limit of an operation; after that its effect is unknown."""
_KEYS = 3
_REFUSALS = frozenset({errno.EEXIST, errno.ENOENT})
"""Errors that show the object's state; the operation had no effect."""
_SHARES = {"read": 30, "append": 20, "write": 15, "omap_set": 10, "omap_get": 10, "create": 8, "remove": 7}
"""Probability of each operation, in percent."""


class Registers:
    """Runs one operation after the other on shared objects.

    Args:
        spec: spec of the client.
        pool: returns the pool; called for each operation.
        write: takes history records.
        answer_s: time limit of an operation.
    """

    def __init__(
        self, spec: RadosSpec, pool: Callable[[], IoCtx], write: Write, answer_s: float = ANSWER_S
    ) -> None:
        self._spec = spec
        self._pool = pool
        self._write = write
        self._answer_s = answer_s
        self._random = Random(f"registers {spec.seed} {spec.name} {spec.incarnation}")
        self._numbers = count(1)
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """True while operations are running or due."""
        return self._task is not None and not self._task.done()

    async def begin(self, objects: int, every_ms: float, number: int) -> None:
        """Start the workload, in place of one that is running.

        Args:
            objects: number of objects, ``register0`` and so on.
            every_ms: interval between the starts of operations, longer if one takes longer.
            number: number of operations, followed by a final read of each object; 0 until :meth:`end`.

        Raises:
            LocalError: too many objects, or a negative number.
        """
        if not 1 <= objects <= MOST_OBJECTS or every_ms <= 0 or number < 0:
            raise LocalError(
                f"registers: give 1 to {MOST_OBJECTS} objects, every_ms above 0, and no negative number"
            )
        await self.cancel()
        self._ended.clear()
        oids = [f"register{each}" for each in range(objects)]
        self._task = asyncio.get_running_loop().create_task(self._run(oids, every_ms / 1000, number))

    def end(self) -> None:
        """Start no more operations, except a final read of each object."""
        self._ended.set()

    async def cancel(self) -> None:
        """Cancel the operation in progress; its effect is unknown."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, oids: list[str], every_s: float, number: int) -> None:
        done = count(1)
        while not self._ended.is_set():
            next_s = time.monotonic() + every_s
            (verb,) = self._random.choices(list(_SHARES), list(_SHARES.values()))
            await self._operate(verb, self._random.choice(oids))
            if next(done) == number:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), max(0.0, next_s - time.monotonic()))
        for oid in oids:
            await self._operate("read", oid)
            await self._operate("omap_get", oid)

    async def _operate(self, verb: str, oid: str) -> None:
        """Run an operation, and record the call and the result."""
        number = next(self._numbers)
        label = f"{self._spec.incarnation}.{number}"
        token = f"{self._spec.name}.{label};"
        given: dict[str, Any] = {}
        if verb in {"write", "append"}:
            given = {"value": token}
        elif verb == "omap_set":
            given = {"value": {f"key{number % _KEYS}": token}}
        about = {"number": label, "verb": verb, "object": f"{self._spec.pool}/{oid}"}
        self._record(about | {"action": "invoke"} | given)
        answer: dict[str, Any]
        try:
            async with asyncio.timeout(self._answer_s):
                seen = await self._carry_out(verb, oid, given.get("value"))
        except TimeoutError:
            answer = {"action": "unknown", "error": f"no answer within {self._answer_s:g} s"}
        except RadosError as error:
            name = errno.errorcode.get(error.errno, str(error.errno))
            answer = {"action": "fail" if error.errno in _REFUSALS else "unknown", "error": name}
        except MsgrError as error:
            answer = {"action": "unknown", "error": str(error)}
        else:
            answer = {"action": "ok"} | ({} if seen is None else {"value": seen})
        self._record(about | answer)

    async def _carry_out(self, verb: str, oid: str, value: Any) -> str | dict[str, str] | None:  # noqa: ANN401 - JSON
        pool = self._pool()
        if verb == "read":
            return _text(await pool.read(oid))
        if verb == "omap_get":
            return {key: _text(found) for key, found in (await pool.omap_get(oid)).items()}
        if verb == "omap_set":
            await pool.omap_set(oid, {key: text.encode() for key, text in value.items()})
        elif verb == "write":
            await pool.write_full(oid, value.encode())
        elif verb == "append":
            await pool.append(oid, value.encode())
        elif verb == "create":
            await pool.create(oid)
        else:
            await pool.remove(oid)
        return None

    def _record(self, fields: dict[str, Any]) -> None:
        self._write(time.monotonic() - self._spec.start_s, "operation", fields)


def _text(data: bytes) -> str:
    """Decode what was read; invalid bytes stay visible as escapes."""
    return data.decode("ascii", "backslashreplace")
