"""The inner side of one messenger: what its links, handshakes and sessions call.

:class:`messenger.endpoint.Endpoint` adds the outer side, the inputs and outputs of the contract (design.md §2).
"""

from collections.abc import Callable, Mapping

from messenger.cephx.exchange import AuthClient, AuthServer, ClientExchange, ConMode, ServerExchange
from messenger.config import Config
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import AuthError, Fault, FaultReason, LocalError, PeerError
from messenger.interception import ONLY_CONTINUE, Action, Custom, Interceptor, Point
from messenger.link import Link, Protocol
from messenger.outputs import CloseLink, EventKind, OpenLink, Output, SessionEvent, TraceRecord
from messenger.pool import BufferPool
from messenger.randomness import RandomSource
from messenger.receive import SCRATCH_BYTES
from messenger.session.existing import Decision
from messenger.session.faults import session_fault, wake
from messenger.session.policy import Policy, PolicySet
from messenger.session.session import Session, SessionState
from messenger.session.throttle import Throttle
from messenger.session.timers import Timers
from messenger.v2.framing import FrameCaches
from messenger.v2.protocol import v2_link

_LINKS: Mapping[Protocol, Callable[..., Link]] = {Protocol.V2: v2_link}


class Core:
    """Sessions, links and the registry of one messenger; see :class:`messenger.endpoint.Endpoint`."""

    def __init__(
        self,
        name: EntityName,
        addrs: AddrVec,
        *,
        rng: RandomSource,
        auth_client: AuthClient | None = None,
        auth_server: AuthServer | None = None,
        policies: PolicySet | None = None,
        config: Config | None = None,
        wall_offset_s: float = 0.0,
        tracing: bool = False,
        interceptor: Interceptor | None = None,
    ) -> None:
        self.name = name
        self.addrs = addrs
        self.rng = rng
        self.config = config or Config()
        self.policies = policies or PolicySet()
        self.tracing = tracing
        self.interceptor = interceptor
        self.timers = Timers()
        self.dispatch_throttle = Throttle(self.config.ms_dispatch_throttle_bytes)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        """The buffer all links read through."""
        self.pool = BufferPool()
        self.frame_caches = FrameCaches()
        self._auth_client = auth_client
        self._auth_server = auth_server
        self._wall_offset_s = wall_offset_s
        self._registry: dict[AddrVec, Session] = {}
        self._links: dict[int, Link] = {}
        self._sessions: dict[int, Session] = {}
        self._outputs: list[Output] = []
        self._unflushed: dict[int, Session] = {}
        self._passes: dict[Point, int] = {}
        self._global_seq = 0
        self._last_link_id = 0
        self._last_session_id = 0

    # ---- outputs, time and chance

    def emit(self, output: Output) -> None:
        """Add an output."""
        self._outputs.append(output)

    def trace(self, kind: str, now: float, **fields: object) -> None:
        """Add a line of history; callers check ``tracing`` first where the fields cost something."""
        if self.tracing:
            self._outputs.append(TraceRecord(now, kind, fields))

    def wall_time_s(self, now: float) -> float:
        """Unix time at ``now``."""
        return now + self._wall_offset_s

    def want_flush(self, session: Session) -> None:
        """The session has something to write, or may write again."""
        self._unflushed[session.id] = session

    def next_global_seq(self, at_least: int = 0) -> int:
        """A global_seq higher than any used here and than ``at_least`` (§3.6)."""
        self._global_seq = max(self._global_seq, at_least) + 1
        return self._global_seq

    def connection_modes(self, peer: EntityType, *, connecting: bool) -> tuple[ConMode, ...]:
        """The connection modes to offer to, or to allow, a type of peer."""
        return self.config.connection_modes(self.name.type, peer, connecting=connecting)

    def client_exchange(self, peer: EntityType, now: float) -> ClientExchange:
        """A new authentication towards a peer.

        Raises:
            AuthError: a session that a peer had opened is to be dialled again, without credentials to do so.
        """
        if self._auth_client is None:
            raise AuthError(FaultReason.AUTH_DENIED, "this messenger has no credentials to connect with")
        return self._auth_client.exchange(peer, self.wall_time_s(now), self.rng)

    def server_exchange(self, peer: EntityType, now: float) -> ServerExchange:
        """A new authentication of a peer."""
        assert self._auth_server is not None
        return self._auth_server.exchange(peer, self.wall_time_s(now), self.rng)

    def learned_addr(self, seen: EntityAddr) -> None:
        """A peer told which IP it sees: it replaces the blank one of the own addresses (§3.2)."""
        if not seen.is_blank_ip and any(addr.is_blank_ip for addr in self.addrs):
            self.addrs = AddrVec(tuple(addr.with_ip_of(seen) if addr.is_blank_ip else addr for addr in self.addrs))

    def passing(self, link: Link, point: Point) -> Action:
        """A link comes to a point: the interceptor's answer."""
        assert self.interceptor is not None
        passes = self._passes[point] = self._passes.get(point, 0) + 1
        action = self.interceptor.intercept(link, point, passes)
        if action is not Action.CONTINUE:
            if point.tag in ONLY_CONTINUE:
                raise LocalError(f"nothing but CONTINUE is possible at {point}")
            self.trace("intercept", link.last_activity_s, link=link.id, point=str(point), action=action.value)
        return action

    # ---- links

    def new_link(self, protocol: Protocol, *, connector: bool) -> Link:
        """A link that nothing has flowed on yet."""
        self._last_link_id += 1
        link = _LINKS[protocol](self, self._last_link_id, connector=connector)
        self._links[link.id] = link
        return link

    def dial(self, session: Session, now: float) -> None:
        """Start a link for a session, under a new global_seq."""
        session.cancel_backoff()
        session.global_seq = self.next_global_seq()
        link = self.new_link(Protocol.of(session.target_addr), connector=True)
        link.session = session
        link.dialled_addr = link.remote_addr = session.target_addr
        link.last_activity_s = now
        session.link = link
        self.await_ready(link, now)
        self.trace_link(link, "dial", now)
        try:
            link.gate_write(
                [Custom.SOCKET_CONNECTING], now, lambda _now: self.emit(OpenLink(link.id, link.dialled_addr))
            )
        except PeerError as error:
            link.fault(error.reason, error.detail, now)

    def redial(self, session: Session, now: float) -> None:
        """The pause after a failed dial, or the wait for the peer's, is over."""
        session.backoff_timer = None
        if session.state is SessionState.WAIT:
            self.set_state(session, SessionState.CONNECTING, "the peer did not dial in time", now)
        self.dial(session, now)

    def await_ready(self, link: Link, now: float) -> None:
        """Give up a link whose handshake takes too long."""
        timeout_s = self.config.ms_connection_ready_timeout

        def expired(then: float) -> None:
            link.fault(FaultReason.READY_TIMEOUT, f"{timeout_s:g} s", then)

        link.ready_timer = self.timers.at(now + timeout_s, expired)

    def _watch_idle(self, link: Link) -> None:
        """Give up a link without traffic; activity moves the deadline, checked only when the old one is due."""
        timeout_s = self.config.ms_connection_idle_timeout

        def due(then: float) -> None:
            if link.last_activity_s + timeout_s <= then:
                link.fault(FaultReason.IDLE_TIMEOUT, f"{timeout_s:g} s", then)
            else:
                self._watch_idle(link)

        link.idle_timer = self.timers.at(link.last_activity_s + timeout_s, due)

    def close_link(self, link: Link, fault: Fault, now: float) -> None:
        """Close a link without a word to its session."""
        if self._links.pop(link.id, None) is None:
            return
        link.end()
        if link.session is not None and link.session.link is link:
            link.session.link = None
        self.trace_link(link, "close", now, fault)
        self.emit(CloseLink(link.id))

    def link_fault(self, link: Link, fault: Fault, now: float) -> None:
        """A link broke: close it, and let the session it carried react."""
        session = link.session if link.session is not None and link.session.link is link else None
        if self.tracing and not link.closed:
            sid = session.id if session else None
            self.trace("fault", now, session=sid, link=link.id, reason=fault.reason.name, detail=str(fault))
        self.close_link(link, fault, now)
        if session is not None:
            session_fault(self, session, fault, now)

    def refused_peer(self, link: Link, error: AuthError, now: float) -> None:
        """An unauthenticated peer was refused; it may try again on the same link."""
        if self.tracing:
            self.trace("fault", now, session=None, link=link.id, reason=error.reason.name, detail=str(error))

    # ---- sessions

    def lookup(self, addrs: AddrVec) -> Session | None:
        """The registered session with the peer of these addresses."""
        return self._registry.get(addrs)

    def register(self, session: Session) -> None:
        """Make a session findable by its peer's addresses."""
        self._registry[session.peer_addrs] = session

    def _unregister(self, session: Session) -> None:
        if self._registry.get(session.peer_addrs) is session:
            del self._registry[session.peer_addrs]

    def rename_peer(self, session: Session, addrs: AddrVec, num: int) -> None:
        """The peer said who it is; the session is found under all its addresses from now on."""
        registered = self._registry.get(session.peer_addrs) is session
        if registered and addrs != session.peer_addrs:
            self._unregister(session)
            self._registry.setdefault(addrs, session)
        session.peer_addrs = addrs
        session.peer_name = EntityName(session.peer_type, num)

    def new_session(self, peer_type: EntityType, addrs: AddrVec, target: EntityAddr, policy: Policy) -> Session:
        """A fresh session; its registration is the caller's business."""
        self._last_session_id += 1
        session = Session(self._last_session_id, peer_type, addrs, target, policy)
        self._sessions[session.id] = session
        return session

    def open_session(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """A link is READY for its session: traffic may flow."""
        if link.ready_timer is not None:
            link.ready_timer.cancel()
            link.ready_timer = None
        link.state = link.OPEN_STATE
        link.open = True
        self._watch_idle(link)
        session.link = link
        session.cancel_backoff()
        session.backoff_s = 0.0
        self.set_state(session, SessionState.READY, kind.value, now)
        self.session_event(session, kind, None, now)
        self.want_flush(session)

    def take_over(self, session: Session, link: Link, now: float) -> None:
        """An incoming link takes the place of whatever link or dial the session had (§4.9, reuse)."""
        session.cancel_backoff()
        old = session.link
        if old is not None and old is not link:
            self.close_link(old, Fault(FaultReason.REPLACED, f"by link {link.id}"), now)
        session.requeue_sent()
        session.state = SessionState.REPLACING

    def reset_session(self, session: Session, why: str, now: float) -> None:
        """The peer lost its state: drop everything of the old session and tell the application (§4.9)."""
        dropped = session.reset()
        fault = Fault(FaultReason.REPLACED, f"{why}; {dropped} messages dropped")
        self.session_event(session, EventKind.REMOTE_RESET, fault, now)

    def send_keepalive(self, session: Session, now: float) -> None:
        """Ask the peer for a sign of life; ``session.keepalive_acked_s`` shows its answer."""
        if session.state is not SessionState.CLOSED:
            session.keepalive_due = True
            self.want_flush(session)
            wake(self, session, now)

    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session and tell the application."""
        self.end_session(session, fault, now)
        self.session_event(session, EventKind.RESET, fault, now)

    def end_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session without a word to the application."""
        session.cancel_backoff()
        self.set_state(session, SessionState.CLOSED, str(fault), now)
        self._unregister(session)
        self._sessions.pop(session.id, None)
        self._unflushed.pop(session.id, None)
        session.queue.clear()
        session.ack_due = 0
        session.keepalive_due = False
        if session.link is not None:
            self.close_link(session.link, fault, now)

    def set_state(self, session: Session, state: SessionState, why: str, now: float) -> None:
        """Move a session to a state, for the reason given."""
        session.state = state
        if self.tracing:
            self.trace(
                "state",
                now,
                session=session.id,
                peer=str(session.peer_addrs),
                policy=session.policy.name,
                state=state.value,
                **session.counters(),
                why=why,
            )

    def session_event(self, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        """Tell the application what happened to a session."""
        detail = str(fault) if fault else ""
        self.trace("event", now, session=session.id, peer=str(session.peer_addrs), event=kind.value, detail=detail)
        self.emit(SessionEvent(session, kind, fault))

    # ---- history

    def trace_decision(self, link: Link, existing: Session | None, decision: Decision, now: float) -> None:
        """Record who won against an existing session, and why."""
        if self.tracing:
            sid = existing.id if existing else None
            self.trace("decision", now, link=link.id, session=sid, verdict=decision.verdict.name, why=decision.why)

    def trace_throttle(self, now: float) -> None:
        """Record what the application holds."""
        throttle = self.dispatch_throttle
        self.trace("throttle", now, name="dispatch_bytes", value=throttle.value, limit=throttle.limit)

    def trace_link(self, link: Link, action: str, now: float, fault: Fault | None = None) -> None:
        """Record what becomes of a link."""
        if self.tracing:
            sid = link.session.id if link.session else None
            detail = str(fault) if fault else ""
            peer = str(link.remote_addr)
            self.trace("link", now, link=link.id, action=action, peer=peer, session=sid, detail=detail)
