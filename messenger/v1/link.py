"""One v1 link: passes received pieces to the handshake table or the data phase (docs/protocol.md §3.2).

An accepted link has no session until a CONNECT opens or replaces one.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from messenger.cephx.exchange import AuthMethod, ClientExchange, ServerExchange
from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.errors import FaultReason, PeerError
from messenger.interception import Custom, Point, Way
from messenger.link import Link, Row, Step
from messenger.protocols import Protocol
from messenger.v1 import data
from messenger.v1.framing import FrameReader, MessageWriter, Signer, StreamReader, stream_form
from messenger.v1.handshake import my_legacy_addr
from messenger.v1.held import InterceptedReader
from messenger.v1.states import LinkState
from messenger.v1.wire import (
    Banner,
    ClientIdentify,
    Connect,
    ConnectReply,
    Frame,
    KeepAlive2Ack,
    Piece,
    Seq,
    ServerIdentify,
    Tag,
    as_legacy,
)

if TYPE_CHECKING:
    from messenger.home import Home

Handler = Callable[["V1Link", Frame, float], None]
Table = Mapping[tuple[LinkState, Piece | Tag], Row[Handler, LinkState]]
"""A handshake table: the handler for each piece (a reply: its tag) in each state. A pair without a row is a
fault."""

OPENING = (
    (LinkState.START_CONNECT, "the socket opens", LinkState.CONNECTING),
    (LinkState.CONNECTING, "the banner is written", LinkState.CONNECTING_WAIT_BANNER_AND_IDENTIFY),
    (LinkState.START_ACCEPT, "banner and addresses are written", LinkState.ACCEPTING),
)
"""The steps before the first piece, which are in no table."""

_FIXED: Mapping[LinkState, type[ServerIdentify | ClientIdentify | Seq]] = {
    LinkState.CONNECTING_WAIT_BANNER_AND_IDENTIFY: ServerIdentify,
    LinkState.CONNECTING_WAIT_ACK_SEQ: Seq,
    LinkState.ACCEPTING: ClientIdentify,
    LinkState.ACCEPTING_HANDLED_CONNECT_MSG: Seq,
}
"""The piece of fixed size that is expected in a state."""


class V1Link(Link):
    """A link of msgr v1."""

    __slots__ = (
        "auth_method",
        "authorizer",
        "banner_seen",
        "exchange",
        "keepalive_reply",
        "peer_addr",
        "reader",
        "reply",
        "rounds",
        "table",
        "writer",
    )

    PROTOCOL = Protocol.V1
    MESSAGE_TAG = int(Tag.MSG)
    OPEN_STATE = LinkState.OPENED
    CLOSED_STATE = LinkState.CLOSED

    def __init__(self, endpoint: "Home", link_id: int, table: Table, *, connector: bool) -> None:
        state = LinkState.START_CONNECT if connector else LinkState.START_ACCEPT
        super().__init__(endpoint, link_id, state, connector=connector)
        self.table = table
        self.banner_seen = False
        self.peer_addr = EntityAddr()
        """Acceptor: the peer's address, with the socket's IP address if the peer does not know its own (§3.2)."""
        self.exchange: ClientExchange | ServerExchange | None = None
        self.auth_method = AuthMethod.UNKNOWN
        """Connector: the method of the last authorizer."""
        self.authorizer: bytes | None = None
        """Connector: the last authorizer; empty for monitors."""
        self.rounds = 0
        """Connector: number of CONNECTs sent."""
        self.reply: ConnectReply | None = None
        """Connector: the reply with tag SEQ, after which the peer's in_seq follows."""
        self.reader: FrameReader = StreamReader(0)
        self.writer = MessageWriter()
        self.keepalive_reply: KeepAlive2Ack | None = None

    def start(self, now: float) -> None:
        """Send the banner, and the acceptor also its addresses; both sides do so at once (§3.2)."""
        self.state = LinkState.CONNECTING if self.connector else LinkState.ACCEPTING

        def write(at: float) -> None:
            self._write(Banner(), at)

        def then(at: float) -> None:
            if self.connector:
                self.state = LinkState.CONNECTING_WAIT_BANNER_AND_IDENTIFY
            else:
                mine = my_legacy_addr(self.endpoint.me.addrs_on(self.local_addr))
                self.send(ServerIdentify(mine, as_legacy(self.remote_addr)), at)

        self.gate_write([Custom.BANNER_WRITE], now, write, then)

    @property
    @override
    def dialling(self) -> bool:
        return self.state in {LinkState.START_CONNECT, LinkState.CONNECTING}

    @property
    @override
    def needed_bytes(self) -> int:
        return self.reader.needed

    @override
    def pause(self) -> None:
        self.reader.needed = 0  # belongs to an earlier message; the next one has not been parsed
        super().pause()

    # ---- receiving

    take_frames = data.take_frames
    write_due = data.write_due
    due_tags = data.due_tags

    def handshake_step(self, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:  # noqa: ARG002 - small pieces are copied
        """Handle the next piece of the handshake."""
        chunk = view[start:end]
        piece = self._cut(chunk)
        if piece is None:
            self.reader.needed = self._declared_bytes(chunk)
            return 0
        self.reader.needed = 0
        size, frame = piece
        limit = self.endpoint.config.max_preauth_bytes
        if self.rx_offset + size > limit:
            raise PeerError(FaultReason.OVERSIZE, f"handshake of more than {limit} bytes")
        self.trace_frame("rx", frame.PIECE.value, size, frame.printable, now)
        if isinstance(frame, Banner):
            self.banner_seen = True
            self.gate_read(Point(Custom.BANNER_READ), now, lambda _at: None)
            return size
        key = frame.tag if isinstance(frame, ConnectReply) else frame.PIECE
        row = self.table.get((LinkState(self.state), key))
        if row is None:
            raise PeerError(FaultReason.UNEXPECTED_FRAME, frame.PIECE.value)
        self.gate_read(Point(frame.PIECE.value, Way.READ), now, lambda at: row.handle(self, frame, at))
        return size

    def _cut(self, view: memoryview) -> tuple[int, Frame] | None:
        """The expected piece, if it is complete at the start of ``view``."""
        if not self.banner_seen:
            return Banner.cut(view)
        state = LinkState(self.state)
        if state in _FIXED:
            return _FIXED[state].cut(view)
        limit = self.endpoint.config.max_preauth_frame_bytes
        return self._authorizer_piece.cut(view, limit)

    @property
    def _authorizer_piece(self) -> type[Connect] | type[ConnectReply]:
        return ConnectReply if self.connector else Connect

    def _declared_bytes(self, view: memoryview) -> int:
        """Size of the incomplete expected piece, if it contains an authorizer; else 0."""
        fixed = not self.banner_seen or self.state in _FIXED
        return 0 if fixed else self._authorizer_piece.declared_bytes(view)

    # ---- sending

    def send(self, frame: Frame, now: float, then: Step | None = None) -> None:
        """Write one frame, then call ``then``."""
        self.gate_write([frame.PIECE.value], now, lambda at: self._write(frame, at), then)

    def _write(self, frame: Frame, now: float) -> None:
        raw = frame.encode()
        self.trace_frame("tx", frame.PIECE.value, len(raw), frame.printable, now)
        self.tx_offset += len(raw)
        self.write([raw], len(raw))

    # ---- negotiated layout of the stream

    def agree(self, features: int, signer: Signer | None, max_frame_bytes: int) -> None:
        """Create the reader and writer of the message stream, with the negotiated features and key.

        Args:
            features: the negotiated features.
            signer: signs messages; None if they are not signed.
            max_frame_bytes: longest message to accept.
        """
        config, form = self.endpoint.config, stream_form(features)
        reader = StreamReader(
            max_frame_bytes,
            signer,
            check_header=config.ms_crc_header,
            check_data=config.ms_crc_data,
            **form,
        )
        self.reader = reader if self.endpoint.interceptor is None else InterceptedReader(self, reader)
        self.writer = MessageWriter(
            signer,
            addr=my_legacy_addr(self.endpoint.me.addrs),
            sum_header=config.ms_crc_header,
            sum_data=config.ms_crc_data,
            **form,
        )
