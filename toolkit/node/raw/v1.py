"""A raw link of msgr v1."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from messenger.cephx.exchange import (
    AuthDone,
    AuthMethod,
    AuthMore,
    AuthOpening,
    AuthResult,
    AuthStep,
    ClientExchange,
    ConMode,
    ServerExchange,
)
from messenger.cephx.signature import message_signer
from messenger.cephx.v1 import connect_exchange, judge_connect
from messenger.compat import override
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import CLIENT_FEATURES
from messenger.link import Protocol
from messenger.v1.existing import protocol_version
from messenger.v1.framing import Header, MessageWriter, StreamReader, stream_form
from messenger.v1.wire import (
    FLAG_LOSSY,
    Banner,
    ClientIdentify,
    Connect,
    ConnectReply,
    Frame,
    Seq,
    ServerIdentify,
    Tag,
)
from toolkit.node.raw.link import MAX_FRAME_BYTES, Identity, Other, RawLink
from toolkit.node.raw.stream import Stream

PING = 2
FINAL = (Tag.SEQ, Tag.READY)
"""The replies that open a session."""
_MOST_RETRIES = 4

Piece = TypeVar("Piece", bound=Frame)


@dataclass(slots=True)
class RawV1Message:
    """A message that was received."""

    header: Header
    front: bytes
    middle: bytes
    data: bytes
    flags: int

    @property
    def seq(self) -> int:
        """Sequence number."""
        return self.header.seq

    @property
    def tid(self) -> int:
        """Transaction id."""
        return self.header.tid


class RawV1Link(RawLink):
    """A v1 link; see :class:`RawLink`.

    Args:
        stream: the byte stream.
        me: this side's identity.
        other: the party on the other side.
        connecting: True if this side has dialled.
        socket_addr: the other side's end of the stream, as an acceptor sees it.
        features: feature bits to announce.
    """

    PROTOCOL = Protocol.V1

    def __init__(
        self,
        stream: Stream,
        me: Identity,
        other: Other,
        *,
        connecting: bool,
        socket_addr: EntityAddr | None = None,
        features: int = CLIENT_FEATURES,
    ) -> None:
        super().__init__(stream, me, other, connecting=connecting, socket_addr=socket_addr)
        self.addr = me.addrs.front.with_type(AddressType.LEGACY)
        self.features = features
        self.result = AuthResult(0)
        self.reply: ConnectReply | None = None
        """The other side's last CONNECT_REPLY; on an acceptor the one that this side sent."""
        self.connects: list[Connect] = []
        """All CONNECTs that were sent."""
        self.proven: Connect
        """The other side's CONNECT whose authorizer was accepted."""
        self.reader = StreamReader(MAX_FRAME_BYTES)
        self.writer = MessageWriter()
        self.exchange: ClientExchange
        self._answered: AuthOpening | None = None
        """The authorizer that answered the last challenge."""
        self.judging: ServerExchange | None = None

    @override
    def pretend(self, addrs: AddrVec) -> Self:
        self.addr = addrs.legacy_addr() if addrs.legacy_addr().port else addrs.front
        return super().pretend(addrs)

    # ---- bytes and pieces

    def send(self, *frames: Frame) -> None:
        """Send frames in one write."""
        self.note(f"sends {', '.join(frame.PIECE for frame in frames)}")
        self.connects += [replace(frame) for frame in frames if isinstance(frame, Connect)]
        self.write(b"".join(frame.encode() for frame in frames))

    def expect(self, kind: type[Piece]) -> Piece:
        """Wait for the next frame of the handshake, which must be a ``kind``.

        Raises:
            ScenarioFailed: it does not arrive.
        """
        self.note(f"expects {kind.__name__}")
        limit = (MAX_FRAME_BYTES,) if kind in (Connect, ConnectReply) else ()
        found: list[tuple[int, Piece]] = []

        def arrived() -> bool:
            piece = kind.cut(memoryview(self.inbound), *limit)  # type: ignore[attr-defined]
            if piece is not None:
                found.append(piece)
            return bool(found) or self.stream.closed

        self.stream.wait(arrived, self.patience_s)
        if not found:
            self._fail(f"no {kind.__name__} came")
        size, piece = found[0]
        self._cut_off(size)
        return piece

    @override
    def next(self) -> Frame | RawV1Message | None:
        """Return the next frame of an open session; None if none has arrived."""
        view = memoryview(self.inbound)
        if not view:
            return None
        found = self.reader.next_frame(view, 0, len(view), owned=False)
        if found is None:
            return None
        self._cut_off(found[0])
        if len(found) == 2:
            return found[1]
        _, header, front, middle, data, flags = found
        return RawV1Message(Header._make(header), bytes(front), bytes(middle), bytes(data), flags)

    def messages(self) -> list[RawV1Message]:
        """Return the messages among the frames that have arrived."""
        return [frame for frame in self.rest() if isinstance(frame, RawV1Message)]

    def message(
        self,
        seq: int,
        *,
        tid: int = 0,
        type_: int = PING,
        version: int = 1,
        compat_version: int = 1,
        front: Buffer = b"",
        middle: Buffer = b"",
        data: Buffer = b"",
    ) -> bytes:
        """Return an encoded message; ``tid`` is the seq unless given."""
        pieces: list[Buffer] = []
        src = int(self.name.type), self.name.num
        head = seq, tid or seq, type_, 127, version
        self.writer.message(pieces, head, (front, middle, data), 0, src, compat_version)
        return b"".join(pieces)

    def send_messages(self, *seqs: int) -> None:
        """Send messages with these seqs in one write."""
        self.note(f"sends messages {', '.join(map(str, seqs))}")
        self.write(b"".join(self.message(seq) for seq in seqs))

    # ---- the handshake, step by step

    @property
    @override
    def steps(self) -> list[Callable[[], None]]:
        return [self.banner, self.identify, self.connect, self.seq]

    def banner(self) -> None:
        """Exchange banners."""
        self.send(Banner())
        self.expect(Banner)

    def identify(self) -> None:
        """Exchange addresses (IDENTIFY)."""
        if self.connecting:
            self.expect(ServerIdentify)
            self.send(ClientIdentify(self.addr))
        else:
            self.send(ServerIdentify(self.addr, self.socket_addr))
            self.expect(ClientIdentify)

    def connect(self) -> None:
        """Send CONNECT, repeated as the replies demand; as the acceptor answer the other side's."""
        if not self.connecting:
            self.answer()
            return
        reply = self.converse()
        for _ in range(_MOST_RETRIES):
            if reply.tag is Tag.RETRY_GLOBAL:
                reply = self.converse(global_seq=reply.global_seq + 1, connect_seq=self.connects[-1].connect_seq)
            elif reply.tag is Tag.RETRY_SESSION:
                reply = self.converse(global_seq=self.connects[-1].global_seq, connect_seq=reply.connect_seq)
            elif reply.tag is Tag.RESETSESSION:
                reply = self.converse(global_seq=self.connects[-1].global_seq)
        if reply.tag not in FINAL:
            self._fail(f"{reply} does not open the session")

    def connect_message(self, **changes: object) -> Connect:
        """Return a CONNECT with default or given values; without authorizer towards monitors.

        As real clients do, it repeats the authorizer that has answered a challenge of this link.
        """
        me, other = self.me, self.other.type
        if self._answered is None:
            self.exchange = connect_exchange(me.auth_client, self.name.type, other, me.wall_s(), me.rng)
            opening = self.exchange.start()
        else:
            opening = self._answered
            self.exchange.repeated()
        fields: dict[str, Any] = {
            "features": self.features,
            "host_type": self.name.type,
            "global_seq": self.global_seq,
            "connect_seq": 0,
            "protocol_version": protocol_version(self.name.type, other, connecting=True),
            "authorizer_protocol": opening.method,
            "authorizer": opening.payload,
        }
        return Connect(**(fields | changes))

    def converse(self, **changes: object) -> ConnectReply:
        """Send CONNECT, and again with the answer if there is a challenge; returns the last reply."""
        connect = self.connect_message(**changes)
        self.send(connect)
        reply = self.reply = self.expect(ConnectReply)
        if reply.tag is Tag.CHALLENGE_AUTHORIZER:
            connect.authorizer = self.exchange.more(reply.authorizer)
            self._answered = AuthOpening(AuthMethod(connect.authorizer_protocol), connect.authorizer)
            self.send(connect)
            reply = self.reply = self.expect(ConnectReply)
        if reply.tag is Tag.BADAUTHORIZER:
            self._answered = None
        if reply.tag in FINAL:
            self.result = self.exchange.done(0, ConMode.CRC, reply.authorizer)
            self.agree(reply.features & self.features)
        return reply

    def judge(self, connect: Connect) -> AuthStep:
        """Verify the authorizer of the other side's CONNECT; returns the next step."""
        me = self.me
        if self.judging is None:
            self.judging = me.auth_server.exchange(connect.host_type, me.wall_s(), me.rng)
        return judge_connect(
            self.judging,
            self.name.type,
            connect.host_type,
            protocol=connect.authorizer_protocol,
            authorizer=connect.authorizer,
            features=connect.features,
        )

    def authenticated(self) -> tuple[Connect, AuthDone]:
        """Challenge the other side if needed; returns its CONNECT whose authorizer was accepted."""
        connect = self.expect(Connect)
        step = self.judge(connect)
        if isinstance(step, AuthMore):
            self.send(self.reply_to(connect, Tag.CHALLENGE_AUTHORIZER, authorizer=step.payload))
            connect = self.expect(Connect)
            step = self.judge(connect)
        if not isinstance(step, AuthDone):
            self._fail("authentication takes more than one challenge")
        self.result = step.result
        self.proven = connect
        return connect, step

    def answer(self, **changes: object) -> Connect:
        """Accept the other side's session; returns its last CONNECT."""
        connect, step = self.authenticated()
        reply = self.reply = self.reply_to(connect, Tag.SEQ, **{"authorizer": step.payload, **changes})
        self.agree(reply.features & connect.features)
        self.send(reply)
        return connect

    def reply_to(self, connect: Connect, tag: Tag, **changes: object) -> ConnectReply:
        """Return a CONNECT_REPLY with default or given values."""
        final = tag in FINAL
        fields: dict[str, Any] = {
            "tag": tag,
            "features": self.features if final else connect.features & self.features,
            "global_seq": self.global_seq if final else 0,
            "connect_seq": connect.connect_seq + 1 if final else 0,
            "protocol_version": connect.protocol_version,
        }
        return ConnectReply(**(fields | changes))

    def seq(self, number: int = 0) -> None:
        """Exchange the in_seqs, if the reply was SEQ."""
        assert self.reply is not None
        if self.reply.tag is not Tag.SEQ:
            return
        if self.connecting:
            self.expect(Seq)
            self.send(Seq(number))
        else:
            self.send(Seq(number))
            self.expect(Seq)

    def agree(self, features: int) -> None:
        """Use the encoding for these common features from here on."""
        form = stream_form(features)
        signer = message_signer(self.result, features) if form["msg_auth"] else None
        self.reader = StreamReader(MAX_FRAME_BYTES, signer, **form)
        self.writer = MessageWriter(signer, addr=self.addr, **form)

    @property
    def lossy(self) -> bool:
        """True if the last reply declares the session lossy."""
        assert self.reply is not None
        return bool(self.reply.flags & FLAG_LOSSY)
