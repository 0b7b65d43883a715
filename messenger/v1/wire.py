"""The pieces of a v1 stream except messages (docs/protocol.md §3.1, §3.2), and the layout of messages (§3.7).

The stream has no framing: the type of the next piece follows from the previous ones. Each :class:`Piece` has a
class that encodes it, splits it off received bytes and prints it.
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
"""Flag of CONNECT and its reply: the session ends with its link. The acceptor's flag decides."""

_CONNECT = Struct("<QIIIIIIB")
_REPLY = Struct("<BQIIIIB")
_SEQ = Struct("<Q")
_TAGGED_SEQ = Struct("<BQ")
_TAGGED_TIME = Struct("<BII")
U32_MAX = (1 << 32) - 1
"""The largest global_seq, which is refused: it cannot be incremented."""
CONNECT_SEQ_LIMIT = 1 << 31
"""The largest connect_seq accepted from a peer: each fault of the session increments it, in 32 bits."""


class Tag(IntEnum):
    """Tags of replies and of the message stream (§3.1)."""

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
    """The pieces of a link, with the names that histories and breakpoints use."""

    BANNER = "BANNER"
    IDENTIFY = "IDENTIFY"
    """The addresses after the banner."""
    CONNECT = "CONNECT"
    CONNECT_REPLY = "CONNECT_REPLY"
    SEQ = "SEQ"
    """The in_seq after a reply with tag SEQ, and the connector's in_seq in response."""
    MSG = "MSG"
    ACK = "ACK"
    KEEPALIVE = "KEEPALIVE"
    KEEPALIVE2 = "KEEPALIVE2"
    KEEPALIVE2_ACK = "KEEPALIVE2_ACK"
    CLOSE = "CLOSE"


def tag_name(tag: int) -> str:
    """The name of a tag; its number if it is unknown."""
    return _TAGS[tag].name if tag in _TAGS else str(tag)


class Frame:
    """Base class of the pieces that are not messages."""

    __slots__ = ()
    PIECE: ClassVar[Piece]

    def encode(self) -> bytes:
        """Encode the piece."""
        raise NotImplementedError

    def printable(self) -> dict[str, object]:
        """The fields as JSON values; of authorizers only the length."""
        return {}


# ---- opening


@dataclass(slots=True)
class Banner(Frame):
    """The first bytes of both sides."""

    PIECE = Piece.BANNER

    def encode(self) -> bytes:
        """Encode the nine characters."""
        return BANNER

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The banner at the start of ``view`` and its size; None while it is incomplete.

        Raises:
            PeerError: V2_PEER or NOT_MSGR, as soon as the first wrong byte has arrived.
        """
        head = bytes(view[: len(BANNER)])
        if head != BANNER[: len(head)]:
            _refuse_banner(head)
            return None
        return (len(BANNER), cls()) if len(head) == len(BANNER) else None


def _refuse_banner(head: bytes) -> None:
    """Raise with a guess at what the peer is; return if the incomplete bytes may become a v2 banner."""
    if head[: len(V2_BANNER)] == V2_BANNER[: len(head)]:
        if len(head) < len(V2_BANNER):
            return
        raise PeerError(FaultReason.V2_PEER, "its banner is 'ceph v2': this is a v2 port")
    known = {b"HTTP": "an HTTP server", b"GET ": "an HTTP client", b"POST": "an HTTP client", b"SSH-": "ssh"}
    protocol = known.get(head[:4], "TLS" if head[:1] == b"\x16" else "")
    raise PeerError(
        FaultReason.NOT_MSGR, f"it starts with {head!r}" + (f", looks like {protocol}" if protocol else "")
    )


@dataclass(slots=True)
class ServerIdentify(Frame):
    """The acceptor's address, and the connector's address as the acceptor sees it."""

    PIECE = Piece.IDENTIFY
    server_addr: EntityAddr
    client_addr: EntityAddr

    def encode(self) -> bytes:
        """Encode two addresses in form A."""
        return self.server_addr.legacy_image() + self.client_addr.legacy_image()

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The two addresses at the start of ``view`` and their size; None while incomplete. Raises DecodeError."""
        if len(view) < 2 * ADDR_SIZE:
            return None
        return 2 * ADDR_SIZE, cls(_decode_addr(view[:ADDR_SIZE]), _decode_addr(view[ADDR_SIZE : 2 * ADDR_SIZE]))

    def printable(self) -> dict[str, object]:
        """The addresses."""
        return {"server_addr": str(self.server_addr), "client_addr": str(self.client_addr)}


@dataclass(slots=True)
class ClientIdentify(Frame):
    """The connector's address."""

    PIECE = Piece.IDENTIFY
    client_addr: EntityAddr

    def encode(self) -> bytes:
        """Encode the address in form A."""
        return self.client_addr.legacy_image()

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The address at the start of ``view`` and its size; None while incomplete. Raises DecodeError."""
        if len(view) < ADDR_SIZE:
            return None
        return ADDR_SIZE, cls(_decode_addr(view[:ADDR_SIZE]))

    def printable(self) -> dict[str, object]:
        """The address."""
        return {"client_addr": str(self.client_addr)}


def _decode_addr(view: memoryview) -> EntityAddr:
    """Decode form A whatever its first byte: this exchange has no other form (§1.3)."""
    return EntityAddr.decode(Decoder(bytes(4) + bytes(view[4:])))


def as_legacy(addr: EntityAddr) -> EntityAddr:
    """An address as the peer decodes it from form A, which does not contain the type (§1.3)."""
    return addr.with_type(AddressType.LEGACY if addr.ip else AddressType.NONE)


# ---- CONNECT and its reply


@dataclass(slots=True)
class Connect(Frame):
    """ceph_msg_connect with the authorizer: the connector requests a session."""

    PIECE = Piece.CONNECT
    features: int
    host_type: EntityType
    global_seq: int
    connect_seq: int
    protocol_version: int
    authorizer_protocol: int = 0
    """Authentication method; 0 without an authorizer."""
    flags: int = 0
    authorizer: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Encode 33 bytes and the authorizer."""
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
        """The CONNECT at the start of ``view`` and its size; None while it is incomplete.

        Raises:
            PeerError: OVERSIZE: the authorizer is longer than ``max_bytes``; MALFORMED: unknown entity type.
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
        """Size of the CONNECT at the start of ``view`` with its authorizer; 0 while its head is incomplete."""
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
"""Tags that a reply to CONNECT may have."""


@dataclass(slots=True)
class ConnectReply(Frame):
    """ceph_msg_connect_reply with the authorizer reply or challenge."""

    PIECE = Piece.CONNECT_REPLY
    tag: Tag
    features: int
    global_seq: int = 0
    connect_seq: int = 0
    protocol_version: int = 0
    flags: int = 0
    authorizer: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Encode 26 bytes and the authorizer reply."""
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
        """The reply at the start of ``view`` and its size; None while it is incomplete.

        Raises:
            PeerError: OVERSIZE: the authorizer reply is longer than ``max_bytes``; UNKNOWN_TAG, UNEXPECTED_FRAME.
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
        """Size of the reply at the start of ``view`` with its authorizer reply; 0 while its head is incomplete."""
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
    """The in_seq of the sender, exchanged before a session continues (§3.6)."""

    PIECE = Piece.SEQ
    seq: int

    def encode(self) -> bytes:
        """Encode 8 bytes."""
        return _SEQ.pack(self.seq)

    @classmethod
    def cut(cls, view: memoryview) -> tuple[int, Self] | None:
        """The in_seq at the start of ``view`` and its size; None while it is incomplete."""
        return (_SEQ.size, cls(*_SEQ.unpack_from(view))) if len(view) >= _SEQ.size else None

    def printable(self) -> dict[str, object]:
        """The in_seq."""
        return {"seq": self.seq}


# ---- the stream


@dataclass(slots=True)
class Ack(Frame):
    """Acknowledges all messages up to ``seq``."""

    PIECE = Piece.ACK
    seq: int

    def encode(self) -> bytes:
        """Encode the tag and the seq."""
        return _TAGGED_SEQ.pack(Tag.ACK, self.seq)

    def printable(self) -> dict[str, object]:
        """The seq."""
        return {"seq": self.seq}


@dataclass(slots=True)
class KeepAlive(Frame):
    """A keepalive without an answer, for peers without MSGR_KEEPALIVE2."""

    PIECE = Piece.KEEPALIVE

    def encode(self) -> bytes:
        """Encode the tag."""
        return bytes([Tag.KEEPALIVE])


@dataclass(slots=True)
class _Stamped(Frame):
    seconds: int
    nanoseconds: int

    def encode(self) -> bytes:
        """Encode the tag and a timespec."""
        return _TAGGED_TIME.pack(Tag[self.PIECE.value], self.seconds, self.nanoseconds)

    def printable(self) -> dict[str, object]:
        """The time."""
        return {"seconds": self.seconds, "nanoseconds": self.nanoseconds}


class KeepAlive2(_Stamped):
    """A keepalive with the sender's unix time."""

    __slots__ = ()
    PIECE = Piece.KEEPALIVE2


class KeepAlive2Ack(_Stamped):
    """The time of the received keepalive, echoed."""

    __slots__ = ()
    PIECE = Piece.KEEPALIVE2_ACK


@dataclass(slots=True)
class Close(Frame):
    """The sender ends the session."""

    PIECE = Piece.CLOSE

    def encode(self) -> bytes:
        """Encode the tag."""
        return bytes([Tag.CLOSE])


_SMALL_SIZES: dict[int, int] = {
    Tag.CLOSE: 1,
    Tag.KEEPALIVE: 1,
    Tag.ACK: _TAGGED_SEQ.size,
    Tag.KEEPALIVE2: _TAGGED_TIME.size,
    Tag.KEEPALIVE2_ACK: _TAGGED_TIME.size,
}


def cut_small(view: memoryview, start: int, end: int) -> tuple[int, Frame] | None:
    """Split off the small frame at ``view[start:end]``, which is not empty.

    Returns:
        The end of the frame, and the frame; None while it is incomplete.

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
