"""Following a link from outside: both byte streams in, frames out (protocol.md §4; §3 in ``follow_v1.py``).

The fault proxy and the simulated network use it to know where frames begin and end. In secure mode that takes
keys: those of the service (authorizers) or of the principal (towards a monitor); then the connection secret is
read out of AUTH_DONE and both directions are decrypted from there on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import and_

from messenger.cephx.authorizer import open_authorizer, open_reply
from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.cephx.keys import CryptoKey
from messenger.cephx.session_reply import decode_session_reply
from messenger.cephx.structures import AuthMode
from messenger.denc.codec import Buffer, Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import FaultReason, PeerError
from messenger.v2.compression import DecompressingReader
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.framing import ABORTED, FrameReader, RawReader
from messenger.v2.revision import crc_frames, secure_frames
from messenger.v2.wire import (
    V1_BANNER,
    AuthDone,
    AuthRequest,
    AuthRequestMore,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Tag,
    decode_banner,
    decode_control,
    printable_message,
    tag_name,
)
from toolkit.dissect.follow_v1 import V1Conversation

_MAX_FRAME_BYTES = 1 << 30


class Direction(StrEnum):
    """Which way bytes go: ``to_server`` is what the connector sends."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"

    @property
    def other(self) -> "Direction":
        """The opposite way."""
        return Direction.TO_CLIENT if self is Direction.TO_SERVER else Direction.TO_SERVER


@dataclass(frozen=True, slots=True)
class Keys:
    """What a follower may know: nothing is needed for crc mode."""

    services: Mapping[EntityType, Mapping[int, CryptoKey]] = field(default_factory=dict)
    """Keys of services by secret_id, for links that present an authorizer."""
    principals: Mapping[AuthName, CryptoKey] = field(default_factory=dict)
    """Keys of entities, for their links to monitors."""


@dataclass(slots=True)
class SeenFrame:
    """One whole frame (or the banner) in one direction."""

    direction: Direction
    tag: str
    index: int
    """Counted from 0 in its direction."""
    offset: int
    """Where it begins in its direction's byte stream."""
    raw: bytes
    """As it was on the wire."""
    fields: dict[str, object]


class _Stream:
    """One direction's bytes and its frame reader."""

    def __init__(self) -> None:
        self.raw_reader: RawReader
        self.reader: FrameReader
        self.pending = bytearray()
        self.msgr2_features: int | None = None
        """What the sender's banner advertises, once it was seen."""
        self.offset = 0
        self.index = 0

    def consists_of(self, frames: RawReader) -> None:
        """From here on it is read so."""
        self.raw_reader = self.reader = frames


class LinkFollower:
    """Both directions of one link, from its first byte on."""

    def __init__(self, keys: Keys | None = None) -> None:
        self._keys = keys or Keys()
        self._streams = {direction: _Stream() for direction in Direction}
        self._session_key: CryptoKey | None = None
        self._principal_key: CryptoKey | None = None
        self._compression_asked = False
        self._v1: V1Conversation | None = None
        self.con_mode = ConMode.CRC
        self.algorithm = Algorithm.NONE
        self.blind: PeerError | None = None
        """Why frames can no longer be told apart: bytes that are no frames, or a secure link without its key."""

    def pending(self, direction: Direction) -> bytes:
        """Bytes of a frame that is not complete yet."""
        return bytes(self._streams[direction].pending)

    def feed(self, direction: Direction, chunk: Buffer) -> list[SeenFrame]:
        """The frames that ``chunk`` completes. Nothing comes any more once the follower is blind."""
        stream = self._streams[direction]
        stream.pending += chunk
        frames: list[SeenFrame] = []
        while self.blind is None:
            try:
                frame = self._next(direction, stream)
            except PeerError as error:
                # A copy: the error's own traceback holds slices of ``pending``, which must be free to grow.
                self.blind = PeerError(error.reason, error.detail)
                break
            if frame is None:
                break
            frames.append(frame)
        return frames

    def _next(self, direction: Direction, stream: _Stream) -> SeenFrame | None:
        with memoryview(stream.pending) as view:
            found = self._cut_frame(direction, stream, view)
            if found is None:
                return None
            size, tag, fields = found
            raw = bytes(view[:size])
        frame = SeenFrame(direction, tag, stream.index, stream.offset, raw, fields)
        del stream.pending[:size]
        stream.offset += size
        stream.index += 1
        return frame

    def _cut_frame(
        self, direction: Direction, stream: _Stream, view: memoryview
    ) -> tuple[int, str, dict[str, object]] | None:
        if self._v1 is None and stream.msgr2_features is None and view[: len(V1_BANNER)] == V1_BANNER:
            self._v1 = V1Conversation(_MAX_FRAME_BYTES)
        if self._v1 is not None:
            with view[:] as whole:
                return self._v1.cut(whole, to_server=direction is Direction.TO_SERVER)
        if stream.msgr2_features is None:
            banner = decode_banner(view)
            if banner is None:
                return None
            size, stream.msgr2_features, required = banner
            stream.consists_of(crc_frames(self._msgr2_features, _MAX_FRAME_BYTES)[0])
            self._streams[direction.other].consists_of(crc_frames(self._msgr2_features, _MAX_FRAME_BYTES)[0])
            return size, "BANNER", {"supported": stream.msgr2_features, "required": required}
        with view[:] as whole:
            found = stream.reader.next_frame(whole, 0, len(whole), owned=False)
        if found is None:
            return None
        size, tag, *segments = found
        if tag == ABORTED:
            return size, "ABORTED", {}
        if tag == Tag.MESSAGE:
            return size, Tag.MESSAGE.name, printable_message(tuple(segments))
        control = decode_control(tag, tuple(segments))
        self._follow_auth(direction, control)
        self._follow_compression(control)
        return size, tag_name(tag), control.printable()

    def _follow_auth(self, direction: Direction, frame: ControlFrame) -> None:
        """Pick up the keys as they pass."""
        if isinstance(frame, AuthRequest | AuthRequestMore) and direction is Direction.TO_SERVER:
            if isinstance(frame, AuthRequest) and frame.method == AuthMethod.CEPHX:
                self._open_request(frame.auth_payload)
        elif isinstance(frame, AuthDone) and frame.con_mode == ConMode.SECURE:
            secret = self._connection_secret(frame.auth_payload)
            self.con_mode = ConMode.SECURE
            for towards, stream in self._streams.items():
                received_by_client = towards is Direction.TO_CLIENT
                stream.consists_of(
                    secure_frames(self._msgr2_features, _MAX_FRAME_BYTES, secret, connector=received_by_client)[0]
                )

    @property
    def _msgr2_features(self) -> int:
        """Those in force, as far as the banners have been seen; no frame precedes the banners."""
        masks = [stream.msgr2_features for stream in self._streams.values() if stream.msgr2_features is not None]
        return reduce(and_, masks)

    def _follow_compression(self, frame: ControlFrame) -> None:
        """Know from which frame on, and how, both directions are compressed."""
        if isinstance(frame, CompressionRequest):
            self._compression_asked = frame.is_compress
        elif isinstance(frame, CompressionDone) and frame.is_compress and self._compression_asked:
            if frame.method not in list(Algorithm)[1:]:
                raise PeerError(FaultReason.COMPRESSION, f"algorithm {frame.method} is not known")
            self.algorithm = Algorithm(frame.method)
            for stream in self._streams.values():
                stream.reader = DecompressingReader(stream.raw_reader, new_compressor(self.algorithm))

    def _open_request(self, payload: bytes) -> None:
        self._session_key = self._principal_key = None
        try:
            if payload[:1] == bytes([AuthMode.MON]):
                self._principal_key = self._keys.principals.get(AuthName.decode(Decoder(payload[1:])))
            else:
                self._session_key = open_authorizer(payload, self._keys.services).info.session_key
        except PeerError:
            return  # matters only if the link turns out to be secure

    def _connection_secret(self, payload: bytes) -> bytes:
        if self._session_key is not None:
            return open_reply(self._session_key, payload).connection_secret
        if self._principal_key is not None:
            return decode_session_reply(payload, self._principal_key).connection_secret
        raise PeerError(FaultReason.AUTH_TAG, "secure link, and the key that would open it is not known")
