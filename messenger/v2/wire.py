"""Banner and control frames of msgr v2, and the MESSAGE header (docs/protocol.md §4.2, §4.3, §4.8).

Each control frame is a small dataclass. Its fields are those of §4.3 in wire order, each annotated with its kind;
from these annotations come the codec, the printable form and everything else that depends on the layout. Decoders
ignore trailing bytes, as real peers do.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Annotated, ClassVar, Self

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.layout import I32, I64, U32, U64, Blob, Bool, Kind, U32List, layout_of
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.messages.types import message_name

BANNER_PREFIX = b"ceph v2\n"
BANNER_HEAD_SIZE = len(BANNER_PREFIX) + 2
V1_BANNER = b"ceph v027"
_BANNER_FEATURES = Struct("<QQ")

FLAG_LOSSY = 1
"""Flag of CLIENT_IDENT and SERVER_IDENT: the session ends with its link."""

MESSAGE_HEADER = Struct("<QQHHHIHQBHH")
"""The fields named in :data:`MESSAGE_HEADER_FIELDS`."""
MESSAGE_HEADER_FIELDS = (
    "seq",
    "tid",
    "type",
    "priority",
    "version",
    "data_pre_padding_len",
    "data_off",
    "ack_seq",
    "flags",
    "compat_version",
    "reserved",
)

SIGNATURE_SIZE = 32


class Tag(IntEnum):
    """Frame tags (§4.3)."""

    HELLO = 1
    AUTH_REQUEST = 2
    AUTH_BAD_METHOD = 3
    AUTH_REPLY_MORE = 4
    AUTH_REQUEST_MORE = 5
    AUTH_DONE = 6
    AUTH_SIGNATURE = 7
    CLIENT_IDENT = 8
    SERVER_IDENT = 9
    IDENT_MISSING_FEATURES = 10
    SESSION_RECONNECT = 11
    SESSION_RESET = 12
    SESSION_RETRY = 13
    SESSION_RETRY_GLOBAL = 14
    SESSION_RECONNECT_OK = 15
    WAIT = 16
    MESSAGE = 17
    KEEPALIVE2 = 18
    KEEPALIVE2_ACK = 19
    ACK = 20
    COMPRESSION_REQUEST = 21
    COMPRESSION_DONE = 22


_TAGS = {int(tag): tag.name for tag in Tag}


def encode_banner(supported: int, required: int) -> bytes:
    """The banner, with its 16-byte payload of msgr2 feature masks (§2.5)."""
    payload = _BANNER_FEATURES.pack(supported, required)
    return BANNER_PREFIX + len(payload).to_bytes(2, "little") + payload


def decode_banner(view: memoryview) -> tuple[int, int, int] | None:
    """Size, supported and required features of the banner at the start of ``view``; None while it is incomplete.

    Raises:
        PeerError: V1_PEER, NOT_MSGR or BANNER, as soon as the first wrong byte has arrived.
    """
    head = bytes(view[:BANNER_HEAD_SIZE])
    if head[: len(BANNER_PREFIX)] != BANNER_PREFIX[: len(head)]:
        _refuse_banner(head)
    if len(head) < BANNER_HEAD_SIZE:
        return None
    size = int.from_bytes(head[-2:], "little")
    if size < _BANNER_FEATURES.size:
        raise PeerError(
            FaultReason.BANNER, f"payload of {size} bytes, at least {_BANNER_FEATURES.size} are needed"
        )
    if len(view) < BANNER_HEAD_SIZE + size:
        return None
    supported, required = _BANNER_FEATURES.unpack_from(view, BANNER_HEAD_SIZE)
    return BANNER_HEAD_SIZE + size, supported, required


def _refuse_banner(head: bytes) -> None:
    """Raise with a guess at what the peer is; return if the incomplete bytes may become a v1 banner."""
    if head[: len(V1_BANNER)] == V1_BANNER[: len(head)]:
        if len(head) < len(V1_BANNER):
            return
        raise PeerError(FaultReason.V1_PEER, "its banner is 'ceph v027': this is a v1 port")
    known = {b"HTTP": "an HTTP server", b"GET ": "an HTTP client", b"POST": "an HTTP client", b"SSH-": "ssh"}
    protocol = known.get(head[:4], "")
    if not protocol and head[:1] == b"\x16":
        protocol = "TLS"
    raise PeerError(
        FaultReason.NOT_MSGR, f"it starts with {head!r}" + (f", looks like {protocol}" if protocol else "")
    )


Signature = Annotated[
    bytes, Kind(Encoder.raw, lambda d: d.raw(SIGNATURE_SIZE), lambda value: f"{len(value)} bytes")
]
WireEntityType = Annotated[
    EntityType, Kind(Encoder.u8, lambda d: EntityType.from_wire(d.u8()), lambda value: value.label)
]


class ControlFrame:
    """Base class of the control frames, with a codec that follows the kinds of the fields."""

    __slots__ = ()
    TAG: ClassVar[Tag]

    def encode(self) -> bytes:
        """Encode the frame's single segment."""
        encoder = Encoder()
        for name, kind, _ in layout_of(type(self)):
            kind.encode(encoder, getattr(self, name))
        return encoder.getvalue()

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Decode the frame's segment; raises DecodeError."""
        decoder = Decoder(payload)
        return cls(*[kind.decode(decoder) for _, kind, _ in layout_of(cls)])

    def printable(self) -> dict[str, object]:
        """The fields as JSON values; of secrets and blobs only the length."""
        return {name: kind.show(getattr(self, name)) for name, kind, _ in layout_of(type(self))}


@dataclass(slots=True)
class Hello(ControlFrame):
    """The sender's entity type, and the receiver's address as the sender sees it."""

    TAG = Tag.HELLO
    entity_type: WireEntityType
    peer_addr: EntityAddr


@dataclass(slots=True)
class AuthRequest(ControlFrame):
    """The client's authentication method, its preferred connection modes, and the method's first payload."""

    TAG = Tag.AUTH_REQUEST
    method: U32
    preferred_modes: U32List
    auth_payload: Blob


@dataclass(slots=True)
class AuthBadMethod(ControlFrame):
    """Refusal of the last authentication attempt, with the methods and modes that are allowed."""

    TAG = Tag.AUTH_BAD_METHOD
    method: U32
    result: I32
    allowed_methods: U32List
    allowed_modes: U32List


@dataclass(slots=True)
class AuthReplyMore(ControlFrame):
    """Next payload of the server; authentication goes on."""

    TAG = Tag.AUTH_REPLY_MORE
    auth_payload: Blob


@dataclass(slots=True)
class AuthRequestMore(ControlFrame):
    """Next payload of the client."""

    TAG = Tag.AUTH_REQUEST_MORE
    auth_payload: Blob


@dataclass(slots=True)
class AuthDone(ControlFrame):
    """Authentication succeeded; contains the connection mode that is used from here on."""

    TAG = Tag.AUTH_DONE
    global_id: U64
    con_mode: U32
    auth_payload: Blob


@dataclass(slots=True)
class AuthSignature(ControlFrame):
    """HMAC over all bytes that the sender has received so far (§4.7)."""

    TAG = Tag.AUTH_SIGNATURE
    signature: Signature


@dataclass(slots=True)
class ClientIdent(ControlFrame):
    """The connector requests a new session."""

    TAG = Tag.CLIENT_IDENT
    addrs: AddrVec
    target_addr: EntityAddr
    gid: I64
    global_seq: U64
    features_supported: U64
    features_required: U64
    flags: U64
    client_cookie: U64


@dataclass(slots=True)
class ServerIdent(ControlFrame):
    """The acceptor confirms a new session."""

    TAG = Tag.SERVER_IDENT
    addrs: AddrVec
    gid: I64
    global_seq: U64
    features_supported: U64
    features_required: U64
    flags: U64
    server_cookie: U64


@dataclass(slots=True)
class IdentMissingFeatures(ControlFrame):
    """Features that the acceptor requires and the connector lacks."""

    TAG = Tag.IDENT_MISSING_FEATURES
    features: U64


@dataclass(slots=True)
class SessionReconnect(ControlFrame):
    """The connector requests to continue a session; ``msg_seq`` is its in_seq."""

    TAG = Tag.SESSION_RECONNECT
    addrs: AddrVec
    client_cookie: U64
    server_cookie: U64
    global_seq: U64
    connect_seq: U64
    msg_seq: U64


@dataclass(slots=True)
class SessionReset(ControlFrame):
    """The acceptor lacks the session; with ``full`` the connector must drop its queue, too."""

    TAG = Tag.SESSION_RESET
    full: Bool


@dataclass(slots=True)
class SessionRetry(ControlFrame):
    """The connector's connect_seq is below this one."""

    TAG = Tag.SESSION_RETRY
    connect_seq: U64


@dataclass(slots=True)
class SessionRetryGlobal(ControlFrame):
    """The connector's global_seq is below this one."""

    TAG = Tag.SESSION_RETRY_GLOBAL
    global_seq: U64


@dataclass(slots=True)
class SessionReconnectOk(ControlFrame):
    """The acceptor continues the session; ``msg_seq`` is its in_seq."""

    TAG = Tag.SESSION_RECONNECT_OK
    msg_seq: U64


@dataclass(slots=True)
class Wait(ControlFrame):
    """The connector lost a connection race: the acceptor dials."""

    TAG = Tag.WAIT


@dataclass(slots=True)
class KeepAlive2(ControlFrame):
    """A keepalive with the sender's unix time."""

    TAG = Tag.KEEPALIVE2
    seconds: U32
    nanoseconds: U32


@dataclass(slots=True)
class KeepAlive2Ack(ControlFrame):
    """The time of the received keepalive, echoed."""

    TAG = Tag.KEEPALIVE2_ACK
    seconds: U32
    nanoseconds: U32


@dataclass(slots=True)
class Ack(ControlFrame):
    """Acknowledges all messages up to ``seq``."""

    TAG = Tag.ACK
    seq: U64


@dataclass(slots=True)
class CompressionRequest(ControlFrame):
    """Request of the connector: True to compress, and its algorithms, the preferred one first (§4.10)."""

    TAG = Tag.COMPRESSION_REQUEST
    is_compress: Bool
    methods: U32List


@dataclass(slots=True)
class CompressionDone(ControlFrame):
    """Answer of the acceptor: whether both sides compress from here on, and the algorithm."""

    TAG = Tag.COMPRESSION_DONE
    is_compress: Bool
    method: U32


CONTROL_FRAMES: dict[int, type[ControlFrame]] = {
    frame.TAG: frame
    for frame in (
        Hello,
        AuthRequest,
        AuthBadMethod,
        AuthReplyMore,
        AuthRequestMore,
        AuthDone,
        AuthSignature,
        ClientIdent,
        ServerIdent,
        IdentMissingFeatures,
        SessionReconnect,
        SessionReset,
        SessionRetry,
        SessionRetryGlobal,
        SessionReconnectOk,
        Wait,
        KeepAlive2,
        KeepAlive2Ack,
        Ack,
        CompressionRequest,
        CompressionDone,
    )
}


def decode_control(tag: int, segments: tuple[Buffer, ...], *, last: bool = False) -> ControlFrame:
    """Decode a control frame; with ``last``, from the last of several segments.

    Raises:
        PeerError: UNKNOWN_TAG; UNEXPECTED_FRAME for a tag that is no control frame, or belongs to a feature that
            was not negotiated; FRAME when a control frame has more than one segment without ``last``; MALFORMED.
    """
    frame = CONTROL_FRAMES.get(tag)
    if frame is None:
        reason = FaultReason.UNEXPECTED_FRAME if tag in _TAGS else FaultReason.UNKNOWN_TAG
        raise PeerError(reason, tag_name(tag))
    payload = segments[0]
    if any(segments[1:]):
        if not last:
            raise PeerError(FaultReason.FRAME, f"control frame {frame.TAG.name} with several segments")
        payload = next(segment for segment in reversed(segments) if segment)
    try:
        return frame.decode(payload)
    except DecodeError as error:
        raise DecodeError(f"{frame.TAG.name}: {error.detail}") from None


def printable_message(segments: tuple[Buffer, ...]) -> dict[str, object]:
    """The header fields of a MESSAGE frame and the lengths of its parts, as JSON values.

    Raises:
        DecodeError: the first segment is too short for a header.
    """
    header, front, middle, data = segments
    if len(header) < MESSAGE_HEADER.size:
        raise DecodeError(f"message header of {len(header)} bytes")
    seq, tid, type_, priority, version, _, _, ack_seq, _, compat_version, _ = MESSAGE_HEADER.unpack_from(header)
    return {
        "type": type_,
        "name": message_name(type_),
        "seq": seq,
        "tid": tid,
        "ack_seq": ack_seq,
        "priority": priority,
        "version": version,
        "compat_version": compat_version,
        "front": len(front),
        "middle": len(middle),
        "data": len(data),
    }


def tag_name(tag: int) -> str:
    """The name of a tag; its number if it is unknown."""
    return _TAGS.get(tag, str(tag))
