"""A TCP proxy that parses frames: all bytes between two parties pass a tap that can cut and change them.

Faults of the path through it (hold, slow, delay, refuse, half-close, half-open) last until
:meth:`FaultProxy.heal`. A held connection is established all the same, because the kernel accepts it; only no
bytes are forwarded.

It runs in another thread, so that scripts, tests and notebooks can use it from ordinary code.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from messenger.errors import LocalError
from messenger.keylog import LinkSecrets
from messenger.transport.key_log import key_log_writer
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import SeenFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import Ending
from toolkit.faults.crossing import Crossing, end_by_reset, flushed
from toolkit.faults.dials import AtDial, dialled, forget, release
from toolkit.faults.entrances import Entrance, OwnEntrance
from toolkit.faults.passage import SLOW_STEP_S, Aside, Gate, Passage, Step
from toolkit.faults.sockets import Inside, dialling_socket, here, original_target, resolved
from toolkit.faults.strike import Strike
from toolkit.faults.tap import Breakpoint, LinkTap
from toolkit.machine.loops import LoopThread

_READ_BYTES = 256 * 1024
_QUEUED_CHUNKS = 8
"""Most chunks of a direction that wait inside the proxy."""


class Watcher:
    """Observer of a proxy, called in the proxy's thread. Links are numbered from 1."""

    def link_opened(self, link: int, source: str) -> None:
        """Handle a new link, dialled from address ``source``."""

    def link_closed(self, link: int, why: str) -> None:
        """Handle the end of a link; ``why`` is its reason in a few words."""

    def frame(self, link: int, sender: str, frame: SeenFrame) -> None:
        """Handle a frame, as its sender wrote it."""

    def blind(self, link: int, why: str) -> None:
        """Handle a link whose frames cannot be parsed any more."""

    def struck(self, link: int, strike: Strike) -> None:
        """Handle a strike on a link, or on the connection attempt that would have opened it."""


@dataclass(frozen=True, slots=True)
class ProxyLane:
    """State of one direction: how the proxy delays and limits what passes."""

    held: bool
    """True if the proxy forwards nothing."""
    delay_s: float
    jitter_s: float
    """Most seconds that are added to the delay at random."""
    bytes_per_s: float | None
    """Rate limit; None for no limit."""


class _Lane:
    """Mutable state of one direction."""

    def __init__(self) -> None:
        self.passes = asyncio.Event()
        self.heal()

    def heal(self) -> None:
        """Remove all delays and limits."""
        self.passes.set()
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.bytes_per_s: float | None = None


class FaultProxy:
    """A frame-aware TCP proxy between ``connector`` and ``acceptor``.

    Args:
        connector: name of the party that dials the proxy.
        acceptor: name of the party that the proxy dials.
        target: HOST, PORT of the acceptor; None to dial the address that each connection had before it was
            redirected to the proxy (:mod:`toolkit.network.redirect`).
        breakpoints: where to cut, and what to change; the list is shared and may grow while traffic flows.
        keys: keys to parse frames of secure links.
        struck: called when a breakpoint has cut a link or a frame was changed, in the proxy's thread.
        loop: event loop to run in, possibly shared; its own one unless given.
        key_log: file to append the keys of links to (docs/keylog.md), as far as ``keys`` reveal them.
        entrance: where it listens, instead of at ``host`` and ``port``.
        host: address that it listens on, IPv4 or IPv6.
        port: port that it listens on; a free one unless given.
        inside: runs the functions that open its sockets, for example in a network namespace.
        watcher: observer of links and frames.
        follow: True to parse frames; otherwise breakpoints have no effect, and bytes pass with less work.

    Raises:
        LocalError: it cannot listen, the target has no address, or the key log cannot be written.
    """

    def __init__(
        self,
        connector: str,
        acceptor: str,
        target: tuple[str, int] | None,
        breakpoints: list[Strike] | None = None,
        keys: KeyBook | None = None,
        struck: Callable[[Strike], None] = lambda _strike: None,
        loop: LoopThread | None = None,
        key_log: Path | None = None,
        entrance: Entrance | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        inside: Inside = here,
        watcher: Watcher | None = None,
        follow: bool = True,
    ) -> None:
        self._log_line = None if key_log is None else key_log_writer(key_log)
        self._names = (connector, acceptor)
        self._inside = inside
        self._target = None if target is None else inside(lambda: resolved(*target))
        self._breakpoints = breakpoints if breakpoints is not None else []
        self._keys = keys
        self._struck = struck
        self._unseen: Callable[[str], None] = lambda _why: None
        """Called with the reason when the frames of a link cannot be parsed and rules would match them."""
        self._watcher = watcher
        self._follow = follow
        self._dialled = 0
        self._crossings: set[Crossing] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lanes = {direction: _Lane() for direction in Direction}
        self._rng = Random(f"proxy {connector} {acceptor}")
        self._closed = False
        self._shares_loop = loop is not None
        self._thread = loop or LoopThread(f"proxy {connector}-{acceptor}")
        self._loop = self._thread.loop
        self._entrance = entrance or OwnEntrance(host, port, inside)
        try:
            self._entrance.begin(self._thread, self._accepted)
        except OSError as error:
            self.close()
            where = f"{host} port {port or 'any'}"
            raise LocalError(f"proxy {connector}-{acceptor} cannot listen at {where}: {error.strerror}") from None

    def __enter__(self) -> "FaultProxy":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def host(self) -> str:
        """Address at which it listens."""
        return self._entrance.host

    @property
    def port(self) -> int:
        """Port at which it listens."""
        return self._entrance.port

    @property
    def target(self) -> tuple[str, int]:
        """Address and port of the acceptor; only for a proxy with a fixed target."""
        assert self._target is not None, "it dials where it is redirected from"
        host, port, *_ = self._target[1]
        return host, port

    def cut(self) -> int:
        """Cut all present connections; returns their number."""

        async def cut_all() -> int:
            crossings = list(self._crossings)
            for crossing in crossings:
                crossing.reset()
            return len(crossings)

        return self._thread.do(cut_all())

    def hold(self, direction: Direction) -> None:
        """Forward nothing in a direction until :meth:`resume`; bytes wait here and in the sender's kernel."""

        async def hold() -> None:
            self._lanes[direction].passes.clear()

        self._thread.do(hold())

    def resume(self, direction: Direction) -> None:
        """Forward again in a direction that was held."""

        async def resume() -> None:
            self._lanes[direction].passes.set()

        self._thread.do(resume())

    def lane(self, direction: Direction) -> ProxyLane:
        """Return the state of a direction."""

        async def read() -> ProxyLane:
            lane = self._lanes[direction]
            return ProxyLane(not lane.passes.is_set(), lane.delay_s, lane.jitter_s, lane.bytes_per_s)

        return self._thread.do(read())

    def impair(self, direction: Direction, delay_s: float, jitter_s: float, bytes_per_s: float | None) -> None:
        """Set delay and rate of a direction at once; see :meth:`delay` and :meth:`slow`."""

        async def impair() -> None:
            lane = self._lanes[direction]
            lane.delay_s, lane.jitter_s, lane.bytes_per_s = delay_s, jitter_s, bytes_per_s

        self._thread.do(impair())

    def slow(self, direction: Direction, bytes_per_s: float) -> None:
        """Limit the rate of a direction."""

        async def slow() -> None:
            self._lanes[direction].bytes_per_s = bytes_per_s

        self._thread.do(slow())

    def delay(self, direction: Direction, seconds: float, jitter_s: float = 0.0) -> None:
        """Delay everything in a direction by ``seconds``, and by up to ``jitter_s`` more at random."""

        async def delay() -> None:
            self._lanes[direction].delay_s, self._lanes[direction].jitter_s = seconds, jitter_s

        self._thread.do(delay())

    def refuse(self, *, refused: bool = True) -> None:
        """Refuse new connections; ``refused=False`` accepts them again."""

        async def refuse() -> None:
            if refused:
                await self._entrance.shut()
            else:
                await self._entrance.open()

        self._thread.do(refuse())

    def half_close(self, direction: Direction) -> int:
        """Send FIN in one direction of all connections; the other stays open. Returns their number."""

        async def half_close() -> int:
            going = [crossing for crossing in self._crossings if direction not in crossing.ended]
            return sum(self._end_writing(crossing, direction) for crossing in going)

        return self._thread.do(half_close())

    def half_open(self, direction: Direction) -> None:
        """Reset the receivers of a direction; the senders get an error when they next write."""

        async def half_open() -> None:
            for crossing in list(self._crossings):
                crossing.forgotten_by = direction
                crossing.reset_receiver(direction)

        self._thread.do(half_open())

    def heal(self) -> None:
        """Revert all holds, delays, rate limits and refusals."""

        async def heal() -> None:
            for lane in self._lanes.values():
                lane.heal()

        self._thread.do(heal())
        self.refuse(refused=False)

    @property
    def parties(self) -> tuple[str, str]:
        """Names of the connector and of the acceptor."""
        return self._names

    def add_rule(self, rule: str, write: Callable[[str, dict[str, Any], float], None]) -> Callable[[], None]:
        """Add a rule of a script (docs/proxy.md); returns the function that removes it.

        Args:
            rule: the rule; ``->`` matches frames of the connector.
            write: called in the proxy's thread with kind and fields of a history record, and its age in seconds,
                which is 0 here: for each action of the rule, and for each link whose frames it cannot see.

        Raises:
            LocalError: the text is no rule.
        """
        from toolkit.faults.script import strikes  # noqa: PLC0415 - only for proxies with rules
        from toolkit.faults.strike_records import blindness_record, strike_record  # noqa: PLC0415 - as above

        added = strikes(rule, *self._names)
        if not all(isinstance(strike, AtDial) for strike in added):
            self._unseen = lambda why: write(*blindness_record(*self._names, why), 0.0)
            self._thread.do(self._report_blind())
        self.follow(added, lambda strike: write(*strike_record(*self._names, strike), 0.0))
        return partial(self.forget, added)

    def follow(self, strikes: Iterable[Strike], struck: Callable[[Strike], None]) -> None:
        """Add strikes; ``struck`` is called for each strike, in the proxy's thread."""
        self._struck = struck
        self._breakpoints += strikes

    def forget(self, strikes: Iterable[Strike]) -> None:
        """Remove the strikes and release what they hold."""
        forget(self._breakpoints, strikes)

    def release(self, name: str) -> int:
        """Release everything held under ``name``; returns the number of frames and dials released."""
        return release(self._breakpoints, name)

    def close(self) -> None:
        """Stop listening and end all connections."""
        if self._closed:
            return
        self._closed = True
        self._thread.do(self._end())
        if not self._shares_loop:
            self._thread.close()

    # ---- in the proxy's thread

    async def _end(self) -> None:
        await self._entrance.end()
        for crossing in list(self._crossings):
            crossing.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.ExitStack() as undo:
            self._tasks.add(task)
            undo.callback(self._tasks.discard, task)
            # Close both sides, whatever ends this task.
            undo.callback(writer.transport.abort)
            self._dialled += 1
            link = self._dialled
            try:
                if not await self._admitted(link, writer):
                    return
                onward_reader, onward_writer = await self._dial(writer)
            except (OSError, asyncio.CancelledError):
                return
            undo.callback(onward_writer.transport.abort)
            crossing = Crossing(
                link, self._tap(link), {Direction.TO_SERVER: onward_writer, Direction.TO_CLIENT: writer}
            )
            self._crossings.add(crossing)
            undo.callback(self._ended, link, crossing)
            if self._watcher is not None:
                self._watcher.link_opened(link, _printed(writer.get_extra_info("peername")))
            try:
                await asyncio.gather(
                    self._relay(crossing, Direction.TO_SERVER, reader, onward_writer),
                    self._relay(crossing, Direction.TO_CLIENT, onward_reader, writer),
                )
                for end in crossing.writers.values():
                    end.close()
                    with contextlib.suppress(OSError):
                        await end.wait_closed()
            except asyncio.CancelledError:
                return  # the proxy ends

    def _ended(self, link: int, crossing: Crossing) -> None:
        self._crossings.discard(crossing)
        for aside in crossing.asides:
            aside.cancel()
        if self._watcher is not None:
            self._watcher.link_closed(link, crossing.why)

    async def _admitted(self, link: int, writer: asyncio.StreamWriter) -> bool:
        """True if a connection attempt is forwarded to the acceptor."""
        fate = dialled(self._breakpoints, self._names[0])
        for strike in fate.by:
            self._report_struck(link, strike)
        for gate in fate.gates:
            await self._opened(gate, set())
        if fate.refused:
            end_by_reset(writer)
        return not fate.refused

    def _report_struck(self, link: int, strike: Strike) -> None:
        self._struck(strike)
        if self._watcher is not None:
            self._watcher.struck(link, strike)

    def _tap(self, link: int) -> LinkTap:
        tap = LinkTap(*self._names, self._breakpoints, self._keys, self._log_keys)
        tap.follows = self._follow
        tap.on_struck = lambda strike: self._report_struck(link, strike)
        tap.on_blind = self._report_unseen
        if self._watcher is not None:
            watcher = self._watcher
            tap.on_frame = lambda sender, frame: watcher.frame(link, sender, frame)
            tap.on_blind = lambda why: watcher.blind(link, why)
        return tap

    def _report_unseen(self, why: str) -> None:
        self._unseen(why)

    async def _report_blind(self) -> None:
        """Report the present links whose frames cannot be parsed."""
        for crossing in self._crossings:
            if crossing.tap.blind:
                self._unseen(crossing.tap.blind)

    async def _dial(self, dialler: asyncio.StreamWriter) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the acceptor."""
        family, address = self._target or original_target(dialler.get_extra_info("socket"))
        sock = self._inside(lambda: dialling_socket(family, beyond_redirection=self._target is None))
        try:
            await self._loop.sock_connect(sock, address)
            return await asyncio.open_connection(sock=sock)
        except BaseException:
            sock.close()
            raise

    def _log_keys(self, secrets: LinkSecrets) -> None:
        if self._log_line is not None:
            with contextlib.suppress(OSError):  # a full disk is not to break the link
                self._log_line(secrets.line())

    async def _relay(
        self,
        crossing: Crossing,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Read one direction until its end or a cut."""
        queue: asyncio.Queue[tuple[float, Passage | None]] = asyncio.Queue(_QUEUED_CHUNKS)
        forwarding = self._loop.create_task(self._forward(crossing, direction, queue, writer))
        try:
            while chunk := await reader.read(_READ_BYTES):
                if crossing.forgotten_by is direction:
                    crossing.reset()
                if direction not in crossing.ended:
                    await queue.put((self._due_s(direction), crossing.tap.feed(direction, chunk)))
            if crossing.forgotten_by is not direction.other:
                await queue.put((self._due_s(direction), None))
                await forwarding
        except (OSError, RuntimeError):
            self._broken(crossing, direction)
        finally:
            forwarding.cancel()

    def _due_s(self, direction: Direction) -> float:
        lane = self._lanes[direction]
        return self._loop.time() + lane.delay_s + lane.jitter_s * self._rng.random()

    async def _forward(
        self,
        crossing: Crossing,
        direction: Direction,
        queue: asyncio.Queue[tuple[float, Passage | None]],
        writer: asyncio.StreamWriter,
    ) -> None:
        """Deliver what was read in one direction, with the delays and limits of the lane."""
        lane = self._lanes[direction]
        try:
            while True:
                due_s, passage = await queue.get()
                await asyncio.sleep(due_s - self._loop.time())
                await lane.passes.wait()
                if passage is None:
                    break
                if direction in crossing.ended:
                    continue
                for step in passage.steps or passage.pieces or (passage.forward,):
                    await self._take(step, crossing, direction, lane)
                if passage.back:
                    await self._take(passage.back, crossing, direction.other, self._lanes[direction.other])
                if passage.cut is not None:
                    await self._strike(crossing, passage.cut)
                    return
            if direction not in crossing.ended:
                crossing.ended.add(direction)
                writer.write(crossing.tap.pending(direction))
                writer.write_eof()
        except (OSError, RuntimeError):
            self._broken(crossing, direction)

    async def _take(self, step: Step, crossing: Crossing, direction: Direction, lane: _Lane) -> None:
        """Deliver bytes, or wait for a gate."""
        if isinstance(step, Gate):
            await self._opened(step, crossing.gates)
        elif isinstance(step, Aside):
            aside = self._loop.create_task(self._put_in(step, crossing, direction, lane))
            crossing.asides.add(aside)
            aside.add_done_callback(crossing.asides.discard)
        elif step:
            async with crossing.writing[direction]:
                await self._write(crossing.writers[direction], step, lane)

    async def _put_in(self, aside: Aside, crossing: Crossing, direction: Direction, lane: _Lane) -> None:
        """Deliver bytes set aside when their gate opens, if the link still exists."""
        await self._opened(aside.gate, crossing.gates)
        if direction not in crossing.ended:
            with contextlib.suppress(OSError, RuntimeError):
                await self._take(aside.raw, crossing, direction, lane)

    async def _opened(self, gate: Gate, gates: set[Gate]) -> None:
        """Wait until a gate opens; it is in ``gates`` meanwhile, so that :meth:`Crossing.reset` can open it.

        Afterwards it is open, also if the connection has ended: what it held is not held any more.
        """
        opened = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(opened.set)

        gates.add(gate)
        gate.when_open(wake)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(opened.wait(), gate.for_s)
        finally:
            gates.discard(gate)
            gate.open()

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, raw: bytes, lane: _Lane) -> None:
        start = 0
        while start < len(raw):
            bytes_per_s = lane.bytes_per_s  # it may be healed meanwhile
            stop = len(raw) if bytes_per_s is None else start + max(1, int(bytes_per_s * SLOW_STEP_S))
            writer.write(raw[start:stop])
            await writer.drain()
            if bytes_per_s is not None:
                await asyncio.sleep(SLOW_STEP_S)
            start = stop

    @staticmethod
    def _end_writing(crossing: Crossing, direction: Direction) -> bool:
        """Send FIN in a direction; False if the receiver has reset the connection, which is noticed later."""
        crossing.ended.add(direction)
        try:
            crossing.writers[direction].write_eof()
        except OSError:
            return False
        return True

    @staticmethod
    def _broken(crossing: Crossing, direction: Direction) -> None:
        """Reset the connection after an error on one side, unless a half-open fault hides it from the other."""
        if crossing.forgotten_by is None or crossing.forgotten_by is direction:
            crossing.reset()

    async def _strike(self, crossing: Crossing, breakpoint_: Breakpoint) -> None:
        """Cut at a breakpoint once all bytes before it were sent: an RST discards bytes in the send buffer."""
        for writer in crossing.writers.values():
            await flushed(writer)
        if breakpoint_.how is Ending.FIN:
            crossing.why = "closed on purpose"
            for direction in crossing.writers:
                if direction not in crossing.ended:
                    self._end_writing(crossing, direction)
        else:
            crossing.reset("cut on purpose")
        self._report_struck(crossing.link, breakpoint_)


def _printed(address: tuple[str, int]) -> str:
    host, port, *_ = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
