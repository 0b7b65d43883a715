"""One direction of a v2 link: records its frames, and judges malformed ones (docs/protocol.md §4.5)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import overload

from messenger.compat import override
from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.messages.message import Message
from messenger.messages.types import message_name
from messenger.v2.compression import restored
from messenger.v2.compressor import Compressor
from messenger.v2.framing import ABORTED, INLINE_SIZE, Frame, RawReader, SecureReader
from messenger.v2.preamble import COMPRESSED, PREAMBLE_SIZE
from messenger.v2.rev0 import Rev0SecureReader
from messenger.v2.wire import (
    MESSAGE_HEADER,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    ControlFrame,
    Tag,
    decode_control,
    tag_name,
)
from toolkit.dissect.fields import message_fields
from toolkit.dissect.frames import IN_PART, DecodedFrame, MessageInfo, Verdict
from toolkit.dissect.keys import KEY_MESSAGES, LinkKeys
from toolkit.dissect.links.borders import Broken, read_crc_frame, with_right_crc
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.lane import FlowLane, OpenPhase, wire_of
from toolkit.dissect.links.link import LIMIT_BYTES, DecodedLink
from toolkit.dissect.links.sealed import SealedFrames
from toolkit.dissect.links.search import CrcSearch, Proof, Resync, SealedSearch

_MESSAGE = int(Tag.MESSAGE)
_MESSAGE_NAME = Tag.MESSAGE.name
_HEADER_SIZE = MESSAGE_HEADER.size
_HEAD_SIZE = PREAMBLE_SIZE + _HEADER_SIZE
_PROVEN_SIZE = _HEAD_SIZE + 4
"""Including the crc of the header, which follows directly in msgr 2.1."""
_CRC_SEED = 0xFFFFFFFF
_SEGMENTS = 4
_LARGE_BYTES = 1 << 20
"""Segments of compressed frames of this size or more are not kept."""


@dataclass(slots=True)
class Judged:
    """The verdicts on a frame."""

    crc: Verdict = Verdict.OK
    auth: Verdict = Verdict.NONE
    error: str | None = None

    @property
    def is_bad(self) -> bool:
        """True if a crc, an authentication tag or a signature is wrong, so that its contents cannot be trusted."""
        return self.crc is Verdict.BAD or self.auth is Verdict.BAD


class V2Lane(FlowLane):
    """One direction of a v2 link. ``reader`` returns compressed frames as they are on the wire (§4.10)."""

    def __init__(self, link: DecodedLink, flow: Flow, reader: RawReader, phase: OpenPhase, *, rev1: bool) -> None:
        super().__init__(link, flow, "v2.1" if rev1 else "v2.0", "crc", reader, phase)
        reader.allow_compressed()
        self.rev1 = rev1
        self.source = ""
        """Name of the sender, as in Ceph's logs; empty while it is unknown."""
        self.compressor: Compressor | None = None
        """Decompresses by the negotiated algorithm; None if compressed frames cannot be decompressed."""
        self.good = Verdict.NONE
        """Verdict on the authentication of a frame that the reader returned: OK in secure mode."""
        self._sealed: SealedFrames | None = None
        self._broken: tuple[int, int] | None = (
            None  # first nonce and length of a broken frame that is not complete
        )

    def become_secure(self, sealed: SealedFrames, nonce: int = 0) -> None:
        """Decrypt everything from the next frame on, whose first nonce is number ``nonce`` (§4.6)."""
        self.mode = "secure"
        self.good = Verdict.OK
        self._sealed = sealed
        self._read_from(nonce)

    def restored(self, found: Frame) -> Frame:
        """Return a frame decompressed; unchanged if it is not compressed.

        Raises:
            PeerError: the frame cannot be decompressed (COMPRESSION).
        """
        if found[1] < COMPRESSED:
            return found
        if self.compressor is None:
            raise PeerError(FaultReason.COMPRESSION, "the algorithm is not known")
        return restored(found, self.compressor, LIMIT_BYTES)

    # ---- well-formed frames

    def put(self, view: memoryview, at: int, found: Frame) -> ControlFrame | None:
        """Emit the record of a frame that the reader returned; returns the frame if it is a control frame."""
        return self.record(view, at, found, Judged(auth=self.good))

    def record(self, view: memoryview, at: int, found: Frame, judged: Judged) -> ControlFrame | None:
        """Emit the record of a frame whose borders are known."""
        compressed = found[1] >= COMPRESSED
        try:
            stop, tag, *restored_segments = self.restored(found)
        except PeerError as error:
            stop, tag, *segments = found
            tag &= ~COMPRESSED
            judged.error = judged.error or f"{error.reason.value}: {error.detail}"
            self._emit(view, at, stop, tag_name(tag), judged, compressed=True, segments=tuple(segments))
            return None
        parts = tuple(restored_segments)
        kept: Sequence[Buffer] = parts
        if compressed and sum(map(len, parts)) >= _LARGE_BYTES:
            kept = _Restored(found, self.restored)
        if tag == _MESSAGE:
            self._message(view, at, stop, judged, parts, kept, compressed=compressed)
            return None
        if tag == ABORTED:
            judged.error = judged.error or "aborted by its sender"
            self._emit(view, at, stop, _MESSAGE_NAME, judged, segments=kept)
            return None
        return self._control(view, at, stop, tag, judged, parts, kept, compressed=compressed)

    def _message(
        self,
        view: memoryview,
        at: int,
        stop: int,
        judged: Judged,
        parts: tuple[Buffer, ...],
        kept: Sequence[Buffer],
        *,
        compressed: bool,
    ) -> None:
        header, front, middle, data = parts
        if len(header) < _HEADER_SIZE:
            judged.error = judged.error or f"message header of {len(header)} bytes, {_HEADER_SIZE} are needed"
            self._emit(view, at, stop, _MESSAGE_NAME, judged, compressed=compressed, segments=kept)
            return
        info = self._info(header, (len(front), len(middle), len(data)))
        kind = info.type
        fields = partial(_message_fields, kept, self.features)
        if kind in KEY_MESSAGES:
            fields = partial(_key_message_fields, self.link.keys, kept, self.features)
            if not judged.is_bad:
                self.link.key_message(self.flow.direction, kind, front)
        record = self._made(view, at, stop, _MESSAGE_NAME, judged)
        record.message, record.compressed, record.segments, record.read_fields = info, compressed, kept, fields
        record.features = self.features
        self.link.emit(record)

    def _info(self, header: Buffer, sizes: tuple[int, int, int]) -> MessageInfo:
        """Return the header of a message, with the lengths of its parts."""
        seq, tid, kind, priority, version, _, _, ack_seq, _, compat, _ = MESSAGE_HEADER.unpack_from(header)
        return MessageInfo(
            kind, message_name(kind), seq, tid, self.source, version, compat, priority, *sizes, ack_seq
        )

    def _control(
        self,
        view: memoryview,
        at: int,
        stop: int,
        tag: int,
        judged: Judged,
        parts: tuple[Buffer, ...],
        kept: Sequence[Buffer],
        *,
        compressed: bool,
    ) -> ControlFrame | None:
        name = tag_name(tag)
        control: ControlFrame | None = None
        record = self._made(view, at, stop, name, judged)
        record.compressed, record.segments = compressed, kept
        try:
            control = decode_control(tag, parts, last=True)
        except PeerError as error:
            record.error = record.error or in_words(error)
        else:
            record.read_fields = control.printable if kept is parts else partial(_control_fields, tag, kept)
            if isinstance(control, AuthRequest | AuthReplyMore | AuthRequestMore | AuthDone):
                record.read_fields = partial(_auth_fields, self.link.keys, control)
        self.link.emit(record)
        return control

    def _emit(
        self,
        view: memoryview,
        at: int,
        stop: int,
        tag: str,
        judged: Judged,
        *,
        compressed: bool = False,
        segments: Sequence[Buffer] = (),
    ) -> None:
        record = self._made(view, at, stop, tag, judged)
        record.compressed, record.segments = compressed, segments
        self.link.emit(record)

    def _made(self, view: memoryview, at: int, stop: int, tag: str, judged: Judged) -> DecodedFrame:
        flow = self.flow
        time_ns, packet = flow.moment(flow.offset + stop)
        return DecodedFrame(
            frame=-1,
            time_ns=time_ns,
            packet=packet,
            stream=self.link.stream,
            direction=flow.direction,
            protocol=self.protocol,
            mode=self.mode,
            tag=tag,
            offset=flow.offset + at,
            length=stop - at,
            crc=judged.crc,
            auth=judged.auth,
            error=judged.error,
            wire=wire_of(flow, view, at, stop),
        )

    # ---- frames captured in part

    @override
    def snapped(self) -> DecodedFrame | None:
        head = self._head()
        if head is None:
            return None
        try:
            tag, segments, l0, l1, l2, l3, total = self.reader.layout(head[:PREAMBLE_SIZE])
        except PeerError:
            return None
        if tag != _MESSAGE or l0 < _HEADER_SIZE or total > LIMIT_BYTES:
            return None
        if self._sealed is not None:
            self._read_from(self._nonces_used() + (l0 > INLINE_SIZE) + (segments > 1))
        judged = Judged(Verdict.NONE, Verdict.NONE, IN_PART)
        record = self._made(self.flow.view, 0, total, _MESSAGE_NAME, judged)
        record.message = self._info(head[PREAMBLE_SIZE:], (l1, l2, l3))
        return record

    def _head(self) -> bytes | None:
        """Return preamble and message header of the incomplete frame; None if they are incomplete or unproven."""
        if self._broken is not None:
            return None
        if self._sealed is not None:
            return self.reader.opened_head if isinstance(self.reader, SecureReader) else None
        head = self.flow.view[: _PROVEN_SIZE if self.rev1 else _HEAD_SIZE].tobytes()
        if self.rev1:
            crc = crc32c(head[PREAMBLE_SIZE:_HEAD_SIZE], _CRC_SEED)
            return head if head[_HEAD_SIZE:] in {crc.to_bytes(4, "little"), bytes(4)} else None
        return head if len(head) == _HEAD_SIZE else None

    # ---- malformed frames

    @override
    def step(self) -> bool:
        if self._broken is None:
            return super().step()
        flow = self.flow
        first, total = self._broken
        if len(flow.view) < total:
            return False
        self._broken = None
        flow.needed = 0
        flow.consume(self._mend_complete(flow.view, 0, first))
        return True

    @override
    def needed(self) -> int:
        return super().needed() if self._broken is None else self._broken[1]

    @override
    def mend(self, view: memoryview, at: int, error: PeerError) -> int | None:
        if self._sealed is not None:
            return self._mend_sealed(view, at, error)
        broken = read_crc_frame(view, at, self.reader, rev1=self.rev1)
        if broken is None or error.reason is FaultReason.OVERSIZE:
            self._search_crc(error)
            return None
        return self._put_broken(view, at, broken)

    def _put_broken(self, view: memoryview, at: int, broken: Broken) -> int:
        stop = broken.frame[0]
        judged = Judged(broken.crc, broken.auth, broken.error)
        control = self.record(view, at, broken.frame, judged)
        tag = broken.frame[1]
        tag = tag & ~COMPRESSED if tag >= COMPRESSED else tag
        self.mended(tag, None if judged.is_bad else control, view[at:stop], self.flow.offset + stop, judged)
        return stop

    def mended(self, tag: int, control: ControlFrame | None, wire: memoryview, stop: int, judged: Judged) -> None:
        """Hook of a handshake: a malformed frame was recorded, up to the offset ``stop``."""

    def _mend_sealed(self, view: memoryview, at: int, error: PeerError) -> int | None:
        """Record a frame with a wrong tag; frames after it can be decrypted if its length is known."""
        sealed = self._sealed
        assert sealed is not None
        first = sealed.first_nonce(view, at, self._nonces_used())
        try:
            total = sealed.length(view, at, first, self.reader)
        except PeerError:
            self._search_sealed(first + 1, 0, error)
            return None
        if total > LIMIT_BYTES:
            self._search_sealed(first + 1, 0, PeerError(FaultReason.OVERSIZE, f"{total} bytes"))
            return None
        if at + total > len(view):
            self._broken = first, total
            return None
        return self._mend_complete(view, at, first)

    def _mend_complete(self, view: memoryview, at: int, first: int) -> int:
        assert self._sealed is not None
        broken, nonces = self._sealed.read(view, at, first, self.reader)
        self._read_from(first + nonces)
        return self._put_broken(view, at, broken)

    def _read_from(self, nonce: int) -> None:
        """Continue in secure mode with a frame that begins with that nonce."""
        assert self._sealed is not None
        self._sealed.started = nonce
        self.reader = self._sealed.reader(nonce, LIMIT_BYTES)

    def _nonces_used(self) -> int:
        assert self._sealed is not None
        assert isinstance(self.reader, SecureReader | Rev0SecureReader)
        return self._sealed.started + self.reader.cipher.used_nonces

    # ---- search for the next frame

    @override
    def lost(self, size_bytes: int) -> None:
        self._broken = None
        if self._sealed is None:
            self._search_crc(None)
        else:
            self._search_sealed(self._nonces_used(), size_bytes, None)

    def _search_crc(self, error: PeerError | None) -> None:
        self.search(CrcSearch(self.reader, rev1=self.rev1), error)

    def _search_sealed(self, nonce: int, missing_bytes: int, error: PeerError | None) -> None:
        assert self._sealed is not None
        self.search(SealedSearch(self._sealed, self.flow, nonce, missing_bytes), error)

    def search(self, search: CrcSearch | SealedSearch, error: PeerError | None) -> None:
        """Continue at the next frame found; ``error`` is what is wrong with the current one."""
        self.flow.needed = 0
        if error is None:
            reading = Resync(self.link, self.flow, search, self._found)
        elif self._sealed is None:
            reading = Resync(
                self.link,
                self.flow,
                search,
                self._found,
                whole=self._is_whole,
                wrong=in_words(error),
                crc=Verdict.BAD,
            )
        else:
            wrong = in_words(error)
            reading = Resync(self.link, self.flow, search, self._found, wrong=wrong, auth=Verdict.BAD)
        self.link.readings[self.flow.direction] = reading

    def _found(self, proof: Proof, view: memoryview, at: int) -> bool:
        """Continue at the frame found; the bytes before it may be a frame with a wrong preamble."""
        self.link.readings[self.flow.direction] = self
        if self._sealed is not None:
            self._read_from(proof.nonce)
            return False
        return self._is_whole(view[:at])

    def _is_whole(self, view: memoryview) -> bool:
        """Record a frame with a wrong preamble, if the view consists of it."""
        if len(view) < PREAMBLE_SIZE:
            return False
        broken = with_right_crc(view, len(view), self.reader, rev1=self.rev1)
        if broken is None:
            return False
        self._put_broken(view, 0, broken)
        return True


class _Restored(Sequence[Buffer]):
    """The segments of a large compressed frame, decompressed at each access.

    A capture of a few KiB may contain any number of frames that decompress to 128 MiB.

    Args:
        found: the frame that the reader returned.
        restore: decompresses it.
    """

    __slots__ = ("_found", "_restore")

    def __init__(self, found: Frame, restore: Callable[[Frame], Frame]) -> None:
        stop, tag, s0, s1, s2, s3 = found
        self._found = stop, tag, bytes(s0), bytes(s1), bytes(s2), bytes(s3)
        self._restore = restore

    def __len__(self) -> int:
        return _SEGMENTS

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._restore(self._found)[2:])

    @overload
    def __getitem__(self, index: int) -> Buffer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Buffer]: ...
    def __getitem__(self, index: int | slice) -> Buffer | Sequence[Buffer]:
        return self._restore(self._found)[2:][index]


def _message_fields(segments: Sequence[Buffer], features: int) -> dict[str, object]:
    header, front, middle, data = segments
    seq, tid, kind, priority, version, _, off, _, flags, compat, _ = MESSAGE_HEADER.unpack_from(header)
    message = Message(kind, front, middle, data, tid, priority, version, compat, seq, flags, off)
    return message_fields(message, features)


def _key_message_fields(keys: LinkKeys, segments: Sequence[Buffer], features: int) -> dict[str, object]:
    return keys.explained(_message_fields(segments, features), segments[1])


def _auth_fields(
    keys: LinkKeys, control: AuthRequest | AuthReplyMore | AuthRequestMore | AuthDone
) -> dict[str, object]:
    return keys.explained(control.printable(), control.auth_payload)


def _control_fields(tag: int, segments: Sequence[Buffer]) -> dict[str, object]:
    return decode_control(tag, tuple(segments), last=True).printable()


def in_words(error: PeerError) -> str:
    """Describe an error in one line for a record."""
    if isinstance(error, DecodeError):
        return error.detail
    return f"{error.reason.value}: {error.detail}" if error.detail else error.reason.value
