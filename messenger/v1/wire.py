"""What passes on a v1 stream, messages apart (docs/protocol.md §3.1, §3.2), and the layout of messages (§3.7).

The stream has no frames of its own: what comes next follows from what came before. The pieces are named here
(:class:`Piece`), each with a class that encodes it, cuts it out of received bytes and prints it.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from struct import Struct
from typing import ClassVar, Self

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityType
from messenger.errors import FaultReason, PeerError
from messenger.v2.wire import BANNER_PREFIX as V2_BANNER
from messenger.v2.wire import V1_BANNER as BANNER

ADDR_SIZE = 136
FLAG_LOSSY = 1
"""CONNECT and reply flag: the session dies with its link. The acceptor's word counts."""

_CONNECT = Struct("<QIIIIIIB")
_REPLY = Struct("<BQIIIIB")
_SEQ = Struct("<Q")
_TAGGED_SEQ = Struct("<BQ")
_TAGGED_TIME = Struct("<BII")
U32_MAX = (1 << 32) - 1
"""The largest global_seq: a peer that gives it leaves no room for the next one."""
CONNECT_SEQ_LIMIT = 1 << 31
"""The largest connect_seq that a peer may give: each fault of the session counts one further, in 32 bits."""


class Tag(IntEnum):
    """Tags of replies and of the stream (§3.1)."""

    READY = 1
    RESETSESSION = 2
    WAIT = 3
    RETRY_SESSION = 4
    RETRY_GLOBAL = 5
    CLOSE = 6
    MSG = 7
    ACK = 8
    KEEPALIVE = 9
    BADPROTOVER = 10
    BADAUTHORIZER = 11
    FEATURES = 12
    SEQ = 13
    KEEPALIVE2 = 14
    KEEPALIVE2_ACK = 15
    CHALLENGE_AUTHORIZER = 16


_TAGS = {int(tag): tag for tag in Tag}


class Piece(StrEnum):
    """What passes on a link, by the names that histories and breakpoints use."""

    BANNER = "BANNER"
    IDENTIFY = "IDENTIFY"
    """The addresses that follow the banner."""
    CONNECT = "CONNECT"
    CONNECT_REPLY = "CONNECT_REPLY"
    SEQ = "SEQ"
    """The number that follows a reply with tag SEQ, and the connector's answer to it."""
    MSG = "MSG"
    ACK = "ACK"
    KEEPALIVE = "KEEPALIVE"
    KEEPALIVE2 = "KEEPALIVE2"
    KEEPALIVE2_ACK = "KEEPALIVE2_ACK"
    CLOSE = "CLOSE"


def tag_name(tag: int) -> str:
    """The tag's name, or its number."""
    return _TAGS[tag].name if tag in _TAGS else str(tag)


class Frame:
    """Base of the pieces other than messages."""

    __slots__ = ()
    PIECE: ClassVar[Piece]

    def encode(self) -> bytes:
        """The bytes on the wire."""
        raise NotImplementedError

    def printable(self) -> dict[str, object]:
        """The fields as JSON values; authorizers show their length only."""
        return {}


# ---- opening


@dataclass(slots=True)
class Banner(Frame):
    """The first bytes of either side."""

    PIECE = Piece.BANNER

    def encode(self) -> bytes:
        """Nine characters."""
        return BANNER

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The banner at the start of ``view`` and its size; None while incomplete.

        Raises:
            PeerError: V2_PEER or NOT_MSGR, as soon as the first wrong byte has arrived.
        """
        head = bytes(view[: len(BANNER)])
        if head != BANNER[: len(head)]:
            _refuse_banner(head)
            return None
        return (len(BANNER), cls()) if len(head) == len(BANNER) else None


def _refuse_banner(head: bytes) -> None:
    """Say what the peer seems to be; a short head may still become a v2 banner."""
    if head[: len(V2_BANNER)] == V2_BANNER[: len(head)]:
        if len(head) < len(V2_BANNER):
            return
        raise PeerError(FaultReason.V2_PEER, "its banner is 'ceph v2': this is a v2 port")
    known = {b"HTTP": "an HTTP server", b"GET ": "an HTTP client", b"POST": "an HTTP client", b"SSH-": "ssh"}
    who = known.get(head[:4], "TLS" if head[:1] == b"\x16" else "")
    raise PeerError(FaultReason.NOT_MSGR, f"it starts with {head!r}" + (f", looks like {who}" if who else ""))


@dataclass(slots=True)
class ServerIdentify(Frame):
    """The acceptor's own address, and the connector's as the acceptor sees it."""

    PIECE = Piece.IDENTIFY
    server_addr: EntityAddr
    client_addr: EntityAddr

    def encode(self) -> bytes:
        """Two addresses in form A."""
        return self.server_addr.legacy_image() + self.client_addr.legacy_image()

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The two addresses at the start of ``view`` and their size; None while incomplete; raises DecodeError."""
        if len(view) < 2 * ADDR_SIZE:
            return None
        return 2 * ADDR_SIZE, cls(_decode_addr(view[:ADDR_SIZE]), _decode_addr(view[ADDR_SIZE : 2 * ADDR_SIZE]))

    def printable(self) -> dict[str, object]:
        """The addresses."""
        return {"server_addr": str(self.server_addr), "client_addr": str(self.client_addr)}


@dataclass(slots=True)
class ClientIdentify(Frame):
    """The connector's own address."""

    PIECE = Piece.IDENTIFY
    client_addr: EntityAddr

    def encode(self) -> bytes:
        """One address in form A."""
        return self.client_addr.legacy_image()

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The address at the start of ``view`` and its size; None while incomplete; raises DecodeError."""
        if len(view) < ADDR_SIZE:
            return None
        return ADDR_SIZE, cls(_decode_addr(view[:ADDR_SIZE]))

    def printable(self) -> dict[str, object]:
        """The address."""
        return {"client_addr": str(self.client_addr)}


def _decode_addr(view: memoryview) -> EntityAddr:
    """Form A whatever its first byte says: nothing else is spoken here (§1.3)."""
    return EntityAddr.decode(Decoder(bytes(4) + bytes(view[4:])))


def as_legacy(addr: EntityAddr) -> EntityAddr:
    """An address as the peer reads it back from form A, which cannot carry the type (§1.3)."""
    return addr.with_type(AddressType.LEGACY if addr.ip else AddressType.NONE)


# ---- CONNECT and its reply


@dataclass(slots=True)
class Connect(Frame):
    """ceph_msg_connect and the authorizer behind it: the connector asks for a session."""

    PIECE = Piece.CONNECT
    features: int
    host_type: EntityType
    global_seq: int
    connect_seq: int
    protocol_version: int
    authorizer_protocol: int = 0
    """Authentication method; 0 without authorizer."""
    flags: int = 0
    authorizer: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """33 bytes and the authorizer."""
        head = _CONNECT.pack(
            self.features,
            self.host_type,
            self.global_seq & U32_MAX,
            self.connect_seq & U32_MAX,
            self.protocol_version,
            self.authorizer_protocol,
            len(self.authorizer),
            self.flags,
        )
        return head + self.authorizer

    @classmethod
    def cut(cls, view: memoryview, max_bytes: int) -> tuple[int, Self] | None:
        """The CONNECT at the start of ``view`` and its size; None while incomplete.

        Raises:
            PeerError: OVERSIZE, an authorizer beyond ``max_bytes``; MALFORMED, an unknown entity type.
        """
        if len(view) < _CONNECT.size:
            return None
        features, host_type, global_seq, connect_seq, version, method, size, flags = _CONNECT.unpack_from(view)
        authorizer = _cut_authorizer(view, _CONNECT.size, size, max_bytes)
        peer = EntityType.from_wire(host_type)
        if authorizer is None:
            return None
        frame = cls(features, peer, global_seq, connect_seq, version, method, flags, authorizer)
        return _CONNECT.size + size, frame

    @classmethod
    def declared_bytes(cls, view: memoryview) -> int:
        """Size of the piece at the start of ``view`` with its authorizer; 0 while its head is incomplete."""
        return _CONNECT.size + _CONNECT.unpack_from(view)[6] if len(view) >= _CONNECT.size else 0

    def printable(self) -> dict[str, object]:
        """The fields."""
        return {
            "features": self.features,
            "host_type": self.host_type.label,
            "global_seq": self.global_seq,
            "connect_seq": self.connect_seq,
            "protocol_version": self.protocol_version,
            "authorizer_protocol": self.authorizer_protocol,
            "flags": self.flags,
            "authorizer": f"{len(self.authorizer)} bytes",
        }


REPLY_TAGS = frozenset(
    {
        Tag.READY,
        Tag.RESETSESSION,
        Tag.WAIT,
        Tag.RETRY_SESSION,
        Tag.RETRY_GLOBAL,
        Tag.BADPROTOVER,
        Tag.BADAUTHORIZER,
        Tag.FEATURES,
        Tag.SEQ,
        Tag.CHALLENGE_AUTHORIZER,
    }
)
"""What a reply may say."""


@dataclass(slots=True)
class ConnectReply(Frame):
    """ceph_msg_connect_reply and the authorizer reply or challenge behind it."""

    PIECE = Piece.CONNECT_REPLY
    tag: Tag
    features: int
    global_seq: int = 0
    connect_seq: int = 0
    protocol_version: int = 0
    flags: int = 0
    authorizer: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """26 bytes and the authorizer's answer."""
        head = _REPLY.pack(
            self.tag,
            self.features,
            self.global_seq & U32_MAX,
            self.connect_seq & U32_MAX,
            self.protocol_version,
            len(self.authorizer),
            self.flags,
        )
        return head + self.authorizer

    @classmethod
    def cut(cls, view: memoryview, max_bytes: int) -> tuple[int, Self] | None:
        """The reply at the start of ``view`` and its size; None while incomplete.

        Raises:
            PeerError: OVERSIZE, an authorizer beyond ``max_bytes``; UNKNOWN_TAG, UNEXPECTED_FRAME.
        """
        if len(view) < _REPLY.size:
            return None
        number, features, global_seq, connect_seq, version, size, flags = _REPLY.unpack_from(view)
        tag = _known_tag(number)
        if tag not in REPLY_TAGS:
            raise PeerError(FaultReason.UNEXPECTED_FRAME, f"{tag.name} as a reply to CONNECT")
        authorizer = _cut_authorizer(view, _REPLY.size, size, max_bytes)
        if authorizer is None:
            return None
        return _REPLY.size + size, cls(tag, features, global_seq, connect_seq, version, flags, authorizer)

    @classmethod
    def declared_bytes(cls, view: memoryview) -> int:
        """Size of the piece at the start of ``view`` with its authorizer; 0 while its head is incomplete."""
        return _REPLY.size + _REPLY.unpack_from(view)[5] if len(view) >= _REPLY.size else 0

    def printable(self) -> dict[str, object]:
        """The fields."""
        return {
            "tag": self.tag.name,
            "features": self.features,
            "global_seq": self.global_seq,
            "connect_seq": self.connect_seq,
            "protocol_version": self.protocol_version,
            "flags": self.flags,
            "authorizer": f"{len(self.authorizer)} bytes",
        }


def _cut_authorizer(view: memoryview, start: int, size: int, max_bytes: int) -> bytes | None:
    if size > max_bytes:
        raise PeerError(FaultReason.OVERSIZE, f"authorizer of {size} bytes, the limit is {max_bytes}")
    return bytes(view[start : start + size]) if len(view) >= start + size else None


def _known_tag(number: int) -> Tag:
    tag = _TAGS.get(number)
    if tag is None:
        raise PeerError(FaultReason.UNKNOWN_TAG, str(number))
    return tag


@dataclass(slots=True)
class Seq(Frame):
    """The in_seq of its sender, exchanged before a session goes on (§3.6)."""

    PIECE = Piece.SEQ
    seq: int

    def encode(self) -> bytes:
        """8 bytes."""
        return _SEQ.pack(self.seq)

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The number at the start of ``view`` and its size; None while incomplete."""
        return (_SEQ.size, cls(*_SEQ.unpack_from(view))) if len(view) >= _SEQ.size else None

    def printable(self) -> dict[str, object]:
        """The number."""
        return {"seq": self.seq}


# ---- the stream


@dataclass(slots=True)
class Ack(Frame):
    """Every message up to ``seq`` has arrived."""

    PIECE = Piece.ACK
    seq: int

    def encode(self) -> bytes:
        """Tag and number."""
        return _TAGGED_SEQ.pack(Tag.ACK, self.seq)

    def printable(self) -> dict[str, object]:
        """The number."""
        return {"seq": self.seq}


@dataclass(slots=True)
class KeepAlive(Frame):
    """A sign of life that wants no answer, for peers without MSGR_KEEPALIVE2."""

    PIECE = Piece.KEEPALIVE

    def encode(self) -> bytes:
        """The tag."""
        return bytes([Tag.KEEPALIVE])


@dataclass(slots=True)
class _Stamped(Frame):
    seconds: int
    nanoseconds: int

    def encode(self) -> bytes:
        """Tag and timespec."""
        return _TAGGED_TIME.pack(Tag[self.PIECE.value], self.seconds, self.nanoseconds)

    def printable(self) -> dict[str, object]:
        """The stamp."""
        return {"seconds": self.seconds, "nanoseconds": self.nanoseconds}


class KeepAlive2(_Stamped):
    """Ping with the sender's unix time."""

    __slots__ = ()
    PIECE = Piece.KEEPALIVE2


class KeepAlive2Ack(_Stamped):
    """The ping's stamp, echoed."""

    __slots__ = ()
    PIECE = Piece.KEEPALIVE2_ACK


@dataclass(slots=True)
class Close(Frame):
    """The sender ends the session."""

    PIECE = Piece.CLOSE

    def encode(self) -> bytes:
        """The tag."""
        return bytes([Tag.CLOSE])


_SMALL_SIZES: dict[int, int] = {
    Tag.CLOSE: 1,
    Tag.KEEPALIVE: 1,
    Tag.ACK: _TAGGED_SEQ.size,
    Tag.KEEPALIVE2: _TAGGED_TIME.size,
    Tag.KEEPALIVE2_ACK: _TAGGED_TIME.size,
}


def cut_small(view: memoryview, start: int, end: int) -> tuple[int, Frame] | None:
    """The piece other than a message at ``view[start:end]``, which is not empty, and where it ends.

    Returns:
        None while it is incomplete.

    Raises:
        PeerError: UNKNOWN_TAG; UNEXPECTED_FRAME for the tag of a reply.
    """
    number = view[start]
    size = _SMALL_SIZES.get(number)
    if size is None:
        raise PeerError(FaultReason.UNEXPECTED_FRAME, f"{_known_tag(number).name} in the message stream")
    stop = start + size
    if stop > end:
        return None
    if number == Tag.ACK:
        return stop, Ack(_TAGGED_SEQ.unpack_from(view, start)[1])
    if number == Tag.KEEPALIVE2:
        return stop, KeepAlive2(*_TAGGED_TIME.unpack_from(view, start)[1:])
    if number == Tag.KEEPALIVE2_ACK:
        return stop, KeepAlive2Ack(*_TAGGED_TIME.unpack_from(view, start)[1:])
    return stop, KeepAlive() if number == Tag.KEEPALIVE else Close()
