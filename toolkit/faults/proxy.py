"""A TCP proxy that knows frames: everything between two parties passes through a tap that can cut it.

It runs in a thread of its own, so that scripts, tests and notebooks can use it from ordinary code.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from messenger.errors import LocalError
from toolkit.dissect.follow import Direction, Keys
from toolkit.faults.tap import Breakpoint, LinkTap

_READ_BYTES = 256 * 1024
_LINGER_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with time 0: closing sends RST, as a crashed peer or a firewall would."""


@dataclass(slots=True, eq=False)
class _Crossing:
    """One proxied connection."""

    tap: LinkTap
    writers: dict[Direction, asyncio.StreamWriter]
    """Towards the receiver of each direction."""

    def reset(self) -> None:
        """End both sides with RST."""
        for writer in self.writers.values():
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            writer.transport.abort()


class FaultProxy:
    """Stands between ``connector`` and ``acceptor``.

    Args:
        connector: name of the party that dials the proxy.
        acceptor: name of the party behind it.
        target: HOST, PORT of the party behind it.
        breakpoints: where to cut; the list is shared and may grow while traffic flows.
        keys: needed to see frames of secure links.
        struck: called when a breakpoint has cut a link, in the proxy's thread.

    Raises:
        LocalError: no port could be opened.
    """

    def __init__(
        self,
        connector: str,
        acceptor: str,
        target: tuple[str, int],
        breakpoints: list[Breakpoint] | None = None,
        keys: Keys | None = None,
        struck: Callable[[Breakpoint], None] = lambda _breakpoint: None,
    ) -> None:
        self._names = (connector, acceptor)
        self._target = target
        self._breakpoints = breakpoints if breakpoints is not None else []
        self._keys = keys
        self._struck = struck
        self._crossings: set[_Crossing] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"proxy {connector}-{acceptor}", daemon=True)
        self._started = threading.Event()
        self._failure: OSError | None = None
        self.port = 0
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise LocalError(f"proxy {connector}-{acceptor} cannot listen: {self._failure.strerror}")

    def __enter__(self) -> "FaultProxy":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def cut(self) -> int:
        """Cut everything that passes now; returns how many connections that were."""

        async def cut_all() -> int:
            crossings = list(self._crossings)
            for crossing in crossings:
                crossing.reset()
            return len(crossings)

        return asyncio.run_coroutine_threadsafe(cut_all(), self._loop).result()

    def close(self) -> None:
        """Stop listening and end everything that passes."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    # ---- in the proxy's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            server = self._loop.run_until_complete(asyncio.start_server(self._accepted, "127.0.0.1", 0))
        except OSError as error:
            self._failure = error
            self._loop.close()
            self._started.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for crossing in list(self._crossings):
                crossing.reset()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.ExitStack() as undo:
            # Whatever ends this, a stopping loop included, neither side is left open.
            undo.callback(writer.transport.abort)
            try:
                onward_reader, onward_writer = await asyncio.open_connection(*self._target)
            except OSError:
                return
            undo.callback(onward_writer.transport.abort)
            tap = LinkTap(*self._names, self._breakpoints, self._keys)
            crossing = _Crossing(tap, {Direction.TO_SERVER: onward_writer, Direction.TO_CLIENT: writer})
            self._crossings.add(crossing)
            undo.callback(self._crossings.discard, crossing)
            await asyncio.gather(
                self._pass(crossing, Direction.TO_SERVER, reader, onward_writer),
                self._pass(crossing, Direction.TO_CLIENT, onward_reader, writer),
            )
            for end in crossing.writers.values():
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _pass(
        self,
        crossing: _Crossing,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Move bytes one way until the end or a cut."""
        try:
            while chunk := await reader.read(_READ_BYTES):
                passage = crossing.tap.feed(direction, chunk)
                writer.write(passage.forward)
                await writer.drain()
                if passage.cut is not None:
                    await self._strike(crossing, passage.cut)
                    return
            writer.write(crossing.tap.pending(direction))
            writer.write_eof()
        except (OSError, RuntimeError):
            # One side is gone: so is the other.
            crossing.reset()

    async def _strike(self, crossing: _Crossing, breakpoint_: Breakpoint) -> None:
        """Cut at a breakpoint, after what was to pass has left: bytes still in a send buffer die with an RST."""
        for writer in crossing.writers.values():
            await _flushed(writer)
        crossing.reset()
        self._struck(breakpoint_)


async def _flushed(writer: asyncio.StreamWriter) -> None:
    """Wait, for a moment at most, until the transport's own buffer is empty."""
    for _ in range(100):
        if not writer.transport.get_write_buffer_size():
            return
        await asyncio.sleep(0.001)
