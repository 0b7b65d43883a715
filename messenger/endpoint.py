"""The deterministic core of one messenger: sessions, links, registry (docs/core.md is the contract).

Inputs are method calls that carry ``now`` (monotonic seconds); outputs are values, drained afterwards. The core
reads no clock and no socket, uses only the random numbers it is given, and never raises because of a peer's bytes.
A driver calls an input, then :meth:`Endpoint.drain` until it returns nothing, and carries out each output in
order.
"""

from dataclasses import replace

from messenger.addressing import dial_target, usable_addrs
from messenger.calls import ToHome
from messenger.closing import HomeClosing
from messenger.compat import override
from messenger.config import FIXED_OPTIONS, OPTIONS
from messenger.core import Core
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import Fault, FaultReason, LocalError, check_kind, describe
from messenger.host import LinkHost
from messenger.interception import Custom, Point
from messenger.keepalive import Keepalive
from messenger.link import Link
from messenger.messages.message import Message
from messenger.perf import PerfDump, gauge_group, perf_dump
from messenger.protocols import Protocol
from messenger.session.faults import wake
from messenger.session.policy import Policy
from messenger.session.session import Session
from messenger.session.states import Change, SessionState

_SETTLED = frozenset({SessionState.READY, SessionState.STANDBY})


class Endpoint(Core):
    """One messenger without its sockets.

    Args:
        name: this messenger's entity name; ident frames carry its number.
        addrs: this messenger's addresses; for a pure client one address of type ANY with port 0 and its nonce.
        rng: the only source of random numbers.
        auth_client: authenticates to peers; required to dial.
        auth_server: authenticates peers; required to accept.
        policies: what a session does after a fault, by the peer's entity type.
        config: options.
        wall_offset_s: unix time minus ``now``; keepalive stamps and tickets use unix time.
        tracing: True emits the history as TraceRecord outputs.
        interceptor: called at every breakpoint of a link or session.
        shards: number of further shards, which run the data phases; with 0 the home shard runs them. Their hosts
            come from ``shards.new_shard``, and the driver of this endpoint drives them too (docs/core.md).
        key_log: True emits the keys of links as LogKeys outputs.
    """

    # ---- inputs from the application

    def connect(
        self,
        addrs: AddrVec,
        peer_type: EntityType,
        now: float,
        policy: Policy | None = None,
        *,
        anonymous: bool = False,
    ) -> Session:
        """The session with the peer at ``addrs``: the registered one, or a new one that starts to dial.

        Args:
            addrs: addresses at which the peer listens; the messenger's own address gives its session with itself.
            peer_type: entity type of the peer.
            now: the time.
            policy: policy of a new session; by default the messenger's policy for ``peer_type``.
            anonymous: always create a new session, which neither side finds by the other's address.

        Raises:
            LocalError: ``addrs`` has no address that can be dialled, an argument has the wrong type, there are no
                credentials, or the messenger is shut down.
        """
        if self._is_shut:
            raise LocalError("this messenger has been shut down")
        check_kind("peer_type", peer_type, EntityType, "an EntityType, such as EntityType.OSD")
        policy = policy or self.policies.towards(peer_type)
        check_kind("policy", policy, Policy, "a Policy, such as LOSSLESS_CLIENT")
        addrs = usable_addrs(self.addrs, addrs)
        if any(addr.port and addr in self.addrs for addr in addrs):
            return self.loopback
        existing = None if anonymous else self._existing(addrs, peer_type, now)
        if existing is not None and existing.id not in self.closing:
            existing.announced = True
            return existing
        target = dial_target(addrs, self.protocols)
        if policy.server:
            raise LocalError(f"policy {policy.name} towards a {peer_type.label} is a server's, which never dials")
        if self.me.auth_client is None:
            raise LocalError("this messenger has no credentials to connect with")
        if existing is not None and existing.successor is not None:
            return existing.successor
        session = self.new_session(peer_type, addrs, target, policy)
        session.anonymous = anonymous
        session.announced = True
        self.counters.created_connections += 1
        if existing is not None:
            # A peer has at most one session with this messenger: the closing one ends before the next one dials.
            existing.successor = session
            self.change_session(session, Change.DIAL, f"waits for session {existing.id} to close", now)
            return session
        self.begin(session, "the application connects", now)
        return session

    def _existing(self, addrs: AddrVec, peer_type: EntityType, now: float) -> Session | None:
        """The registered session with the peer that has one of these addresses, if any.

        Raises:
            LocalError: the session has a link, and its peer is of another type.
        """
        existing = self.registry.find(addrs)
        if existing is None or existing.peer_type is peer_type:
            return existing
        if existing.link is not None:
            detail = f"session {existing.id} is with {existing.peer_name}, not with a {peer_type.label}"
            raise LocalError(f"{addrs}: {detail}")
        self.stop_session(existing, Fault(FaultReason.REPLACED, f"dialled as a {peer_type.label}"), now)
        return None

    def send(self, session: Session, message: Message, now: float) -> bool:
        """Queue a message. Returns False if the session is closed and the message is dropped.

        The parts of the message must not change until the peer has acknowledged it: they are written without a
        copy, and written again after a reconnect.

        Raises:
            LocalError: a part or a number of the message does not fit into a frame (docs/protocol.md §4.4, §4.8),
                the message is longer than ``max_frame_bytes``, or its payload cannot be encoded.
        """
        if session.guarded and (answer := self._guarded_send(session, message, now)) is not None:
            return answer
        state = session.state
        if message.payload is not None:
            self._encode(message, session)
        if message.needs_check(self.config.max_frame_bytes):
            message.check(self.config.max_frame_bytes)
        if session.stint is not None:
            self.shards.send(session.stint, message)
            return True
        session.queue.push(message)
        self._unflushed[session.id] = session
        if state is SessionState.STANDBY:
            wake(self, session, now)
        return True

    def _encode(self, message: Message, session: Session) -> None:
        """Encode a payload for the features of the session's peer; before the handshake, for all own features."""
        try:
            message.encode_front(session.features or self.config.features_supported)
        except Exception as error:
            raise LocalError(f"{message!r} cannot be encoded: {describe(error)}") from error

    def _guarded_send(self, session: Session, message: Message, now: float) -> bool | None:
        """Check a message on a guarded session. Returns the result of :meth:`send`; None to queue the message."""
        if session.state is SessionState.CLOSED or session.id in self.closing:
            return False
        if self.injector is not None and self.injector.swallows(session):
            return True
        if session.stint is None and (fault := self.rules.queue_fault(session, message)) is not None:
            if session.link is not None:
                session.link.break_off(fault, now)
            else:
                self.stop_session(session, fault, now)
            return False
        return None

    def configure(self, **options: object) -> None:
        """Change options while the messenger runs. Open links keep their limits for frames.

        Raises:
            LocalError: an option is unknown, has an invalid value, or is fixed when the messenger is created. Then
                no option has changed.
        """
        if unknown := options.keys() - OPTIONS:
            raise LocalError(f"there is no option {', '.join(sorted(unknown))}")
        if fixed := FIXED_OPTIONS & options.keys():
            raise LocalError(f"{', '.join(sorted(fixed))}: fixed when the messenger is made")
        changed = replace(self.config, **options)  # type: ignore[arg-type]
        for option in options:
            setattr(self.config, option, getattr(changed, option))
        self.update_injection()
        self.reconfigured()
        self.shards.reconfigured()

    @property
    def is_shut(self) -> bool:
        """True once the messenger has been shut down."""
        return self._is_shut

    def set_wall_clock(self, offset_s: float) -> None:
        """Set the wall clock: ``offset_s`` is unix time minus ``now``."""
        for host in (self, *self.shards.hosts):
            host.wall_offset_s = offset_s

    def wake_session(self, session: Session, now: float) -> None:
        """Dial if the session is in STANDBY, unless its policy makes it a server."""
        wake(self, session, now)

    def mark_down(self, session: Session, now: float) -> None:
        """End a session at once and without an event; nothing more of it is delivered."""
        if session.state is SessionState.CLOSED:
            return
        if self.tracing:
            self.trace("mark_down", now, session=session.id, peer=str(session.peer_addrs))
        self.end_session(session, Fault(FaultReason.MARKED_DOWN), now)

    def keep_alive(self, session: Session, interval_s: float, timeout_s: float, now: float) -> None:
        """Send keepalives at regular intervals; replaces the session's earlier interval and timeout.

        Args:
            session: the session whose peer shall answer.
            interval_s: seconds between two keepalives; 0 stops them.
            timeout_s: age of the newest acknowledged keepalive at which the link is closed; 0 = never.
            now: the time.
        """
        if (before := self.keepalives.pop(session.id, None)) is not None:
            before.stop()
        if self.tracing:
            peer = str(session.peer_addrs)
            self.trace("keepalive", now, session=session.id, peer=peer, interval_s=interval_s, timeout_s=timeout_s)
        if interval_s > 0 and session.state is not SessionState.CLOSED and not session.local:
            self.keepalives[session.id] = Keepalive(self, session, interval_s, timeout_s, now)

    def mark_disposable(self, session: Session) -> None:
        """Make the next fault of the open session end it, whatever its policy or the server's."""
        session.disposable = session.lossy = True

    def mark_down_all(self, now: float) -> None:
        """End every session with a reset event, and close every link without a session."""
        for session in list(self.registry.sessions.values()):
            self.stop_session(session, Fault(FaultReason.MARKED_DOWN), now)
        for link in list(self._links.values()):
            self.close_link(link, Fault(FaultReason.MARKED_DOWN), now)

    def close_gracefully(self, session: Session, now: float) -> None:
        """Refuse further messages, and close the session without an event once its queue is sent.

        A lossless session also waits until everything is acknowledged. After ``ms_shutdown_timeout`` it ends in
        any case.
        """
        if session.state is SessionState.CLOSED or session.local or session.id in self.closing:
            return
        session.guarded = True
        self.closing[session.id] = HomeClosing(self, session, now)

    def shutdown(self, now: float) -> None:
        """End every session and link; later calls of :meth:`connect` raise."""
        self._is_shut = True
        if self._loopback is not None and self._loopback.state is not SessionState.CLOSED:
            self._loopback.change(Change.CLOSE)
            self._loopback.guarded = True
        for session in list(self.registry.sessions.values()):
            self.end_session(session, Fault(FaultReason.SHUTDOWN), now)
        for link in list(self._links.values()):
            self.close_link(link, Fault(FaultReason.SHUTDOWN), now)

    # ---- inputs from the transport

    def link_accepted(
        self,
        remote_addr: EntityAddr,
        now: float,
        protocol: Protocol = Protocol.V2,
        local_addr: EntityAddr | None = None,
    ) -> int:
        """Start the handshake on an accepted link. Returns the id of the link.

        Args:
            remote_addr: address from which the peer dials.
            now: the time.
            protocol: protocol of the listener.
            local_addr: local address of the socket; None if the driver does not know it.

        Raises:
            LocalError: this messenger has no authentication server.
        """
        if self.me.auth_server is None:
            raise LocalError("this messenger cannot accept: it has no authentication server")
        link = self.new_link(protocol, connector=False)
        self.counters.created_connections += 1
        link.remote_addr = remote_addr
        self._set_local_addr(link, local_addr or link.local_addr)
        self.await_ready(link, now)
        self.trace_link(link, "accept", now)
        self.half_open.add(link, now)
        if self.interceptor is not None:
            self.passing(link, Point(Custom.SOCKET_ACCEPTED))
        self._start(link, now)
        return link.id

    def accept_failed(self, detail: str, now: float) -> bool:
        """Close the oldest half-open link, because the driver lacked descriptors or memory to accept a peer.

        Returns:
            True if there was a half-open link.
        """
        self.counters.accept_failures += 1
        self.trace("exhausted", now, what="accept", detail=detail)
        return self.half_open.make_room(detail, now)

    def link_opened(self, link_id: int, local_addr: EntityAddr, now: float) -> None:
        """Start the handshake on a dialled link; ``local_addr`` is the local address of its socket."""
        link = self._links.get(link_id)
        if link is None:
            return
        self._set_local_addr(link, local_addr)
        self.trace_link(link, "open", now)
        self._start(link, now)

    def _set_local_addr(self, link: Link, local_addr: EntityAddr) -> None:
        link.local_addr = local_addr
        if not self.config.ms_learn_addr_from_peer:
            self.me.learned_addr(local_addr)

    def _start(self, link: Link, now: float) -> None:
        link.last_activity_s = now
        link.run(link.start, now)

    @override
    def written_elsewhere(self, link_id: int, count: int) -> None:
        self.shards.written(link_id, count)

    # ---- inputs from other shards

    def shard_call(self, call: ToHome, now: float) -> None:
        """Apply a call that arrived from another shard."""
        self.shards.call(call, now)

    @override
    def release(self, size_bytes: int, now: float, session: Session | None = None, messages: int = 1) -> None:
        """Return released messages to the throttles of the shards that delivered them."""
        if self.shards.count:
            self.shards.release(messages, size_bytes, now)
            if session is not None:
                self.shards.release_held(session, messages, size_bytes, now)
        else:
            super().release(size_bytes, now, session, messages)

    @override
    def unblock(self, link_id: int, now: float) -> None:
        if not self.shards.unblock(link_id):
            super().unblock(link_id, now)

    # ---- monitoring, for the driver

    def perf_dump(self) -> PerfDump:
        """The performance counters, in the format of Ceph's ``perf dump``; see messenger/perf.py."""
        shards = self.shards.hosts
        away = [len(shard.link_ids) for shard in shards]
        active = [len(self.registry.sessions) - sum(away), *away]
        unwritten_bytes = sum(link.unwritten_bytes for link in self._all_links())
        gauges = gauge_group(self.sessions, unwritten_bytes, len(self.half_open))
        return perf_dump(self.name.type.label, [self, *shards], active, gauges)

    @property
    def sessions(self) -> list[Session]:
        """Every session that is not closed, oldest first."""
        return list(self.registry.sessions.values())

    @property
    def link_count(self) -> int:
        """Number of links that are open or being opened."""
        return len(self._links) + len(self.shards)

    @property
    def held_bytes(self) -> dict[int, int]:
        """Bytes that each link holds for incomplete frames and signatures, by link id."""
        return {link.id: link.held_bytes for link in self._links.values()}

    def resources(self) -> dict[str, object]:
        """Further resources in use, for the history's ``end`` record; if idle, only a timer for each link."""
        hosts: list[LinkHost] = [self, *self.shards.hosts]
        links = self._all_links()
        deadlines = sum(link.deadline is not None and link.deadline.timer is not None for link in links)
        return {
            "timers": sum(len(host.timers) for host in hosts) - len(self.keepalives) - deadlines,
            "receive_bytes": sum(link.held_bytes for link in links),
            "unwritten_bytes": sum(link.unwritten_bytes for link in links),
            "throttled": sum(throttle.value for host in hosts for throttle in host.all_throttles)
            - self.shards.releases_travelling,
            "arrivals": sum(len(host.arrivals) for host in hosts),
        }

    def snapshot(self) -> dict[str, object]:
        """Sessions, links and messages not settled yet, for the history's ``end`` record."""
        travelling = self.shards.travelling + (0 if self.injector is None else self.injector.held_back)
        return {
            "registry": len(self.registry),
            "links": len(self._links) + len(self.shards),
            "dispatch_bytes": self.held_by_application_bytes,
            "queued": sum(len(session.queue) for session in self.registry.sessions.values()) + travelling,
            "sent": sum(len(session.queue.sent) for session in self.registry.sessions.values()),
            "unsettled": sum(session.state not in _SETTLED for session in self.registry.sessions.values())
            + sum(not link.at_rest for link in self._all_links()),
        }

    def _all_links(self) -> list[Link]:
        """The links of all shards."""
        return [link for host in (self, *self.shards.hosts) for link in host.links]
