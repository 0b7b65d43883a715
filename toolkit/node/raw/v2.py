"""A raw link of msgr v2."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from messenger.cephx.exchange import AuthDone as AuthFinished
from messenger.cephx.exchange import (
    AuthMethod,
    AuthMore,
    AuthResult,
    AuthStep,
    ClientExchange,
    ConMode,
    ServerExchange,
)
from messenger.compat import override
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2, Msgr2Feature
from messenger.link import Protocol
from messenger.v2.compression import CompressingWriter, DecompressingReader
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.framing import FrameReader, FrameWriter, RawReader, RawWriter, SecureReader, SecureWriter
from messenger.v2.onwire import rev0_ciphers, stream_ciphers
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.rev0 import Rev0SecureReader, Rev0SecureWriter
from messenger.v2.revision import crc_frames
from messenger.v2.wire import (
    MESSAGE_HEADER,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    ClientIdent,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Hello,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    decode_banner,
    decode_control,
    encode_banner,
)
from toolkit.node.raw.link import MAX_FRAME_BYTES, Identity, Other, RawLink
from toolkit.node.raw.stream import Stream

CLIENT_COOKIE = 0xC00C1E
SERVER_COOKIE = 0xD00D
PING = 2

Frame = TypeVar("Frame")


@dataclass(slots=True)
class RawMessage:
    """A MESSAGE frame that was received."""

    seq: int
    ack_seq: int
    tid: int
    front: bytes
    middle: bytes
    data: bytes


class RawV2Link(RawLink):
    """A v2 link; see :class:`RawLink`.

    Args:
        stream: the byte stream.
        me: this side's identity.
        other: the party on the other side.
        connecting: True if this side has dialled.
        socket_addr: the other side's end of the stream, as an acceptor sees it.
        mode: connection mode to request, or as the acceptor to choose.
        features: msgr2 features to advertise.
        algorithm: compression algorithm, if compression is negotiated.
    """

    PROTOCOL = Protocol.V2

    def __init__(
        self,
        stream: Stream,
        me: Identity,
        other: Other,
        *,
        connecting: bool,
        socket_addr: EntityAddr | None = None,
        mode: ConMode = ConMode.CRC,
        features: int = Msgr2Feature.REVISION_1,
        algorithm: Algorithm = Algorithm.NONE,
    ) -> None:
        super().__init__(stream, me, other, connecting=connecting, socket_addr=socket_addr)
        self.mode = mode
        self.features = features
        self.algorithm = algorithm
        self.reader: FrameReader
        self.writer: FrameWriter
        self._raw_frames: tuple[RawReader, RawWriter]
        self.seal: Callable[[bytes], bytes] | None = None
        """In secure mode, encrypts bytes as the next part of a frame; for frames built by hand."""
        self.own_signature = b""
        self.expected_signature = b""
        """Signature that the other side has to send."""
        self.client_cookie = CLIENT_COOKIE
        self.server_cookie = SERVER_COOKIE
        self.result = AuthResult(0)
        self.exchange: ClientExchange
        self._judge: ServerExchange
        self._step: AuthStep
        self._rx = bytearray()
        self._tx = bytearray()
        self._banner: tuple[int, int] | None = None
        self._use_frames(crc_frames(self.features, MAX_FRAME_BYTES))

    def _use_frames(self, frames: tuple[RawReader, RawWriter]) -> None:
        self._raw_frames = self.reader, self.writer = frames

    @property
    def agreed_features(self) -> int:
        """The msgr2 features that both sides advertise; before the other's banner, this side's."""
        return self.features if self._banner is None else self.features & self._banner[0]

    # ---- bytes and frames

    def write(self, raw: bytes) -> None:
        """Send bytes."""
        self._tx += raw
        super().write(raw)

    def send(self, *frames: ControlFrame) -> None:
        """Send control frames in one write."""
        self._look_at_banner()
        self.note(f"sends {', '.join(frame.TAG.name for frame in frames)}")
        self.write(b"".join(self.writer.control(frame.TAG, frame.encode()) for frame in frames))

    def message(
        self,
        seq: int,
        *,
        ack_seq: int = 0,
        tid: int = 0,
        type_: int = PING,
        version: int = 1,
        compat_version: int = 1,
        front: Buffer = b"",
        middle: Buffer = b"",
        data: Buffer = b"",
    ) -> bytes:
        """Return an encoded MESSAGE frame; ``tid`` is the seq unless given."""
        header = MESSAGE_HEADER.pack(seq, tid or seq, type_, 127, version, 0, 0, ack_seq, 3, compat_version, 0)
        pieces: list[Buffer] = []
        self.writer.message(pieces, header, front, middle, data)
        return b"".join(pieces)

    def send_messages(self, *seqs: int, ack_seq: int = 0) -> None:
        """Send messages with these seqs in one write."""
        self.note(f"sends messages {', '.join(map(str, seqs))}")
        self.write(b"".join(self.message(seq, ack_seq=ack_seq) for seq in seqs))

    @override
    def next(self) -> ControlFrame | RawMessage | None:
        if not self._look_at_banner():
            return None
        frame = self.reader.next_frame(memoryview(bytes(self._inbound)), 0, len(self._inbound), owned=False)
        if frame is None:
            return None
        stop, tag, *segments = frame
        self._rx += self._cut_off(stop)
        found = _decoded(tag, tuple(segments))
        if isinstance(found, ServerIdent):
            self.server_cookie = found.server_cookie
        return found

    def expect(self, kind: type[Frame]) -> Frame:
        """Wait for the next frame, which must be a ``kind``: a control frame or :class:`RawMessage`.

        Raises:
            ScenarioFailed: it is another one, or none arrives.
        """
        self.note(f"expects {kind.__name__}")
        frame = self.await_next()
        if not isinstance(frame, kind):
            self._fail(f"{frame} came where {kind.__name__} is due")
        return frame

    def expect_seqs(self) -> list[int]:
        """Return the seqs of all frames that have arrived, which must be messages."""
        frames = self.rest()
        if not all(isinstance(frame, RawMessage) for frame in frames):
            self._fail(f"only messages are due, {frames} came")
        return [frame.seq for frame in frames]

    def expect_banner(self) -> tuple[int, int]:
        """Wait for the other side's banner; returns the msgr2 features it supports and those it requires."""
        self.stream.wait(lambda: self._look_at_banner() or self.stream.closed, self.patience_s)
        if self._banner is None:
            self._fail("no banner came")
        return self._banner

    def _look_at_banner(self) -> bool:
        """True if the other side's banner has arrived; it decides the revision of the frames."""
        if self._banner is not None:
            self.pump()
            return True
        banner = decode_banner(memoryview(self.inbound))
        if banner is None:
            return False
        size, *features = banner
        self._rx += self._cut_off(size)
        self._banner = features[0], features[1]
        if self.agreed_features != self.features:
            self._use_frames(crc_frames(self.agreed_features, MAX_FRAME_BYTES))
        return True

    # ---- the handshake, step by step

    @property
    @override
    def steps(self) -> list[Callable[[], None]]:
        authenticate = (
            [self.auth_request, self.auth_more] if self.connecting else [self.auth_answer, self.auth_done]
        )
        compress = [self.compression] if self.agreed_features & Msgr2Feature.COMPRESSION else []
        return [self.banner, self.hello, *authenticate, self.signature, *compress, self.ident]

    @override
    def handshake(self, until: Callable[[], None] | None = None) -> Self:
        """Run the steps; after the banner they may change with the agreed features."""
        done = 0
        while done < len(steps := self.steps) and steps[done] != until:
            steps[done]()
            done += 1
        return self

    def banner(self, required: int = 0) -> None:
        """Send the banner."""
        self.note("sends its banner")
        self.write(encode_banner(self.features, required))

    def hello(self, **changes: object) -> None:
        """Exchange HELLO, with default or given values."""
        self.expect_banner()
        seen = self.other.addr if self.connecting else self.socket_addr
        fields: dict[str, Any] = {"entity_type": self.name.type, "peer_addr": seen}
        self.send(Hello(**(fields | changes)))
        self.expect(Hello)

    def auth_request(self) -> None:
        """Send AUTH_REQUEST."""
        me = self.me
        self.exchange = me.auth_client.exchange(self.other.type, me.wall_s(), me.rng)
        opening = self.exchange.start()
        self.send(AuthRequest(opening.method, [self.mode], opening.payload))

    def auth_more(self) -> None:
        """Answer the challenges, and process AUTH_DONE."""
        while isinstance(reply := self.await_next(), AuthReplyMore):
            self.send(AuthRequestMore(self.exchange.more(reply.auth_payload)))
        if not isinstance(reply, AuthDone):
            self._fail(f"{reply} came where AuthDone is due")
        self._agree(self.exchange.done(reply.global_id, ConMode(reply.con_mode), reply.auth_payload))

    def auth_answer(self) -> None:
        """Process AUTH_REQUEST; challenge its sender if the method requires it."""
        me = self.me
        self._judge = me.auth_server.exchange(self.other.type, me.wall_s(), me.rng)
        request = self.expect(AuthRequest)
        self._step = self._judge.start(AuthMethod(request.method), self.mode, request.auth_payload)
        if isinstance(self._step, AuthMore):
            self.send(AuthReplyMore(self._step.payload))

    def auth_done(self) -> None:
        """Process the answer to the challenge, and send AUTH_DONE."""
        if isinstance(self._step, AuthMore):
            self._step = self._judge.more(self.expect(AuthRequestMore).auth_payload)
        if not isinstance(self._step, AuthFinished):
            self._fail("authentication takes more than one challenge")
        self.send(AuthDone(self._step.result.global_id, self.mode, self._step.payload))
        self._agree(self._step.result)

    def _agree(self, result: AuthResult) -> None:
        """Compute both signatures, and use the keys from here on."""
        self.result = result
        self.own_signature = _sign(result.session_key, bytes(self._rx))
        self.expected_signature = _sign(result.session_key, bytes(self._tx))
        if self.mode is ConMode.SECURE:
            self._encrypt(result.connection_secret)

    def _encrypt(self, secret: bytes) -> None:
        connector = self.connecting
        if self.agreed_features & Msgr2Feature.REVISION_1:
            receiving, sending = stream_ciphers(secret, connector=connector)
            self._use_frames((SecureReader(receiving, MAX_FRAME_BYTES), SecureWriter(sending)))
            self.seal = sending.encrypt
        else:
            old_receiving, old_sending = rev0_ciphers(secret, connector=connector)
            self._use_frames((Rev0SecureReader(old_receiving, MAX_FRAME_BYTES), Rev0SecureWriter(old_sending)))
            self.seal = old_sending.encrypt

    def signature(self) -> None:
        """Exchange signatures, and verify that of the other side."""
        self.send(AuthSignature(self.own_signature))
        if self.expect(AuthSignature).signature != self.expected_signature:
            self._fail("the other side's signature is not over what was sent")

    def compression(self) -> None:
        """Negotiate compression with ``algorithm``, or none."""
        wanted = self.algorithm is not Algorithm.NONE
        methods = [int(self.algorithm)] if wanted else []
        if self.connecting:
            self.send(CompressionRequest(wanted, methods))
            done = self.expect(CompressionDone)
        else:
            self.expect(CompressionRequest)
            done = CompressionDone(wanted, self.algorithm)
            self.send(done)
        if done != CompressionDone(wanted, self.algorithm):
            self._fail(f"{done} came where {self.algorithm.name} was asked for")
        if wanted:
            reader, writer = self._raw_frames
            compressor = new_compressor(self.algorithm)
            self.reader = DecompressingReader(reader, compressor)
            self.writer = CompressingWriter(writer, compressor, 1)

    def ident(self) -> None:
        """Open a session; as the acceptor also resume one, if the other side requests it."""
        if self.connecting:
            self.send(self.client_ident())
            self.expect(ServerIdent)
            return
        wish = self.await_next()
        if isinstance(wish, SessionReconnect):
            self.client_cookie, self.server_cookie = wish.client_cookie, wish.server_cookie
            self.send(SessionReconnectOk(0))
        elif isinstance(wish, ClientIdent):
            self.client_cookie = wish.client_cookie
            self.send(self.server_ident())
        else:
            self._fail(f"{wish} came where the other side is to ask for a session")

    # ---- frames with default or given values

    def client_ident(self, **changes: object) -> ClientIdent:
        """Return a CLIENT_IDENT."""
        fields: dict[str, Any] = {
            "addrs": self.me.addrs,
            "target_addr": self.other.addr,
            "gid": self.name.num,
            "global_seq": self.global_seq,
            "features_supported": CLIENT_FEATURES,
            "features_required": MSG_ADDR2,
            "flags": 0,
            "client_cookie": self.client_cookie,
        }
        return ClientIdent(**(fields | changes))

    def server_ident(self, **changes: object) -> ServerIdent:
        """Return a SERVER_IDENT."""
        fields: dict[str, Any] = {
            "addrs": self.me.addrs,
            "gid": self.name.num,
            "global_seq": self.global_seq,
            "features_supported": CLIENT_FEATURES,
            "features_required": MSG_ADDR2,
            "flags": 0,
            "server_cookie": self.server_cookie,
        }
        return ServerIdent(**(fields | changes))

    def session_reconnect(self, **changes: object) -> SessionReconnect:
        """Return a SESSION_RECONNECT for the session with this link's cookies."""
        fields: dict[str, Any] = {
            "addrs": self.me.addrs,
            "client_cookie": self.client_cookie,
            "server_cookie": self.server_cookie,
            "global_seq": self.global_seq,
            "connect_seq": 1,
            "msg_seq": 0,
        }
        return SessionReconnect(**(fields | changes))


def _decoded(tag: int, segments: tuple[Buffer, ...]) -> ControlFrame | RawMessage:
    if tag != MESSAGE_TAG:
        return decode_control(tag, segments)
    header, front, middle, data = segments
    seq, tid, _, _, _, _, _, ack_seq, _, _, _ = MESSAGE_HEADER.unpack(header)
    return RawMessage(seq, ack_seq, tid, bytes(front), bytes(middle), bytes(data))


def _sign(key: bytes, raw: bytes) -> bytes:
    return hmac.digest(key, raw, "sha256") if key else bytes(32)
