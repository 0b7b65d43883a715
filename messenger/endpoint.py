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
from messenger.outputs import Output
from messenger.session.faults import wake
from messenger.session.policy import Policy
from messenger.session.session import Session, SessionState

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
    """

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
        state = session.state
        if state is SessionState.CLOSED:
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
        self._unflushed[session.id] = session
        if state is SessionState.STANDBY:
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

    def release(self, size_bytes: int, now: float) -> None:
        """The application is done with delivered messages of that size; reading goes on if it had stopped."""
        throttle = self.dispatch_throttle
        was_full = throttle.full
        throttle.put(size_bytes)
        if self.tracing and size_bytes:
            self.trace_throttle(now)
        if was_full and not throttle.full:
            for link in [link for link in self._links.values() if link.paused]:
                if not throttle.full:
                    link.resume(now)

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

    def receive_buffer(self, link_id: int) -> memoryview:
        """Where to put bytes received on a link; report them by :meth:`link_received` before the next call."""
        link = self._links.get(link_id)
        return self.scratch if link is None else link.receive_buffer.writable()

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
        was_behind = link.unwritten_bytes >= self.config.write_ahead_bytes
        link.unwritten_bytes -= count
        if was_behind and link.session is not None:
            self.want_flush(link.session)

    def link_eof(self, link_id: int, now: float) -> None:
        """The peer closed the byte stream."""
        self.link_failed(link_id, FaultReason.EOF, "", now)

    def link_failed(self, link_id: int, reason: FaultReason, detail: str, now: float) -> None:
        """A dial failed, or the byte stream broke."""
        link = self._links.get(link_id)
        if link is not None:
            link.failed(reason, detail, now)

    def unblock(self, link_id: int, now: float) -> None:
        """Let a link go on that the interceptor blocked or stalled."""
        link = self._links.get(link_id)
        if link is not None:
            link.unblock(now)

    # ---- time

    def next_deadline(self) -> float | None:
        """When :meth:`timer` must be called at the latest; None if nothing is pending."""
        return self.timers.next_deadline()

    def timer(self, now: float) -> None:
        """Time has passed: carry out what is due."""
        self.timers.fire(now)

    # ---- outputs

    def drain(self, now: float) -> list[Output]:
        """The outputs since the last call, in order; an empty list means that nothing is left to do.

        Writes are built last, so that replies the application sends while its messages are delivered leave
        together.
        """
        if not self._outputs:
            if not self._unflushed:
                return []
            unflushed, self._unflushed = self._unflushed, {}
            for session in unflushed.values():
                link = session.link
                if link is None or not link.open or link.held:
                    continue
                try:
                    link.flush(session, now)
                except PeerError as error:
                    link.fault(error.reason, error.detail, now)
        outputs, self._outputs = self._outputs, []
        return outputs

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
        return {link.id: link.held_bytes for link in self._links.values()}

    def snapshot(self) -> dict[str, object]:
        """Counters that must be at rest when nothing happens, for the history's ``end`` record."""
        return {
            "registry": len(self._registry),
            "links": len(self._links),
            "dispatch_bytes": self.dispatch_throttle.value,
            "queued": sum(len(session.queue) for session in self._sessions.values()),
            "sent": sum(len(session.queue.sent) for session in self._sessions.values()),
            "unsettled": sum(session.state not in _SETTLED for session in self._sessions.values()),
        }
