"""The inner side of one messenger: what its links, handshakes and sessions call.

:class:`messenger.endpoint.Endpoint` adds the outer side, the inputs and outputs of the contract (design.md §2).
"""

from collections.abc import Callable, Mapping
from copy import copy

from messenger.cephx.exchange import AuthClient, AuthResult, AuthServer, ClientExchange, ConMode, ServerExchange
from messenger.cephx.v1 import connect_exchange
from messenger.closing import HomeClosing
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import NEW_ENTITY_NUM, AuthName, EntityName, EntityType
from messenger.errors import AuthError, Fault, FaultReason, PeerError
from messenger.half_open import HalfOpenLinks
from messenger.host import LinkHost
from messenger.inject import Injector
from messenger.interception import Custom, Interceptor
from messenger.keepalive import Keepalive
from messenger.keylog import LinkSecrets
from messenger.link import Link, Protocol, Step
from messenger.loopback import loopback_session
from messenger.messages.message import Message
from messenger.outputs import Deliver, EventKind, LogKeys, OpenLink, SessionEvent, SettleDelayed
from messenger.randomness import RandomSource
from messenger.session.existing import Decision
from messenger.session.faults import session_fault, wake
from messenger.session.identity import check_identity
from messenger.session.policy import Policy, PolicySet
from messenger.session.session import IoState, Session, SessionState
from messenger.shards.home import Shards
from messenger.v1.existing import Decision as V1Decision
from messenger.v1.protocol import v1_link
from messenger.v2.protocol import v2_link

_OPENING = frozenset({EventKind.ACCEPT, EventKind.CONNECT})
_ENDING = frozenset({EventKind.RESET, EventKind.REMOTE_RESET})
_LINKS: Mapping[Protocol, Callable[..., Link]] = {Protocol.V1: v1_link, Protocol.V2: v2_link}

_Port = tuple[AddressType, int, int]
"""Type, port and nonce of an address."""


def _port(addr: EntityAddr) -> _Port:
    return addr.type, addr.port, addr.nonce


def _with_ip(addrs: AddrVec, seen: EntityAddr) -> AddrVec:
    return AddrVec(tuple(addr.with_ip_of(seen) if addr.is_blank_ip else addr for addr in addrs))


_GLOBAL_SEQ_REACH = 1 << 31
"""No process dials so often, at five dials a second not in thirteen years."""

_Place = tuple[bytes, int, int]
"""IP, port and nonce: what is left of an address when the protocol is not looked at."""


class Core(LinkHost):
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
        shards: int = 0,
        key_log: bool = False,
    ) -> None:
        config = copy(config) if config else Config()  # options may change while the messenger runs
        super().__init__(
            config,
            wall_offset_s=wall_offset_s,
            tracing=tracing,
            interceptor=interceptor,
        )
        self.name = name
        self.addrs = addrs
        self._wildcards: frozenset[_Port] = frozenset()
        """Those of the own addresses that are bound to every IP of this host."""
        self.rng = rng
        self.policies = policies or PolicySet()
        self._auth_client = auth_client
        self._auth_server = auth_server
        self._logs_keys = key_log
        self._registry: dict[AddrVec, Session] = {}
        self._places: dict[_Place, Session] = {}
        self._sessions: dict[int, Session] = {}
        self._loopback: Session | None = None
        self.keepalives: dict[int, Keepalive] = {}
        """By session id."""
        self._global_seq = 0
        self._moment = 0
        self._last_link_id = 0
        self._last_session_id = 0
        self._is_shut = False
        self.half_open = HalfOpenLinks(self)
        self.shards = Shards(self, shards)
        self.update_injection()

    def update_injection(self) -> None:
        """Have an injector on every shard, if an option asks for one."""
        for host in (self, *self.shards.hosts):
            if host.injector is not None:
                host.injector.reconfigured()
            elif Injector.wanted(self.config):
                host.injector = Injector(host, self.config, self.rng)
        for session in self._sessions.values():
            session.guarded |= self._guards_sessions

    @property
    def _guards_sessions(self) -> bool:
        """True if sending must be looked at first on every session."""
        return self.injector is not None or self.config.max_queued_bytes > 0

    def internal_delay(self, link: Link, go_on: Step, now: float, *, learning: bool = False) -> None:
        """Go on with a handshake at a point where Ceph would provoke a race, if need be after a pause (§7.2)."""
        delay_s = 0.0 if self.injector is None else self.injector.internal_delay_s(learning=learning)
        if delay_s:
            link.delay(delay_s, go_on, now)
        else:
            go_on(now)

    def settle_delayed(self, session: Session, *, deliver: bool) -> None:
        """What an injector still delays of a session is due now, or dropped."""
        if self.injector is not None:
            self.emit(SettleDelayed(session, deliver))

    # ---- identity and chance

    def next_global_seq(self, at_least: int = 0) -> int:
        """A global_seq above those of earlier attempts and above ``at_least`` (§3.6).

        The counter of all sessions follows ``at_least`` only as far as a process can have counted: no peer may use
        up the 32 bits that v1 carries.
        """
        if at_least < _GLOBAL_SEQ_REACH:
            self._global_seq = max(self._global_seq, at_least)
        self._global_seq += 1
        return max(self._global_seq, at_least + 1)

    def next_moment(self) -> int:
        """A number for what happens now, higher than those of all that happened before."""
        self._moment += 1
        return self._moment

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

    def connect_exchange(self, peer: EntityType, now: float) -> ClientExchange:
        """A new authentication in CONNECTs of v1: none at all towards monitors; raises AuthError as the other."""
        if self._auth_client is None:
            raise AuthError(FaultReason.AUTH_DENIED, "this messenger has no credentials to connect with")
        return connect_exchange(self._auth_client, self.name.type, peer, self.wall_time_s(now), self.rng)

    def log_keys(self, link: Link, auth_payload: Buffer, result: AuthResult | None) -> None:
        """A link has authenticated; ``auth_payload`` is the acceptor's last word in that."""
        if self._logs_keys and result is not None:
            secrets = LinkSecrets.of(link.PROTOCOL, auth_payload, result)
            if secrets is not None:
                self.emit(LogKeys(secrets))

    def server_exchange(self, peer: EntityType, now: float) -> ServerExchange:
        """A new authentication of a peer."""
        assert self._auth_server is not None
        return self._auth_server.exchange(peer, self.wall_time_s(now), self.rng)

    def learned_addr(self, seen: EntityAddr) -> None:
        """An own IP became known: it replaces the blank one of the own addresses (§3.2)."""
        if not seen.is_blank_ip and any(addr.is_blank_ip for addr in self.addrs):
            self._wildcards |= {_port(addr) for addr in self.addrs if addr.is_blank_ip and addr.port}
            self.addrs = _with_ip(self.addrs, seen)

    def addrs_on(self, link: Link) -> AddrVec:
        """The own addresses for the peer of a link: those that are not bound to one IP have the IP of the link."""
        local = link.local_addr
        if local.is_blank_ip:
            return self.addrs
        return AddrVec(
            tuple(
                addr.with_ip_of(local) if addr.is_blank_ip or _port(addr) in self._wildcards else addr
                for addr in self.addrs
            )
        )

    def is_own(self, addr: EntityAddr, link: Link) -> bool:
        """True if a peer means this messenger by ``addr``, also by another network of this host."""
        return addr in self.addrs or addr in self.addrs_on(link)

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
        session.global_seq = self.next_global_seq(session.global_seq)
        link = self.new_link(Protocol.of(session.target_addr), connector=True)
        link.session = session
        link.dialled_addr = link.remote_addr = session.target_addr
        link.last_activity_s = now
        session.link = link
        self.await_ready(link, now)
        self.trace_link(link, "dial", now)

        def open_link(_now: float) -> None:
            self.emit(OpenLink(link.id, link.dialled_addr))

        link.run(lambda at: link.gate_write([Custom.SOCKET_CONNECTING], at, open_link), now)

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

    def close_link(self, link: Link, fault: Fault, now: float) -> None:
        """Close a link without a word to its session."""
        if link.session is not None and link.session.link is link:
            link.session.link = None
        self.half_open.discard(link)
        super().close_link(link, fault, now)

    def link_fault(self, link: Link, fault: Fault, now: float) -> None:
        """A link broke: close it, and let the session it carried react."""
        session = link.session if link.session is not None and link.session.link is link else None
        if not link.closed:
            self.trace_fault(link, session, fault.reason, str(fault), now)
            self.count_fault(link, fault)
        dialling = link.dialling
        self.close_link(link, fault, now)
        if session is not None:
            # Only a dial that was told to WAIT itself has not failed for good.
            session.peer_let_down |= session.peer_waits and link.connector and fault.reason is not FaultReason.RACE
            self.with_io(
                session, fault, lambda then: session_fault(self, session, fault, then, dialling=dialling), now
            )

    def with_io(self, session: Session, fault: Fault, then: Step, now: float) -> None:
        """Do ``then`` where the io half of the session is at home, if need be after it was called back."""
        if session.stint is None:
            then(now)
        else:
            self.shards.recall(session.stint, fault, then)

    def refused_peer(self, link: Link, error: PeerError, now: float) -> None:
        """A peer was refused, for what it is or what it lacks; it may try again on the same link."""
        self.trace_fault(link, None, error.reason, str(error), now)

    @property
    def held_by_application_bytes(self) -> int:
        """See :attr:`LinkHost.held_by_application_bytes`; other shards' included."""
        return self.dispatch_throttle.value + self.shards.owed_bytes

    # ---- sessions

    def lookup(self, addrs: AddrVec) -> Session | None:
        """The registered session with the peer of exactly these addresses."""
        return self._registry.get(addrs)

    def find(self, addrs: AddrVec) -> Session | None:
        """The registered session with the peer that has one of these addresses: one peer is one session."""
        return self.lookup(addrs) or next(filter(None, map(self.lookup_place, addrs)), None)

    def lookup_place(self, addr: EntityAddr) -> Session | None:
        """The registered session with a peer that has this address among its own, whatever the protocol."""
        return self._places.get((addr.ip, addr.port, addr.nonce))

    def of_other_protocol(self, addrs: AddrVec, protocol: Protocol) -> list[Session]:
        """The sessions with a peer of these addresses that do not speak ``protocol``."""
        sessions = {session.id: session for addr in addrs if (session := self.lookup_place(addr)) is not None}
        return [session for session in sessions.values() if Protocol.of(session.target_addr) is not protocol]

    def end_other_protocol(self, addrs: AddrVec, protocol: Protocol, now: float) -> None:
        """A peer dials by ``protocol``: a session with it that speaks the other one does not go on (§9, 28)."""
        for session in self.of_other_protocol(addrs, protocol):
            fault = Fault(FaultReason.REPLACED, f"by a session that speaks {protocol}")
            self.stop_session(session, fault, now)

    def yield_to(self, peer: EntityName, auth_name: AuthName | None, addrs: AddrVec, now: float) -> None:
        """End the sessions under a peer's addresses that are with another peer, as far as they yield to it.

        Raises:
            PeerError: PEER_IDENTITY, one of them does not.
        """
        sessions = {session.id: session for addr in addrs if (session := self.lookup_place(addr)) is not None}
        for session in sessions.values():
            fault = check_identity(session, peer, auth_name, self.config)
            if fault is not None:
                self.stop_session(session, fault, now)

    def end_doubles(self, session: Session, addrs: AddrVec, num: int, now: float) -> None:
        """The peer of ``session`` has said all its addresses: sessions that were opened by others of them end.

        Only those of the same type and number, as far as that is known: a peer may say what it likes.
        """
        if session.anonymous:
            return
        doubles = {double.id: double for addr in addrs if (double := self.lookup_place(addr)) is not None}
        doubles.pop(session.id, None)
        for double in doubles.values():
            if double.peer_type is session.peer_type and double.peer_name.num in {num, NEW_ENTITY_NUM}:
                fault = Fault(FaultReason.REPLACED, f"session {session.id} has the same peer, which is at {addrs}")
                self.stop_session(double, fault, now)

    def register(self, session: Session) -> None:
        """Make a session findable by its peer's addresses."""
        self._registry[session.peer_addrs] = session
        for addr in session.peer_addrs:
            self._places[addr.ip, addr.port, addr.nonce] = session

    def _unregister(self, session: Session) -> None:
        if self._registry.get(session.peer_addrs) is session:
            del self._registry[session.peer_addrs]
        for addr in session.peer_addrs:
            if self.lookup_place(addr) is session:
                del self._places[addr.ip, addr.port, addr.nonce]

    def rename_peer(self, session: Session, addrs: AddrVec, num: int) -> None:
        """The peer said who it is; the session is found under all its addresses from now on."""
        registered = self._registry.get(session.peer_addrs) is session
        renamed = addrs != session.peer_addrs
        if registered and renamed:
            self._unregister(session)
        session.peer_addrs = addrs
        session.peer_name = EntityName(session.peer_type, num)
        if registered and renamed and addrs not in self._registry:
            self.register(session)

    def begin(self, session: Session, why: str, now: float) -> None:
        """Make a session of this side known, unless it is anonymous, and dial."""
        if not session.anonymous:
            self.register(session)
        self.set_state(session, SessionState.CONNECTING, why, now)
        self.dial(session, now)

    def new_session(self, peer_type: EntityType, addrs: AddrVec, target: EntityAddr, policy: Policy) -> Session:
        """A fresh session; its registration is the caller's business."""
        self._last_session_id += 1
        session = Session(self._last_session_id, peer_type, addrs, target, policy)
        session.guarded = self._guards_sessions
        self._sessions[session.id] = session
        return session

    @property
    def protocols(self) -> frozenset[Protocol]:
        """Those that are spoken here."""
        return frozenset(_LINKS)

    @property
    def loopback(self) -> Session:
        """The session with oneself."""
        if self._loopback is None:
            self._loopback = loopback_session(self)
        return self._loopback

    def deliver_local(self, session: Session, message: Message) -> None:
        """Deliver what was sent to oneself."""
        size_bytes = message.size_bytes
        message.held_bytes = size_bytes
        self.dispatch_throttle.take(size_bytes)
        self.dispatch_messages.take(1)
        self.shards.owe_home(1, size_bytes)
        self.emit(Deliver(session, [message], size_bytes))

    def open_session(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """A session has got its link: tell the application; traffic may flow."""
        self.set_ready(session, link, kind, now)
        self.session_event(session, kind, None, now)
        self.open_link(session, link, now)

    def open_announced(self, session: Session, link: Link, now: float) -> None:
        """The answer to the peer is written, and the accept event was emitted before: traffic may flow (§4.9)."""
        self.set_ready(session, link, EventKind.ACCEPT, now)
        self.open_link(session, link, now)

    def set_ready(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """A session is READY as far as this side can decide; with v1, its link may not be open yet (§3.4)."""
        session.link = link
        session.cancel_backoff()
        session.backoff_s = 0.0
        session.short_links.opened_s = now
        session.last_fault = None
        session.end_race()
        self.set_state(session, SessionState.READY, kind.value, now)

    def open_link(self, session: Session, link: Link, now: float) -> None:
        """Both sides know that the session is open: traffic may flow."""
        if link.ready_timer is not None:
            link.ready_timer.cancel()
            link.ready_timer = None
        link.state = link.OPEN_STATE
        link.open = True
        self.half_open.discard(link)
        session.confirmed = True
        if self.shards.count:
            del self._links[link.id]
            self.shards.begin(session, link, now)
        else:
            self.begin_data(link, session)
            self.want_flush(session)

    def take_over(self, session: Session, link: Link, then: Step, now: float, *, resets: bool = False) -> None:
        """An incoming link takes the place of whatever link or dial the session had (§4.9, reuse).

        Args:
            session: whose.
            link: the new one.
            then: what follows once nothing of the old link comes any more.
            now: monotonic seconds.
            resets: ``then`` resets the session, so what an injector still delays of it is dropped.
        """
        session.cancel_backoff()
        fault = Fault(FaultReason.REPLACED, f"by link {link.id}")
        old, session.link = session.link, link
        link.session = session
        session.state = SessionState.REPLACING
        if old is not None and old is not link:
            self.close_link(old, fault, now)

        def with_queue(at: float) -> None:
            self.settle_delayed(session, deliver=not resets)  # another shard may have sent more until now
            session.requeue_sent()
            then(at)

        if session.stint is None:
            with_queue(now)
        else:
            link.wait(with_queue)
            self.shards.recall(session.stint, fault, link.proceed)

    def reset_session(self, session: Session, why: str, now: float) -> None:
        """The peer lost its state: drop everything of the old session and tell the application (§4.9).

        Who comes again and again before the session is open is told once, unless messages are lost again.
        """
        self.settle_delayed(session, deliver=False)
        dropped = session.reset()
        if session.reset_told and not dropped:
            return
        session.reset_told = True
        fault = Fault(FaultReason.REPLACED, f"{why}; {dropped} messages dropped")
        self.session_event(session, EventKind.REMOTE_RESET, fault, now)

    def send_keepalive(self, session: Session, now: float) -> None:
        """Ask the peer for a sign of life; ``session.keepalive_acked_s`` shows its answer."""
        if session.state is not SessionState.CLOSED and not session.local:
            if session.stint is not None:
                self.shards.keepalive(session.stint)
                return
            session.keepalive_due = True
            self.want_flush(session)
            if self.config.standby_keepalive == "wake":
                wake(self, session, now)

    def break_link(self, session: Session, fault: Fault, now: float) -> None:
        """Give up the link that carries a session; the session does what its policy says."""
        if session.stint is not None:
            self.shards.fault(session.stint, fault)
        elif session.link is not None:
            self.link_fault(session.link, fault, now)

    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session and tell the application."""
        self.end_session(session, fault, now)
        self.session_event(session, EventKind.RESET, fault, now)

    def end_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session without a word to the application."""
        session.cancel_backoff()
        self.settle_delayed(session, deliver=False)
        self.set_state(session, SessionState.CLOSED, str(fault), now)
        session.guarded = True
        if (keepalive := self.keepalives.pop(session.id, None)) is not None:
            keepalive.stop()
        closing = self.closing.pop(session.id, None)
        if isinstance(closing, HomeClosing):
            closing.cancel()
        self._unregister(session)
        self._sessions.pop(session.id, None)
        self._unflushed.pop(session.id, None)
        if session.stint is None:
            self.shards.set_io_state(session, IoState.DROP, 0, now)
            session.drop_output()
        else:
            self.shards.recall(session.stint, fault, None)
        if session.link is not None:
            self.close_link(session.link, fault, now)
        successor = session.successor
        if successor is not None and successor.state is not SessionState.CLOSED and not self._is_shut:
            self.begin(successor, f"session {session.id} has closed", now)

    def set_state(self, session: Session, state: SessionState, why: str, now: float) -> None:
        """Move a session to a state, for the reason given."""
        session.state = state
        if session.standby_timer is not None:
            session.standby_timer.cancel()
            session.standby_timer = None
        if state is SessionState.STANDBY and (timeout_s := self.config.standby_timeout):
            fault = Fault(FaultReason.STANDBY_TIMEOUT, f"{timeout_s:g} s")
            session.standby_timer = self.timers.at(
                now + timeout_s, lambda then: self.stop_session(session, fault, then)
            )
        if self.tracing:
            unusual = {"anonymous": 1} if session.anonymous else {}
            self.trace(
                "state",
                now,
                session=session.id,
                peer=str(session.peer_addrs),
                policy=session.policy.name,
                state=state.value,
                **session.counters(),
                **unusual,
                why=why,
            )

    def session_event(self, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        """Tell the application what happened to a session, unless it has never heard of it."""
        if kind in _OPENING:
            session.announced = True
            session.reset_told = False
        if not session.announced and kind in _ENDING:
            return
        detail = str(fault) if fault else ""
        self.trace("event", now, session=session.id, peer=str(session.peer_addrs), event=kind.value, detail=detail)
        self.emit(SessionEvent(session, kind, fault))

    # ---- history

    def trace_held(self, session: Session | None, now: float) -> None:
        """See :meth:`LinkHost.trace_held`; other shards' parts together."""
        if self.shards.count:
            self.shards.trace_held(session, now)
        else:
            super().trace_held(session, now)

    def trace_decision(
        self, link: Link, existing: Session | None, decision: Decision | V1Decision, now: float
    ) -> None:
        """Record who won against an existing session, and why."""
        if self.tracing:
            sid = existing.id if existing else None
            self.trace("decision", now, link=link.id, session=sid, verdict=decision.verdict.name, why=decision.why)
