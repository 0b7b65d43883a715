"""Frames of msgr 2.1 on the byte stream, crc and secure (docs/protocol.md §4.4, §4.5).

A reader cuts the next frame out of a receive buffer, a writer appends the pieces of a frame to a list of
buffers. Both ends of a link, the fault proxy and the decoders use the same two. This is the hot path:
repeated preambles are parsed and built once for all links of a thread, and payloads are not copied except out of a
receive buffer that will be reused.
"""

from struct import Struct
from typing import TYPE_CHECKING, Protocol

from messenger.crc import crc32c, standard_crc32c
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.pool import SLICE_BYTES, BufferPool, owned_part
from messenger.v2.onwire import GCM_TAG_SIZE, StreamCipher
from messenger.v2.preamble import (
    COMPRESSED,
    PREAMBLE_SIZE,
    UNLIMITED,
    Layout,
    Layouts,
    Lengths,
    MessagePreambles,
    PreambleLimits,
    Segments,
    build_preamble,
    check_size,
    padded,
    segment_lengths,
    used_segments,
    zero_padded,
)

if TYPE_CHECKING:
    import cython  # types of the compiled form alone (docs/compiled.md)

INLINE_SIZE = 48
"""Bytes of the first segment that secure mode encrypts together with the preamble."""
SECURE_HEAD_SIZE = PREAMBLE_SIZE + INLINE_SIZE + GCM_TAG_SIZE
ABORTED = -1
"""The tag :meth:`FrameReader.next_frame` gives a frame that its sender aborted (§4.5)."""

_U32 = Struct("<I")
_CRC_EPILOGUE = Struct("<BIII")
_pack_u32, _unpack_u32 = _U32.pack, _U32.unpack_from
_pack_crc_epilogue, _unpack_crc_epilogue = _CRC_EPILOGUE.pack, _CRC_EPILOGUE.unpack_from
_CRC_EPILOGUE_SIZE = 13
_MESSAGE_HEADER_SIZE = 41
# What nearly every frame begins with: preamble, a message's header and its crc, in one call.
_CRC_HEAD = Struct(f"<{PREAMBLE_SIZE}s{_MESSAGE_HEADER_SIZE}sI")
_CRC_HEAD_SIZE = _CRC_HEAD.size
_unpack_crc_head = _CRC_HEAD.unpack_from
_SECURE_EPILOGUE_SIZE = 16
_COMPLETE = 0x0E
_STATUS_ABORTED = 0x01
_STATUS_MASK = 0x0F
_EMPTY_CRC = 0xFFFFFFFF
_COPY_BELOW_BYTES = 16 * 1024
_COPY_SEALED_BELOW_BYTES = 512 * 1024
"""Payloads of larger secure frames are sealed where they are: copying 1 MiB costs a fifth of sealing it."""
_SECURE_EPILOGUE = bytes([_COMPLETE]) + bytes(15)
_PADDING = tuple(bytes(-n % 16) for n in range(16))
_SECURE_TAILS = tuple(padding + _SECURE_EPILOGUE for padding in _PADDING)

Frame = tuple[int, int, Buffer, Buffer, Buffer, Buffer]
"""Offset just behind the frame, tag, and the four segments (``b""`` where absent)."""
Head = tuple[int, int]
"""Tag of a frame, and the total length in bytes of its segments except the first."""


def _status(status: int, tag: int) -> int:
    """The frame's tag, or ABORTED, from the late status of its epilogue."""
    low = status & _STATUS_MASK
    if low == _COMPLETE:
        return tag
    if low == _STATUS_ABORTED:
        return ABORTED
    raise PeerError(FaultReason.FRAME, f"late status 0x{status:02x}")


class FrameReader(Protocol):
    """Cuts frames out of one direction of a link."""

    max_frame_bytes: int
    """Frames longer than this on the wire are refused before anything is allocated for them."""
    needed: int
    """Total bytes of the frame that was found incomplete; 0 while its head has not arrived."""

    def head(self, view: memoryview, start: int, end: int) -> Head | None:
        """The head of the frame at ``view[start:end]``, or None while it has not arrived.

        Raises:
            PeerError: PREAMBLE_CRC, AUTH_TAG, OVERSIZE or FRAME.
        """

    def next_frame(self, view: memoryview, start: int, end: int, *, owned: bool) -> Frame | None:
        """The frame at ``view[start:end]``, or None while it is incomplete.

        Args:
            view: the receive buffer.
            start: where the frame begins.
            end: where the received bytes end.
            owned: the buffer will not be reused, so segments may stay slices of it.

        Raises:
            PeerError: PREAMBLE_CRC, SEGMENT_CRC, AUTH_TAG, OVERSIZE, FRAME or COMPRESSION.
        """


class FrameWriter(Protocol):
    """Builds frames for one direction of a link."""

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""


class RawReader(FrameReader, Protocol):
    """A reader of frames as they are on the wire, on which decompression can be put."""

    def allow_compressed(self) -> None:
        """Accept compressed frames from the next one on; their tags have COMPRESSED added."""

    def layout(self, preamble: bytes) -> Layout:
        """The layout of the frame that a preamble announces.

        Raises:
            PeerError: PREAMBLE_CRC or FRAME.
        """


class RawWriter(FrameWriter, Protocol):
    """A writer of frames as they are on the wire, on which compression can be put."""

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire."""


class FrameCaches:
    """Caches that the links of one thread share: preambles parsed, and preambles built.

    Args:
        limits: what preambles may ask for.
    """

    __slots__ = ("crc_layouts", "limits", "message_preambles", "secure_layouts")

    def __init__(self, limits: PreambleLimits = UNLIMITED) -> None:
        self.limits = limits
        self.crc_layouts = Layouts(_crc_frame_bytes, limits)
        self.secure_layouts = Layouts(_secure_frame_bytes, limits)
        self.message_preambles = MessagePreambles()


class CrcReader:
    """Frames of crc mode: preamble, first segment and its crc, the other segments, their crcs."""

    __slots__ = ("_layouts", "max_frame_bytes", "needed")

    def __init__(self, max_frame_bytes: int, caches: FrameCaches | None = None) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self._layouts = (caches or FrameCaches()).crc_layouts

    def allow_compressed(self) -> None:
        """Accept compressed frames from the next one on; their tags have COMPRESSED added."""
        self._layouts = self._layouts.with_compressed()

    def layout(self, preamble: bytes) -> Layout:
        """The layout that a preamble announces."""
        return self._layouts[preamble]

    def head(self, view: memoryview, start: int, end: int) -> Head | None:
        """Tag of the frame at ``view[start:end]``, and the total length of its segments except the first."""
        body = start + PREAMBLE_SIZE
        if body > end:
            self.needed = 0
            return None
        tag, _, _, l1, l2, l3, total = self._layouts[view[start:body].tobytes()]
        check_size(total, self.max_frame_bytes)
        return tag & ~COMPRESSED, l1 + l2 + l3

    def next_frame(
        self, view: memoryview, start: "cython.Py_ssize_t", end: "cython.Py_ssize_t", *, owned: bool
    ) -> Frame | None:
        """The frame at ``view[start:end]``, which is not empty, or None while it is incomplete."""
        body: cython.Py_ssize_t = start + PREAMBLE_SIZE
        tag: cython.int
        segments: cython.int
        l0: cython.Py_ssize_t
        l1: cython.Py_ssize_t
        l2: cython.Py_ssize_t
        l3: cython.Py_ssize_t
        total: cython.Py_ssize_t
        status: cython.int
        crc1: cython.uint
        crc2: cython.uint
        crc3: cython.uint
        s0: Buffer = b""
        crc0: cython.uint = 0
        if start + _CRC_HEAD_SIZE <= end:
            preamble, s0, crc0 = _unpack_crc_head(view, start)  # s0, crc0: if it is a message
        elif body <= end:
            preamble = view[start:body].tobytes()
        else:
            self.needed = 0
            return None
        tag, segments, l0, l1, l2, l3, total = self._layouts[preamble]
        stop: cython.Py_ssize_t = start + total
        if stop > end or total > self.max_frame_bytes:
            self._incomplete(total)
            return None
        if l0 != _MESSAGE_HEADER_SIZE:
            s0 = view[body : body + l0].tobytes()
            if l0:
                (crc0,) = _unpack_u32(view, body + l0)
        if l0:
            if (standard_crc32c(s0) ^ 0xFFFFFFFF) != crc0:
                raise PeerError(FaultReason.SEGMENT_CRC, f"segment 0 of tag {tag & ~COMPRESSED}")
            body += l0 + 4
        if segments == 1:
            return stop, tag, s0, b"", b"", b""
        s1: Buffer = b""
        s2: Buffer = b""
        s3: Buffer = b""
        if l1:
            s1 = owned_part(view[body : body + l1]) if owned else view[body : body + l1].tobytes()
            body += l1
        if l2:
            s2 = owned_part(view[body : body + l2]) if owned else view[body : body + l2].tobytes()
            body += l2
        if l3:
            s3 = owned_part(view[body : body + l3]) if owned else view[body : body + l3].tobytes()
        status, crc1, crc2, crc3 = _unpack_crc_epilogue(view, stop - _CRC_EPILOGUE_SIZE)
        if (
            (standard_crc32c(s1) ^ 0xFFFFFFFF if l1 else _EMPTY_CRC) != crc1
            or (segments > 2 and (standard_crc32c(s2) ^ 0xFFFFFFFF if l2 else _EMPTY_CRC) != crc2)
            or (l3 and (standard_crc32c(s3) ^ 0xFFFFFFFF) != crc3)
        ):
            raise PeerError(FaultReason.SEGMENT_CRC, f"segments 1 to {segments - 1} of tag {tag & ~COMPRESSED}")
        return stop, tag if status == _COMPLETE else _status(status, tag), s0, s1, s2, s3

    def _incomplete(self, total: int) -> None:
        check_size(total, self.max_frame_bytes)
        self.needed = total


def _crc_frame_bytes(segments: int, lengths: Lengths) -> int:
    total = PREAMBLE_SIZE + sum(lengths[:segments]) + (4 if lengths[0] else 0)
    return total + _CRC_EPILOGUE_SIZE if segments > 1 else total


class CrcWriter:
    """Frames of crc mode."""

    __slots__ = ("_preambles",)

    def __init__(self, caches: FrameCaches | None = None) -> None:
        self._preambles = (caches or FrameCaches()).message_preambles

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        preamble = build_preamble(tag, (len(payload), 0, 0, 0))
        if not payload:
            return preamble
        return preamble + payload + _pack_u32(crc32c(payload, 0xFFFFFFFF))

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""
        l0: cython.Py_ssize_t = len(header)
        l1: cython.Py_ssize_t = len(front)
        l2: cython.Py_ssize_t = len(middle)
        l3: cython.Py_ssize_t = len(data)
        size: cython.Py_ssize_t
        preamble = self._preambles[l0, l1, l2, l3]
        pieces.append(preamble + header + _pack_u32(standard_crc32c(header) ^ 0xFFFFFFFF))
        size = PREAMBLE_SIZE + l0 + 4
        if not (l1 or l2 or l3):
            return size
        if l1:
            pieces.append(front)
        if l2:
            pieces.append(middle)
        if l3:
            pieces.append(data)
        crc1 = standard_crc32c(front) ^ 0xFFFFFFFF if l1 else _EMPTY_CRC
        # An empty segment inside the count has the crc of nothing, slots beyond it hold 0.
        crc2 = standard_crc32c(middle) ^ 0xFFFFFFFF if l2 else _EMPTY_CRC if l3 else 0
        crc3 = standard_crc32c(data) ^ 0xFFFFFFFF if l3 else 0
        pieces.append(_pack_crc_epilogue(_COMPLETE, crc1, crc2, crc3))
        return size + l1 + l2 + l3 + _CRC_EPILOGUE_SIZE

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire."""
        s0, *rest = segments
        used = used_segments(lengths := segment_lengths(segments))
        frame: list[Buffer] = [build_preamble(tag, lengths, compressed=True)]
        if s0:
            frame += [s0, _pack_u32(crc32c(s0, 0xFFFFFFFF))]
        if used > 1:
            crcs = [crc32c(segment, 0xFFFFFFFF) if number < used else 0 for number, segment in enumerate(rest, 1)]
            frame += [*(segment for segment in rest if segment), _pack_crc_epilogue(_COMPLETE, *crcs)]
        pieces += frame
        return sum(map(len, frame))


class SecureReader:
    """Frames of secure mode: preamble and inline part in one operation, then up to two more (§4.5)."""

    __slots__ = ("_head", "_layouts", "_opened", "cipher", "max_frame_bytes", "needed")

    def __init__(self, cipher: StreamCipher, max_frame_bytes: int, caches: FrameCaches | None = None) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self.cipher = cipher
        self._layouts = (caches or FrameCaches()).secure_layouts
        self._head = b""
        self._opened = False  # the head is that of the frame to be read next

    def allow_compressed(self) -> None:
        """Accept compressed frames from the next one on; their tags have COMPRESSED added."""
        self._layouts = self._layouts.with_compressed()

    def layout(self, preamble: bytes) -> Layout:
        """The layout that a preamble announces."""
        return self._layouts[preamble]

    def head(self, view: memoryview, start: int, end: int) -> Head | None:
        """Tag of the frame at ``view[start:end]``, and the total length of its segments except the first."""
        if not self._open_head(view, start, end):
            return None
        tag, _, _, l1, l2, l3, total = self._layouts[self._head[:PREAMBLE_SIZE]]
        check_size(total, self.max_frame_bytes)
        return tag & ~COMPRESSED, l1 + l2 + l3

    @property
    def opened_head(self) -> bytes | None:
        """Preamble and inline part of the frame that was found incomplete; None if they have not arrived."""
        return self._head if self._opened else None

    def _open_head(self, view: memoryview, start: int, end: int) -> bool:
        """Decrypt the head of the frame, once; False while it has not arrived."""
        if not self._opened:
            body = start + SECURE_HEAD_SIZE
            if body > end:
                self.needed = 0
                return False
            self._head = self.cipher.decrypt(view[start:body])
            self._opened = True
        return True

    def next_frame(
        self, view: memoryview, start: "cython.Py_ssize_t", end: "cython.Py_ssize_t", *, owned: bool
    ) -> Frame | None:
        """The frame at ``view[start:end]``, which is not empty, or None while it is incomplete."""
        if not self._opened and not self._open_head(view, start, end):
            return None
        body = start + SECURE_HEAD_SIZE
        head = self._head
        tag, segments, l0, l1, l2, l3, total = self._layouts[head[:PREAMBLE_SIZE]]
        stop: cython.Py_ssize_t = start + total
        if stop > end or total > self.max_frame_bytes:
            self._incomplete(total)
            return None
        self._opened = False
        if l0 <= INLINE_SIZE:
            s0 = head[PREAMBLE_SIZE : PREAMBLE_SIZE + l0]
        else:
            rest = body + padded(l0) - INLINE_SIZE + GCM_TAG_SIZE
            s0 = head[PREAMBLE_SIZE:] + self.cipher.decrypt(view[body:rest])[: l0 - INLINE_SIZE]
            body = rest
        if segments == 1:
            return stop, tag, s0, b"", b"", b""
        sealed = view[body:stop]
        at2 = (l1 + 15) & ~15
        at3 = at2 + ((l2 + 15) & ~15)
        s1: Buffer = b""
        s2: Buffer = b""
        s3: Buffer = b""
        if owned and len(sealed) > SLICE_BYTES:
            opened = self.cipher.decrypt_in_place(sealed)
            status = opened[-_SECURE_EPILOGUE_SIZE]
            s1 = owned_part(opened[:l1])
            s2 = owned_part(opened[at2 : at2 + l2])
            s3 = owned_part(opened[at3 : at3 + l3])
        else:
            plain: Buffer = self.cipher.decrypt(sealed)
            status = plain[-_SECURE_EPILOGUE_SIZE]
            if l3 > _COPY_BELOW_BYTES:
                plain = memoryview(plain)
            if l1:
                s1 = plain[:l1]
            if l2:
                s2 = plain[at2 : at2 + l2]
            if l3:
                s3 = plain[at3 : at3 + l3]
        return stop, tag if status == _COMPLETE else _status(status, tag), s0, s1, s2, s3

    def _incomplete(self, total: int) -> None:
        check_size(total, self.max_frame_bytes)
        self.needed = total


def _secure_frame_bytes(segments: int, lengths: Lengths) -> int:
    total = SECURE_HEAD_SIZE
    if lengths[0] > INLINE_SIZE:
        total += padded(lengths[0]) - INLINE_SIZE + GCM_TAG_SIZE
    if segments > 1:
        total += sum(map(padded, lengths[1:segments])) + _SECURE_EPILOGUE_SIZE + GCM_TAG_SIZE
    return total


class SecureWriter:
    """Frames of secure mode."""

    __slots__ = ("_pool", "_preambles", "cipher")

    def __init__(
        self, cipher: StreamCipher, pool: BufferPool | None = None, caches: FrameCaches | None = None
    ) -> None:
        self.cipher = cipher
        self._pool = pool or BufferPool()
        self._preambles = (caches or FrameCaches()).message_preambles

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        size = len(payload)
        inline = payload[:INLINE_SIZE].ljust(INLINE_SIZE, b"\0")
        frame = self.cipher.encrypt(build_preamble(tag, (size, 0, 0, 0)) + inline)
        if size > INLINE_SIZE:
            frame += self.cipher.encrypt(payload[INLINE_SIZE:].ljust(padded(size) - INLINE_SIZE, b"\0"))
        return frame

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire.

        Headers are shorter than the inline part (§4.8).
        """
        l1, l2, l3 = len(front), len(middle), len(data)
        preamble = self._preambles[len(header), l1, l2, l3]
        pieces.append(self.cipher.encrypt(preamble + header.ljust(INLINE_SIZE, b"\0")))
        if not (l1 or l2 or l3):
            return SECURE_HEAD_SIZE
        head = b"".join((front, _PADDING[l1 & 15], middle, _PADDING[l2 & 15])) if l1 or l2 else b""
        tail = _SECURE_TAILS[l3 & 15]
        if l1 + l2 + l3 < _COPY_BELOW_BYTES:
            sealed: Buffer = self.cipher.encrypt(b"".join((head, data, tail)))
        else:
            sealed = self._seal_in_place(head, data, tail)
        pieces.append(sealed)
        return SECURE_HEAD_SIZE + len(sealed)

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire.

        Here the first segment may be longer than the inline part.
        """
        s0, *rest = segments
        head = build_preamble(tag, segment_lengths(segments), compressed=True)
        frame = [self.cipher.encrypt(head + bytes(s0[:INLINE_SIZE]).ljust(INLINE_SIZE, b"\0"))]
        if len(s0) > INLINE_SIZE:
            frame.append(self.cipher.encrypt(zero_padded(s0[INLINE_SIZE:])))
        if any(rest):
            frame.append(self.cipher.encrypt(b"".join([*map(zero_padded, rest), _SECURE_EPILOGUE])))
        pieces += frame
        return sum(map(len, frame))

    def use_pool(self, pool: BufferPool) -> None:
        """Seal large frames in buffers of this pool from now on."""
        self._pool = pool

    def _seal_in_place(self, head: bytes, data: Buffer, tail: bytes) -> memoryview:
        """The parts of a large frame, sealed in a buffer of the pool."""
        if isinstance(data, memoryview) and data.format != "B":
            data = data.tobytes()  # the view of the pool's buffer takes no other
        at_data = len(head)
        at_tail = at_data + len(data)
        at_tag = at_tail + len(tail)
        sealed = self._pool.take(at_tag + GCM_TAG_SIZE)
        if at_tag >= _COPY_SEALED_BELOW_BYTES:
            self.cipher.encrypt_into((head, data, tail), sealed)
            return sealed
        sealed[:at_data] = head
        sealed[at_data:at_tail] = data
        sealed[at_tail:at_tag] = tail
        self.cipher.encrypt_in_place(sealed)
        return sealed
