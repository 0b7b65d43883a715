"""An event loop in a thread of its own, which runs a shard of a live messenger (docs/protocol.md §4.12).

Streams move here when their links open. Calls go in both directions by ``call_soon_threadsafe``, all those of one
turn of a loop together.
"""

import asyncio
import threading
import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from messenger.calls import ToShard
from messenger.denc.codec import Buffer
from messenger.outputs import CallHome, CloseLink, Escaped, Output, PauseLink, ShutLink, TraceRecord, WriteLink
from messenger.shards.io_shard import IoShard
from messenger.transport.base import Stream
from messenger.transport.stream_link import StreamLink

MovedStream = tuple[int, Stream, deque[Buffer]]
"""Link id, stream, and the bytes not written to it yet."""
_HOME_LOOK_S = 1.0
"""Seconds between two looks whether the home loop was closed."""
ToHomeLoop = list[CallHome | TraceRecord | Escaped]


def _for_another_loop(context: dict[str, Any]) -> dict[str, Any]:
    """A copy of a loop's error report without tasks and handles, in whose context asyncio runs the handler."""
    return {name: value for name, value in context.items() if name not in {"task", "future", "handle"}}


class Worker:
    """A thread with an event loop that runs the data phases of one shard.

    Args:
        shard: the core of the shard.
        home: the home loop. When it is closed, the thread ends and closes its links: their messenger cannot be
            shut down any more, and the peers would wait for it.
        deliver: called on the home loop with the shard's outputs for it.
    """

    def __init__(
        self,
        shard: IoShard,
        home: asyncio.AbstractEventLoop,
        deliver: Callable[[ToHomeLoop], None],
    ) -> None:
        self._shard = shard
        self._home = home
        self._deliver = deliver
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(
            lambda _loop, context: self._at_home(partial(home.call_exception_handler, _for_another_loop(context)))
        )
        self._links: dict[int, StreamLink] = {}
        self._for_home: ToHomeLoop = []
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name=f"msgr-worker-{shard.index}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the machine has no room for another thread
            self._loop.close()
            raise

    # ---- from the home loop's thread

    def call(self, streams: list[MovedStream], calls: list[ToShard]) -> None:
        """Hand byte streams and calls to the shard."""
        self._loop.call_soon_threadsafe(self._called, streams, calls)

    def stop(self) -> None:
        """Stop the thread after all earlier calls were handled."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._look_for_home()
        self._loop.run_forever()
        for link in self._links.values():
            link.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._home.is_closed():
            self._loop.close()
            name = threading.current_thread().name
            warnings.warn(f"{name}: its messenger was never shut down", ResourceWarning, stacklevel=1)

    def _look_for_home(self) -> None:
        if self._home.is_closed():
            self._loop.stop()
        else:
            self._loop.call_later(_HOME_LOOK_S, self._look_for_home)

    def _at_home(self, function: Callable[[], None]) -> None:
        """Call a function on the home loop."""
        try:
            self._home.call_soon_threadsafe(function)
        except RuntimeError:  # it is closed
            self._loop.stop()

    def _called(self, streams: list[MovedStream], calls: list[ToShard]) -> None:
        now = self._loop.time()
        for call in calls:
            self._shard.call(call, now)
        for link_id, stream, pending in streams:
            stream.move_to(self._loop)
            link = self._links[link_id] = StreamLink(stream, self._shard, link_id, self._pump, pending)
            link.start()
        self._pump()

    def _pump(self) -> None:
        while outputs := self._shard.drain(self._loop.time()):
            for output in outputs:
                self._carry_out(output)
        if self._for_home:
            for_home, self._for_home = self._for_home, []
            self._at_home(lambda: self._deliver(for_home))
        self._set_timer(self._shard.next_deadline())

    def _carry_out(self, output: Output) -> None:
        if isinstance(output, CallHome | TraceRecord | Escaped):
            self._for_home.append(output)
        elif isinstance(output, WriteLink):
            if (link := self._links.get(output.link_id)) is not None:
                link.write(output.buffers)
        elif isinstance(output, CloseLink):
            if (link := self._links.pop(output.link_id, None)) is not None:
                link.close()
        elif isinstance(output, PauseLink):
            if (link := self._links.get(output.link_id)) is not None:
                link.pause(paused=output.paused)
        elif isinstance(output, ShutLink) and (link := self._links.get(output.link_id)) is not None:
            link.shut()

    def _set_timer(self, deadline_s: float | None) -> None:
        if self._timer is not None:
            if self._timer.when() == deadline_s:
                return
            self._timer.cancel()
        self._timer = None if deadline_s is None else self._loop.call_at(deadline_s, self._on_timer)

    def _on_timer(self) -> None:
        assert self._timer is not None
        due_s = self._timer.when()
        self._timer = None
        self._shard.timer(max(self._loop.time(), due_s))
        self._pump()
