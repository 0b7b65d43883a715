"""The deterministic core of one messenger: sessions, links, registry (the contract is design.md §2).

Inputs are method calls that carry ``now`` (monotonic seconds); outputs are values drained afterwards. Nothing
here reads a clock, a socket or a generator of its own, and no bytes of a peer make it raise. The order a driver
must keep: call an input, then :meth:`Endpoint.drain` until it returns nothing, carrying out each output in turn.
"""

from messenger.cephx.exchange import AuthClient, AuthServer, ClientExchange, ConMode, ServerExchange
from messenger.config import Config
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import AuthError, Fault, FaultReason, LocalError, PeerError
from messenger.messages.message import Message
from messenger.outputs import CloseLink, EventKind, OpenLink, Output, SessionEvent, TraceRecord
from messenger.randomness import RandomSource
from messenger.session.existing import Decision
from messenger.session.faults import session_fault, wake
from messenger.session.policy import Policy, PolicySet
from messenger.session.session import Session, SessionState
from messenger.session.throttle import Throttle
from messenger.session.timers import Timers
from messenger.v2 import data
from messenger.v2.acceptor import ACCEPTOR
from messenger.v2.connector import CONNECTOR
from messenger.v2.link import Link
from messenger.v2.receive import SCRATCH_BYTES
from messenger.v2.states import LinkState
from messenger.v2.wire import Hello

_UNSETTLED = frozenset({SessionState.CONNECTING, SessionState.WAIT})


class Endpoint:
    """One messenger without its sockets.

    Args:
        name: who this is; the number goes into ident frames.
        addrs: own addresses; for a pure client one ANY address with port 0 and a nonce of its own.
        rng: the only source of randomness.
        auth_client: how to authenticate to peers; needed to dial.
        auth_server: how peers authenticate here; needed to accept.
        policies: what a fault means, per type of peer.
        config: options.
        wall_offset_s: unix time minus ``now``; keepalive stamps and tickets use unix time.
        tracing: keep a history as TraceRecord outputs.
    """

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
    ) -> None:
        self.name = name
        self.addrs = addrs
        self.rng = rng
        self.config = config or Config()
        self.policies = policies or PolicySet()
        self.tracing = tracing
        self.timers = Timers()
        self.dispatch_throttle = Throttle(self.config.ms_dispatch_throttle_bytes)
        self._auth_client = auth_client
        self._auth_server = auth_server
        self._wall_offset_s = wall_offset_s
        self._registry: dict[AddrVec, Session] = {}
        self._links: dict[int, Link] = {}
        self._sessions: dict[int, Session] = {}
        self._outputs: list[Output] = []
        self._unflushed: dict[int, Session] = {}
        self._global_seq = 0
        self._last_link_id = 0
        self._last_session_id = 0
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    # ---- inputs from the application

    def connect(self, addrs: AddrVec, peer_type: EntityType, now: float, policy: Policy | None = None) -> Session:
        """The session with the peer at ``addrs``: the registered one, or a new one that starts to dial.

        Raises:
            LocalError: no address of msgr v2 among them, one's own address, or no way to authenticate.
        """
        existing = self.lookup(addrs)
        if existing is not None:
            return existing
        target = addrs.msgr2_addr()
        if not target.port:
            raise LocalError(f"no msgr v2 address in {addrs}; give one as v2:HOST:PORT/NONCE")
        if target in self.addrs:
            raise LocalError(f"{target} is this messenger's own address")
        if self._auth_client is None:
            raise LocalError("this messenger has no credentials to connect with")
        session = self.new_session(peer_type, addrs, target, policy or self.policies.towards(peer_type))
        self.register(session)
        self.set_state(session, SessionState.CONNECTING, "the application connects", now)
        self.dial(session, now)
        return session

    def send(self, session: Session, message: Message, now: float) -> bool:
        """Queue a message; False if the session is closed and the message is dropped.

        Raises:
            LocalError: a number or a part of the message is too large for a frame (§4.4, §4.8).
        """
        if session.state is SessionState.CLOSED:
            return False
        if message.payload is not None:
            message.encode_front(session.features)  # a payload that cannot be encoded is the caller's to know
        if (
            message.tid >> 64
            or (message.type | message.priority | message.version | message.compat_version | message.data_off)
            >> 16
            or (len(message.front) | len(message.middle) | len(message.data)) >> 32
        ):
            raise LocalError(f"{message!r}: a number or a part of it is too large for a frame")
        session.queue.push(message)
        self.want_flush(session)
        wake(self, session, now)
        return True

    def send_keepalive(self, session: Session, now: float) -> None:
        """Ask the peer for a sign of life; ``session.keepalive_acked_s`` shows its answer."""
        if session.state is not SessionState.CLOSED:
            session.keepalive_due = True
            self.want_flush(session)
            wake(self, session, now)

    def mark_down(self, session: Session, now: float) -> None:
        """End a session at once and silently; nothing more of it is delivered."""
        if session.state is SessionState.CLOSED:
            return
        if self.tracing:
            self.trace("mark_down", now, session=session.id, peer=str(session.peer_addrs))
        self._end(session, Fault(FaultReason.MARKED_DOWN), now)

    def shutdown(self, now: float) -> None:
        """End every session and link."""
        for session in list(self._sessions.values()):
            self._end(session, Fault(FaultReason.SHUTDOWN), now)
        for link in list(self._links.values()):
            self.close_link(link, Fault(FaultReason.SHUTDOWN), now)

    def release(self, size_bytes: int, now: float) -> None:
        """The application is done with delivered messages of that size; reading goes on if it had stopped."""
        throttle = self.dispatch_throttle
        was_full = throttle.full
        throttle.put(size_bytes)
        if size_bytes:
            self.trace_throttle(now)
        if was_full and not throttle.full:
            for link in [link for link in self._links.values() if link.paused]:
                if not throttle.full:
                    link.resume(now)

    # ---- inputs from the transport

    def link_accepted(self, remote_addr: EntityAddr, now: float) -> int:
        """A peer dialled in; returns the id of the new link.

        Raises:
            LocalError: this messenger has no way to authenticate peers.
        """
        if self._auth_server is None:
            raise LocalError("this messenger cannot accept: it has no authentication server")
        link = self._new_link(connector=False)
        link.remote_addr = remote_addr
        self._await_ready(link, now)
        self._trace_link(link, "accept", now)
        link.start(now)
        return link.id

    def link_opened(self, link_id: int, local_addr: EntityAddr, now: float) -> None:
        """A dial succeeded; ``local_addr`` is the socket's own address."""
        link = self._links.get(link_id)
        if link is None:
            return
        if not self.config.ms_learn_addr_from_peer:
            self.learned_addr(local_addr)
        self._trace_link(link, "open", now)
        link.start(now)

    def receive_buffer(self, link_id: int) -> memoryview:
        """Where to put bytes received on a link; report them by :meth:`link_received` before the next call."""
        link = self._links.get(link_id)
        return self._scratch if link is None else link.receive_buffer.writable()

    def link_received(self, link_id: int, count: int, now: float) -> None:
        """``count`` bytes were put into the receive buffer."""
        link = self._links.get(link_id)
        if link is not None:
            link.receive(count, now)

    def link_data(self, link_id: int, chunk: bytes | memoryview, now: float) -> None:
        """Bytes were received on a link; the convenient form for drivers that have them already."""
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
        """``count`` bytes of a link's writes have left."""
        link = self._links.get(link_id)
        if link is None:
            return
        link.last_activity_s = now
        link.unwritten_bytes -= count
        if link.session is not None:
            self.want_flush(link.session)

    def link_eof(self, link_id: int, now: float) -> None:
        """The peer closed the byte stream."""
        self.link_failed(link_id, FaultReason.EOF, "", now)

    def link_failed(self, link_id: int, reason: FaultReason, detail: str, now: float) -> None:
        """A dial failed, or the byte stream broke."""
        link = self._links.get(link_id)
        if link is not None:
            link.fault(reason, detail, now)

    # ---- time

    def next_deadline(self) -> float | None:
        """When :meth:`timer` must be called at the latest; None if nothing is pending."""
        return self.timers.next_deadline()

    def timer(self, now: float) -> None:
        """Time has passed: carry out what is due."""
        self.timers.fire(now)

    def wall_time_s(self, now: float) -> float:
        """Unix time at ``now``."""
        return now + self._wall_offset_s

    # ---- outputs

    def drain(self, now: float) -> list[Output]:
        """The outputs since the last call, in order; an empty list means that nothing is left to do.

        Writes are built last, so that replies the application sends while its messages are delivered leave
        together.
        """
        if not self._outputs:
            unflushed, self._unflushed = self._unflushed, {}
            for session in unflushed.values():
                self._flush(session, now)
        outputs, self._outputs = self._outputs, []
        return outputs

    def _flush(self, session: Session, now: float) -> None:
        link = session.link
        if link is None or link.state is not LinkState.READY:
            return
        try:
            data.flush(link, session, now)
        except PeerError as error:
            link.fault(error.reason, error.detail, now)

    # ---- for the driver's eyes

    @property
    def sessions(self) -> list[Session]:
        """Every session that is not closed, oldest first."""
        return list(self._sessions.values())

    @property
    def link_count(self) -> int:
        """Links that are open or being opened."""
        return len(self._links)

    @property
    def held_bytes(self) -> dict[int, int]:
        """Memory each link holds for incomplete frames and signatures, by link id."""
        return {
            link.id: link.receive_buffer.held_bytes
            + len(link.rx_transcript or b"")
            + len(link.tx_transcript or b"")
            for link in self._links.values()
        }

    def snapshot(self) -> dict[str, object]:
        """Counters that must be at rest when nothing happens, for the history's ``end`` record."""
        return {
            "registry": len(self._registry),
            "links": len(self._links),
            "dispatch_bytes": self.dispatch_throttle.value,
            "queued": sum(len(session.queue) for session in self._sessions.values()),
            "sent": sum(len(session.queue.sent) for session in self._sessions.values()),
            "unsettled": sum(session.state in _UNSETTLED for session in self._sessions.values()),
        }

    # ---- the rest is called by the parts of the core

    def emit(self, output: Output) -> None:
        """Add an output."""
        self._outputs.append(output)

    def trace(self, kind: str, now: float, **fields: object) -> None:
        """Add a line of history; callers check ``tracing`` first where the fields cost something."""
        if self.tracing:
            self._outputs.append(TraceRecord(now, kind, fields))

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

    def send_hello(self, link: Link, now: float) -> None:
        """Answer the banner: who this is, and the peer's address as seen from here (§4.3)."""
        link.state = LinkState.HELLO_CONNECTING if link.connector else LinkState.HELLO_ACCEPTING
        seen = link.dialled_addr if link.connector else link.remote_addr
        link.send(Hello(self.name.type, seen), now)

    # ---- links

    def _new_link(self, *, connector: bool) -> Link:
        self._last_link_id += 1
        table = CONNECTOR if connector else ACCEPTOR
        link = Link(self, self._last_link_id, table, connector=connector, scratch=self._scratch)
        self._links[link.id] = link
        return link

    def dial(self, session: Session, now: float) -> None:
        """Start a link for a session, under a new global_seq."""
        session.cancel_backoff()
        session.global_seq = self.next_global_seq()
        link = self._new_link(connector=True)
        link.session = session
        link.dialled_addr = link.remote_addr = session.target_addr
        session.link = link
        self._await_ready(link, now)
        self._trace_link(link, "dial", now)
        self.emit(OpenLink(link.id, session.target_addr))

    def redial(self, session: Session, now: float) -> None:
        """The pause after a failed dial, or the wait for the peer's, is over."""
        session.backoff_timer = None
        if session.state is SessionState.WAIT:
            self.set_state(session, SessionState.CONNECTING, "the peer did not dial in time", now)
        self.dial(session, now)

    def _await_ready(self, link: Link, now: float) -> None:
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
        link.cancel_timers()
        link.state = LinkState.CLOSED
        if link.session is not None and link.session.link is link:
            link.session.link = None
        self._trace_link(link, "close", now, fault)
        self.emit(CloseLink(link.id))

    def link_fault(self, link: Link, fault: Fault, now: float) -> None:
        """A link broke: close it, and let the session it carried react."""
        session = link.session if link.session is not None and link.session.link is link else None
        if self.tracing and link.state is not LinkState.CLOSED:
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
        link.state = LinkState.READY
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

    def reset_session(self, session: Session, why: str, now: float) -> None:
        """The peer lost its state: drop everything of the old session and tell the application (§4.9)."""
        dropped = session.reset()
        fault = Fault(FaultReason.REPLACED, f"{why}; {dropped} messages dropped")
        self.session_event(session, EventKind.REMOTE_RESET, fault, now)

    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session and tell the application."""
        self._end(session, fault, now)
        self.session_event(session, EventKind.RESET, fault, now)

    def _end(self, session: Session, fault: Fault, now: float) -> None:
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

    def _trace_link(self, link: Link, action: str, now: float, fault: Fault | None = None) -> None:
        if self.tracing:
            sid = link.session.id if link.session else None
            detail = str(fault) if fault else ""
            peer = str(link.remote_addr)
            self.trace("link", now, link=link.id, action=action, peer=peer, session=sid, detail=detail)
