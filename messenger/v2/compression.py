"""Compression on the wire: negotiation, reader and writer (docs/protocol.md §4.10).

Links to OSDs are compressed if both sides enable it; Ceph's OSDs enable it among themselves only. Frames above a
certain size then carry a flag and compressed segments; crcs and encryption cover the compressed bytes.
"""

from collections.abc import Sequence

from messenger.algorithms import CompressionMode
from messenger.compat import override
from messenger.denc.codec import Buffer
from messenger.errors import FaultReason, PeerError
from messenger.v2.compressor import Algorithm, Compressor
from messenger.v2.framing import Frame, Head, RawReader, RawWriter
from messenger.v2.preamble import COMPRESSED, MESSAGE_TAG, UNLIMITED, PreambleLimits, Segments
from messenger.v2.wire import CompressionDone, CompressionRequest

# ---- negotiation


def compression_request(mode: CompressionMode, methods: Sequence[Algorithm]) -> CompressionRequest:
    """The connector's request; it lists its algorithms whether or not it wants to compress."""
    return CompressionRequest(mode is not CompressionMode.NONE, list(methods))


def answer_request(
    mode: CompressionMode, methods: Sequence[Algorithm], request: CompressionRequest
) -> CompressionDone:
    """The acceptor's answer: the first of the connector's algorithms that it allows, if both sides compress."""
    if mode is CompressionMode.NONE or not request.is_compress:
        return CompressionDone(is_compress=False, method=Algorithm.NONE)
    method = next((method for method in request.methods if method and method in methods), Algorithm.NONE)
    return CompressionDone(method != Algorithm.NONE, method)


def agreed_algorithm(request: CompressionRequest, done: CompressionDone) -> Algorithm:
    """The algorithm that a connector uses from now on; NONE if the link is not compressed.

    Raises:
        PeerError: COMPRESSION: the acceptor chose an algorithm that was not offered.
    """
    if not (request.is_compress and done.is_compress):
        return Algorithm.NONE
    if done.method not in request.methods or not done.method:
        raise PeerError(FaultReason.COMPRESSION, f"the peer chose algorithm {done.method}, not offered")
    return Algorithm(done.method)


# ---- at work


class CompressingWriter:
    """Compresses the frames of another writer if they are long enough.

    Args:
        writer: builds the frames.
        compressor: the negotiated algorithm.
        min_bytes: frames are compressed if their segments have at least this many bytes in total.
    """

    __slots__ = ("_compressor", "_min_bytes", "_writer")

    def __init__(self, writer: RawWriter, compressor: Compressor, min_bytes: int) -> None:
        self._writer = writer
        self._compressor = compressor
        self._min_bytes = min_bytes

    def control(self, tag: int, payload: bytes) -> bytes:
        """Build a control frame, which has one segment."""
        small = self._smaller((payload, b"", b"", b""))
        if small is None:
            return self._writer.control(tag, payload)
        pieces: list[Buffer] = []
        self._writer.compressed(pieces, tag, small)
        return b"".join(pieces)

    def message(self, pieces: list[Buffer], header: bytes, front: Buffer, middle: Buffer, data: Buffer) -> int:
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""
        small = self._smaller((header, front, middle, data))
        if small is None:
            return self._writer.message(pieces, header, front, middle, data)
        return self._writer.compressed(pieces, MESSAGE_TAG, small)

    def _smaller(self, segments: Segments) -> Segments | None:
        """The compressed segments, even if they are longer; None if the frame is not to be compressed."""
        if sum(map(len, segments)) < self._min_bytes:
            return None
        small: list[Buffer] = []
        for segment in segments:
            packed = self._compressor.compress(segment) if segment else b""
            if packed is None:
                return None
            small.append(packed)
        s0, s1, s2, s3 = small
        return s0, s1, s2, s3


class DecompressingReader:
    """Decompresses the compressed frames of another reader.

    ``max_frame_bytes`` limits a frame on the wire, and also the total of its decompressed segments.

    Args:
        reader: reads the frames; from its next frame on, it accepts compressed ones.
        compressor: the negotiated algorithm.
        limits: ``control_bytes`` limits a decompressed control frame.
    """

    __slots__ = ("_compressor", "_control_bytes", "_reader")

    def __init__(self, reader: RawReader, compressor: Compressor, limits: PreambleLimits = UNLIMITED) -> None:
        reader.allow_compressed()
        self._reader = reader
        self._compressor = compressor
        self._control_bytes = limits.control_bytes

    @property
    @override
    def max_frame_bytes(self) -> int:
        return self._reader.max_frame_bytes

    @max_frame_bytes.setter
    def max_frame_bytes(self, value: int) -> None:
        self._reader.max_frame_bytes = value

    @property
    @override
    def needed(self) -> int:
        return self._reader.needed

    @needed.setter
    def needed(self, value: int) -> None:
        self._reader.needed = value

    def head(self, view: memoryview, start: int, end: int) -> Head | None:
        """Tag of the frame at ``view[start:end]``, and the total length of a message's front, middle and data.

        The length of a compressed frame is that on the wire.
        """
        return self._reader.head(view, start, end)

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> Frame | None:  # noqa: FBT001 - hot path
        """The frame at ``view[start:end]``, which is not empty; None while it is incomplete."""
        frame = self._reader.next_frame(view, start, end, owned)
        if frame is None or frame[1] < COMPRESSED:  # the tag of an aborted frame is below it, too
            return frame
        limit_bytes = self.max_frame_bytes
        if frame[1] & ~COMPRESSED != MESSAGE_TAG:
            limit_bytes = min(limit_bytes, self._control_bytes)
        return restored(frame, self._compressor, limit_bytes)


def restored(frame: Frame, compressor: Compressor, limit_bytes: int) -> Frame:
    """A compressed frame with its segments decompressed and its tag without :data:`COMPRESSED`.

    Raises:
        PeerError: COMPRESSION: segments are damaged, or have more than ``limit_bytes`` in total.
    """
    stop, tag, *segments = frame
    left_bytes = limit_bytes
    plain: list[Buffer] = []
    for segment in segments:
        whole = compressor.decompress(segment, left_bytes) if segment else b""
        left_bytes -= len(whole)
        plain.append(whole)
    s0, s1, s2, s3 = plain
    return stop, tag & ~COMPRESSED, s0, s1, s2, s3
