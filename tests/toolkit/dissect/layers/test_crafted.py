"""Frames crafted with the layers, sent to a messenger on loopback over scapy's own stream socket."""

import asyncio
import socket

from scapy.packet import Packet
from scapy.supersocket import StreamSocket

from messenger.cephx.exchange import AuthMethod
from messenger.cephx.structures import AuthMode, Prelude
from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName
from messenger.denc.features import CLIENT_FEATURES
from messenger.denc.layout import encoded
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.link import Protocol
from messenger.messages.message import Message
from messenger.messages.ping import MPing
from messenger.v1.wire import Tag as V1Tag
from tests.support.aio import messenger, on_loop, until
from toolkit.dissect.layers import (
    MSGR,
    MSGR1,
    MSGR2,
    MSGR1_Ack,
    MSGR1_Banner,
    MSGR1_ClientIdentify,
    MSGR1_Connect,
    MSGR1_ConnectReply,
    MSGR1_KeepAlive2,
    MSGR1_KeepAlive2Ack,
    MSGR1_Message,
    MSGR1_Seq,
    MSGR2_Ack,
    MSGR2_AuthBadMethod,
    MSGR2_AuthDone,
    MSGR2_AuthRequest,
    MSGR2_AuthSignature,
    MSGR2_Banner,
    MSGR2_ClientIdent,
    MSGR2_Hello,
    MSGR2_KeepAlive2,
    MSGR2_KeepAlive2Ack,
    MSGR2_Message,
    MSGR2_Rev0,
    MSGR2_ServerIdent,
)

ME = "v2:127.0.0.1:0/4711"


class Crafted:
    """A link to a messenger on which every frame is crafted."""

    def __init__(self, address: EntityAddr, frame: type[Packet] = MSGR2) -> None:
        self.address = address
        self.frame = frame
        self.socket = socket.create_connection((address.host, address.port), timeout=60)
        self.stream = StreamSocket(self.socket, MSGR)

    def __enter__(self) -> "Crafted":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, layer: Packet) -> None:
        self.stream.send(self.frame() / layer)

    def receive(self, layer: type[Packet]) -> Packet:
        """The next frame, which must have that layer."""
        received = self.stream.recv()
        assert layer in received, received.summary()
        assert received.crc_ok
        return received[layer]

    def open(self) -> Packet:
        """The handshake of a client with auth none; returns SERVER_IDENT."""
        revision = 1 if self.frame is MSGR2 else 0
        self.stream.send(MSGR2_Banner(supported=revision))
        banner = self.stream.recv()
        assert (type(banner), banner.supported & 1) == (MSGR2_Banner, 1)
        self.stream.streamsession["revision"] = revision
        self.send(MSGR2_Hello(entity_type="client", peer_addr=self.address))
        assert self.receive(MSGR2_Hello).entity_type.label == "osd"
        me = Prelude(AuthMode.AUTHORIZER, AuthName.parse("client.admin"), 4711)
        self.send(MSGR2_AuthRequest(method="cephx", preferred_modes=["crc"]))
        assert self.receive(MSGR2_AuthBadMethod).allowed_methods == [AuthMethod.NONE]
        self.send(MSGR2_AuthRequest(method="none", preferred_modes=["crc"], auth_payload=encoded(me)))
        assert self.receive(MSGR2_AuthDone).con_mode == 1
        assert self.receive(MSGR2_AuthSignature).signature == bytes(32)
        self.send(MSGR2_AuthSignature())
        self.send(
            MSGR2_ClientIdent(
                addrs=ME,
                target_addr=self.address,
                gid=4711,
                global_seq=1,
                features_supported=CLIENT_FEATURES,
                flags="LOSSY",
            )
        )
        return self.receive(MSGR2_ServerIdent)


class Received(Dispatcher):
    def __init__(self) -> None:
        self.messages: list[Message] = []

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        self.messages.append(message)
        connection.send(MPing())


def talk(address: EntityAddr, frame: type[Packet]) -> None:
    """Open a session, send a message, change it and send it again."""
    with Crafted(address, frame) as link:
        assert link.open().addrs.front == address
        ping = frame() / MSGR2_Message(seq=1, tid=7, type="ping", priority=64)
        link.stream.send(ping)
        assert link.receive(MSGR2_Message).type == MPing.TYPE
        ping.seq, ping.tid = 2, 8
        link.stream.send(ping)
        assert link.receive(MSGR2_Message).ack_seq == 2
        link.send(MSGR2_Ack(seq=2))
        link.send(MSGR2_KeepAlive2(seconds=12, nanoseconds=34))
        assert link.receive(MSGR2_KeepAlive2Ack).seconds == 12


@on_loop
async def test_messenger_accepts_a_crafted_session() -> None:
    for frame in (MSGR2, MSGR2_Rev0):
        received = Received()
        async with messenger(2, received, auth="none") as server:
            await asyncio.to_thread(talk, await server.bind(), frame)
            assert [(message.tid, message.priority) for message in received.messages] == [(7, 64), (8, 64)]


def break_off(address: EntityAddr) -> bytes:
    """A message with a wrong crc on an open session; returns what comes after it."""
    with Crafted(address) as link:
        link.open()
        broken = MSGR2(bytes(MSGR2() / MSGR2_Message(seq=1, type="ping", front=b"x")))
        broken.crc1 ^= 1
        link.stream.send(broken)
        return link.socket.recv(100)


@on_loop
async def test_a_messenger_refuses_a_wrong_crc() -> None:
    received = Received()
    async with messenger(2, received, auth="none") as server:
        assert await asyncio.to_thread(break_off, await server.bind()) == b""
        await until(lambda: not received.messages)


def take(sock: socket.socket, layer: type[Packet], size_bytes: int) -> Packet:
    """The next piece of v1, which has no length of its own."""
    raw = b""
    while len(raw) < size_bytes:
        piece = sock.recv(size_bytes - len(raw))
        assert piece, f"the link is closed after {len(raw)} of {size_bytes} bytes"
        raw += piece
    packet = layer(raw)
    assert bytes(packet) == raw
    return packet


def talk_v1(address: EntityAddr) -> None:
    """Open a v1 session as a client with auth none, and exchange messages."""
    me = Prelude(AuthMode.AUTHORIZER, AuthName.parse("client.admin"), 4711)
    with socket.create_connection((address.host, address.port), timeout=60) as sock:
        banner = take(sock, MSGR1_Banner, 9 + 2 * 136)
        assert (banner.server_addr.port, banner.client_addr.host) == (address.port, "127.0.0.1")
        connect = MSGR1_Connect(
            features=CLIENT_FEATURES,
            host_type="client",
            global_seq=1,
            protocol_version=24,
            authorizer_protocol="none",
            authorizer=encoded(me),
        )
        hello = MSGR1_Banner() / MSGR1_ClientIdentify(client_addr="v1:127.0.0.1:0/4711")
        sock.sendall(bytes(hello) + bytes(connect))
        reply = take(sock, MSGR1_ConnectReply, 26)
        assert (reply.tag, reply.connect_seq, reply.authorizer_len) == (V1Tag.SEQ, 1, 0)
        assert take(sock, MSGR1_Seq, 8).seq == 0
        sock.sendall(bytes(MSGR1_Seq(seq=0)))
        ping = MSGR1() / MSGR1_Message(seq=1, tid=7, type="ping", priority=64, src_num=4711)
        ping.tid = 8
        sock.sendall(bytes(ping) + bytes(MSGR1() / MSGR1_KeepAlive2(seconds=12)))
        seen = []
        while len(seen) < 3:
            tag = take(sock, MSGR1, 1).tag
            layer, size_bytes = {
                V1Tag.ACK: (MSGR1_Ack, 8),
                V1Tag.KEEPALIVE2_ACK: (MSGR1_KeepAlive2Ack, 8),
                V1Tag.MSG: (MSGR1_Message, 53 + 21),
            }[tag]
            seen.append(take(sock, layer, size_bytes))
        answers = {type(packet): packet for packet in seen}
        assert answers[MSGR1_Ack].seq == 1
        assert answers[MSGR1_KeepAlive2Ack].seconds == 12
        assert (answers[MSGR1_Message].type, answers[MSGR1_Message].crc_ok) == (MPing.TYPE, True)


@on_loop
async def test_messenger_accepts_a_crafted_v1_session() -> None:
    received = Received()
    async with messenger(2, received, auth="none") as server:
        await asyncio.to_thread(talk_v1, await server.bind(protocol=Protocol.V1))
        assert [(message.tid, message.priority) for message in received.messages] == [(8, 64)]
