"""A shard that runs data phases: it gets open links from the home shard and returns their sessions."""

from messenger.calls import (
    DeliverIo,
    FaultIo,
    FinishIo,
    KeepAliveIo,
    LeaveIo,
    LeftIo,
    OpenIo,
    ReconfigureIo,
    ReleaseIo,
    SendIo,
    StintCall,
    ToShard,
    Traffic,
    UnblockIo,
)
from messenger.config import Config
from messenger.errors import Fault, FaultReason, LocalError
from messenger.host import LinkHost
from messenger.interception import Interceptor, Point
from messenger.link import Link
from messenger.outputs import CallHome, Deliver, Output
from messenger.session.closing import is_drained
from messenger.session.session import IoState, Session
from messenger.shards.calls import InOrder


class IoHandler:
    """The io half of one session during one stint."""

    __slots__ = ("calls", "link", "session", "state", "traffic")

    def __init__(self) -> None:
        self.state = IoState.NONE
        self.calls: InOrder[StintCall] = InOrder()
        self.traffic = Traffic()
        self.session: Session | None = None
        self.link: Link | None = None


class ShardClosing:
    """A session in graceful shutdown."""

    def __init__(self, shard: "IoShard", session: Session, link: Link) -> None:
        self._shard = shard
        self._session = session
        self._link = link

    def check(self, now: float) -> None:
        """Close the session once its queue is drained and acknowledged."""
        if is_drained(self._session):
            del self._shard.closing[self._session.id]
            self._link.fault(FaultReason.SHUTDOWN, "queue drained", now)


class IoShard(LinkHost):
    """The links of one shard.

    Args:
        index: number of the shard, from 1 on; 0 is the home shard.
        config: options.
        wall_offset_s: unix time minus ``now``.
        tracing: True keeps a history.
        interceptor: called at every breakpoint.
        shares: number of shards that share the limits of the throttles.
        passes: how often each breakpoint was passed, shared by all shards.
    """

    def __init__(
        self,
        index: int,
        config: Config,
        *,
        wall_offset_s: float,
        tracing: bool,
        interceptor: Interceptor | None,
        shares: int,
        passes: dict[Point, int],
    ) -> None:
        super().__init__(
            config,
            wall_offset_s=wall_offset_s,
            tracing=tracing,
            interceptor=interceptor,
            shares=shares,
        )
        self.index = index
        self.passes = passes
        self.released = 0
        """Units that the home shard has returned to throttles of this shard, in total."""
        self._handlers: dict[int, IoHandler] = {}
        self._by_session: dict[int, IoHandler] = {}

    # ---- calls from the home shard

    def call(self, call: ToShard, now: float) -> None:
        """Apply a call that arrived from the home shard, and those that waited for it."""
        if isinstance(call, ReleaseIo):
            self._release(call, now)
            return
        if isinstance(call, ReconfigureIo):
            self.reconfigured()
            return
        handler = self._handlers.get(call.link_id)
        if handler is None:
            handler = self._handlers[call.link_id] = IoHandler()
        for due in handler.calls.arrive(call):
            self._apply(handler, due, now)

    def _release(self, call: ReleaseIo, now: float) -> None:
        throttle = self.throttle(call.throttle)
        throttle.put(call.amount)
        self.released += call.amount
        throttle.wake(now)

    def _apply(self, handler: IoHandler, call: StintCall, now: float) -> None:
        if isinstance(call, OpenIo):
            handler.session, handler.link, handler.traffic = call.session, call.link, call.traffic
            call.traffic.applied_by_shard += 1
            self._open(handler, call.session, call.link, now)
            return
        handler.traffic.applied_by_shard += 1
        session, link = handler.session, handler.link
        assert session is not None
        assert link is not None
        if isinstance(call, SendIo):
            session.queue.push(call.message)
            self.want_flush(session)
            if (fault := self.rules.queue_fault(session, call.message)) is not None:
                link.fault(fault.reason, fault.detail, now)
        elif isinstance(call, KeepAliveIo):
            session.keepalive_due = True
            self.want_flush(session)
        elif isinstance(call, UnblockIo):
            link.unblock(now)
        elif isinstance(call, FinishIo):
            self.closing[session.id] = ShardClosing(self, session, link)
        elif isinstance(call, LeaveIo):
            self._leave(handler, session, link, call, now)
        else:
            raise LocalError(f"{call!r} is no call for a shard")

    def _open(self, handler: IoHandler, session: Session, link: Link, now: float) -> None:
        self._by_session[session.id] = handler
        self._links[link.id] = link
        self._set_state(handler, IoState.OPEN, now)
        self.begin_data(link, session)
        link.go_on(now)
        self.want_flush(session)

    def _leave(self, handler: IoHandler, session: Session, link: Link, call: LeaveIo, now: float) -> None:
        self.close_link(link, call.fault, now)
        self._set_state(handler, IoState.DROP if call.last else IoState.SWITCHED, now)
        del self._handlers[link.id], self._by_session[session.id]
        self.closing.pop(session.id, None)
        self._unflushed.pop(session.id, None)
        self._call_home(handler, LeftIo(link.id, handler.traffic.to_home + 1))

    # ---- calls to the home shard

    def emit(self, output: Output) -> None:
        """Add an output; deliveries go to the home shard in the order of the stint."""
        if isinstance(output, Deliver):
            handler = self._by_session[output.session.id]
            assert handler.link is not None
            self._call_home(handler, DeliverIo(handler.link.id, handler.traffic.to_home + 1, output))
        else:
            super().emit(output)

    def link_fault(self, link: Link, fault: Fault, now: float) -> None:
        """Close a broken link and report the fault to the home shard."""
        if link.id not in self._links:
            return
        handler = self._handlers[link.id]
        self.trace_fault(link, handler.session, fault.reason, str(fault), now)
        self.count_fault(link, fault)
        self.close_link(link, fault, now)
        self._set_state(handler, IoState.DELAY, now)
        self._call_home(handler, FaultIo(link.id, handler.traffic.to_home + 1, fault))

    def trace_held(self, session: Session | None, now: float) -> None:
        """Do nothing: the home shard records this."""

    def trace_throttle(self, now: float) -> None:
        """Do nothing: the home shard records what the application holds."""

    def _call_home(self, handler: IoHandler, call: DeliverIo | FaultIo | LeftIo) -> None:
        handler.traffic.to_home = call.seq
        self._outputs.append(CallHome(call))

    def _set_state(self, handler: IoHandler, state: IoState, now: float) -> None:
        handler.state = state
        if self.tracing:
            assert handler.session is not None
            assert handler.link is not None
            self.trace(
                "io", now, session=handler.session.id, link=handler.link.id, shard=self.index, state=state.value
            )
