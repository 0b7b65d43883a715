"""Frames of msgr 2.1 on the byte stream, crc and secure (protocol.md §4.4, §4.5).

A reader cuts the next frame out of a receive buffer, a writer appends the pieces of a frame to a list of
buffers. Both ends of a link, the fault proxy and the decoders use the same two. This is the hot path:
lengths of repeated preambles are cached per reader and writer, and payloads are not copied except out of a
receive buffer that will be reused.
"""

from struct import Struct
from typing import Protocol

from messenger.crc import crc32c, standard_crc32c
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.v2.onwire import GCM_TAG_SIZE, StreamCipher

PREAMBLE_SIZE = 32
INLINE_SIZE = 48
"""Secure mode carries this much of the first segment in the preamble's own operation."""
SECURE_HEAD_SIZE = PREAMBLE_SIZE + INLINE_SIZE + GCM_TAG_SIZE
MAX_SEGMENTS = 4
MESSAGE_TAG = 17
ABORTED = -1
"""The tag :meth:`FrameReader.next_frame` gives a frame that its sender aborted (§4.5)."""

_PREAMBLE = Struct("<BBIHIHIHIHBB")
_U32 = Struct("<I")
_CRC_EPILOGUE = Struct("<BIII")
_CRC_EPILOGUE_SIZE = 13
_SECURE_EPILOGUE_SIZE = 16
_COMPLETE = 0x0E
_STATUS_ABORTED = 0x01
_STATUS_MASK = 0x0F
_FLAG_COMPRESSED = 0x01
_ALIGN = 8
_DATA_ALIGN = 4096
_EMPTY_CRC = 0xFFFFFFFF
_CACHE_LIMIT = 256
_IN_PLACE_BYTES = 16 * 1024
_SECURE_EPILOGUE = bytes([_COMPLETE]) + bytes(15)
_PADDING = tuple(bytes(-n % 16) for n in range(16))

Frame = tuple[int, int, Buffer, Buffer, Buffer, Buffer]
"""Offset just behind the frame, tag, and the four segments (``b""`` where absent)."""


class _Layout:
    """What one preamble says."""

    __slots__ = ("lengths", "segments", "tag", "total")

    def __init__(self, tag: int, segments: int, lengths: tuple[int, int, int, int], total: int) -> None:
        self.tag = tag
        self.segments = segments
        self.lengths = lengths
        self.total = total


def _parse_preamble(preamble: bytes) -> tuple[int, int, tuple[int, int, int, int]]:
    """Tag, number of segments and their lengths of a preamble whose crc and counts hold."""
    tag, segments, l0, _, l1, _, l2, _, l3, _, flags, _ = _PREAMBLE.unpack_from(preamble)
    (crc,) = _U32.unpack_from(preamble, PREAMBLE_SIZE - 4)
    if crc != crc32c(preamble[:28], 0):
        raise PeerError(FaultReason.PREAMBLE_CRC, f"tag {tag}, crc 0x{crc:08x}")
    if not 1 <= segments <= MAX_SEGMENTS:
        raise PeerError(FaultReason.FRAME, f"{segments} segments")
    if flags & _FLAG_COMPRESSED:
        raise PeerError(FaultReason.FRAME, "compressed, but compression was not negotiated")
    lengths = (l0, l1, l2, l3)
    if segments > 1 and not lengths[segments - 1]:
        raise PeerError(FaultReason.FRAME, f"last of {segments} segments is empty")
    return tag, segments, lengths


def _status(status: int, tag: int) -> int:
    """The frame's tag, or ABORTED, from the late status of its epilogue."""
    low = status & _STATUS_MASK
    if low == _COMPLETE:
        return tag
    if low == _STATUS_ABORTED:
        return ABORTED
    raise PeerError(FaultReason.FRAME, f"late status 0x{status:02x}")


def _build_preamble(tag: int, lengths: tuple[int, int, int, int]) -> bytes:
    """A preamble; trailing empty segments are dropped, never below one."""
    l0, l1, l2, l3 = lengths
    segments = 4 if l3 else 3 if l2 else 2 if l1 else 1
    head = _PREAMBLE.pack(
        tag,
        segments,
        l0,
        _ALIGN,
        l1,
        _ALIGN if segments > 1 else 0,
        l2,
        _ALIGN if segments > 2 else 0,
        l3,
        _DATA_ALIGN if segments == MAX_SEGMENTS else 0,
        0,
        0,
    )
    return head + _U32.pack(crc32c(head, 0))


def _padded(length: int) -> int:
    return (length + 15) & ~15


class FrameReader(Protocol):
    """Cuts frames out of one direction of a link."""

    max_frame_bytes: int
    """Frames longer than this on the wire are refused before anything is allocated for them."""
    needed: int
    """Total bytes of the frame that was found incomplete; 0 while its head has not arrived."""

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame | None:
        """The frame at ``view[start:end]``, or None while it is incomplete.

        Args:
            view: the receive buffer.
            start: where the frame begins.
            end: where the received bytes end.
            owned: the buffer will not be reused, so segments may stay slices of it.

        Raises:
            PeerError: PREAMBLE_CRC, SEGMENT_CRC, AUTH_TAG, OVERSIZE or FRAME.
        """


class FrameWriter(Protocol):
    """Builds frames for one direction of a link."""

    def control(self, tag: int, payload: bytes) -> bytes:
        """A control frame: one segment."""

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""


class CrcReader:
    """Frames of crc mode: preamble, first segment and its crc, the other segments, their crcs."""

    __slots__ = ("_layouts", "max_frame_bytes", "needed")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self._layouts: dict[bytes, _Layout] = {}

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame | None:
        """See :meth:`FrameReader.next_frame`."""
        if end - start < PREAMBLE_SIZE:
            self.needed = 0
            return None
        body = start + PREAMBLE_SIZE
        preamble = bytes(view[start:body])
        layout = self._layouts.get(preamble) or self._layout(preamble)
        stop = start + layout.total
        if stop > end or layout.total > self.max_frame_bytes:
            self._incomplete(layout)
            return None
        l0 = layout.lengths[0]
        s0: Buffer = b""
        if l0:
            s0 = bytes(view[body : body + l0])
            body += l0
            if (standard_crc32c(s0) ^ 0xFFFFFFFF) != _U32.unpack_from(view, body)[0]:
                raise PeerError(FaultReason.SEGMENT_CRC, f"segment 0 of tag {layout.tag}")
            body += 4
        if layout.segments == 1:
            return stop, layout.tag, s0, b"", b"", b""
        return self._rest(view, body, stop, layout, s0, owned)

    def _layout(self, preamble: bytes) -> _Layout:
        tag, segments, lengths = _parse_preamble(preamble)
        total = PREAMBLE_SIZE + sum(lengths[:segments]) + (4 if lengths[0] else 0)
        if segments > 1:
            total += _CRC_EPILOGUE_SIZE
        layout = _Layout(tag, segments, lengths, total)
        if len(self._layouts) >= _CACHE_LIMIT:
            self._layouts.clear()
        self._layouts[preamble] = layout
        return layout

    def _incomplete(self, layout: _Layout) -> None:
        if layout.total > self.max_frame_bytes:
            raise PeerError(FaultReason.OVERSIZE, f"{layout.total} bytes, the limit is {self.max_frame_bytes}")
        self.needed = layout.total

    @staticmethod
    def _rest(view: memoryview, body: int, stop: int, layout: _Layout, s0: Buffer, owned: bool) -> Frame:  # noqa: FBT001 - hot path
        """Segments 1 to 3 and the epilogue that covers them."""
        status, crc1, crc2, crc3 = _CRC_EPILOGUE.unpack_from(view, stop - _CRC_EPILOGUE_SIZE)
        _, l1, l2, l3 = layout.lengths
        s1: Buffer = b""
        s2: Buffer = b""
        s3: Buffer = b""
        if l1:
            s1 = view[body : body + l1] if owned else bytes(view[body : body + l1])
            body += l1
        if l2:
            s2 = view[body : body + l2] if owned else bytes(view[body : body + l2])
            body += l2
        if l3:
            s3 = view[body : body + l3] if owned else bytes(view[body : body + l3])
        if (
            (standard_crc32c(s1) ^ 0xFFFFFFFF) != crc1
            or (l2 and (standard_crc32c(s2) ^ 0xFFFFFFFF) != crc2)
            or (l3 and (standard_crc32c(s3) ^ 0xFFFFFFFF) != crc3)
        ):
            raise PeerError(FaultReason.SEGMENT_CRC, f"segments 1 to {layout.segments - 1} of tag {layout.tag}")
        tag = layout.tag if status == _COMPLETE else _status(status, layout.tag)
        return stop, tag, s0, s1, s2, s3


class CrcWriter:
    """Frames of crc mode."""

    __slots__ = ("_preambles",)

    def __init__(self) -> None:
        self._preambles: dict[tuple[int, int, int, int], bytes] = {}

    def control(self, tag: int, payload: bytes) -> bytes:
        """See :meth:`FrameWriter.control`."""
        preamble = _build_preamble(tag, (len(payload), 0, 0, 0))
        if not payload:
            return preamble
        return preamble + payload + _U32.pack(crc32c(payload, 0xFFFFFFFF))

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """See :meth:`FrameWriter.message`."""
        l1, l2, l3 = len(front), len(middle), len(data)
        lengths = (len(header), l1, l2, l3)
        preamble = self._preambles.get(lengths) or self._preamble(lengths)
        pieces.append(preamble + header + _U32.pack(standard_crc32c(header) ^ 0xFFFFFFFF))
        size = PREAMBLE_SIZE + lengths[0] + 4
        if not (l1 or l2 or l3):
            return size
        if l1:
            pieces.append(front)
        if l2:
            pieces.append(middle)
        if l3:
            pieces.append(data)
        crc1 = standard_crc32c(front) ^ 0xFFFFFFFF
        # An empty segment inside the count has the crc of nothing, slots beyond it hold 0.
        crc2 = standard_crc32c(middle) ^ 0xFFFFFFFF if l2 else _EMPTY_CRC if l3 else 0
        crc3 = standard_crc32c(data) ^ 0xFFFFFFFF if l3 else 0
        pieces.append(_CRC_EPILOGUE.pack(_COMPLETE, crc1, crc2, crc3))
        return size + l1 + l2 + l3 + _CRC_EPILOGUE_SIZE

    def _preamble(self, lengths: tuple[int, int, int, int]) -> bytes:
        if len(self._preambles) >= _CACHE_LIMIT:
            self._preambles.clear()
        preamble = self._preambles[lengths] = _build_preamble(MESSAGE_TAG, lengths)
        return preamble


class SecureReader:
    """Frames of secure mode: preamble and inline part in one operation, then up to two more (§4.5)."""

    __slots__ = ("_cipher", "_head", "_layout", "max_frame_bytes", "needed")

    def __init__(self, cipher: StreamCipher, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self._cipher = cipher
        self._head = b""
        self._layout: _Layout | None = None  # of the frame whose head was decrypted already

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame | None:
        """See :meth:`FrameReader.next_frame`."""
        layout = self._layout
        if layout is None:
            if end - start < SECURE_HEAD_SIZE:
                self.needed = 0
                return None
            layout = self._open_head(view[start : start + SECURE_HEAD_SIZE])
        stop = start + layout.total
        if stop > end:
            self._layout = layout
            self.needed = layout.total
            return None
        self._layout = None
        body = start + SECURE_HEAD_SIZE
        l0 = layout.lengths[0]
        s0: Buffer = self._head[PREAMBLE_SIZE : PREAMBLE_SIZE + min(l0, INLINE_SIZE)]
        if l0 > INLINE_SIZE:
            size = _padded(l0) - INLINE_SIZE + GCM_TAG_SIZE
            s0 = bytes(s0) + self._cipher.decrypt(view[body : body + size])[: l0 - INLINE_SIZE]
            body += size
        if layout.segments == 1:
            return stop, layout.tag, s0, b"", b"", b""
        return self._rest(view[body:stop], stop, layout, s0, owned=owned)

    def _open_head(self, sealed: memoryview) -> _Layout:
        self._head = self._cipher.decrypt(sealed)
        tag, segments, lengths = _parse_preamble(self._head[:PREAMBLE_SIZE])
        total = SECURE_HEAD_SIZE
        if lengths[0] > INLINE_SIZE:
            total += _padded(lengths[0]) - INLINE_SIZE + GCM_TAG_SIZE
        if segments > 1:
            total += sum(_padded(length) for length in lengths[1:segments])
            total += _SECURE_EPILOGUE_SIZE + GCM_TAG_SIZE
        if total > self.max_frame_bytes:
            raise PeerError(FaultReason.OVERSIZE, f"{total} bytes, the limit is {self.max_frame_bytes}")
        return _Layout(tag, segments, lengths, total)

    def _rest(self, sealed: memoryview, stop: int, layout: _Layout, s0: Buffer, *, owned: bool) -> Frame:
        """Segments 1 to 3 and the epilogue, sealed together."""
        plain: Buffer = self._cipher.decrypt_in_place(sealed) if owned else self._cipher.decrypt(sealed)
        tag = _status(plain[-_SECURE_EPILOGUE_SIZE], layout.tag)
        _, l1, l2, l3 = layout.lengths
        at2 = _padded(l1)
        at3 = at2 + _padded(l2)
        if owned or l3 > _IN_PLACE_BYTES:
            plain = memoryview(plain)
        return stop, tag, s0, plain[:l1], plain[at2 : at2 + l2], plain[at3 : at3 + l3]


class SecureWriter:
    """Frames of secure mode."""

    __slots__ = ("_cipher", "_preambles")

    def __init__(self, cipher: StreamCipher) -> None:
        self._cipher = cipher
        self._preambles: dict[tuple[int, int, int, int], bytes] = {}

    def control(self, tag: int, payload: bytes) -> bytes:
        """See :meth:`FrameWriter.control`."""
        size = len(payload)
        inline = payload[:INLINE_SIZE].ljust(INLINE_SIZE, b"\0")
        frame = self._cipher.encrypt(_build_preamble(tag, (size, 0, 0, 0)) + inline)
        if size > INLINE_SIZE:
            frame += self._cipher.encrypt(payload[INLINE_SIZE:].ljust(_padded(size) - INLINE_SIZE, b"\0"))
        return frame

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """See :meth:`FrameWriter.message`. Headers are shorter than the inline part (§4.8)."""
        l1, l2, l3 = len(front), len(middle), len(data)
        lengths = (len(header), l1, l2, l3)
        preamble = self._preambles.get(lengths) or self._preamble(lengths)
        pieces.append(self._cipher.encrypt(preamble + header.ljust(INLINE_SIZE, b"\0")))
        if not (l1 or l2 or l3):
            return SECURE_HEAD_SIZE
        parts = (
            front,
            _PADDING[l1 & 15],
            middle,
            _PADDING[l2 & 15],
            data,
            _PADDING[l3 & 15],
            _SECURE_EPILOGUE,
        )
        if l1 + l2 + l3 < _IN_PLACE_BYTES:
            sealed: Buffer = self._cipher.encrypt(b"".join(parts))
        else:
            sealed = bytearray().join((*parts, bytes(GCM_TAG_SIZE)))
            self._cipher.encrypt_in_place(sealed)
        pieces.append(sealed)
        return SECURE_HEAD_SIZE + len(sealed)

    def _preamble(self, lengths: tuple[int, int, int, int]) -> bytes:
        if len(self._preambles) >= _CACHE_LIMIT:
            self._preambles.clear()
        preamble = self._preambles[lengths] = _build_preamble(MESSAGE_TAG, lengths)
        return preamble
