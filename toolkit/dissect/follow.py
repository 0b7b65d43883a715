"""Follows a link from outside: both byte streams in, frames out (docs/protocol.md §4; §3 in ``follow_v1.py``).

The fault proxy and the simulated network use it to find frame borders. In secure mode that requires keys: the
connection secret is read from AUTH_DONE, and both directions are decrypted from there on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import and_

from messenger.cephx.exchange import ConMode
from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES
from messenger.errors import FaultReason, PeerError
from messenger.v1.framing import MessageWriter, stream_form
from messenger.v2.compression import DecompressingReader
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.framing import ABORTED, CrcReader, FrameReader, RawReader, RawWriter, SecureReader, SecureWriter
from messenger.v2.onwire import StreamCipher
from messenger.v2.rev0 import Rev0CrcReader, Rev0SecureReader, Rev0SecureWriter
from messenger.v2.revision import crc_frames, secure_frames
from messenger.v2.wire import (
    MESSAGE_HEADER,
    V1_BANNER,
    AuthDone,
    ClientIdent,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    ServerIdent,
    Tag,
    decode_banner,
    decode_control,
    printable_message,
    tag_name,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow_v1 import V1Conversation
from toolkit.dissect.keys import KEY_MESSAGES, KeyBook, LinkKeys

_MAX_FRAME_BYTES = 1 << 30


class Form(StrEnum):
    """Layout of a frame on the wire."""

    PLAIN = "plain"
    """The banner, or any part of msgr v1."""
    CRC = "crc"
    SECURE = "secure"
    REV0_CRC = "rev0 crc"
    """crc mode of msgr 2.0."""
    REV0_SECURE = "rev0 secure"


_COUNTER_BITS = {Form.SECURE: 64, Form.REV0_SECURE: 32}
"""Width of the nonce counter in bits, by form of the sealed frame (§4.6)."""
_SEALED = frozenset(_COUNTER_BITS)

_FORMS: Mapping[type, Form] = {
    CrcReader: Form.CRC,
    SecureReader: Form.SECURE,
    Rev0CrcReader: Form.REV0_CRC,
    Rev0SecureReader: Form.REV0_SECURE,
}


@dataclass(slots=True)
class SeenFrame:
    """One whole frame (or the banner) in one direction."""

    direction: Direction
    tag: str
    index: int
    """Its number in its direction, from 0."""
    offset: int
    """Offset of its first byte in its direction's stream."""
    raw: bytes
    """Its bytes on the wire."""
    fields: dict[str, object]
    form: Form = Form.PLAIN
    lengths: tuple[int, ...] = ()
    """Lengths of the four segments of a v2 frame, decompressed."""
    segments: tuple[Buffer, ...] = field(default=(), repr=False)
    """The segments of a v2 frame, decrypted and decompressed; of a v1 message its three parts."""
    link: int = 0
    """Number of the link, if several are followed."""
    nonces: int = 0
    """Number of cipher operations of its direction before it (§4.6)."""
    source: "LinkFollower | None" = field(default=None, repr=False, compare=False)
    """The follower that saw it, which has the state needed to write another frame in its place."""


class _Stream:
    """One direction's bytes and its frame reader."""

    def __init__(self) -> None:
        self.raw_reader: RawReader
        self.reader: FrameReader
        self.pending = bytearray()
        self.msgr2_features: int | None = None
        """Features in the sender's banner; None until the banner was seen."""
        self.offset = 0
        self.index = 0
        self.nonces = 0
        """Number of cipher operations up to the last whole frame."""

    def consists_of(self, frames: RawReader) -> None:
        """Read the stream by these frames from now on."""
        self.raw_reader = self.reader = frames


class LinkFollower:
    """Follows both directions of one link, from its first byte on.

    Args:
        book: known keys, shared with the followers of other links; not needed in crc mode.
    """

    def __init__(self, book: KeyBook | None = None) -> None:
        self.keys = LinkKeys(book or KeyBook())
        """The keys of this link."""
        self._streams = {direction: _Stream() for direction in Direction}
        self._compression_asked = False
        self._v1: V1Conversation | None = None
        self._segments: tuple[Buffer, ...] = ()
        """Segments of the last frame."""
        self._features = int(ALL_FEATURES)
        self.received = {direction: bytearray() for direction in Direction}
        """Bytes that each side sent until authentication was done: the peer's AUTH_SIGNATURE covers them
        (§4.7)."""
        self._authenticated = False
        self._secret = b""
        self.con_mode = ConMode.CRC
        self.algorithm = Algorithm.NONE
        self.blind: PeerError | None = None
        """Why frame borders are no longer known: bytes that are no frames, or a secure link without its key;
        else None."""

    def pending(self, direction: Direction) -> bytes:
        """Return the bytes of an incomplete frame."""
        return bytes(self._streams[direction].pending)

    def feed(self, direction: Direction, chunk: Buffer) -> list[SeenFrame]:
        """Return the frames that ``chunk`` completes; none once the follower is blind."""
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
        form = Form.PLAIN if stream.msgr2_features is None else _FORMS[type(stream.raw_reader)]
        self._segments = ()
        with memoryview(stream.pending) as view:
            found = self._cut_frame(direction, stream, view)
            if found is None:
                return None
            size, tag, fields = found
            raw = bytes(view[:size])
        lengths = () if form is Form.PLAIN else tuple(map(len, self._segments))
        frame = SeenFrame(
            *(direction, tag, stream.index, stream.offset, raw, fields, form, lengths, self._segments),
            nonces=stream.nonces,
            source=self,
        )
        if not self._authenticated and self._v1 is None:
            self.received[direction] += raw
            self._authenticated = tag == Tag.AUTH_DONE.name
        if form in _SEALED:
            stream.nonces = stream.raw_reader.cipher.used_nonces  # type: ignore[attr-defined] # by the form
        del stream.pending[:size]
        stream.offset += size
        stream.index += 1
        return frame

    def _cut_frame(
        self, direction: Direction, stream: _Stream, view: memoryview
    ) -> tuple[int, str, dict[str, object]] | None:
        if self._v1 is None and stream.msgr2_features is None and view[: len(V1_BANNER)] == V1_BANNER:
            self._v1 = V1Conversation(_MAX_FRAME_BYTES, self.keys)
        if self._v1 is not None:
            with view[:] as whole:
                cut = self._v1.cut(whole, direction)
                self._segments = self._v1.parts
                return cut
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
        self._segments = tuple(segments)
        if tag == ABORTED:
            return size, "ABORTED", {}
        if tag == Tag.MESSAGE:
            fields = printable_message(tuple(segments))
            type_ = MESSAGE_HEADER.unpack_from(segments[0])[2]
            if type_ in KEY_MESSAGES:
                self.keys.message(direction, type_, segments[1])
            return size, Tag.MESSAGE.name, fields
        control = decode_control(tag, tuple(segments))
        self._follow_auth(direction, control)
        self._follow_compression(control)
        if isinstance(control, ClientIdent | ServerIdent):
            self._features &= control.features_supported
        return size, tag_name(tag), control.printable()

    def _follow_auth(self, direction: Direction, frame: ControlFrame) -> None:
        """Learn the keys from a control frame."""
        self.keys.control(direction, frame)
        if isinstance(frame, AuthDone) and frame.con_mode == ConMode.SECURE:
            secret = self.keys.connection_secret
            if secret is None:
                missing = self.keys.missing
                detail = f"secure link, and the key that would open it is not known: {missing}"
                raise PeerError(FaultReason.AUTH_TAG, detail)
            self.con_mode, self._secret = ConMode.SECURE, secret
            for towards, stream in self._streams.items():
                received_by_client = towards is Direction.TO_CLIENT
                stream.consists_of(
                    secure_frames(self._msgr2_features, _MAX_FRAME_BYTES, secret, connector=received_by_client)[0]
                )

    # ---- to write other frames

    @property
    def features(self) -> int:
        """The features that both sides announced, as far as they were seen."""
        if self._v1 is not None:
            return self._v1.features
        return self._features

    @property
    def is_v1(self) -> bool:
        """True if the link uses msgr v1."""
        return self._v1 is not None

    def v1_writer(self) -> MessageWriter:
        """Return a writer of v1 messages in the sender's layout; it signs them if the key is known (§3.7).

        The address in an old header is blank, because receivers skip it.
        """
        return MessageWriter(self.keys.signer, **stream_form(self.features))

    def writer(self, frame: SeenFrame) -> tuple[RawWriter, StreamCipher | None]:
        """Return a writer for a v2 frame in place of ``frame``, and its cipher; None in crc mode."""
        if frame.form not in _SEALED:
            return crc_frames(self._msgr2_features, _MAX_FRAME_BYTES)[1], None
        connector = frame.direction is Direction.TO_SERVER
        writer = secure_frames(self._msgr2_features, _MAX_FRAME_BYTES, self._secret, connector=connector)[1]
        assert isinstance(writer, SecureWriter | Rev0SecureWriter)
        if frame.nonces:
            writer.cipher.use_up((1 << _COUNTER_BITS[frame.form]) - frame.nonces)
        return writer, writer.cipher

    @property
    def _msgr2_features(self) -> int:
        """The features in force, as far as banners were seen; no frame precedes the banners."""
        masks = [stream.msgr2_features for stream in self._streams.values() if stream.msgr2_features is not None]
        return reduce(and_, masks)

    def _follow_compression(self, frame: ControlFrame) -> None:
        """Switch both directions to decompression once the peers agree on it."""
        if isinstance(frame, CompressionRequest):
            self._compression_asked = frame.is_compress
        elif isinstance(frame, CompressionDone) and frame.is_compress and self._compression_asked:
            if frame.method not in list(Algorithm)[1:]:
                raise PeerError(FaultReason.COMPRESSION, f"algorithm {frame.method} is not known")
            self.algorithm = Algorithm(frame.method)
            for stream in self._streams.values():
                stream.reader = DecompressingReader(stream.raw_reader, new_compressor(self.algorithm))
