"""A scripted peer: it says exactly what a test tells it to say, right or wrong."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from messenger.cephx.exchange import AuthDone as AuthFinished
from messenger.cephx.exchange import AuthMethod, AuthMore, AuthResult, ConMode
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityName
from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2, Msgr2Feature
from messenger.link import Protocol
from messenger.v2.framing import FrameReader, FrameWriter
from messenger.v2.preamble import MESSAGE_TAG
from messenger.v2.revision import crc_frames, secure_frames
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
    decode_banner,
    decode_control,
    encode_banner,
)
from tests.support.node import B_ADDR, WALL_OFFSET_S, Node, auth_pair
from tests.support.raw_link import RawLink

MAX_FRAME_BYTES = 64 << 20
COOKIE = 0xC00C1E

ROLES = ("connector", "acceptor")
"""What the node under test is; the raw peer is the other."""

Frame = TypeVar("Frame", bound=ControlFrame)


@dataclass
class RawMessage:
    """A MESSAGE frame that was received."""

    seq: int
    ack_seq: int
    tid: int
    front: bytes
    data: bytes


class RawPeer(RawLink):
    """One link to a node, spoken by hand. By default it does what a real osd.2 would do.

    Args:
        node: whom to talk to.
        auth: none or cephx.
        mode: connection mode to ask for, or as the acceptor to choose.
        name: who to be.
        addr: own address.
        features: msgr2 features to advertise.
    """

    PROTOCOL = Protocol.V2
    SOCKET_ADDR = EntityAddr.parse("v2:10.0.0.1:40001/0")

    def __init__(
        self,
        node: Node,
        *,
        auth: str = "none",
        mode: ConMode = ConMode.CRC,
        name: EntityName | None = None,
        addr: str = B_ADDR,
        features: int = Msgr2Feature.REVISION_1,
    ) -> None:
        super().__init__(node, name)
        self.features = features
        self.auth = auth
        self.mode = mode
        self.addrs = AddrVec.parse(addr)
        self.reader: FrameReader
        self.writer: FrameWriter
        self.reader, self.writer = crc_frames(self.agreed_features, MAX_FRAME_BYTES)
        self.own_signature = b""
        self.expected_signature = b""
        """Of the node."""
        self.server_cookie = 0xD00D
        self._rng = Random(f"raw {self.name}")
        self._rx = bytearray()
        self._tx = bytearray()
        self._banner_seen = False

    @property
    def agreed_features(self) -> int:
        """The msgr2 features that both sides advertise."""
        return self.features & self.node.endpoint.config.msgr2_features

    # ---- bytes and frames

    def write(self, raw: bytes) -> None:
        """Send bytes."""
        self._tx += raw
        super().write(raw)

    def send(self, *frames: ControlFrame) -> None:
        """Send control frames, together."""
        self.write(b"".join(self.writer.control(frame.TAG, frame.encode()) for frame in frames))

    def message(
        self, seq: int, *, ack_seq: int = 0, tid: int = 0, front: Buffer = b"", data: Buffer = b""
    ) -> bytes:
        """A MESSAGE frame of type PING; ``tid`` is the seq unless given."""
        header = MESSAGE_HEADER.pack(seq, tid or seq, 2, 127, 1, 0, 0, ack_seq, 3, 1, 0)
        pieces: list[Buffer] = []
        self.writer.message(pieces, header, front, b"", data)
        return b"".join(pieces)

    def send_messages(self, *seqs: int, ack_seq: int = 0) -> None:
        """Send messages with these seqs."""
        self.write(b"".join(self.message(seq, ack_seq=ack_seq) for seq in seqs))

    def next(self) -> ControlFrame | RawMessage | None:
        """The oldest frame of the node's that was not looked at yet."""
        if not self._banner_seen:
            banner = decode_banner(memoryview(self._inbound))
            if banner is None:
                return None
            self._banner_seen = True
            self._take(banner[0])
        frame = self.reader.next_frame(memoryview(bytes(self._inbound)), 0, len(self._inbound), owned=False)
        if frame is None:
            return None
        stop, tag, *segments = frame
        self._take(stop)
        return _decoded(tag, tuple(segments))

    def rest(self) -> list[ControlFrame | RawMessage]:
        """All frames of the node's that were not looked at yet."""
        frames = []
        while (frame := self.next()) is not None:
            frames.append(frame)
        return frames

    def expect(self, kind: type[Frame]) -> Frame:
        """The next frame of the node's, which must be a ``kind``."""
        frame = self.next()
        assert isinstance(frame, kind), f"{frame} where {kind.__name__} is due; closed: {self.closed}"
        return frame

    def expect_seqs(self) -> list[int]:
        """The seqs of all frames of the node's, which must be messages."""
        frames = self.rest()
        assert all(isinstance(frame, RawMessage) for frame in frames), frames
        return [frame.seq for frame in frames]  # type: ignore[union-attr]

    def _take(self, size: int) -> None:
        self._rx += self._inbound[:size]
        del self._inbound[:size]

    # ---- the handshake, step by step

    @property
    def steps(self) -> list[Callable[[], None]]:
        """What this side does from the first byte up to READY; stop after any of them."""
        authenticate = (
            [self.auth_request, self.auth_more] if self.connecting else [self.auth_answer, self.auth_done]
        )
        compress = [self.compression] if self.agreed_features & Msgr2Feature.COMPRESSION else []
        return [self.banner, self.hello, *authenticate, self.signature, *compress, self.ident]

    def handshake(self, until: Callable[[], None] | None = None) -> "RawPeer":
        """Do all steps, or those before ``until``."""
        for step in self.steps:
            if step == until:
                break
            step()
        return self

    def banner(self) -> None:
        self.write(encode_banner(self.features, 0))

    def hello(self) -> None:
        self.send(Hello(self.name.type, self.node.endpoint.addrs.front if self.connecting else self.SOCKET_ADDR))
        self.expect(Hello)

    def auth_request(self) -> None:
        client, _ = auth_pair(self.auth, self.name)
        self._exchange = client.exchange(self.node.endpoint.name.type, WALL_OFFSET_S, self._rng)
        opening = self._exchange.start()
        self.send(AuthRequest(opening.method, [self.mode], opening.payload))

    def auth_more(self) -> None:
        """Answer the challenge, with cephx; take AUTH_DONE."""
        if self.auth == "cephx":
            self.send(AuthRequestMore(self._exchange.more(self.expect(AuthReplyMore).auth_payload)))
        done = self.expect(AuthDone)
        self._agree(self._exchange.done(done.global_id, ConMode(done.con_mode), done.auth_payload))

    def auth_answer(self) -> None:
        """Take AUTH_REQUEST; with cephx, challenge its sender."""
        _, server = auth_pair(self.auth, self.name)
        self._judge = server.exchange(self.node.endpoint.name.type, WALL_OFFSET_S, self._rng)
        request = self.expect(AuthRequest)
        self._step = self._judge.start(AuthMethod(request.method), self.mode, request.auth_payload)
        if isinstance(self._step, AuthMore):
            self.send(AuthReplyMore(self._step.payload))

    def auth_done(self) -> None:
        """Send AUTH_DONE."""
        if isinstance(self._step, AuthMore):
            self._step = self._judge.more(self.expect(AuthRequestMore).auth_payload)
        assert isinstance(self._step, AuthFinished)
        self.send(AuthDone(self._step.result.global_id, self.mode, self._step.payload))
        self._agree(self._step.result)

    def _agree(self, result: AuthResult) -> None:
        """Authentication is done: know both signatures, and use the keys from here on."""
        self.own_signature = _sign(result.session_key, bytes(self._rx))
        self.expected_signature = _sign(result.session_key, bytes(self._tx))
        if self.mode is ConMode.SECURE:
            secret = result.connection_secret
            self.reader, self.writer = secure_frames(
                self.agreed_features, MAX_FRAME_BYTES, secret, connector=self.connecting
            )

    def signature(self) -> None:
        """Exchange signatures; the node must have received what was sent."""
        self.send(AuthSignature(self.own_signature))
        assert self.expect(AuthSignature).signature == self.expected_signature

    def compression(self) -> None:
        """Agree on not compressing."""
        if self.connecting:
            self.send(CompressionRequest(is_compress=False, methods=[]))
            assert self.expect(CompressionDone) == CompressionDone(is_compress=False, method=0)
        else:
            self.expect(CompressionRequest)
            self.send(CompressionDone(is_compress=False, method=0))

    def ident(self) -> None:
        """Open a session."""
        if self.connecting:
            self.send(self.client_ident())
            self.expect(ServerIdent)
        else:
            self.expect(ClientIdent)
            self.send(self.server_ident())

    def client_ident(self, **changes: object) -> ClientIdent:
        """CLIENT_IDENT with other values than the usual ones."""
        fields: dict[str, object] = {
            "addrs": self.addrs,
            "target_addr": self.node.endpoint.addrs.front,
            "gid": self.name.num,
            "global_seq": 1,
            "features_supported": CLIENT_FEATURES,
            "features_required": MSG_ADDR2,
            "flags": 0,
            "client_cookie": COOKIE,
        }
        return ClientIdent(**(fields | changes))  # type: ignore[arg-type]

    def server_ident(self, **changes: object) -> ServerIdent:
        """SERVER_IDENT with other values than the usual ones."""
        fields: dict[str, object] = {
            "addrs": self.addrs,
            "gid": self.name.num,
            "global_seq": 1,
            "features_supported": CLIENT_FEATURES,
            "features_required": MSG_ADDR2,
            "flags": 0,
            "server_cookie": self.server_cookie,
        }
        return ServerIdent(**(fields | changes))  # type: ignore[arg-type]


def meet(role: str, node: Node, **options: object) -> RawPeer:
    """A peer on a new link of a node that has the given role; it has said nothing yet."""
    peer = RawPeer(node, **options)  # type: ignore[arg-type]
    if role == "acceptor":
        return peer.dial()
    node.connect(B_ADDR)
    return peer.accept()


def _decoded(tag: int, segments: tuple[Buffer, ...]) -> ControlFrame | RawMessage:
    if tag != MESSAGE_TAG:
        return decode_control(tag, segments)
    header, front, _, data = segments
    seq, tid, _, _, _, _, _, ack_seq, _, _, _ = MESSAGE_HEADER.unpack(header)
    return RawMessage(seq, ack_seq, tid, bytes(front), bytes(data))


def _sign(key: bytes, raw: bytes) -> bytes:
    return hmac.digest(key, raw, "sha256") if key else bytes(32)
