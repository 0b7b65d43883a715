"""The two sides of a recorded link, as its handshake shows them: the inputs of a replay.

Our messenger takes its name, addresses, feature masks, policy and options from here, and its random values:
cookies, authentication payloads, keys. Everything that it decides itself is compared with the record instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from messenger.cephx.ciphers import CIPHERS, KeyType
from messenger.cephx.exchange import AuthResult
from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import LocalError, PeerError
from messenger.v1.existing import protocol_version
from messenger.v1.wire import (
    ClientIdentify,
    Connect,
    ConnectReply,
    ServerIdentify,
    as_legacy,
)
from messenger.v1.wire import Frame as Piece
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import (
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    ClientIdent,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Hello,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    Tag,
    decode_control,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook, LinkKeys

_TAGS = {tag.name: tag for tag in Tag}
_MOST_AUTHORIZER_BYTES = 1 << 20
_FINAL = frozenset({V1Tag.READY, V1Tag.SEQ})
_BEFORE_AUTHORIZERS = frozenset({V1Tag.BADPROTOVER, V1Tag.FEATURES})
_SERVERS = (EntityType.MON, EntityType.OSD, EntityType.MDS, EntityType.MGR)
_NO_SESSION_KEY = AuthResult(0)


@dataclass(slots=True)
class Side:
    """One side of a link, as far as its handshake shows it."""

    kind: EntityType | None = None
    number: int | None = None
    addrs: AddrVec | None = None
    msgr2_features: int = 0
    features: int | None = None
    """Supported features; None if unknown."""
    required: int | None = None
    global_seqs: list[int] = field(default_factory=list)
    """All its global_seqs, in their order."""
    cookie: int = 0
    """The cookie that it drew for a new session; 0 if none."""
    lossy: bool | None = None
    """The lossy flag of its CLIENT_IDENT, SERVER_IDENT, CONNECT or last reply."""


@dataclass(slots=True)
class Handshake:
    """The handshake of one link."""

    frames: Sequence[DecodedFrame]
    book: KeyBook
    client: Side = field(default_factory=Side)
    server: Side = field(default_factory=Side)
    target: EntityAddr | None = None
    """The dialled address."""
    seen_client: EntityAddr | None = None
    """The connector's address as the acceptor saw it."""
    requests: list[tuple[int, bytes]] = field(default_factory=list)
    """Authentication: methods and payloads that the connector sent."""
    replies: list[ControlFrame | ConnectReply] = field(default_factory=list)
    """Authentication: answers of the acceptor; on v1, those to authorizers that it examined."""
    offered_modes: list[int] = field(default_factory=list)
    con_mode: int | None = None
    result: AuthResult = _NO_SESSION_KEY
    session_key: CryptoKey | None = None
    request: CompressionRequest | None = None
    done: CompressionDone | None = None
    resumes: bool = False
    """True if it first tries to resume a session."""
    resumed: bool = False
    """True if it resumed a session that both sides had."""
    problem: str = ""
    """Reason why it cannot be replayed; empty if it can."""

    def __post_init__(self) -> None:
        keys = LinkKeys(self.book)
        try:
            if any(frame.protocol == "v1" for frame in self.frames):
                self._read_v1(keys)
            else:
                self._read_v2(keys)
        except (PeerError, LocalError) as error:
            self.problem = f"its handshake does not decode: {error}"
        if keys.missing and not self.problem:
            self.problem = f"missing: {keys.missing}"

    def side(self, direction: Direction) -> Side:
        """Return the sender in a direction."""
        return self.client if direction is Direction.TO_SERVER else self.server

    @property
    def client_addr(self) -> EntityAddr | None:
        """The first of the connector's own addresses; None if unknown."""
        return self.client.addrs.front if self.client.addrs else None

    @property
    def lasting(self) -> bool:
        """True if the session may be dialled again, because neither side announces it as lossy."""
        return not (self.client.lossy or self.server.lossy)

    @property
    def service_payloads(self) -> tuple[list[bytes], bytes]:
        """The challenges of the acceptor, and its last answer."""
        challenges: list[bytes] = []
        done = b""
        for reply in self.replies:
            if isinstance(reply, AuthReplyMore):
                challenges.append(bytes(reply.auth_payload))
            elif isinstance(reply, AuthDone):
                done = bytes(reply.auth_payload)
            elif isinstance(reply, ConnectReply) and reply.tag is V1Tag.CHALLENGE_AUTHORIZER:
                challenges.append(reply.authorizer)
            elif isinstance(reply, ConnectReply):
                done = reply.authorizer
        return challenges, done

    # ---- v2

    def _read_v2(self, keys: LinkKeys) -> None:
        for frame in self.frames:
            if frame.tag == "BANNER":
                self.side(frame.direction).msgr2_features = int(str(frame.fields.get("supported", 0)))
            control = control_of(frame)
            if control is None:
                continue
            keys.control(frame.direction, control)
            self.resumed |= isinstance(control, SessionReconnectOk)
            if isinstance(control, AuthDone):
                self._keep_keys(keys, control)
            self._take(frame.direction, control)

    def _keep_keys(self, keys: LinkKeys, done: AuthDone) -> None:
        key = self.session_key = keys.session_key
        self.result = AuthResult(
            done.global_id,
            key.secret if key else b"",
            keys.connection_secret or b"",
            session_key_type=KeyType(key.type) if key and key.type in CIPHERS else KeyType.NONE,
        )

    def _take(self, direction: Direction, control: ControlFrame) -> None:
        side = self.side(direction)
        match control:
            case Hello():
                side.kind = control.entity_type
                if direction is Direction.TO_SERVER:
                    self.target = control.peer_addr
                else:
                    self.seen_client = control.peer_addr
            case AuthRequest():
                self.offered_modes = control.preferred_modes
                self.requests.append((control.method, bytes(control.auth_payload)))
            case AuthRequestMore():
                self.requests.append((0, bytes(control.auth_payload)))
            case AuthReplyMore() | AuthBadMethod():
                self.replies.append(control)
            case AuthDone():
                self.replies.append(control)
                self.con_mode = control.con_mode
            case CompressionRequest():
                self.request = control
            case CompressionDone():
                self.done = control
            case ClientIdent():
                self._ident(side, control)
                side.cookie = control.client_cookie
                self.target = control.target_addr
            case ServerIdent():
                self._ident(side, control)
                side.cookie = control.server_cookie
            case SessionReconnect():
                self.resumes |= not side.global_seqs
                side.addrs = control.addrs
                side.global_seqs.append(control.global_seq)
                side.lossy = False

    @staticmethod
    def _ident(side: Side, ident: ClientIdent | ServerIdent) -> None:
        side.addrs, side.number = ident.addrs, ident.gid
        side.features, side.required = ident.features_supported, ident.features_required
        side.global_seqs.append(ident.global_seq)
        side.lossy = bool(ident.flags & 1)

    # ---- v1

    def _read_v1(self, keys: LinkKeys) -> None:
        for frame in self.frames:
            piece = piece_of(frame)
            if piece is None:
                continue
            keys.v1_piece(frame.direction, piece)
            match piece:
                case ServerIdentify():
                    self.target, self.seen_client = piece.server_addr, piece.client_addr
                    self.server.addrs = AddrVec((as_legacy(piece.server_addr),))
                case ClientIdentify():
                    self.client.addrs = AddrVec((as_legacy(piece.client_addr),))
                case Connect():
                    self._connect(piece)
                case ConnectReply():
                    self._reply(piece, keys)

    def _server_kind(self, version: int) -> EntityType | None:
        """Return the acceptor's type: from its messages or its protocol version, since v1 does not announce it."""
        for frame in self.frames:
            if frame.direction is Direction.TO_CLIENT and frame.message is not None and frame.message.src:
                return EntityType.from_label(frame.message.src.partition(".")[0])
        client = self.client.kind or EntityType.CLIENT
        fitting = (each for each in _SERVERS if protocol_version(each, client, connecting=False) == version)
        return next(fitting, None)

    def _connect(self, connect: Connect) -> None:
        side = self.client
        self.resumes |= bool(connect.connect_seq) and not side.global_seqs
        side.kind, side.features = connect.host_type, connect.features
        side.global_seqs.append(connect.global_seq)
        side.lossy = bool(connect.flags & 1)
        self.requests.append((connect.authorizer_protocol, connect.authorizer))

    def _reply(self, reply: ConnectReply, keys: LinkKeys) -> None:
        if self.requests and self.requests[-1][1] and reply.tag not in _BEFORE_AUTHORIZERS:
            self.replies.append(reply)
        if reply.protocol_version and self.server.kind is None:
            self.server.kind = self._server_kind(reply.protocol_version)
        if reply.tag not in _FINAL:
            return
        self.resumed = reply.connect_seq > 1
        self.server.features = reply.features
        self.server.global_seqs.append(reply.global_seq)
        self.server.lossy = bool(reply.flags & 1)
        key = keys.session_key
        if key is not None and key.type in CIPHERS:
            self.session_key = key
            self.result = AuthResult(0, key.secret, session_key_type=KeyType(key.type))


def control_of(frame: DecodedFrame) -> ControlFrame | None:
    """Return a frame of v2 as a value; None for a banner, a message or an unreadable frame."""
    tag = _TAGS.get(frame.tag)
    if tag is None or tag is Tag.MESSAGE or not frame.segments:
        return None
    segments = frame.segments
    return decode_control(int(tag), (segments[0], segments[1], segments[2], segments[3]), last=True)


def piece_of(frame: DecodedFrame) -> Piece | None:
    """Return a part of a v1 handshake as a value; None for other frames."""
    view = memoryview(frame.wire)
    found: tuple[int, Piece] | None = None
    match frame.tag:
        case "IDENTIFY":
            kind = ClientIdentify if frame.direction is Direction.TO_SERVER else ServerIdentify
            found = kind.cut(view)
        case "CONNECT":
            found = Connect.cut(view, _MOST_AUTHORIZER_BYTES)
        case "CONNECT_REPLY":
            found = ConnectReply.cut(view, _MOST_AUTHORIZER_BYTES)
    return found[1] if found else None
