"""One v2 link: bytes in, frames out to the handshake table or the data phase (protocol.md §4.1, §4.2).

A link belongs to an endpoint. Until the session phase decides, a link that was accepted has no session.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from messenger.cephx.exchange import AuthResult, ClientExchange, ConMode, ServerExchange
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.denc.features import MSGR2_REQUIRED, MSGR2_SUPPORTED
from messenger.errors import Fault, FaultReason, PeerError
from messenger.outputs import PauseLink, WriteLink
from messenger.session.timers import Timer
from messenger.v2 import data
from messenger.v2.framing import CrcReader, CrcWriter, FrameReader, FrameWriter, SecureReader, SecureWriter
from messenger.v2.onwire import stream_ciphers
from messenger.v2.receive import ReceiveBuffer
from messenger.v2.states import LinkState
from messenger.v2.wire import (
    ControlFrame,
    KeepAlive2Ack,
    Tag,
    decode_banner,
    decode_control,
    encode_banner,
    tag_name,
)

if TYPE_CHECKING:
    from messenger.endpoint import Endpoint
    from messenger.session.session import Session

Handler = Callable[["Link", ControlFrame, float], None]
Table = Mapping[tuple[LinkState, Tag], Handler]
"""What a handshake does with each frame in each state; a pair that is not there is a fault."""


class Link:
    """One byte stream to one peer and the conversation on it."""

    __slots__ = (
        "auth_method",
        "auth_result",
        "con_mode",
        "connector",
        "dialled_addr",
        "endpoint",
        "exchange",
        "expected_signature",
        "id",
        "idle_timer",
        "keepalive_reply",
        "last_activity_s",
        "paused",
        "peer_type",
        "reader",
        "ready_timer",
        "receive_buffer",
        "remote_addr",
        "rx_frames",
        "rx_offset",
        "rx_transcript",
        "session",
        "state",
        "table",
        "tx_frames",
        "tx_offset",
        "tx_transcript",
        "unwritten_bytes",
        "writer",
    )

    def __init__(
        self, endpoint: "Endpoint", link_id: int, table: Table, *, connector: bool, scratch: memoryview
    ) -> None:
        self.endpoint = endpoint
        self.id = link_id
        self.connector = connector
        self.table = table
        self.state = LinkState.START_CONNECT if connector else LinkState.BANNER_ACCEPTING
        self.session: Session | None = None
        self.dialled_addr = EntityAddr()
        self.remote_addr = EntityAddr()
        self.peer_type: EntityType | None = None
        self.con_mode = ConMode.CRC
        self.exchange: ClientExchange | ServerExchange | None = None
        self.auth_method = 0
        """Acceptor: the method of the peer's last AUTH_REQUEST."""
        self.auth_result: AuthResult | None = None
        self.receive_buffer = ReceiveBuffer(scratch)
        self.reader: FrameReader = CrcReader(endpoint.config.max_preauth_frame_bytes)
        self.writer: FrameWriter = CrcWriter()
        # Every raw byte of either direction until authentication is complete, for the signatures (§4.7).
        self.rx_transcript: bytearray | None = bytearray()
        self.tx_transcript: bytearray | None = bytearray()
        self.expected_signature = b""
        self.keepalive_reply: KeepAlive2Ack | None = None
        self.unwritten_bytes = 0
        self.paused = False
        self.last_activity_s = 0.0
        self.ready_timer: Timer | None = None
        self.idle_timer: Timer | None = None
        # Position in the two byte streams, for the history.
        self.rx_offset = 0
        self.tx_offset = 0
        self.rx_frames = 0
        self.tx_frames = 0

    def __repr__(self) -> str:
        return f"<Link {self.id} {'to' if self.connector else 'from'} {self.remote_addr} {self.state}>"

    @property
    def peer_entity(self) -> EntityType:
        """The peer's type; known from HELLO on."""
        assert self.peer_type is not None
        return self.peer_type

    def start(self, now: float) -> None:
        """The byte stream is open: both sides send their banner at once (§4.2)."""
        self.last_activity_s = now
        if self.connector:
            self.state = LinkState.BANNER_CONNECTING
        self._write(now, "BANNER", encode_banner(MSGR2_SUPPORTED, MSGR2_REQUIRED), dict)

    # ---- receiving

    def receive(self, count: int, now: float) -> None:
        """Process ``count`` bytes the transport has put into the receive buffer."""
        self.last_activity_s = now
        view, end, owned = self.receive_buffer.received(count)
        position = 0
        try:
            while self.state is not LinkState.CLOSED and not self.paused:
                if self.state is LinkState.READY:
                    position = data.receive(self, view, position, end, owned, now)
                    break
                step = self._handshake_step(view, position, end, owned=owned, now=now)
                if step == 0:
                    break
                position += step
                self.rx_offset += step
        except PeerError as error:
            self.fault(error.reason, error.detail, now)
        if self.state is LinkState.CLOSED:
            self.receive_buffer.drop()
        else:
            self.receive_buffer.keep(view, position, end, self.reader.needed)

    def resume(self, now: float) -> None:
        """The dispatch throttle has room again: go on with what is here, and read."""
        self.paused = False
        self.endpoint.emit(PauseLink(self.id, paused=False))
        self.receive(0, now)

    def pause(self) -> None:
        """The dispatch throttle is full: leave what is here, stop reading."""
        self.paused = True
        self.reader.needed = 0  # of an earlier frame; the one that comes next has not been looked at
        self.endpoint.emit(PauseLink(self.id, paused=True))

    def _handshake_step(self, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:
        """Handle the banner or one frame at ``start``; returns the bytes used, 0 while it is incomplete."""
        if self.state in {LinkState.BANNER_CONNECTING, LinkState.BANNER_ACCEPTING}:
            return self._receive_banner(view[start:end], now)
        frame = self.reader.next_frame(view, start, end, owned=owned)
        if frame is None:
            return 0
        stop, tag, *segments = frame
        self._record(view[start:stop])
        control = decode_control(tag, tuple(segments))
        self.trace_frame("rx", tag_name(tag), stop - start, control.printable, now)
        handler = self.table.get((self.state, control.TAG))
        if handler is None:
            raise PeerError(FaultReason.UNEXPECTED_FRAME, control.TAG.name)
        handler(self, control, now)
        return stop - start

    def _receive_banner(self, view: memoryview, now: float) -> int:
        banner = decode_banner(view)
        if banner is None:
            self.reader.needed = 0
            return 0
        size, supported, required = banner
        self.trace_frame("rx", "BANNER", size, lambda: {"supported": supported, "required": required}, now)
        self._record(view[:size])
        missing = (MSGR2_REQUIRED & ~supported) | (required & ~MSGR2_SUPPORTED)
        if missing:
            raise PeerError(FaultReason.BANNER_FEATURES, f"0x{missing:x}")
        self.endpoint.send_hello(self, now)
        return size

    def _record(self, raw: Buffer) -> None:
        """Keep received bytes for the signature, as far as an unauthenticated peer may make us (§4.7)."""
        received, sent = self.rx_transcript, self.tx_transcript
        if received is None or sent is None:
            return
        limit = self.endpoint.config.max_preauth_bytes
        if len(received) + len(sent) + len(raw) > limit:
            raise PeerError(FaultReason.OVERSIZE, f"more than {limit} bytes exchanged before authentication")
        received += raw

    # ---- sending

    def send(self, frame: ControlFrame, now: float) -> None:
        """Write one control frame."""
        self._write(now, frame.TAG.name, self.writer.control(frame.TAG, frame.encode()), frame.printable)

    def _write(self, now: float, tag: str, raw: bytes, printable: Callable[[], dict[str, object]]) -> None:
        if self.tx_transcript is not None:
            self.tx_transcript += raw
        self.trace_frame("tx", tag, len(raw), printable, now)
        self.tx_offset += len(raw)
        self.write([raw], len(raw))

    def write(self, buffers: list[Buffer], size_bytes: int) -> None:
        """Hand frames to the transport."""
        self.unwritten_bytes += size_bytes
        self.endpoint.emit(WriteLink(self.id, buffers, size_bytes))

    # ---- authentication's end (§4.6, §4.7)

    def finish_authentication(self, result: AuthResult, con_mode: ConMode) -> None:
        """Keys are agreed: from here on frames are sealed if the mode says so."""
        self.auth_result = result
        self.con_mode = con_mode
        self.rx_transcript = self.tx_transcript = None
        if con_mode is ConMode.SECURE:
            receiving, sending = stream_ciphers(result.connection_secret, connector=self.connector)
            self.reader = SecureReader(receiving, self.endpoint.config.max_preauth_frame_bytes)
            self.writer = SecureWriter(sending)

    def lift_limits(self) -> None:
        """The peer's signature holds: it is who it says, the large limits apply."""
        self.exchange = None
        self.reader.max_frame_bytes = self.endpoint.config.max_frame_bytes

    # ---- ending

    def fault(self, reason: FaultReason, detail: str, now: float) -> None:
        """The link is of no more use."""
        self.endpoint.link_fault(self, Fault(reason, detail, self.state.value), now)

    def cancel_timers(self) -> None:
        """No deadline of this link fires any more."""
        for timer in (self.ready_timer, self.idle_timer):
            if timer is not None:
                timer.cancel()
        self.ready_timer = self.idle_timer = None

    # ---- history

    def trace_frame(
        self,
        direction: str,
        tag: str,
        length: int,
        printable: Callable[[], dict[str, object]],
        now: float,
        offset: int = 0,
    ) -> None:
        """Record one frame, when a history is kept; ``offset`` is relative to the stream position."""
        if not self.endpoint.tracing:
            return
        sent = direction == "tx"
        self.endpoint.trace(
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
        if sent:
            self.tx_frames += 1
        else:
            self.rx_frames += 1
