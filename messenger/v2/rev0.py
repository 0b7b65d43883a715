"""Frames of msgr 2.0, crc and secure, for peers without REVISION_1 (docs/protocol.md §4.5).

Releases up to 15.2.0 use only these. Every frame ends with one epilogue, and in secure mode is encrypted by one
GCM operation. They are not a hot path; they share the preamble and the interface of readers and writers with 2.1.
"""

from struct import Struct
from typing import cast

from cryptography.hazmat.primitives.ciphers import AEADDecryptionContext

from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.v2.framing import ABORTED, Frame, Head
from messenger.v2.onwire import GCM_TAG_SIZE, Rev0Cipher, finish_decrypt
from messenger.v2.preamble import (
    COMPRESSED,
    MESSAGE_TAG,
    PREAMBLE_SIZE,
    UNLIMITED,
    Layout,
    Layouts,
    Lengths,
    MessageFrames,
    PreambleLimits,
    Segments,
    build_preamble,
    check_size,
    padded,
    segment_lengths,
    used_segments,
    zero_padded,
)

_CRC_EPILOGUE = Struct("<B4I")
_SECURE_EPILOGUE = bytes(16)
_FLAG_ABORTED = 0x01
_CRC_SEED = 0xFFFFFFFF


def _crc_frame_bytes(_segments: int, lengths: Lengths) -> int:
    return PREAMBLE_SIZE + sum(lengths) + _CRC_EPILOGUE.size


def _secure_frame_bytes(_segments: int, lengths: Lengths) -> int:
    return PREAMBLE_SIZE + sum(map(padded, lengths)) + len(_SECURE_EPILOGUE) + GCM_TAG_SIZE


def _head(layout: Layout) -> Head:
    tag, _, _, l1, l2, l3, _ = layout
    return tag & ~COMPRESSED, l1 + l2 + l3


class Rev0CrcReader:
    """Frames of crc mode: preamble, segments, then the crcs of all of them."""

    __slots__ = ("_layouts", "max_frame_bytes", "needed")

    def __init__(self, max_frame_bytes: int, limits: PreambleLimits = UNLIMITED) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self._layouts = Layouts(_crc_frame_bytes, limits)

    def allow_compressed(self) -> None:
        """Accept compressed frames from the next one on; their tags have COMPRESSED added."""
        self._layouts = self._layouts.with_compressed()

    def layout(self, preamble: bytes) -> Layout:
        """The layout that a preamble announces."""
        return self._layouts[preamble]

    def head(self, view: memoryview, start: int, end: int) -> Head | None:
        """Tag of the frame at ``view[start:end]``, and the total length of its segments except the first."""
        layout = self._preamble(view, start, end)
        return None if layout is None else _head(layout)

    def _preamble(self, view: memoryview, start: int, end: int) -> Layout | None:
        """The layout of the frame; None while its preamble is incomplete."""
        body = start + PREAMBLE_SIZE
        if body > end:
            self.needed = 0
            return None
        layout = self._layouts[view[start:body].tobytes()]
        check_size(layout[-1], self.max_frame_bytes)
        return layout

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame | None:  # noqa: FBT001 - hot path
        """The frame at ``view[start:end]``, which is not empty; None while it is incomplete."""
        layout = self._preamble(view, start, end)
        if layout is None:
            return None
        tag, used, *lengths, total = layout
        body = start + PREAMBLE_SIZE
        stop = start + total
        if stop > end:
            self.needed = total
            return None
        late_flags, *crcs = _CRC_EPILOGUE.unpack_from(view, stop - _CRC_EPILOGUE.size)
        segments: list[Buffer] = []
        for number, (length, crc) in enumerate(zip(lengths, crcs, strict=True)):
            part = view[body : body + length]
            segment = part if owned and number and length else part.tobytes()
            if number < used and crc32c(segment, _CRC_SEED) != crc:
                raise PeerError(FaultReason.SEGMENT_CRC, f"segment {number} of tag {tag & ~COMPRESSED}")
            segments.append(segment)
            body += length
        s0, s1, s2, s3 = segments
        return stop, ABORTED if late_flags & _FLAG_ABORTED else tag, s0, s1, s2, s3


class Rev0CrcWriter:
    """Frames of crc mode."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = MessageFrames()

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        pieces: list[Buffer] = []
        self._append(pieces, build_preamble(tag, (len(payload), 0, 0, 0)), (payload, b"", b"", b""))
        return b"".join(pieces)

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""
        segments = (header, front, middle, data)
        return self._append(pieces, self._frames[segment_lengths(segments)].preamble, segments)

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire."""
        head = build_preamble(tag, segment_lengths(segments), compressed=True)
        return self._append(pieces, head, segments)

    @staticmethod
    def _append(pieces: list[Buffer], preamble: bytes, segments: Segments) -> int:
        lengths = segment_lengths(segments)
        used = used_segments(lengths)
        # An empty segment inside the count has the crc of zero bytes; slots beyond the count hold 0.
        crcs = [crc32c(segment, _CRC_SEED) if number < used else 0 for number, segment in enumerate(segments)]
        pieces += [preamble, *(segment for segment in segments if segment), _CRC_EPILOGUE.pack(0, *crcs)]
        return _crc_frame_bytes(used, lengths)


class Rev0SecureReader:
    """Frames of secure mode: one GCM operation, whose preamble must be decrypted before the tag is checked.

    The unauthenticated preamble only determines how many bytes to wait for, within the limit.
    """

    __slots__ = ("_context", "_layout", "_layouts", "cipher", "max_frame_bytes", "needed")

    def __init__(self, cipher: Rev0Cipher, max_frame_bytes: int, limits: PreambleLimits = UNLIMITED) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self.cipher = cipher
        self._layouts = Layouts(_secure_frame_bytes, limits)
        self._layout: Layout | None = None  # of the next frame, once its preamble is decrypted
        self._context: AEADDecryptionContext | None = None

    def allow_compressed(self) -> None:
        """Accept compressed frames from the next one on; their tags have COMPRESSED added."""
        self._layouts = self._layouts.with_compressed()

    def layout(self, preamble: bytes) -> Layout:
        """The layout that a preamble announces."""
        return self._layouts[preamble]

    def head(self, view: memoryview, start: int, end: int) -> Head | None:
        """Tag of the frame at ``view[start:end]``, and the total length of its segments except the first."""
        layout = self._open_preamble(view, start, end)
        return None if layout is None else _head(layout)

    def _open_preamble(self, view: memoryview, start: int, end: int) -> Layout | None:
        """Decrypt the preamble of the frame, once; None while it is incomplete."""
        if self._layout is None:
            body = start + PREAMBLE_SIZE
            if body > end:
                self.needed = 0
                return None
            self._context = self.cipher.begin_decrypt()
            self._layout = self._layouts[self._context.update(view[start:body])]
        check_size(self._layout[-1], self.max_frame_bytes)
        return self._layout

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame | None:  # noqa: ARG002, FBT001
        """The frame at ``view[start:end]``, which is not empty; None while it is incomplete."""
        body = start + PREAMBLE_SIZE
        layout = self._open_preamble(view, start, end)
        if layout is None:
            return None
        tag, _, l0, l1, l2, l3, total = layout
        stop = start + total
        if stop > end:
            self.needed = total
            return None
        context = cast("AEADDecryptionContext", self._context)
        plain = memoryview(context.update(view[body : stop - GCM_TAG_SIZE]))
        finish_decrypt(context, view[stop - GCM_TAG_SIZE : stop])
        self._layout = self._context = None
        at1 = padded(l0)
        at2 = at1 + padded(l1)
        at3 = at2 + padded(l2)
        if plain[-len(_SECURE_EPILOGUE)] & _FLAG_ABORTED:
            tag = ABORTED
        s0 = plain[:l0].tobytes()
        s1 = plain[at1 : at1 + l1] if l1 else b""
        s2 = plain[at2 : at2 + l2] if l2 else b""
        s3 = plain[at3 : at3 + l3] if l3 else b""
        return stop, tag, s0, s1, s2, s3


class Rev0SecureWriter:
    """Frames of secure mode."""

    __slots__ = ("cipher",)

    def __init__(self, cipher: Rev0Cipher) -> None:
        self.cipher = cipher

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        return self._sealed(tag, (payload, b"", b"", b""))

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""
        pieces.append(frame := self._sealed(MESSAGE_TAG, (header, front, middle, data)))
        return len(frame)

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire."""
        pieces.append(frame := self._sealed(tag, segments, compressed=True))
        return len(frame)

    def _sealed(self, tag: int, segments: Segments, *, compressed: bool = False) -> bytes:
        preamble = build_preamble(tag, segment_lengths(segments), compressed=compressed)
        return self.cipher.encrypt(b"".join([preamble, *map(zero_padded, segments), _SECURE_EPILOGUE]))
