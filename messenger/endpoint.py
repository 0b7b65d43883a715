"""The deterministic core of one messenger: sessions, links, registry (the contract is design.md §2).

Inputs are method calls that carry ``now`` (monotonic seconds); outputs are values drained afterwards. Nothing
here reads a clock, a socket or a generator of its own, and no bytes of a peer make it raise. The order a driver
must keep: call an input, then :meth:`Endpoint.drain` until it returns nothing, carrying out each output in turn.
"""

from messenger.core import Core
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import Fault, FaultReason, LocalError, PeerError
from messenger.interception import Custom, Point
from messenger.link import Link, Protocol
from messenger.messages.message import Message
from messenger.session.faults import wake
from messenger.session.policy import Policy
from messenger.session.session import Session, SessionState
from messenger.shards.calls import ToHome

_SETTLED = frozenset({SessionState.READY, SessionState.STANDBY})


class Endpoint(Core):
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
        interceptor: asked at every point a conversation passes.
        shards: how many other shards run data phases; with 0 everything happens here. Their hosts come from
            ``shards.new_shard``; whoever drives this endpoint drives them too (docs/core.md).
    """

    # ---- inputs from the application

    def connect(self, addrs: AddrVec, peer_type: EntityType, now: float, policy: Policy | None = None) -> Session:
        """The session with the peer at ``addrs``: the registered one, or a new one that starts to dial.

        Raises:
            LocalError: no address to dial among them, one's own address, or no way to authenticate.
        """
        existing = self.lookup(addrs)
        if existing is not None:
            return existing
        target = self._dial_target(addrs)
        if target in self.addrs:
            raise LocalError(f"{target} is this messenger's own address")
        if self._auth_client is None:
            raise LocalError("this messenger has no credentials to connect with")
        session = self.new_session(peer_type, addrs, target, policy or self.policies.towards(peer_type))
        self.register(session)
        self.set_state(session, SessionState.CONNECTING, "the application connects", now)
        self.dial(session, now)
        return session

    def _dial_target(self, addrs: AddrVec) -> EntityAddr:
        """The v2 address if there is one, unless this messenger listens for v1 alone (§9, 29)."""
        v1_alone = self.addrs.legacy_addr().port and not self.addrs.msgr2_addr().port
        preferred = (
            (addrs.legacy_addr(), addrs.msgr2_addr()) if v1_alone else (addrs.msgr2_addr(), addrs.legacy_addr())
        )
        target = next((addr for addr in preferred if addr.port), None)
        if target is None:
            raise LocalError(
                f"no address to dial in {addrs}; give one as v2:HOST:PORT/NONCE or v1:HOST:PORT/NONCE"
            )
        return target

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
        if session.stint is not None:
            self.shards.send(session.stint, message)
            return True
        session.queue.push(message)
        self.want_flush(session)
        wake(self, session, now)
        return True

    def mark_down(self, session: Session, now: float) -> None:
        """End a session at once and silently; nothing more of it is delivered."""
        if session.state is SessionState.CLOSED:
            return
        if self.tracing:
            self.trace("mark_down", now, session=session.id, peer=str(session.peer_addrs))
        self.end_session(session, Fault(FaultReason.MARKED_DOWN), now)

    def shutdown(self, now: float) -> None:
        """End every session and link."""
        for session in list(self._sessions.values()):
            self.end_session(session, Fault(FaultReason.SHUTDOWN), now)
        for link in list(self._links.values()):
            self.close_link(link, Fault(FaultReason.SHUTDOWN), now)

    # ---- inputs from the transport

    def link_accepted(self, remote_addr: EntityAddr, now: float, protocol: Protocol = Protocol.V2) -> int:
        """A peer dialled in where ``protocol`` is spoken; returns the id of the new link.

        Raises:
            LocalError: this messenger has no way to authenticate peers.
        """
        if self._auth_server is None:
            raise LocalError("this messenger cannot accept: it has no authentication server")
        link = self.new_link(protocol, connector=False)
        link.remote_addr = remote_addr
        self.await_ready(link, now)
        self.trace_link(link, "accept", now)
        if self.interceptor is not None:
            self.passing(link, Point(Custom.SOCKET_ACCEPTED))
        self._start(link, now)
        return link.id

    def link_opened(self, link_id: int, local_addr: EntityAddr, now: float) -> None:
        """A dial succeeded; ``local_addr`` is the socket's own address."""
        link = self._links.get(link_id)
        if link is None:
            return
        if not self.config.ms_learn_addr_from_peer:
            self.learned_addr(local_addr)
        self.trace_link(link, "open", now)
        self._start(link, now)

    def _start(self, link: Link, now: float) -> None:
        link.last_activity_s = now
        try:
            link.start(now)
        except PeerError as error:
            link.fault(error.reason, error.detail, now)

    def link_written(self, link_id: int, count: int, now: float) -> None:
        """See :meth:`LinkHost.link_written`."""
        if link_id in self._links:
            super().link_written(link_id, count, now)
        else:
            self.shards.written(link_id, count)

    # ---- inputs from other shards

    def shard_call(self, call: ToHome, now: float) -> None:
        """A call of another shard arrived."""
        self.shards.call(call, now)

    def release(self, size_bytes: int, now: float) -> None:
        """See :meth:`LinkHost.release`; other shards get back what is theirs."""
        if self.shards.count:
            self.shards.release(size_bytes, now)
        else:
            super().release(size_bytes, now)

    def unblock(self, link_id: int, now: float) -> None:
        """See :meth:`LinkHost.unblock`."""
        if not self.shards.unblock(link_id):
            super().unblock(link_id, now)

    # ---- for the driver's eyes

    @property
    def sessions(self) -> list[Session]:
        """Every session that is not closed, oldest first."""
        return list(self._sessions.values())

    @property
    def link_count(self) -> int:
        """Links that are open or being opened."""
        return len(self._links) + len(self.shards)

    @property
    def held_bytes(self) -> dict[int, int]:
        """Memory each link holds for incomplete frames and signatures, by link id."""
        return {link.id: link.held_bytes for link in self._links.values()}

    def snapshot(self) -> dict[str, object]:
        """Counters that must be at rest when nothing happens, for the history's ``end`` record."""
        return {
            "registry": len(self._registry),
            "links": len(self._links) + len(self.shards),
            "dispatch_bytes": self.held_by_application_bytes,
            "queued": sum(len(session.queue) for session in self._sessions.values()) + self.shards.travelling,
            "sent": sum(len(session.queue.sent) for session in self._sessions.values()),
            "unsettled": sum(session.state not in _SETTLED for session in self._sessions.values()),
        }
