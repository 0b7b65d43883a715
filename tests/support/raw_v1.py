"""A scripted v1 peer: it says exactly what a test tells it to say, right or wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from messenger.cephx.exchange import AuthDone, AuthMore, AuthResult, AuthStep, ConMode
from messenger.cephx.signature import message_signer
from messenger.cephx.v1 import connect_exchange, judge_connect
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityName
from messenger.denc.features import CLIENT_FEATURES, Feature, has_feature
from messenger.link import Protocol
from messenger.v1.existing import protocol_version
from messenger.v1.framing import Header, MessageWriter, StreamReader
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
from tests.support.node import WALL_OFFSET_S, Node, auth_pair, new_node
from tests.support.raw_link import RawLink

A_V1_ADDR = "v1:10.0.0.1:6801/1"
B_V1_ADDR = "v1:10.0.0.2:6802/2"
MAX_BYTES = 64 << 20

Piece = TypeVar("Piece", bound=Frame)


@dataclass
class RawMessage:
    """A message that was received."""

    header: Header
    front: bytes
    middle: bytes
    data: bytes
    flags: int

    @property
    def seq(self) -> int:
        return self.header.seq


def new_v1_node(**options: object) -> Node:
    """osd.1 alone, on v1, with options of :func:`tests.support.node.new_endpoint`."""
    return new_node(A_V1_ADDR, **options)


class RawV1Peer(RawLink):
    """One v1 link to a node, spoken by hand. By default it does what a real osd.2 would do.

    Args:
        node: whom to talk to.
        auth: none or cephx.
        name: who to be.
        addr: own address.
        features: what to support.
    """

    PROTOCOL = Protocol.V1
    SOCKET_ADDR = EntityAddr.parse("v1:10.0.0.77:40001/0")

    def __init__(
        self,
        node: Node,
        *,
        auth: str = "none",
        name: EntityName | None = None,
        addr: str = B_V1_ADDR,
        features: int = CLIENT_FEATURES,
    ) -> None:
        super().__init__(node, name)
        self.auth = auth
        self.addr = EntityAddr.parse(addr)
        self.features = features
        self.result = AuthResult(0)
        self.reply: ConnectReply | None = None
        """The node's last reply, or as the acceptor our own."""
        self.said: list[Connect] = []
        """Every CONNECT that was sent."""
        self.reader = StreamReader(MAX_BYTES)
        self.writer = MessageWriter()
        self._rng = Random(f"raw {self.name}")

    # ---- bytes and pieces

    @property
    def inbound(self) -> bytes:
        """What the node wrote and nobody looked at yet."""
        self.pump()
        return bytes(self._inbound)

    def send(self, *frames: Frame) -> None:
        """Send pieces, together."""
        self.said += [replace(frame) for frame in frames if isinstance(frame, Connect)]
        self.write(b"".join(frame.encode() for frame in frames))

    def take(self, size: int) -> bytes:
        """The next bytes of the node's."""
        assert len(self.inbound) >= size, f"{len(self.inbound)} bytes where {size} are due; closed: {self.closed}"
        taken = bytes(self._inbound[:size])
        del self._inbound[:size]
        return taken

    def expect(self, kind: type[Piece]) -> Piece:
        """The next piece of the node's, which must be a ``kind`` of the handshake."""
        view = memoryview(self.inbound)
        limit = (MAX_BYTES,) if kind in (Connect, ConnectReply) else ()
        found = kind.cut(view, *limit)  # type: ignore[attr-defined]
        assert found is not None, f"no {kind.__name__}; closed: {self.closed}"
        self.take(found[0])
        assert isinstance(found[1], kind)
        return found[1]

    def next(self) -> Frame | RawMessage | None:
        """The next frame of the node's on the open link."""
        view = memoryview(self.inbound)
        if not view:
            return None
        found = self.reader.next_frame(view, 0, len(view), owned=False)
        if found is None:
            return None
        del self._inbound[: found[0]]
        if len(found) == 2:
            return found[1]
        _, header, front, middle, data, flags = found
        return RawMessage(Header._make(header), bytes(front), bytes(middle), bytes(data), flags)

    def rest(self) -> list[Frame | RawMessage]:
        """All frames of the node's that were not looked at yet."""
        frames = []
        while (frame := self.next()) is not None:
            frames.append(frame)
        return frames

    def messages(self) -> list[RawMessage]:
        """All messages among them."""
        return [frame for frame in self.rest() if isinstance(frame, RawMessage)]

    def message(
        self,
        seq: int,
        *,
        tid: int = 0,
        type_: int = 2,
        front: Buffer = b"",
        middle: Buffer = b"",
        data: Buffer = b"",
    ) -> bytes:
        """A message, of type PING unless given; ``tid`` is the seq unless given."""
        pieces: list[Buffer] = []
        src = int(self.name.type), self.name.num
        self.writer.message(pieces, (seq, tid or seq, type_, 127, 1), (front, middle, data), 0, src, 1)
        return b"".join(pieces)

    def send_messages(self, *seqs: int) -> None:
        """Send messages with these seqs."""
        self.write(b"".join(self.message(seq) for seq in seqs))

    # ---- the handshake, step by step

    @property
    def steps(self) -> list[Callable[[], None]]:
        """What this side does from the first byte up to the open link; stop after any of them."""
        return [self.banner, self.identify, self.connect, self.seq]

    def handshake(self, until: Callable[[], None] | None = None) -> "RawV1Peer":
        """Do all steps, or those before ``until``."""
        for step in self.steps:
            if step == until:
                break
            step()
        return self

    def banner(self) -> None:
        self.send(Banner())
        self.expect(Banner)

    def identify(self) -> None:
        """Tell the addresses; take the node's."""
        if self.connecting:
            self.expect(ServerIdentify)
            self.send(ClientIdentify(self.addr))
        else:
            self.send(ServerIdentify(self.addr, self.SOCKET_ADDR))
            self.expect(ClientIdentify)

    def connect(self) -> None:
        """CONNECT until the last reply, or judge the node's."""
        if not self.connecting:
            self.answer()
            return
        reply = self.converse()
        assert reply.tag in (Tag.SEQ, Tag.READY), reply

    def connect_message(self, **changes: object) -> Connect:
        """A first CONNECT with other values than the usual ones; without authorizer towards monitors."""
        node_type = self.node.endpoint.name.type
        client, _ = auth_pair(self.auth, self.name)
        self.exchange = connect_exchange(client, self.name.type, node_type, WALL_OFFSET_S, self._rng)
        opening = self.exchange.start()
        fields: dict[str, object] = {
            "features": self.features,
            "host_type": self.name.type,
            "global_seq": 1,
            "connect_seq": 0,
            "protocol_version": protocol_version(self.name.type, node_type, connecting=True),
            "authorizer_protocol": opening.method,
            "authorizer": opening.payload,
        }
        return Connect(**(fields | changes))  # type: ignore[arg-type]

    def converse(self, **changes: object) -> ConnectReply:
        """Say CONNECT, and once more with the answer if there is a challenge; returns the reply to that."""
        connect = self.connect_message(**changes)
        self.send(connect)
        reply = self.reply = self.expect(ConnectReply)
        if reply.tag is Tag.CHALLENGE_AUTHORIZER:
            connect.authorizer = self.exchange.more(reply.authorizer)
            self.send(connect)
            reply = self.reply = self.expect(ConnectReply)
        if reply.tag in (Tag.SEQ, Tag.READY):
            self.result = self.exchange.done(0, ConMode.CRC, reply.authorizer)
            self.agree(reply.features & self.features)
        return reply

    def judge(self, connect: Connect, server: object = None) -> AuthStep:
        """What the authorizer of the node's CONNECT is worth."""
        if server is not None or not hasattr(self, "judging"):
            _, default = auth_pair(self.auth, self.name)
            self.judging = default.exchange(connect.host_type, WALL_OFFSET_S, self._rng)
        return judge_connect(
            self.judging,
            self.name.type,
            connect.host_type,
            protocol=connect.authorizer_protocol,
            authorizer=connect.authorizer,
            features=connect.features,
        )

    def authenticated(self) -> tuple[Connect, AuthDone]:
        """The node's CONNECT, once it has proven itself."""
        connect = self.expect(Connect)
        step = self.judge(connect)
        if isinstance(step, AuthMore):
            self.send(self.reply_to(connect, Tag.CHALLENGE_AUTHORIZER, authorizer=step.payload))
            connect = self.expect(Connect)
            step = self.judge(connect)
        assert isinstance(step, AuthDone)
        self.result = step.result
        return connect, step

    def answer(self, **changes: object) -> Connect:
        """Open the node's session; returns its last CONNECT."""
        connect, step = self.authenticated()
        reply = self.reply = self.reply_to(connect, Tag.SEQ, authorizer=step.payload, **changes)
        self.agree(reply.features & connect.features)
        self.send(reply)
        return connect

    def reply_to(self, connect: Connect, tag: Tag, **changes: object) -> ConnectReply:
        """A reply with other values than the usual ones."""
        final = tag in (Tag.SEQ, Tag.READY)
        fields: dict[str, object] = {
            "tag": tag,
            "features": self.features if final else connect.features & self.features,
            "global_seq": 1 if final else 0,
            "connect_seq": connect.connect_seq + 1 if final else 0,
            "protocol_version": connect.protocol_version,
        }
        return ConnectReply(**(fields | changes))  # type: ignore[arg-type]

    def seq(self, number: int = 0) -> None:
        """Exchange in_seqs, if the reply was SEQ."""
        assert self.reply is not None
        if self.reply.tag is Tag.SEQ:
            if self.connecting:
                self.expect(Seq)
                self.send(Seq(number))
            else:
                self.send(Seq(number))
                self.expect(Seq)

    def agree(self, features: int) -> None:
        """Use the terms of the stream from here on."""
        msg_auth = has_feature(features, Feature.MSG_AUTH)
        signer = message_signer(self.result, features) if msg_auth else None
        self.reader = StreamReader(MAX_BYTES, signer, msg_auth=msg_auth)
        self.writer = MessageWriter(signer, msg_auth=msg_auth)

    @property
    def lossy(self) -> bool:
        """What the last reply says about the session."""
        assert self.reply is not None
        return bool(self.reply.flags & FLAG_LOSSY)


def meet(role: str, node: Node, **options: object) -> RawV1Peer:
    """A peer on a new link of a node that has the given role; it has said nothing yet."""
    peer = RawV1Peer(node, **options)  # type: ignore[arg-type]
    if role == "acceptor":
        return peer.dial()
    node.connect(str(peer.addr.with_type(AddressType.LEGACY)), peer.name.type)
    return peer.accept()
