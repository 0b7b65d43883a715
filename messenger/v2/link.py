"""One v2 link: passes received frames to the handshake table or the data phase (docs/protocol.md §4.1, §4.2).

An accepted link has no session until the session phase assigns one.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from messenger.cephx.exchange import AuthResult, ClientExchange, ConMode, ServerExchange
from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import MSGR2_REQUIRED, Msgr2Feature
from messenger.errors import FaultReason, PeerError
from messenger.interception import Custom, Point
from messenger.link import Link, Row, Step
from messenger.protocols import Protocol
from messenger.v2 import data
from messenger.v2.compression import CompressingWriter, DecompressingReader
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.framing import FrameReader, FrameWriter, RawReader, RawWriter, SecureReader, SecureWriter
from messenger.v2.held import InterceptedReader
from messenger.v2.onwire import StreamCipher
from messenger.v2.rev0 import Rev0SecureReader, Rev0SecureWriter
from messenger.v2.revision import crc_frames, secure_frames
from messenger.v2.states import LinkState
from messenger.v2.wire import (
    CompressionRequest,
    ControlFrame,
    Hello,
    KeepAlive2Ack,
    Tag,
    decode_banner,
    decode_control,
    encode_banner,
    tag_name,
)

if TYPE_CHECKING:
    from messenger.home import Home
    from messenger.host import LinkHost

Handler = Callable[["V2Link", ControlFrame, float], None]
Table = Mapping[tuple[LinkState, Tag], Row[Handler, LinkState]]
"""A handshake table: the handler for each frame in each state. A pair without a row is a fault."""

_SECURE = (SecureReader, SecureWriter, Rev0SecureReader, Rev0SecureWriter)

OPENING = (
    (LinkState.START_CONNECT, "the socket opens", LinkState.BANNER_CONNECTING),
    (LinkState.BANNER_CONNECTING, "banner", LinkState.HELLO_CONNECTING),
    (LinkState.BANNER_ACCEPTING, "banner", LinkState.HELLO_ACCEPTING),
)
"""The steps before the first frame, which are in no table."""


class V2Link(Link):
    """A link of msgr v2."""

    __slots__ = (
        "_raw_reader",
        "_raw_writer",
        "algorithm",
        "auth_method",
        "compression_request",
        "exchange",
        "expected_signature",
        "keepalive_reply",
        "msgr2_features",
        "peer_front",
        "reader",
        "reads_last_segment",
        "retries",
        "rx_transcript",
        "signed_at",
        "table",
        "tx_transcript",
        "writer",
    )

    PROTOCOL = Protocol.V2
    MESSAGE_TAG = int(Tag.MESSAGE)
    OPEN_STATE = LinkState.READY
    CLOSED_STATE = LinkState.CLOSED

    def __init__(self, endpoint: "Home", link_id: int, table: Table, *, connector: bool) -> None:
        state = LinkState.START_CONNECT if connector else LinkState.BANNER_ACCEPTING
        super().__init__(endpoint, link_id, state, connector=connector)
        self.table = table
        self.exchange: ClientExchange | ServerExchange | None = None
        self.auth_method = 0
        """Acceptor: the method of the peer's last AUTH_REQUEST."""
        self.msgr2_features = endpoint.config.msgr2_features
        """The msgr2 features in force: our own, and only those of the peer too once its banner has arrived."""
        self.compression_request: CompressionRequest | None = None
        """Connector: the request that it has sent."""
        self.algorithm = Algorithm.NONE
        """Compression algorithm of both directions."""
        self.reader: FrameReader
        self.writer: FrameWriter
        limit, caches = endpoint.config.max_preauth_frame_bytes, endpoint.frame_caches
        self._speak(crc_frames(self.msgr2_features, limit, caches))
        # Every raw byte of both directions until authentication is complete, for the signatures (§4.7).
        self.rx_transcript: bytearray | None = bytearray()
        self.tx_transcript: bytearray | None = bytearray()
        self.expected_signature = b""
        self.retries = 0
        """Connector: number of SESSION_RETRY and SESSION_RETRY_GLOBAL received."""
        self.keepalive_reply: KeepAlive2Ack | None = None
        self.reads_last_segment = endpoint.config.control_segments == "last"
        """True if the last of several segments of a control frame is decoded."""
        self.peer_front: EntityAddr | None = None
        """Acceptor: the first of the addresses that the peer has announced on this link."""
        self.signed_at = 0
        """Value of the logical clock when AUTH_SIGNATURE was sent: the peer's answer is later than that."""

    def _speak(self, frames: tuple[RawReader, RawWriter]) -> None:
        """Use another reader and writer from the next frame on."""
        self._raw_reader, self._raw_writer = frames
        self._use_pool(self.host)
        self.reader, self.writer = self._watched(self._raw_reader), self._raw_writer

    @override
    def move_to(self, host: "LinkHost") -> None:
        super().move_to(host)
        self._use_pool(host)

    def _use_pool(self, host: "LinkHost") -> None:
        if isinstance(self._raw_writer, SecureWriter):
            self._raw_writer.use_pool(host.pool)

    def _watched(self, reader: FrameReader) -> FrameReader:
        return reader if self.endpoint.interceptor is None else InterceptedReader(self, reader)

    def start(self, now: float) -> None:
        """Send the banner; both sides do so at once (§4.2)."""
        if self.connector:
            self.state = LinkState.BANNER_CONNECTING
        banner = encode_banner(self.msgr2_features, MSGR2_REQUIRED)
        self.gate_write([Custom.BANNER_WRITE], now, lambda then: self._write(then, "BANNER", banner, dict))

    @property
    @override
    def needed_bytes(self) -> int:
        return self.reader.needed

    @property
    @override
    def held_bytes(self) -> int:
        return self.receive_buffer.held_bytes + len(self.rx_transcript or b"") + len(self.tx_transcript or b"")

    @property
    @override
    def allowed_modes(self) -> tuple[ConMode, ...]:
        return self.endpoint.me.connection_modes(self.peer_entity, connecting=self.connector)

    @property
    @override
    def ciphers(self) -> tuple[StreamCipher, ...]:
        ends = (self._raw_reader, self._raw_writer)
        return tuple(end.cipher for end in ends if isinstance(end, _SECURE))

    @property
    @override
    def is_compressed(self) -> bool:
        return self.algorithm is not Algorithm.NONE

    @property
    @override
    def revision(self) -> int:
        return int(bool(self.msgr2_features & Msgr2Feature.REVISION_1))

    @override
    def pause(self) -> None:
        self.reader.needed = 0  # belongs to an earlier frame; the next one has not been parsed
        super().pause()

    # ---- receiving

    take_frames = data.take_frames
    write_due = data.write_due
    due_tags = data.due_tags

    def handshake_step(self, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:
        """Handle the banner or one frame."""
        if self.state in {LinkState.BANNER_CONNECTING, LinkState.BANNER_ACCEPTING}:
            return self._receive_banner(view[start:end], now)
        frame = self.reader.next_frame(view, start, end, owned=owned)
        if frame is None:
            return 0
        stop, tag, *segments = frame
        self._record(view[start:stop])
        control = decode_control(tag, tuple(segments), last=self.reads_last_segment)
        self.trace_frame("rx", tag_name(tag), stop - start, control.printable, now)
        row = self.table.get((LinkState(self.state), control.TAG))
        if row is None:
            raise PeerError(FaultReason.UNEXPECTED_FRAME, control.TAG.name)
        row.handle(self, control, now)
        return stop - start

    def _receive_banner(self, view: memoryview, now: float) -> int:
        banner = decode_banner(view)
        if banner is None:
            self.reader.needed = 0
            return 0
        size, supported, required = banner
        self.trace_frame("rx", "BANNER", size, lambda: {"supported": supported, "required": required}, now)
        self._record(view[:size])
        missing = (MSGR2_REQUIRED & ~supported) | (required & ~self.msgr2_features)
        if missing:
            raise PeerError(FaultReason.BANNER_FEATURES, f"0x{missing:x}")
        self.msgr2_features &= supported
        endpoint = self.endpoint
        self._speak(
            crc_frames(self.msgr2_features, endpoint.config.max_preauth_frame_bytes, endpoint.frame_caches)
        )

        def payload_read(then: float) -> None:
            self.gate_read(Point(Custom.BANNER_PAYLOAD_READ), then, self._send_hello)

        self.gate_read(Point(Custom.BANNER_READ), now, payload_read)
        return size

    def _send_hello(self, now: float) -> None:
        """Answer the banner with HELLO: this entity's type, and the peer's address as seen from here (§4.3)."""
        self.state = LinkState.HELLO_CONNECTING if self.connector else LinkState.HELLO_ACCEPTING
        seen = self.dialled_addr if self.connector else self.remote_addr
        self.send(Hello(self.endpoint.me.name.type, seen), now)

    def _record(self, raw: Buffer) -> None:
        """Keep received bytes for the signature, up to ``max_preauth_bytes`` (§4.7)."""
        received, sent = self.rx_transcript, self.tx_transcript
        if received is None or sent is None:
            return
        limit = self.endpoint.config.max_preauth_bytes
        if len(received) + len(sent) + len(raw) > limit:
            raise PeerError(FaultReason.OVERSIZE, f"more than {limit} bytes exchanged before authentication")
        received += raw

    # ---- sending

    def send(self, frame: ControlFrame, now: float, then: Step | None = None) -> None:
        """Write one control frame, then call ``then``."""
        tag = frame.TAG.name

        def write(at: float) -> None:
            self._write(at, tag, self.writer.control(frame.TAG, frame.encode()), frame.printable)

        self.gate_write([tag], now, write, then)

    def _write(self, now: float, tag: str, raw: bytes, printable: Callable[[], dict[str, object]]) -> None:
        if self.tx_transcript is not None:
            self.tx_transcript += raw
        self.trace_frame("tx", tag, len(raw), printable, now)
        self.tx_offset += len(raw)
        self.write([raw], len(raw))

    @override
    def end(self) -> None:
        super().end()
        if self.rx_transcript is not None:
            self.rx_transcript = self.tx_transcript = bytearray()

    # ---- authentication's end (§4.6, §4.7)

    def finish_authentication(self, result: AuthResult, con_mode: ConMode) -> None:
        """Install the keys: in secure mode, frames are encrypted from here on."""
        if self.peaks is not None:
            self.note_held(self.peaks)
        self.auth_result = result
        self.con_mode = con_mode
        self.rx_transcript = self.tx_transcript = None
        if con_mode is ConMode.SECURE:
            limit, caches = self.endpoint.config.max_preauth_frame_bytes, self.endpoint.frame_caches
            secret = result.connection_secret
            self._speak(secure_frames(self.msgr2_features, limit, secret, caches, connector=self.connector))

    def lift_limits(self) -> None:
        """Apply the large limits, because the peer's signature is valid and proves its identity."""
        self.exchange = None
        self.reader.max_frame_bytes = self.endpoint.config.max_frame_bytes

    # ---- compression (§4.10)

    @property
    def negotiates_compression(self) -> bool:
        """True if COMPRESSION_REQUEST and COMPRESSION_DONE follow authentication."""
        return bool(self.msgr2_features & Msgr2Feature.COMPRESSION)

    def start_compressing(self, algorithm: Algorithm) -> None:
        """Compress frames in both directions from here on; NONE changes nothing."""
        self.algorithm = algorithm
        if algorithm is Algorithm.NONE:
            return
        config = self.endpoint.config
        compressor = new_compressor(
            algorithm, zlib_level=config.compressor_zlib_level, zstd_level=config.compressor_zstd_level
        )
        limits = self.endpoint.frame_caches.limits
        self.reader = self._watched(DecompressingReader(self._raw_reader, compressor, limits))
        self.writer = CompressingWriter(self._raw_writer, compressor, config.ms_osd_compress_min_size)
