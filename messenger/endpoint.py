"""The deterministic core of one messenger: sessions, links, registry (docs/core.md is the contract).

Inputs are method calls that carry ``now`` (monotonic seconds); outputs are values drained afterwards. Nothing
here reads a clock, a socket or a generator of its own, and no bytes of a peer make it raise. The order a driver
must keep: call an input, then :meth:`Endpoint.drain` until it returns nothing, carrying out each output in turn.
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
        name: this messenger's entity name; the number goes into ident frames.
        addrs: own addresses; for a pure client one ANY address with port 0 and a nonce of its own.
        rng: the only source of randomness.
        auth_client: how to authenticate to peers; needed to dial.
        auth_server: how peers authenticate here; needed to accept.
        policies: what a fault means, per type of peer.
        config: options.
        wall_offset_s: unix time minus ``now``; keepalive stamps and tickets use unix time.
        tracing: keep a history as TraceRecord outputs.
        interceptor: asked at every point a conversation passes.
        shards: number of other shards that run data phases; with 0 everything happens here. Their hosts come from
            ``shards.new_shard``; the driver of this endpoint drives them too (docs/core.md).
        key_log: emit the keys of links as LogKeys outputs.
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
            addrs: where the peer listens; one's own address gives the session with oneself.
            peer_type: what it is.
            now: the time.
            policy: for a new session; that of the policies unless given.
            anonymous: always a new session, which is not found by the peer's address, by neither side's doing.

        Raises:
            LocalError: no address to dial among them, an argument of another type, no way to authenticate, or the
                messenger is shut down.
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
            # The peer has one session with this messenger: the closing one ends before the next one is dialled.
            existing.successor = session
            self.change_session(session, Change.DIAL, f"waits for session {existing.id} to close", now)
            return session
        self.begin(session, "the application connects", now)
        return session

    def _existing(self, addrs: AddrVec, peer_type: EntityType, now: float) -> Session | None:
        """The session with the peer that has one of these addresses.

        Raises:
            LocalError: it is open, or being opened, and its peer is of another type.
        """
        existing = self.registry.find(addrs)
        if existing is None or existing.peer_type is peer_type:
            return existing
        if existing.link is not None:
            whom = f"session {existing.id} is with {existing.peer_name}, not with a {peer_type.label}"
            raise LocalError(f"{addrs}: {whom}")
        self.stop_session(existing, Fault(FaultReason.REPLACED, f"dialled as a {peer_type.label}"), now)
        return None

    def send(self, session: Session, message: Message, now: float) -> bool:
        """Queue a message; False if the session is closed and the message is dropped.

        Its parts must not change until the peer has acknowledged it: they are written, and written again after a
        reconnect, from where they are.

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
        """Encode a payload for the session's peer, or for one that can all that this messenger can."""
        try:
            message.encode_front(session.features or self.config.features_supported)
        except Exception as error:
            raise LocalError(f"{message!r} cannot be encoded: {describe(error)}") from error

    def _guarded_send(self, session: Session, message: Message, now: float) -> bool | None:
        """What becomes of a message without a look at it; None if it takes the usual way."""
        if session.state is SessionState.CLOSED or session.id in self.closing:
            return False
        if self.injector is not None and self.injector.swallows(session):
            return True
        if session.stint is None and (fault := self.rules.queue_fault(session, message)) is not None:
            self.stop_session(session, fault, now)
            return False
        return None

    def configure(self, **options: object) -> None:
        """Change options while the messenger runs. Open links keep the limits of their frames.

        Raises:
            LocalError: there is no such option, its value means nothing, or it cannot change any more; nothing has
                changed then.
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
        """The wall clock was looked at: ``offset_s`` is unix time minus ``now``."""
        for host in (self, *self.shards.hosts):
            host.wall_offset_s = offset_s

    def wake_session(self, session: Session, now: float) -> None:
        """The application wants the session open: one in STANDBY dials, unless only the peer may."""
        wake(self, session, now)

    def mark_down(self, session: Session, now: float) -> None:
        """End a session at once and silently; nothing more of it is delivered."""
        if session.state is SessionState.CLOSED:
            return
        if self.tracing:
            self.trace("mark_down", now, session=session.id, peer=str(session.peer_addrs))
        self.end_session(session, Fault(FaultReason.MARKED_DOWN), now)

    def keep_alive(self, session: Session, interval_s: float, timeout_s: float, now: float) -> None:
        """Ask the session's peer for a sign of life at regular times, instead of what was agreed on before.

        Args:
            session: whose peer.
            interval_s: pause between two questions; 0 = ask no more.
            timeout_s: silence after which the link is closed; 0 = never.
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
        """From now on a fault of the open session ends it, whatever its policy or the server says."""
        session.disposable = session.lossy = True

    def mark_down_all(self, now: float) -> None:
        """End every session, with a reset event each, and every link that has none yet."""
        for session in list(self.registry.sessions.values()):
            self.stop_session(session, Fault(FaultReason.MARKED_DOWN), now)
        for link in list(self._links.values()):
            self.close_link(link, Fault(FaultReason.MARKED_DOWN), now)

    def close_gracefully(self, session: Session, now: float) -> None:
        """Refuse further messages, and close the session without an event once its queue is acknowledged.

        That is when nothing is queued and all of it has left; of a lossless session, when it is acknowledged.
        After ``ms_shutdown_timeout`` it ends in any case.
        """
        if session.state is SessionState.CLOSED or session.local or session.id in self.closing:
            return
        session.guarded = True
        self.closing[session.id] = HomeClosing(self, session, now)

    def shutdown(self, now: float) -> None:
        """End every session and link; there will be no others."""
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
        """A peer dialled in where ``protocol`` is spoken; returns the id of the new link.

        Args:
            remote_addr: where the peer dials from.
            now: the time.
            protocol: of the listener.
            local_addr: the socket's own address; None if the driver does not know it.

        Raises:
            LocalError: this messenger has no way to authenticate peers.
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
            True if there was one.
        """
        self.counters.accept_failures += 1
        self.trace("exhausted", now, what="accept", detail=detail)
        return self.half_open.make_room(detail, now)

    def link_opened(self, link_id: int, local_addr: EntityAddr, now: float) -> None:
        """A dial succeeded; ``local_addr`` is the socket's own address."""
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
        """A call of another shard arrived."""
        self.shards.call(call, now)

    @override
    def release(self, size_bytes: int, now: float, session: Session | None = None, messages: int = 1) -> None:
        """Release messages; those of other shards go back to their shards."""
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

    # ---- for the driver's eyes

    def perf_dump(self) -> PerfDump:
        """What was counted so far, in the form of Ceph's ``perf dump``; see messenger/perf.py."""
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
        """Links that are open or being opened."""
        return len(self._links) + len(self.shards)

    @property
    def held_bytes(self) -> dict[int, int]:
        """Memory each link holds for incomplete frames and signatures, by link id."""
        return {link.id: link.held_bytes for link in self._links.values()}

    def resources(self) -> dict[str, object]:
        """What is in use beside that, for the same record; nothing of it stays when nothing happens."""
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
        """Counters that must be at rest when nothing happens, for the history's ``end`` record."""
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
