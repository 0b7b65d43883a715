"""Links and sessions of one messenger: how they start, replace each other and end.

:class:`messenger.endpoint.Endpoint` adds the inputs and outputs of the contract (docs/core.md).
"""

from collections.abc import Callable, Mapping
from copy import copy

from messenger.cephx.exchange import AuthClient, AuthResult, AuthServer
from messenger.closing import HomeClosing
from messenger.compat import override
from messenger.config import Config
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import Fault, FaultReason, PeerError
from messenger.half_open import HalfOpenLinks
from messenger.home import Home
from messenger.inject import Injector
from messenger.interception import Custom, Interceptor
from messenger.keepalive import Keepalive
from messenger.keylog import LinkSecrets
from messenger.link import Link, Step
from messenger.local_entity import LocalEntity
from messenger.loopback import loopback_session
from messenger.messages.message import Message
from messenger.outputs import Deliver, LogKeys, OpenLink, SessionEvent, SettleDelayed
from messenger.protocols import Protocol
from messenger.randomness import RandomSource
from messenger.session.events import EventKind
from messenger.session.existing import Decision
from messenger.session.faults import session_fault, wake
from messenger.session.identity import check_identity
from messenger.session.numbers import Numbers
from messenger.session.policy import Policy, PolicySet
from messenger.session.registry import Registry
from messenger.session.session import IoState, Session
from messenger.session.states import Change, SessionState
from messenger.shards.home import Shards
from messenger.v1.existing import Decision as V1Decision
from messenger.v1.protocol import v1_link
from messenger.v2.protocol import v2_link

_OPENING = frozenset({EventKind.ACCEPT, EventKind.CONNECT})
_ENDING = frozenset({EventKind.RESET, EventKind.REMOTE_RESET})
_LINKS: Mapping[Protocol, Callable[..., Link]] = {Protocol.V1: v1_link, Protocol.V2: v2_link}


class Core(Home):
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
        self.me = LocalEntity(name, addrs, config, rng, auth_client, auth_server)
        self.rng = rng
        self.policies = policies or PolicySet()
        self.registry = Registry()
        self.numbers = Numbers()
        self._logs_keys = key_log
        self._loopback: Session | None = None
        self.keepalives: dict[int, Keepalive] = {}
        """Regular keepalives, by session id."""
        self._last_link_id = 0
        self._is_shut = False
        self.half_open = HalfOpenLinks(self)
        self.shards = Shards(self, shards)
        self.update_injection()

    @property
    def name(self) -> EntityName:
        """Entity name of this messenger; a client gets its number when it has logged in to a monitor."""
        return self.me.name

    @name.setter
    def name(self, name: EntityName) -> None:
        self.me.name = name

    @property
    def addrs(self) -> AddrVec:
        """Addresses of this messenger, as announced to peers."""
        return self.me.addrs

    @addrs.setter
    def addrs(self, addrs: AddrVec) -> None:
        self.me.addrs = addrs

    def update_injection(self) -> None:
        """Create an injector on every shard if an option asks for one, or update the existing ones."""
        for host in (self, *self.shards.hosts):
            if host.injector is not None:
                host.injector.reconfigured()
            elif Injector.wanted(self.config):
                host.injector = Injector(host, self.config, self.rng)
        for session in self.registry.sessions.values():
            session.guarded |= self._guards_sessions

    @property
    def _guards_sessions(self) -> bool:
        """True if :meth:`Endpoint.send` must run its checks on every session."""
        return self.injector is not None or self.config.max_queued_bytes > 0

    @override
    def internal_delay(self, link: Link, go_on: Step, now: float, *, learning: bool = False) -> None:
        delay_s = 0.0 if self.injector is None else self.injector.internal_delay_s(learning=learning)
        if delay_s:
            link.delay(delay_s, go_on, now)
        else:
            go_on(now)

    def settle_delayed(self, session: Session, *, deliver: bool) -> None:
        """Deliver or drop the messages of a session that an injector still delays."""
        if self.injector is not None:
            self.emit(SettleDelayed(session, deliver))

    @override
    def log_keys(self, link: Link, auth_payload: Buffer, result: AuthResult | None) -> None:
        if self._logs_keys and result is not None:
            secrets = LinkSecrets.of(link.PROTOCOL, auth_payload, result)
            if secrets is not None:
                self.emit(LogKeys(secrets))

    # ---- links

    def new_link(self, protocol: Protocol, *, connector: bool) -> Link:
        """Create a link on which no byte has passed yet."""
        self._last_link_id += 1
        link = _LINKS[protocol](self, self._last_link_id, connector=connector)
        self._links[link.id] = link
        return link

    def dial(self, session: Session, now: float) -> None:
        """Dial a new link for a session, with a new global_seq."""
        session.cancel_backoff()
        session.global_seq = self.numbers.next_global_seq(session.global_seq)
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
        """Dial again after the backoff, or after waiting in vain for the peer to dial."""
        session.backoff_timer = None
        if session.state is SessionState.WAIT:
            self.change_session(session, Change.DIAL, "the peer did not dial in time", now)
        self.dial(session, now)

    def await_ready(self, link: Link, now: float) -> None:
        """Set the timeout of a link's handshake."""
        timeout_s = self.config.ms_connection_ready_timeout

        def expired(then: float) -> None:
            link.fault(FaultReason.READY_TIMEOUT, f"{timeout_s:g} s", then)

        link.ready_timer = self.timers.at(now + timeout_s, expired)

    def close_link(self, link: Link, fault: Fault, now: float) -> None:
        """Close a link without notifying its session."""
        if link.session is not None and link.session.link is link:
            link.session.link = None
        self.half_open.discard(link)
        super().close_link(link, fault, now)

    def link_fault(self, link: Link, fault: Fault, now: float) -> None:
        """Close a broken link, and let its session react according to its policy."""
        session = link.session if link.session is not None and link.session.link is link else None
        if not link.closed:
            self.trace_fault(link, session, fault.reason, str(fault), now)
            self.count_fault(link, fault)
        dialling = link.dialling
        self.close_link(link, fault, now)
        if session is not None:
            # The peer got WAIT and expects our dial, which has failed now, unless that dial got WAIT (RACE).
            session.race_dial_failed |= (
                session.peer_waits and link.connector and fault.reason is not FaultReason.RACE
            )
            self.with_io(
                session, fault, lambda then: session_fault(self, session, fault, then, dialling=dialling), now
            )

    def with_io(self, session: Session, fault: Fault, then: Step, now: float) -> None:
        """Call ``then`` with the io half of the session on the home shard, recalling it first if needed."""
        if session.stint is None:
            then(now)
        else:
            self.shards.recall(session.stint, fault, then)

    @override
    def refused_peer(self, link: Link, error: PeerError, now: float) -> None:
        self.trace_fault(link, None, error.reason, str(error), now)

    @property
    @override
    def held_by_application_bytes(self) -> int:
        """Received bytes that the application holds, on all shards."""
        return self.dispatch_throttle.value + self.shards.owed_bytes

    # ---- sessions

    @override
    def end_other_protocol(self, addrs: AddrVec, protocol: Protocol, now: float) -> None:
        for session in self.registry.of_other_protocol(addrs, protocol):
            fault = Fault(FaultReason.REPLACED, f"by a session that speaks {protocol}")
            self.stop_session(session, fault, now)

    @override
    def yield_to(self, peer: EntityName, auth_name: AuthName | None, addrs: AddrVec, now: float) -> None:
        for session in self.registry.at(addrs):
            fault = check_identity(session, peer, auth_name, self.config)
            if fault is not None:
                self.stop_session(session, fault, now)

    @override
    def end_doubles(self, session: Session, addrs: AddrVec, num: int, now: float) -> None:
        for double in self.registry.doubles(session, addrs, num):
            fault = Fault(FaultReason.REPLACED, f"session {session.id} has the same peer, which is at {addrs}")
            self.stop_session(double, fault, now)

    def begin(self, session: Session, why: str, now: float) -> None:
        """Register a dialled session, unless it is anonymous, and dial."""
        if not session.anonymous:
            self.registry.register(session)
        self.change_session(session, Change.DIAL, why, now)
        self.dial(session, now)

    @override
    def new_session(
        self,
        peer_type: EntityType,
        addrs: AddrVec,
        target: EntityAddr,
        policy: Policy,
        *,
        accepted: bool = False,
    ) -> Session:
        session = self.registry.new(peer_type, addrs, target, policy, accepted=accepted)
        session.guarded = self._guards_sessions
        return session

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols that this messenger can speak."""
        return frozenset(_LINKS)

    @property
    def loopback(self) -> Session:
        """The messenger's session with itself."""
        if self._loopback is None:
            self._loopback = loopback_session(self)
        return self._loopback

    def deliver_local(self, session: Session, message: Message) -> None:
        """Deliver a message that was sent on the loopback session."""
        size_bytes = message.size_bytes
        message.held_bytes = size_bytes
        self.dispatch_throttle.take(size_bytes)
        self.dispatch_messages.take(1)
        self.shards.owe_home(1, size_bytes)
        self.emit(Deliver(session, [message], size_bytes))

    @override
    def open_session(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        self.set_ready(session, link, kind, now)
        self.session_event(session, kind, None, now)
        self.open_link(session, link, now)

    @override
    def open_announced(self, session: Session, link: Link, now: float) -> None:
        self.set_ready(session, link, EventKind.ACCEPT, now)
        self.open_link(session, link, now)

    @override
    def set_ready(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        session.link = link
        session.cancel_backoff()
        session.backoff_s = 0.0
        session.short_links.opened_s = now
        session.last_fault = None
        session.end_race()
        self.change_session(session, Change.OPEN, kind.value, now)

    @override
    def open_link(self, session: Session, link: Link, now: float) -> None:
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

    @override
    def take_over(self, session: Session, link: Link, then: Step, now: float, *, resets: bool = False) -> None:
        session.cancel_backoff()
        fault = Fault(FaultReason.REPLACED, f"by link {link.id}")
        old, session.link = session.link, link
        link.session = session
        session.change(Change.TAKE_OVER)
        if old is not None and old is not link:
            old.close(fault, now)

        def with_queue(at: float) -> None:
            self.settle_delayed(session, deliver=not resets)  # another shard may have delivered more until now
            session.requeue_sent()
            then(at)

        if session.stint is None:
            with_queue(now)
        else:
            link.wait(with_queue)
            self.shards.recall(session.stint, fault, link.proceed)

    @override
    def reset_session(self, session: Session, why: str, now: float) -> None:
        self.settle_delayed(session, deliver=False)
        dropped = session.reset()
        if session.reset_reported and not dropped:
            return
        session.reset_reported = True
        fault = Fault(FaultReason.REPLACED, f"{why}; {dropped} messages dropped")
        self.session_event(session, EventKind.REMOTE_RESET, fault, now)

    @override
    def send_keepalive(self, session: Session, now: float) -> None:
        if session.state is not SessionState.CLOSED and not session.local:
            if session.stint is not None:
                self.shards.keepalive(session.stint)
                return
            session.keepalive_due = True
            self.want_flush(session)
            if self.config.standby_keepalive == "wake":
                wake(self, session, now)

    def break_link(self, session: Session, fault: Fault, now: float) -> None:
        """Break the link of a session; the session reacts according to its policy."""
        if session.stint is not None:
            self.shards.fault(session.stint, fault)
        elif session.link is not None:
            session.link.break_off(fault, now)

    @override
    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        self.end_session(session, fault, now)
        self.session_event(session, EventKind.RESET, fault, now)

    def end_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session without raising an event."""
        session.cancel_backoff()
        self.settle_delayed(session, deliver=False)
        self.change_session(session, Change.CLOSE, str(fault), now)
        session.guarded = True
        if (keepalive := self.keepalives.pop(session.id, None)) is not None:
            keepalive.stop()
        closing = self.closing.pop(session.id, None)
        if isinstance(closing, HomeClosing):
            closing.cancel()
        self.registry.remove(session)
        self._unflushed.pop(session.id, None)
        if session.stint is None:
            self.shards.set_io_state(session, IoState.DROP, 0, now)
            session.drop_output()
        else:
            self.shards.recall(session.stint, fault, None)
        if session.link is not None:
            session.link.close(fault, now)
        successor = session.successor
        if successor is not None and successor.state is not SessionState.CLOSED and not self._is_shut:
            self.begin(successor, f"session {session.id} has closed", now)

    @override
    def change_session(self, session: Session, change: Change, why: str, now: float) -> None:
        session.change(change)
        if session.standby_timer is not None:
            session.standby_timer.cancel()
            session.standby_timer = None
        if session.state is SessionState.STANDBY and (timeout_s := self.config.standby_timeout):
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
                state=session.state.value,
                **session.counters(),
                **unusual,
                why=why,
            )

    @override
    def session_event(self, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        if kind in _OPENING:
            session.announced = True
            session.reset_reported = False
        if not session.announced and kind in _ENDING:
            return
        detail = str(fault) if fault else ""
        self.trace("event", now, session=session.id, peer=str(session.peer_addrs), event=kind.value, detail=detail)
        self.emit(SessionEvent(session, kind, fault))

    # ---- history

    @override
    def trace_held(self, session: Session | None, now: float) -> None:
        """Record what is held against the throttles, on all shards."""
        if self.shards.count:
            self.shards.trace_held(session, now)
        else:
            super().trace_held(session, now)

    @override
    def trace_decision(
        self, link: Link, existing: Session | None, decision: Decision | V1Decision, now: float
    ) -> None:
        if self.tracing:
            sid = existing.id if existing else None
            self.trace("decision", now, link=link.id, session=sid, verdict=decision.verdict.name, why=decision.why)
