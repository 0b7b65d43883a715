"""Frames of msgr 2.1 on the byte stream, crc and secure (docs/protocol.md §4.4, §4.5).

A reader cuts the next frame out of a receive buffer, a writer appends the pieces of a frame to a list of
buffers. Both ends of a link, the fault proxy and the decoders use the same two. This is the hot path:
repeated preambles are parsed and built once for all links of a thread, and payloads are not copied except out of a
receive buffer that will be reused.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from messenger.crc import crc32c, standard_crc32c
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.pool import SLICE_BYTES, BufferPool, owned_part
from messenger.v2.onwire import GCM_TAG_SIZE, StreamCipher
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
_pack_crc_head, _unpack_crc_head = _CRC_HEAD.pack, _CRC_HEAD.unpack_from
_SECURE_EPILOGUE_SIZE = 16
# Sizes as numbers of C, in the compiled form.
_PREAMBLE_BYTES = PREAMBLE_SIZE
_INLINE_BYTES = INLINE_SIZE
_SECURE_HEAD_BYTES = SECURE_HEAD_SIZE
_TAG_BYTES = GCM_TAG_SIZE
_COMPLETE = 0x0E
_STATUS_ABORTED = 0x01
_STATUS_MASK = 0x0F
_EMPTY_CRC = 0xFFFFFFFF
_COPY_BELOW_BYTES = 16 * 1024
_SMALL_FRAME_BYTES = 8 * 1024
"""Crc frames up to this length are built and taken apart by one call of ``struct`` each, which copies them."""
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

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame | None:  # noqa: FBT001 - hot path
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
    """Caches that the links of one thread share: parsed preambles, and templates for messages of the same lengths.

    Args:
        limits: what preambles may ask for.
    """

    __slots__ = ("crc_layouts", "limits", "message_frames", "secure_layouts")

    def __init__(self, limits: PreambleLimits = UNLIMITED) -> None:
        self.limits = limits
        self.crc_layouts = Layouts(_crc_frame_bytes, limits)
        self.secure_layouts = Layouts(_secure_frame_bytes, limits)
        self.message_frames = MessageFrames()


class CrcReader:
    """Frames of crc mode: preamble, first segment and its crc, the other segments, their crcs.

    A small message with the preamble of the two before it is taken apart in one step.
    """

    __slots__ = (
        "_frames",
        "_layouts",
        "_small_bytes",
        "_small_preamble",
        "_small_segments",
        "_small_unpack",
        "max_frame_bytes",
        "needed",
    )

    def __init__(self, max_frame_bytes: int, caches: FrameCaches | None = None) -> None:
        caches = caches or FrameCaches()
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self._layouts = caches.crc_layouts
        self._frames = caches.message_frames
        self._small_preamble = b""
        """Of the last small message."""
        self._small_segments = 0
        self._small_bytes = 0
        """Length of a frame with that preamble, once two in a row had it; else 0."""
        self._small_unpack: Callable[[memoryview, int], tuple[Any, ...]] = _unpack_crc_head

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
        self,
        view: memoryview,
        start: "cython.Py_ssize_t",
        end: "cython.Py_ssize_t",
        owned: bool,  # noqa: FBT001 - hot path
    ) -> Frame | None:
        """The frame at ``view[start:end]``, which is not empty, or None while it is incomplete."""
        small = self._small_bytes
        if 0 < small <= end - start:
            preamble, s0, crc0, s1, s2, s3, status, crc1, crc2, crc3 = self._small_unpack(view, start)
            if preamble == self._small_preamble and status == _COMPLETE:
                crc = standard_crc32c(s0)
                crc0 ^= crc  # 32 bits that are 1, if both agree
                if s1:
                    crc = standard_crc32c(s1)
                    crc1 ^= crc
                if s2:
                    crc = standard_crc32c(s2)
                    crc2 ^= crc
                if s3:
                    crc = standard_crc32c(s3)
                    crc3 ^= crc
                if (
                    crc0 == _EMPTY_CRC
                    and crc1 == _EMPTY_CRC
                    and (crc2 == _EMPTY_CRC or self._small_segments < 3)
                    and (crc3 == _EMPTY_CRC or not s3)
                ):
                    return start + small, MESSAGE_TAG, s0, s1, s2, s3
            self._small_bytes = 0
        return self._any_frame(view, start, end, owned)

    def _any_frame(
        self,
        view: memoryview,
        start: "cython.Py_ssize_t",
        end: "cython.Py_ssize_t",
        owned: bool,  # noqa: FBT001
    ) -> Frame | None:
        """As :meth:`next_frame`, whatever frame it is."""
        body = start + _PREAMBLE_BYTES
        s0, crc0 = b"", 0
        if start + _CRC_HEAD_SIZE <= end:
            preamble, s0, crc0 = _unpack_crc_head(view, start)  # s0, crc0: if it is a message
        elif body <= end:
            preamble = view[start:body].tobytes()
        else:
            self.needed = 0
            return None
        tag, segments, l0, l1, l2, l3, total = self._layouts[preamble]
        stop = start + total
        if stop > end or total > self.max_frame_bytes:
            self._incomplete(total)
            return None
        if l0 != _MESSAGE_HEADER_SIZE:
            s0 = view[body : body + l0].tobytes()
            if l0:
                (crc0,) = _unpack_u32(view, body + l0)
        if l0:
            crc = standard_crc32c(s0)
            if crc ^ 0xFFFFFFFF != crc0:
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
            ((crc := standard_crc32c(s1)) if l1 else 0) ^ 0xFFFFFFFF != crc1
            or (segments > 2 and ((crc := standard_crc32c(s2)) if l2 else 0) ^ 0xFFFFFFFF != crc2)
            or (l3 and (crc := standard_crc32c(s3)) ^ 0xFFFFFFFF != crc3)
        ):
            raise PeerError(FaultReason.SEGMENT_CRC, f"segments 1 to {segments - 1} of tag {tag & ~COMPRESSED}")
        if tag == MESSAGE_TAG and total <= _SMALL_FRAME_BYTES and status == _COMPLETE:
            self._expect(preamble, segments, (l0, l1, l2, l3), total)
            return stop, tag, s0, s1, s2, s3
        return stop, tag if status == _COMPLETE else _status(status, tag), s0, s1, s2, s3

    def _expect(self, preamble: bytes, segments: int, lengths: Lengths, total: int) -> None:
        """A small message was read: if it has the preamble of the one before it, expect another one like it."""
        if preamble == self._small_preamble:
            self._small_segments = segments
            self._small_bytes = total
            self._small_unpack = self._frames[lengths].unpack
        else:
            self._small_preamble = preamble
            self._small_bytes = 0

    def _incomplete(self, total: int) -> None:
        check_size(total, self.max_frame_bytes)
        self.needed = total


def _crc_frame_bytes(segments: int, lengths: Lengths) -> int:
    total = _PREAMBLE_BYTES + sum(lengths[:segments]) + (4 if lengths[0] else 0)
    return total + _CRC_EPILOGUE_SIZE if segments > 1 else total


class CrcWriter:
    """Frames of crc mode."""

    __slots__ = ("_frames",)

    def __init__(self, caches: FrameCaches | None = None) -> None:
        self._frames = (caches or FrameCaches()).message_frames

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        preamble = build_preamble(tag, (len(payload), 0, 0, 0))
        if not payload:
            return preamble
        return preamble + payload + _pack_u32(crc32c(payload, 0xFFFFFFFF))

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""
        l0: cython.Py_ssize_t = len(header)
        if l0 != _MESSAGE_HEADER_SIZE:  # only crafted frames have another length
            return self._any_frame(pieces, MESSAGE_TAG, (header, front, middle, data))
        l1: cython.Py_ssize_t = len(front)
        l2: cython.Py_ssize_t = len(middle)
        l3: cython.Py_ssize_t = len(data)
        size: cython.Py_ssize_t = l1 + l2 + l3
        preamble, pack, _ = self._frames[l0, l1, l2, l3]
        crc0: cython.uint = standard_crc32c(header)
        crc0 ^= _EMPTY_CRC
        if not size:
            pieces.append(_pack_crc_head(preamble, header, crc0))
            return _CRC_HEAD_SIZE
        # An empty segment inside the count has the crc of nothing, slots beyond it hold 0.
        crc1: cython.uint = 0
        crc2: cython.uint = 0
        crc3: cython.uint = 0
        if l1:
            crc1 = standard_crc32c(front)
        if l2:
            crc2 = standard_crc32c(middle)
        if l3:
            crc3 = standard_crc32c(data)
            crc3 ^= _EMPTY_CRC
        if l2 or l3:
            crc2 ^= _EMPTY_CRC
        crc1 ^= _EMPTY_CRC
        size += _CRC_HEAD_SIZE + _CRC_EPILOGUE_SIZE
        if size <= _SMALL_FRAME_BYTES and type(data) is bytes and type(front) is bytes and type(middle) is bytes:
            pieces.append(pack(preamble, header, crc0, front, middle, data, _COMPLETE, crc1, crc2, crc3))
            return size
        pieces.append(_pack_crc_head(preamble, header, crc0))
        if l1:
            pieces.append(front)
        if l2:
            pieces.append(middle)
        if l3:
            pieces.append(data)
        pieces.append(_pack_crc_epilogue(_COMPLETE, crc1, crc2, crc3))
        return size

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire."""
        return self._any_frame(pieces, tag, segments, compressed=True)

    def _any_frame(self, pieces: list[Buffer], tag: int, segments: Segments, *, compressed: bool = False) -> int:
        s0, *rest = segments
        used = used_segments(lengths := segment_lengths(segments))
        frame: list[Buffer] = [build_preamble(tag, lengths, compressed=compressed)]
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
        tag, _, _, l1, l2, l3, total = self._layouts[self._head[:_PREAMBLE_BYTES]]
        check_size(total, self.max_frame_bytes)
        return tag & ~COMPRESSED, l1 + l2 + l3

    @property
    def opened_head(self) -> bytes | None:
        """Preamble and inline part of the frame that was found incomplete; None if they have not arrived."""
        return self._head if self._opened else None

    def _open_head(self, view: memoryview, start: "cython.Py_ssize_t", end: "cython.Py_ssize_t") -> bool:
        """Decrypt the head of the frame, once; False while it has not arrived."""
        if not self._opened:
            body = start + _SECURE_HEAD_BYTES
            if body > end:
                self.needed = 0
                return False
            self._head = self.cipher.decrypt(view[start:body])
            self._opened = True
        return True

    def next_frame(
        self,
        view: memoryview,
        start: "cython.Py_ssize_t",
        end: "cython.Py_ssize_t",
        owned: bool,  # noqa: FBT001 - hot path
    ) -> Frame | None:
        """The frame at ``view[start:end]``, which is not empty, or None while it is incomplete."""
        if not self._opened and not self._open_head(view, start, end):
            return None
        body = start + _SECURE_HEAD_BYTES
        head = self._head
        tag, segments, l0, l1, l2, l3, total = self._layouts[head[:_PREAMBLE_BYTES]]
        stop = start + total
        if stop > end or total > self.max_frame_bytes:
            self._incomplete(total)
            return None
        self._opened = False
        if l0 <= _INLINE_BYTES:
            s0 = head[_PREAMBLE_BYTES : _PREAMBLE_BYTES + l0]
        else:
            rest = body + padded(l0) - _INLINE_BYTES + _TAG_BYTES
            s0 = head[_PREAMBLE_BYTES:] + self.cipher.decrypt(view[body:rest])[: l0 - _INLINE_BYTES]
            body = rest
        if segments == 1:
            return stop, tag, s0, b"", b"", b""
        sealed = view[body:stop]
        at2 = (l1 + 15) & ~15
        at3 = at2 + ((l2 + 15) & ~15)
        s1: Buffer = b""
        s2: Buffer = b""
        s3: Buffer = b""
        if owned and stop - body > SLICE_BYTES:
            opened = self.cipher.decrypt_in_place(sealed)
            status = opened[-_SECURE_EPILOGUE_SIZE]
            s1 = owned_part(opened[:l1])
            s2 = owned_part(opened[at2 : at2 + l2])
            s3 = owned_part(opened[at3 : at3 + l3])
        else:
            plain = self.cipher.decrypt(sealed)
            status = plain[-_SECURE_EPILOGUE_SIZE]
            if l1:
                s1 = plain[:l1]
            if l2:
                s2 = plain[at2 : at2 + l2]
            if l3 > _COPY_BELOW_BYTES:
                s3 = memoryview(plain)[at3 : at3 + l3]
            elif l3:
                s3 = plain[at3 : at3 + l3]
        return stop, tag if status == _COMPLETE else _status(status, tag), s0, s1, s2, s3

    def _incomplete(self, total: int) -> None:
        check_size(total, self.max_frame_bytes)
        self.needed = total


def _secure_frame_bytes(segments: int, lengths: Lengths) -> int:
    total = _SECURE_HEAD_BYTES
    if lengths[0] > _INLINE_BYTES:
        total += padded(lengths[0]) - _INLINE_BYTES + _TAG_BYTES
    if segments > 1:
        total += sum(map(padded, lengths[1:segments])) + _SECURE_EPILOGUE_SIZE + _TAG_BYTES
    return total


class SecureWriter:
    """Frames of secure mode."""

    __slots__ = ("_frames", "_pool", "cipher")

    def __init__(
        self, cipher: StreamCipher, pool: BufferPool | None = None, caches: FrameCaches | None = None
    ) -> None:
        self.cipher = cipher
        self._pool = pool or BufferPool()
        self._frames = (caches or FrameCaches()).message_frames

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        size = len(payload)
        inline = payload[:_INLINE_BYTES].ljust(_INLINE_BYTES, b"\0")
        frame = self.cipher.encrypt(build_preamble(tag, (size, 0, 0, 0)) + inline)
        if size > _INLINE_BYTES:
            frame += self.cipher.encrypt(payload[_INLINE_BYTES:].ljust(padded(size) - _INLINE_BYTES, b"\0"))
        return frame

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire.

        Headers are shorter than the inline part (§4.8).
        """
        l1: cython.Py_ssize_t = len(front)
        l2: cython.Py_ssize_t = len(middle)
        l3: cython.Py_ssize_t = len(data)
        preamble = self._frames[len(header), l1, l2, l3].preamble
        pieces.append(self.cipher.encrypt(preamble + header.ljust(_INLINE_BYTES, b"\0")))
        if not (l1 or l2 or l3):
            return _SECURE_HEAD_BYTES
        head = b"".join((front, _PADDING[l1 & 15], middle, _PADDING[l2 & 15])) if l1 or l2 else b""
        tail = _SECURE_TAILS[l3 & 15]
        if l1 + l2 + l3 < _COPY_BELOW_BYTES:
            sealed: Buffer = self.cipher.encrypt(b"".join((head, data, tail)))
        else:
            sealed = self._seal_in_place(head, data, tail)
        pieces.append(sealed)
        return _SECURE_HEAD_BYTES + len(sealed)

    def compressed(self, pieces: list[Buffer], tag: int, segments: Segments) -> int:
        """Append a frame whose segments are compressed already; returns its length on the wire.

        Here the first segment may be longer than the inline part.
        """
        s0, *rest = segments
        head = build_preamble(tag, segment_lengths(segments), compressed=True)
        frame = [self.cipher.encrypt(head + bytes(s0[:_INLINE_BYTES]).ljust(_INLINE_BYTES, b"\0"))]
        if len(s0) > _INLINE_BYTES:
            frame.append(self.cipher.encrypt(zero_padded(s0[_INLINE_BYTES:])))
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
        sealed = self._pool.take(at_tag + _TAG_BYTES)
        if at_tag >= _COPY_SEALED_BELOW_BYTES:
            self.cipher.encrypt_into((head, data, tail), sealed)
            return sealed
        sealed[:at_data] = head
        sealed[at_data:at_tail] = data
        sealed[at_tail:at_tag] = tail
        self.cipher.encrypt_in_place(sealed)
        return sealed
