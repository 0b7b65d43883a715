"""The part of the core that transports call, on the home shard and on every other shard.

A host owns links, the buffer into which they read, timers and dispatch throttles. The host of the home shard is
the core itself; the other shards (messenger/shards) run only data phases.
"""

from abc import ABC, abstractmethod
from collections import deque

from messenger.arrivals import Arrivals
from messenger.config import Config
from messenger.deadlines import IdleDeadline
from messenger.errors import DieError, Fault, FaultReason, LocalError, describe
from messenger.gate import Gate
from messenger.inject import Injector
from messenger.interception import ONLY_CONTINUE, Action, Interceptor, Point
from messenger.link import Link, Step
from messenger.messages.message import Message
from messenger.outputs import CloseLink, Deliver, Escaped, Output, TraceRecord
from messenger.perf import Counters, add_link
from messenger.pool import BufferPool
from messenger.receive import SCRATCH_BYTES
from messenger.sequence_rules import SequenceRules
from messenger.session.closing import Closing
from messenger.session.session import Session
from messenger.session.throttle import Throttle, Throttles
from messenger.session.timers import Timers
from messenger.v2.framing import FrameCaches
from messenger.v2.preamble import PreambleLimits

_HANDSHAKE_READ_BYTES = 4096
"""Longest read before a link is open: the small frames of a handshake are the expensive ones to process."""


class LinkHost(ABC):
    """A set of links and the resources they share.

    Args:
        config: options.
        wall_offset_s: unix time minus ``now``.
        tracing: True emits the history as TraceRecord outputs.
        interceptor: called at every breakpoint.
        shares: number of hosts that share the limits of the throttles.
    """

    def __init__(
        self,
        config: Config,
        *,
        wall_offset_s: float,
        tracing: bool,
        interceptor: Interceptor | None,
        shares: int = 1,
    ) -> None:
        self.config = config
        self.tracing = tracing
        self.interceptor = interceptor
        self.timers = Timers()
        self.counters = Counters()
        self.rules = SequenceRules(config, self.counters)
        self._shares = shares
        self.dispatch_throttle = Throttle(0)
        self.dispatch_messages = Throttle(0, "dispatch_messages", counts_messages=True)
        self._dispatch_throttles = (self.dispatch_messages, self.dispatch_throttle)  # one tuple for all gates
        self._limit_dispatch()
        self.throttles = Throttles(shares)
        self.arrivals = Arrivals()
        self._scratch: memoryview | None = None
        self.pool = BufferPool()
        self.frame_caches = self._new_frame_caches()
        self.wall_offset_s = wall_offset_s
        self._links: dict[int, Link] = {}
        self._outputs: list[Output] = []
        self._after_events: deque[Step] = deque()
        self._unflushed: dict[int, Session] = {}
        self.closing: dict[int, Closing] = {}
        """Sessions that close once their queue is drained and acknowledged, by session id."""
        self.injector: Injector | None = None
        """Injects faults; None unless an option asks for them."""
        self.passes: dict[Point, int] = {}
        """How often each breakpoint was passed."""

    def _limit_dispatch(self) -> None:
        """Set the limits of the dispatch throttles from the options: this host's share of them."""
        config = self.config
        self.dispatch_throttle.limit = -(-config.ms_dispatch_throttle_bytes // self._shares)
        self.dispatch_messages.limit = -(-config.held_messages_limit // self._shares)

    def _new_frame_caches(self) -> FrameCaches:
        config = self.config
        checked = config.segment_alignment == "checked"
        return FrameCaches(PreambleLimits(checked, config.max_preauth_frame_bytes))

    def reconfigured(self) -> None:
        """Apply changed options to the throttles and frame caches. Open links keep their limits for frames."""
        self._limit_dispatch()
        self.frame_caches = self._new_frame_caches()
        self._after_events.append(self.wake)  # a higher limit may admit waiting messages

    @property
    def scratch(self) -> memoryview:
        """The buffer into which all links read. Hosts of one thread may share one, set before the first link."""
        if self._scratch is None:
            self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        return self._scratch

    @scratch.setter
    def scratch(self, scratch: memoryview) -> None:
        self._scratch = scratch

    @property
    def links(self) -> list[Link]:
        """Every link of this host, in no particular order."""
        return list(self._links.values())

    @property
    def link_ids(self) -> list[int]:
        """Ids of the links of this host."""
        return list(self._links)

    # ---- inputs from the transport

    def receive_buffer(self, link_id: int) -> memoryview:
        """Buffer for the next bytes of a link; report them by :meth:`link_received` before the next call."""
        link = self._links.get(link_id)
        if link is None:
            return self.scratch
        buffer = link.receive_buffer.writable()
        return buffer if link.open else buffer[:_HANDSHAKE_READ_BYTES]

    def link_received(self, link_id: int, count: int, now: float) -> None:
        """Process ``count`` bytes that were read into the receive buffer."""
        link = self._links.get(link_id)
        if link is not None:
            if self.injector is not None:
                self.injector.reading(link, now)
            link.receive(count, now)

    def link_data(self, link_id: int, chunk: bytes | memoryview, now: float) -> None:
        """Process received bytes of a link; for drivers that already have them in a buffer of their own."""
        view = memoryview(chunk)
        while view.nbytes and (link := self._links.get(link_id)) is not None:
            if link.paused:
                link.receive_buffer.hold(view)
                return
            buffer = self.receive_buffer(link_id)
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            self.link_received(link_id, count, now)
            view = view[count:]

    def link_written(self, link_id: int, count: int, now: float) -> None:
        """Account for ``count`` written bytes of a link; build more frames if the transport has caught up."""
        link = self._links.get(link_id)
        if link is None:
            self.written_elsewhere(link_id, count)
            return
        link.last_activity_s = now
        was_behind = link.unwritten_bytes >= self.config.write_ahead_bytes
        link.unwritten_bytes -= count
        if was_behind and link.session is not None:
            self.want_flush(link.session)

    def written_elsewhere(self, link_id: int, count: int) -> None:  # noqa: B027 - a shard does nothing
        """``count`` bytes have left of a link that is closed, or has moved."""

    def link_eof(self, link_id: int, now: float) -> None:
        """Fault a link because the peer closed the byte stream."""
        self.link_failed(link_id, FaultReason.EOF, "", now)

    def link_failed(self, link_id: int, reason: FaultReason, detail: str, now: float) -> None:
        """Fault a link because its dial failed or its byte stream broke."""
        link = self._links.get(link_id)
        if link is None:
            return
        if self.injector is not None and reason is FaultReason.SOCKET and not link.held:
            delay_s = self.injector.internal_delay_s()
            if delay_s:
                link.delay(delay_s, lambda then: link.fault(reason, detail, then), now)
                return
        link.failed(reason, detail, now)

    def unblock(self, link_id: int, now: float) -> None:
        """Continue a link that the interceptor blocked or stalled."""
        link = self._links.get(link_id)
        if link is not None:
            link.unblock(now)

    def release(self, size_bytes: int, now: float, session: Session | None = None, messages: int = 1) -> None:
        """Return ``size_bytes`` to the dispatch throttle; resume paused links if it has room.

        Args:
            size_bytes: size of all released messages.
            now: the time.
            session: session of the messages; required if its policy has throttles.
            messages: number of released messages.

        Raises:
            LocalError: more is released than is held.
        """
        self.dispatch_throttle.put(size_bytes, messages)
        self.dispatch_messages.put(messages, messages)
        if self.tracing and size_bytes:
            self.trace_throttle(now)
        if session is not None:
            for throttle in session.policy_throttles(self.throttles):
                throttle.put(throttle.units(messages, size_bytes), messages)
            if self.tracing:
                self.trace_held(session, now)
        if self.dispatch_throttle.waiting or self.dispatch_messages.waiting or self.throttles:
            self.wake(now)

    def throttle(self, name: str) -> Throttle:
        """The dispatch or policy throttle of that name."""
        return next(throttle for throttle in self.all_throttles if throttle.name == name)

    @property
    def all_throttles(self) -> tuple[Throttle, ...]:
        """The dispatch throttles and those of policies."""
        return (*self._dispatch_throttles, *self.throttles)

    def wake(self, now: float) -> None:
        """Retry all links that wait for a throttle, after a release or a change of limits."""
        for throttle in self.all_throttles:
            if throttle.waiting:
                throttle.wake(now)

    @property
    def waiting(self) -> int:
        """Number of links that wait for a throttle."""
        return sum(throttle.waiting for throttle in self.all_throttles)

    def is_blocked_by(self, link: Link) -> bool:
        """True if links wait for a throttle that messages in arrival fill, one of ``link`` among them."""
        gate = link.gate
        return gate is not None and any(
            throttle.waiting and gate.held_of(throttle) and self.arrivals.fill(throttle)
            for throttle in self.all_throttles
        )

    @property
    def held_by_application_bytes(self) -> int:
        """Received bytes that the application holds, and those reserved for messages that are being received."""
        return self.dispatch_throttle.value

    # ---- time

    def next_deadline(self) -> float | None:
        """Time at which :meth:`timer` must be called; None if no timer is pending."""
        return self.timers.next_deadline()

    def timer(self, now: float) -> None:
        """Run the timers that are due."""
        self.timers.fire(now, self._run_timer)

    def _run_timer(self, callback: Step, now: float) -> None:
        try:
            callback(now)
        except DieError:
            raise
        except Exception as error:  # noqa: BLE001 - of code outside the core; other timers still run
            self.escaped(error, "in a timer", None, now)

    def wall_time_s(self, now: float) -> float:
        """Unix time at ``now``."""
        return now + self.wall_offset_s

    # ---- outputs

    @property
    def idle(self) -> bool:
        """True if :meth:`drain` would do nothing."""
        return not (self._outputs or self._after_events or self._unflushed or self.closing)

    def drain(self, now: float) -> list[Output]:
        """The outputs since the last call, in order; an empty list means that there is nothing left to do.

        Frames are built last, so that replies which the application sends while its messages are delivered leave
        in one write.
        """
        while True:
            if not self._outputs:
                if self._after_events:
                    self._after_events.popleft()(now)
                elif self._unflushed:
                    self._flush_all(now)
                if self.closing:
                    for closing in list(self.closing.values()):
                        closing.check(now)
            outputs, self._outputs = self._outputs, []
            if self.injector is not None:
                outputs = self.injector.pass_on(outputs, now)
            if outputs or not (self._outputs or self._after_events or self._unflushed):
                return outputs

    def _flush_all(self, now: float) -> None:
        unflushed, self._unflushed = self._unflushed, {}
        for session in unflushed.values():
            link = session.link
            if link is not None:
                if link.host is not self:
                    continue
                if link.open and not link.held:
                    try:
                        link.flush(session, now)
                    except Exception as error:  # noqa: BLE001 - see broken_by; other sessions are still flushed
                        link.broken_by(error, now)
            if session.queued_s is None and session.queue:
                session.queued_s = now

    def after_events(self, link: Link, step: Step) -> None:
        """Call ``step`` once the application has handled the events so far, unless it has ended the link."""
        link.wait(step)
        self._after_events.append(link.proceed)

    # ---- called by the other parts of the core

    def emit(self, output: Output) -> None:
        """Add an output."""
        self._outputs.append(output)

    def escaped(self, error: Exception, where: str, session: Session | None, now: float) -> None:
        """Report an exception of code outside the core, such as an interceptor or authenticator, and continue."""
        sid = None if session is None else session.id
        self.trace("exception", now, where=where, error=describe(error), session=sid)
        self.emit(Escaped(error, where))

    def unsendable(self, session: Session, message: Message, error: Exception, now: float) -> None:
        """Drop and report a message that cannot be encoded; the session goes on."""
        self.counters.unsendable_messages += 1
        why = f"{message!r} cannot be sent: {describe(error)}"
        if self.tracing:
            peer = str(session.peer_addrs)
            self.trace("unsent", now, session=session.id, peer=peer, tid=message.tid, detail=why)
        self.emit(Escaped(LocalError(why), "while a message was written"))

    def _drop_spoilt(self, session: Session, now: float) -> None:
        """Drop and report messages to be replayed that the application has changed so that no frame can hold them.

        A buffer of wider items has more bytes than the frame announces (its length): the peer closes the link.
        Checked here, not as each message is written, so that a link that does not fail costs nothing.
        """
        most_bytes = self.config.max_frame_bytes
        requeued = session.queue.requeued
        for seq, message in list(requeued):
            if message.needs_check(most_bytes):
                try:
                    message.check(most_bytes)
                except LocalError as error:
                    requeued.remove((seq, message))
                    self.unsendable(session, message, error, now)

    def trace(self, kind: str, now: float, **fields: object) -> None:
        """Add a record to the history. Callers check ``tracing`` first if computing the fields is costly."""
        if self.tracing:
            self._outputs.append(TraceRecord(now, kind, fields))

    def want_flush(self, session: Session) -> None:
        """Schedule a flush of the session, which has something to write or may write again."""
        self._unflushed[session.id] = session

    def passing(self, link: Link, point: Point) -> Action:
        """Count a pass of a breakpoint and return the interceptor's action."""
        assert self.interceptor is not None
        passes = self.passes[point] = self.passes.get(point, 0) + 1
        action = self.interceptor.intercept(link, point, passes)
        if action is not Action.CONTINUE:
            if point.tag in ONLY_CONTINUE:
                raise LocalError(f"nothing but CONTINUE is possible at {point}")
            self.trace("intercept", link.last_activity_s, link=link.id, point=str(point), action=action.value)
        return action

    def begin_data(self, link: Link, session: Session) -> None:
        """Start the data phase of a link: the idle timeout and the gate."""
        self._drop_spoilt(session, link.last_activity_s)
        IdleDeadline(link).set()
        link.opened_at = (link.rx_offset, link.tx_offset)
        throttles = session.policy_throttles(self.throttles)
        link.gate = Gate(link, throttles, self._dispatch_throttles)

    def take(self, messages: int, size_bytes: int) -> None:
        """Count messages that were read in a batch which fits into the dispatch throttles."""
        self.dispatch_throttle.take(size_bytes, messages)
        self.dispatch_messages.take(messages, messages)

    def deliver(self, session: Session, messages: list[Message], size_bytes: int, now: float) -> None:
        """Deliver received messages to the application; the throttles have counted them already."""
        if self.tracing:
            self.trace_throttle(now)
            self.trace_held(session, now)
        self.counters.recv_messages += len(messages)
        self.emit(Deliver(session, messages, size_bytes))

    def count_sent(self, session: Session, messages: int, now: float) -> None:
        """Count a written batch of messages, and the time it was queued."""
        counters = self.counters
        counters.send_messages += messages
        counters.batches_sent += 1
        if session.queued_s is not None:
            counters.queued_s += now - session.queued_s
            session.queued_s = None

    def count_fault(self, link: Link, fault: Fault) -> None:
        """Count the fault of a link.

        Raises:
            DieError: an option ``ms_die_on_*`` makes the fault fatal.
        """
        self.counters.faults[fault.reason] += 1
        if fault.reason is FaultReason.BAD_MESSAGE and self.config.ms_die_on_bad_msg:
            raise DieError("ms_die_on_bad_msg", f"{link!r}: {fault}")
        if fault.reason is FaultReason.OVERSIZE and not link.open and self.config.ms_die_on_bug:
            raise DieError("ms_die_on_bug", f"{link!r}: {fault}")

    @abstractmethod
    def link_fault(self, link: Link, fault: Fault, now: float) -> None:
        """Handle the fault of a link: close it and notify its session."""

    def close_link(self, link: Link, fault: Fault, now: float) -> None:
        """Close a link without notifying its session."""
        if self._links.pop(link.id, None) is None:
            return
        link.end()
        add_link(self.counters, link)
        if link.gate is not None:
            link.gate.close(now)
        if self.tracing:
            link.trace_end(now)
        self.trace_link(link, "close", now, fault)
        self.emit(CloseLink(link.id))

    # ---- history

    def trace_fault(
        self, link: Link, session: Session | None, reason: FaultReason, detail: str, now: float
    ) -> None:
        """Record the fault of a link, or the reason why a peer was refused on it."""
        if self.tracing:
            sid = session.id if session else None
            self.trace("fault", now, session=sid, link=link.id, reason=reason.name, detail=detail)

    def trace_throttle(self, now: float) -> None:
        """Record how many bytes the application holds."""
        limit = self.dispatch_throttle.limit
        self.trace("throttle", now, name="dispatch_bytes", value=self.held_by_application_bytes, limit=limit)

    def trace_held(self, session: Session | None, now: float) -> None:
        """Record what is held against the throttles of a session's policy."""
        if not self.tracing or session is None:
            return
        for throttle in session.policy_throttles(self.throttles):
            self.trace("throttle", now, name=throttle.name, value=throttle.value, limit=throttle.limit)

    def trace_link(self, link: Link, action: str, now: float, fault: Fault | None = None) -> None:
        """Record an action on a link, such as open or close."""
        if self.tracing:
            sid = link.session.id if link.session else None
            detail = str(fault) if fault else ""
            peer = str(link.remote_addr)
            self.trace("link", now, link=link.id, action=action, peer=peer, session=sid, detail=detail)
