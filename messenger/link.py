"""One link: a byte stream to one peer, in either protocol.

A link belongs to a messenger's core. The subclasses in ``v1/`` and ``v2/`` interpret the bytes; this class does
what they share: buffering, writing, pausing, interception, closing and the history.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from messenger.cephx.exchange import AuthResult, ConMode
from messenger.deadlines import FrameDeadline
from messenger.denc.address import BLANK
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.errors import DieError, Fault, FaultReason, PeerError, describe
from messenger.evidence import Peaks, auth_fields
from messenger.interception import BLOCK_LIMIT_S, Action, Custom, Point, Way
from messenger.messages.message import Message
from messenger.outputs import PauseLink, ShutLink, WriteLink
from messenger.protocols import Protocol
from messenger.receive import OWN_BUFFER_BYTES, ReceiveBuffer
from messenger.session.timers import Timer

if TYPE_CHECKING:
    from messenger.gate import Gate
    from messenger.held_reader import Reader
    from messenger.home import Home
    from messenger.host import LinkHost
    from messenger.session.session import Session
    from messenger.v2.onwire import StreamCipher

__all__ = ["Link", "Protocol", "Row", "Step"]

_MOST_ACKS_DUE = 16
"""Most messages that may wait for their ack while more are arriving."""
_CUSTOM: frozenset[str] = frozenset(Custom)

Step = Callable[[float], None]
"""A step that is called with the time."""

Handle = TypeVar("Handle")
State = TypeVar("State", bound=StrEnum)


class Row(Generic[Handle, State]):
    """A row of a handshake table: the handler of a frame in a state, and the states that may follow.

    Any row may also end in a fault, which leads to CLOSED and is not listed.
    """

    __slots__ = ("handle", "leads_to")

    def __init__(self, handle: Handle, *leads_to: State) -> None:
        self.handle = handle
        self.leads_to = leads_to


class Link(ABC):
    """One byte stream to one peer, and the state of the protocol on it."""

    __slots__ = (
        "_failure",
        "_held",
        "_hold_timer",
        "_waiting",
        "auth_result",
        "closed",
        "con_mode",
        "connector",
        "deadline",
        "dialled_addr",
        "endpoint",
        "gate",
        "host",
        "id",
        "idle_timer",
        "last_activity_s",
        "local_addr",
        "open",
        "opened_at",
        "paused",
        "peaks",
        "peer_type",
        "read_since_s",
        "ready_timer",
        "receive_buffer",
        "remote_addr",
        "rx_frames",
        "rx_offset",
        "session",
        "state",
        "taken_bytes",
        "tx_frames",
        "tx_offset",
        "unwritten_bytes",
    )

    PROTOCOL: ClassVar[Protocol]
    MESSAGE_TAG: ClassVar[int]
    OPEN_STATE: ClassVar[StrEnum]
    CLOSED_STATE: ClassVar[StrEnum]

    reader: "Reader[Any]"
    """Splits the received bytes of the open link into frames."""

    def __init__(self, endpoint: "Home", link_id: int, state: StrEnum, *, connector: bool) -> None:
        self.endpoint = endpoint
        self.host: LinkHost = endpoint
        """The host that runs the link: the core itself, or another shard once the link is open."""
        self.id = link_id
        self.connector = connector
        self.state = state
        self.open = False
        """True in the data phase: messages may flow."""
        self.closed = False
        self.session: Session | None = None
        self.dialled_addr = BLANK
        self.remote_addr = BLANK
        self.local_addr = BLANK
        """Address of this end: that of the socket, later as the peer sees it. Blank while it is not known."""
        self.peer_type: EntityType | None = None
        self.con_mode = ConMode.CRC
        self.auth_result: AuthResult | None = None
        self.receive_buffer = ReceiveBuffer(endpoint.scratch, endpoint.pool)
        self.unwritten_bytes = 0
        self.paused = False
        """True while nothing is read, because a message waits for a throttle or an interceptor blocks the link."""
        self.last_activity_s = 0.0
        self.read_since_s = 0.0
        """Time at which reading last resumed after a pause; bytes that the peer sent before it were read late."""
        self.ready_timer: Timer | None = None
        self.idle_timer: Timer | None = None
        self.gate: Gate | None = None
        """Admits messages to the throttles; None before the data phase."""
        self.taken_bytes = 0
        """Size of the messages that were read from the stream but are not delivered yet."""
        self.deadline: FrameDeadline | None = None  # few links ever have an incomplete frame
        # The step and fault that an interceptor holds.
        self._held: Step | None = None
        self._waiting = False
        self._hold_timer: Timer | None = None
        self._failure: tuple[FaultReason, str] | None = None
        # Positions in both byte streams, for the history and the counters.
        self.rx_offset = 0
        self.tx_offset = 0
        self.opened_at = (0, 0)
        """Positions (received, sent) at which the data phase began."""
        self.rx_frames = 0
        self.tx_frames = 0
        self.peaks = Peaks() if endpoint.tracing else None

    def __repr__(self) -> str:
        way = "to" if self.connector else "from"
        return f"<{self.PROTOCOL} link {self.id} {way} {self.remote_addr} {self.state}>"

    @property
    def peer_entity(self) -> EntityType:
        """The peer's entity type; only valid once it is known."""
        assert self.peer_type is not None
        return self.peer_type

    @property
    def dialling(self) -> bool:
        """True until the link is open: a fault then ends no lossy session (docs/protocol.md §3.9 step 2)."""
        return not self.open

    # ---- implemented by the protocols

    @abstractmethod
    def start(self, now: float) -> None:
        """Start the handshake on the open byte stream."""

    @abstractmethod
    def handshake_step(self, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:
        """Handle the banner or frame at ``start`` before the link is open; returns its length, 0 while incomplete.

        Raises:
            PeerError: the peer violated the protocol.
        """

    @abstractmethod
    def take_frames(
        self,
        session: "Session",
        messages: list[Message],
        view: memoryview,
        start: int,
        end: int,
        owned: bool,  # noqa: FBT001 - hot path
        now: float,
        /,
    ) -> int:
        """Read every complete frame of ``view[start:end]`` on an open link, and append messages to ``messages``.

        Adds their size to :attr:`taken_bytes`, and returns the offset at which the incomplete rest begins.

        Raises:
            PeerError: the peer violated the protocol, or ended the session.
        """

    @abstractmethod
    def write_due(self, session: "Session", now: float, /) -> None:
        """Write the frames that are due on an open link, until the transport is behind by ``write_ahead_bytes``.

        Raises:
            PeerError: nothing more can be written on this link.
        """

    @abstractmethod
    def due_tags(self, session: "Session", /) -> list[str]:
        """Names of the frames that :meth:`write_due` would write now."""

    @property
    @abstractmethod
    def needed_bytes(self) -> int:
        """Length of the incomplete frame; 0 while it is not known."""

    @property
    def held_bytes(self) -> int:
        """Bytes of memory held for incomplete frames and for the pre-auth signature."""
        return self.receive_buffer.held_bytes

    def note_held(self, peaks: Peaks) -> None:
        """Record how much memory the link holds now."""
        peaks.note(self.held_bytes, authenticated=self.auth_result is not None)

    @property
    def at_rest(self) -> bool:
        """True if the link is open and nothing waits to be written or read."""
        return self.open and not (self.paused or self.unwritten_bytes or self.held_bytes)

    @property
    def allowed_modes(self) -> tuple[ConMode, ...]:
        """The connection modes that this side offers or allows on the link, the preferred one first."""
        return (ConMode.CRC,)

    @property
    def ciphers(self) -> "tuple[StreamCipher, ...]":
        """The ciphers of a secure link: the receiving one, then the sending one; empty in crc mode."""
        return ()

    @property
    def is_compressed(self) -> bool:
        """True if frames are compressed."""
        return False

    @property
    def revision(self) -> int:
        """Revision of the frames: 0 for msgr 2.0, 1 for msgr 2.1."""
        return 0

    # ---- receiving

    def receive(self, count: int, now: float) -> None:
        """Process ``count`` bytes that the transport has read into the receive buffer."""
        self.last_activity_s = now
        view, position, end, owned = self.receive_buffer.received(count)
        host = self.host
        try:
            while not self.closed and not self.paused and self.host is host:
                if self.open:
                    position = self.data_step(view, position, end, owned=owned, now=now)
                    break
                step = self.handshake_step(view, position, end, owned=owned, now=now)
                if step == 0:
                    break
                position += step
                self.rx_offset += step
        except Exception as error:  # noqa: BLE001 - also of authenticators and interceptors
            self.broken_by(error, now)
        if position != end and not self.closed:
            ahead = self.open  # the peer has authenticated
            self.receive_buffer.keep(view, position, end, self.needed_bytes, owned=owned, ahead=ahead)
            if self.peaks is not None:
                self.note_held(self.peaks)
            if ahead and not self.paused:
                self.deadline = self.deadline or FrameDeadline(self)
                self.deadline.await_rest(now)

    def run(self, step: Step, now: float) -> None:
        """Run a step of the handshake; an exception faults the link."""
        try:
            step(now)
        except Exception as error:  # noqa: BLE001 - see broken_by
            self.broken_by(error, now)

    def broken_by(self, error: Exception, now: float) -> None:
        """Fault the link after an exception in one of its steps.

        An exception that is neither a PeerError nor a DieError comes from code outside the core, such as an
        authenticator or an interceptor. It ends this link and nothing else.

        Raises:
            DieError: ``error`` is one.
        """
        if isinstance(error, DieError):
            raise error
        if isinstance(error, PeerError):
            self.fault(error.reason, error.detail, now)
        elif isinstance(error, MemoryError):
            # A part of a frame may be lost now, so the bytes that follow cannot be interpreted.
            self.fault(FaultReason.MEMORY, "for what the peer sends", now)
        else:
            self.host.escaped(error, f"on {self!r}", self.session, now)
            self.fault(FaultReason.LOCAL, describe(error), now)

    def data_step(self, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:
        """Handle all complete frames from ``start`` on; returns the offset at which the incomplete rest begins.

        Messages that were complete before a faulty frame are delivered before the fault is raised.

        Raises:
            PeerError: the peer violated the protocol, or ended the session.
        """
        session, host = self.session, self.host
        assert session is not None
        assert self.gate is not None
        messages: list[Message] = []
        position = start
        try:
            position = self.take_frames(session, messages, view, start, end, owned, now)
        finally:
            size_bytes, self.taken_bytes = self.taken_bytes, 0
            if self.gate.passed:
                self.gate.settle(len(messages), size_bytes, now)
            elif messages:
                host.take(len(messages), size_bytes)
            if messages:
                host.deliver(session, messages, size_bytes, now)
                if not session.lossy:
                    session.ack_due += len(messages)
            if session.ack_due:
                host.want_flush(session)
        self.rx_offset += position - start
        return position

    def admits_next(self, view: memoryview, start: int, end: int) -> bool:
        """False if a throttle has no room for the message that begins at ``start``; the link then is paused."""
        assert self.gate is not None
        head = self.reader.head(view, start, end)
        now = self.last_activity_s
        return head is None or head[0] != self.MESSAGE_TAG or self.gate.admit(head[1], end - start, now)

    def reserve_rest(self, view: memoryview, start: int, end: int) -> None:
        """Take from the throttles what an incomplete large frame declares (§3.10)."""
        assert self.gate is not None
        if not self.gate.is_watched and self.reader.needed >= OWN_BUFFER_BYTES and not self.paused:
            self.admits_next(view, start, end)
        self.gate.await_rest(end - start, self.last_activity_s)

    def move_to(self, host: "LinkHost") -> None:
        """Move the link to another shard's host."""
        self.host = host
        self.receive_buffer.move_to(host.scratch, host.pool)

    def pause(self) -> None:
        """Stop reading; bytes that are here stay in the receive buffer."""
        if not self.paused:
            self.paused = True
            self.host.emit(PauseLink(self.id, paused=True))

    def resume(self, now: float, waited_s: float | None = None) -> None:
        """Resume reading, unless the link is held; ``waited_s`` is the time that it waited for a throttle."""
        if self.paused and self._held is None:
            self.paused = False
            self.read_since_s = now
            if self.deadline is not None:
                self.deadline.restart(waited_s)
            self.host.emit(PauseLink(self.id, paused=False))
            self.receive(0, now)

    def check_keepalive(self) -> None:
        """Check if a KEEPALIVE2 from this peer is allowed.

        Raises:
            PeerError: UNEXPECTED_FRAME: it came from the acceptor, which the kernel client does not accept.
        """
        if self.connector and self.host.config.server_keepalive == "fault":
            raise PeerError(FaultReason.UNEXPECTED_FRAME, "KEEPALIVE2 from the dialled peer")

    # ---- sending

    def flush(self, session: "Session", now: float) -> None:
        """Write all due frames until the interceptor blocks one; raises PeerError like :meth:`write_due`."""
        if self.host.interceptor is None:
            self.write_due(session, now)
        elif tags := self.due_tags(session):
            self.gate_write(tags, now, lambda at: self.write_due(session, at))

    def ack_is_due(self, session: "Session") -> bool:
        """True if an explicit ACK is due."""
        # If a part of the next frame is here, more messages are coming: one later ACK covers them too.
        more_is_coming = self.receive_buffer.held_bytes and not self.paused
        return session.ack_due >= (_MOST_ACKS_DUE if more_is_coming else 1)

    def write(self, buffers: list[Buffer], size_bytes: int) -> None:
        """Pass frames to the transport."""
        self.unwritten_bytes += size_bytes
        self.host.emit(WriteLink(self.id, buffers, size_bytes))

    # ---- interception

    @property
    def held(self) -> bool:
        """True if an interceptor holds the link, or the link waits for the core."""
        return self._held is not None

    def ask(self, point: Point) -> Action:
        """Call the interceptor at a breakpoint.

        Raises:
            PeerError: INTERCEPTED: the action is FAULT.
        """
        action = self.host.passing(self, point)
        if action is Action.FAULT:
            raise PeerError(FaultReason.INTERCEPTED, f"at {point}")
        return action

    def gate_write(self, tags: list[str], now: float, write: Step, then: Step | None = None) -> None:
        """Write frames with these tags, then call ``then``, as far as the interceptor allows.

        Raises:
            PeerError: INTERCEPTED: the action is FAULT.
        """
        if self.host.interceptor is None:
            write(now)
            if then is not None:
                then(now)
            return
        action = Action.CONTINUE
        for tag in tags:
            action = self.ask(Point(tag, None if tag in _CUSTOM else Way.WRITE))
            if action is not Action.CONTINUE:
                break

        def both(then_now: float) -> None:
            write(then_now)
            if then is not None:
                then(then_now)

        if action is Action.CONTINUE:
            both(now)
        elif action is Action.BLOCK:
            self.hold(both, now)
        else:
            write(now)
            self.stall(then, now)

    def gate_read(self, point: Point, now: float, handle: Step) -> None:
        """Handle what was read, as far as the interceptor allows.

        Raises:
            PeerError: INTERCEPTED: the action is FAULT.
        """
        action = Action.CONTINUE if self.host.interceptor is None else self.ask(point)
        if action is Action.CONTINUE:
            handle(now)
        elif action is Action.BLOCK:
            self.hold(handle, now)
        else:
            self.stall(handle, now)

    def wait(self, go_on: Step) -> None:
        """Pause the link until the core calls :meth:`proceed`, then call ``go_on``."""
        self._held = go_on
        self._waiting = True
        self.pause()

    def proceed(self, now: float) -> None:
        """Continue a link that waited for the core."""
        self._waiting = False
        self.unblock(now)

    def hold(self, go_on: Step, now: float) -> None:
        """Pause the link until it is unblocked, then call ``go_on``; fault it after :data:`BLOCK_LIMIT_S`."""
        self._held = go_on
        self.pause()

        def expired(then: float) -> None:
            self._held = None
            self.fault(FaultReason.INTERCEPTED, f"blocked for {BLOCK_LIMIT_S:g} s", then)

        self._hold_timer = self.host.timers.at(now + BLOCK_LIMIT_S, expired)

    def delay(self, delay_s: float, go_on: Step, now: float) -> None:
        """Pause the link for ``delay_s`` seconds, then call ``go_on``."""
        self._held = go_on
        self.pause()
        self._hold_timer = self.host.timers.at(now + delay_s, self.unblock)

    def stall(self, go_on: Step | None, now: float) -> None:
        """Shut the stream down and pause the link; once unblocked, it calls ``go_on`` and then faults."""
        self.host.emit(ShutLink(self.id))
        self._failure = (FaultReason.EOF, "shut down by the interceptor")
        self.hold(go_on or (lambda _now: None), now)

    def unblock(self, now: float) -> None:
        """Continue a link that an interceptor holds; no effect on other links."""
        if self._held is None or self._waiting or self.closed:
            return
        held, self._held = self._held, None
        if self._hold_timer is not None:
            self._hold_timer.cancel()
        host = self.host
        self.run(held, now)
        if self.host is host:
            self.go_on(now)
            if self.session is not None:
                host.want_flush(self.session)

    def go_on(self, now: float) -> None:
        """Resume reading, and fault the link if it broke while it was held."""
        if self._held is None and not self.closed:
            if self.paused:
                self.resume(now)
            else:
                self.receive(0, now)
        if self._held is None and self._failure is not None:
            self.failed(*self._failure, now)

    # ---- ending

    def failed(self, reason: FaultReason, detail: str, now: float) -> None:
        """Fault the link because its byte stream broke; a held link faults when it is unblocked."""
        if self._held is not None:
            self._failure = self._failure or (reason, detail)
        else:
            self.fault(reason, detail, now)

    def fault(self, reason: FaultReason, detail: str, now: float) -> None:
        """Fault the link: it is closed and its session notified."""
        self.host.link_fault(self, Fault(reason, detail, self.state.value), now)

    def break_off(self, fault: Fault, now: float) -> None:
        """Fault the link, for the given fault."""
        self.host.link_fault(self, fault, now)

    def close(self, fault: Fault, now: float) -> None:
        """Close the link without notifying its session."""
        self.endpoint.close_link(self, fault, now)

    def end(self) -> None:
        """Mark the link closed, cancel its timers and free its buffers."""
        self.closed, self.open, self.state = True, False, self.CLOSED_STATE
        self._held = self._failure = None
        self.receive_buffer.clear()
        for timer in (self.ready_timer, self.idle_timer, self._hold_timer, self.deadline):
            if timer is not None:
                timer.cancel()
        self.ready_timer = self.idle_timer = self._hold_timer = None

    # ---- history

    def trace_auth(self, now: float) -> None:
        """Record how the peer has authenticated, if a history is kept."""
        if self.endpoint.tracing:
            self.endpoint.trace("auth", now, **auth_fields(self, now))

    def trace_end(self, now: float) -> None:
        """Record the nonces and the peak memory that the link has used; called only if a history is kept."""
        assert self.peaks is not None
        rx, tx = (cipher.used_nonces for cipher in self.ciphers) if self.ciphers else (0, 0)
        fields = self.peaks.fields(self.host.config)
        self.host.trace("usage", now, link=self.id, tx_nonces=tx, rx_nonces=rx, **fields)

    def trace_frame(
        self,
        direction: str,
        tag: str,
        length: int,
        printable: Callable[[], dict[str, object]],
        now: float,
        offset: int = 0,
    ) -> None:
        """Record one frame, if a history is kept; ``offset`` is relative to the stream position."""
        if not self.host.tracing:
            return
        sent = direction == "tx"
        self.host.trace(
            "frame",
            now,
            link=self.id,
            session=self.session.id if self.session else None,
            direction=direction,
            tag=tag,
            index=self.tx_frames if sent else self.rx_frames,
            offset=offset + (self.tx_offset if sent else self.rx_offset),
            length=length,
            fields=printable(),
        )
        self.tx_frames += sent
        self.rx_frames += not sent
