"""Building and reading frames of either revision and mode, also wrong ones."""

from collections.abc import Callable
from struct import Struct

from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.v2.framing import (
    CrcReader,
    CrcWriter,
    Frame,
    FrameCaches,
    FrameReader,
    FrameWriter,
    SecureReader,
    SecureWriter,
)
from messenger.v2.onwire import Rev0Cipher, StreamCipher, rev0_ciphers, stream_ciphers
from messenger.v2.preamble import MESSAGE_TAG, PreambleLimits
from messenger.v2.rev0 import Rev0CrcReader, Rev0CrcWriter, Rev0SecureReader, Rev0SecureWriter
from messenger.v2.revision import crc_frames, secure_frames

CONNECTION_SECRET = bytes(range(64))
LIMIT_BYTES = 1 << 20
HEADER = bytes(range(41))
MODES = ("crc", "secure")
"""Of msgr 2.1."""
REV0_MODES = ("rev0 crc", "rev0 secure")
ALL_MODES = (*MODES, *REV0_MODES)

Segments = tuple[bytes, bytes, bytes, bytes]

_PREAMBLE = Struct("<BBIHIHIHIHBB")


def ciphers() -> tuple[StreamCipher, StreamCipher]:
    """Return the receiving cipher of a client and the sending cipher of a server, with the same key and nonces."""
    receiving, _ = stream_ciphers(CONNECTION_SECRET, connector=True)
    _, sending = stream_ciphers(CONNECTION_SECRET, connector=False)
    return receiving, sending


def old_ciphers() -> tuple[Rev0Cipher, Rev0Cipher]:
    """The same for msgr 2.0."""
    receiving, _ = rev0_ciphers(CONNECTION_SECRET, connector=True)
    _, sending = rev0_ciphers(CONNECTION_SECRET, connector=False)
    return receiving, sending


def reader(mode: str, limit_bytes: int = LIMIT_BYTES) -> FrameReader:
    """A new reader of frames of a fresh :func:`writer`."""
    if mode == "crc":
        return CrcReader(limit_bytes)
    if mode == "secure":
        return SecureReader(ciphers()[0], limit_bytes)
    return Rev0CrcReader(limit_bytes) if mode == "rev0 crc" else Rev0SecureReader(old_ciphers()[0], limit_bytes)


def checking_reader(mode: str) -> FrameReader:
    """A reader that looks at alignments."""
    msgr2_features = 1 if mode in MODES else 0
    caches = FrameCaches(PreambleLimits(check_alignment=True))
    if mode.endswith("crc"):
        return crc_frames(msgr2_features, LIMIT_BYTES, caches)[0]
    return secure_frames(msgr2_features, LIMIT_BYTES, CONNECTION_SECRET, caches, connector=True)[0]


def writer(mode: str) -> FrameWriter:
    """A new writer."""
    if mode == "crc":
        return CrcWriter()
    if mode == "secure":
        return SecureWriter(ciphers()[1])
    return Rev0CrcWriter() if mode == "rev0 crc" else Rev0SecureWriter(old_ciphers()[1])


def message(
    to: FrameWriter, header: bytes, front: Buffer = b"", middle: Buffer = b"", data: Buffer = b""
) -> bytes:
    """A MESSAGE frame in one piece."""
    pieces: list[Buffer] = []
    length = to.message(pieces, header, front, middle, data)
    raw = b"".join(pieces)
    assert len(raw) == length
    return raw


def plain(frame: Frame) -> tuple[int, Segments]:
    """Tag and segments of a frame, copied out of the buffer they may lie in."""
    _, tag, *segments = frame
    s0, s1, s2, s3 = map(bytes, segments)
    return tag, (s0, s1, s2, s3)


def read_all(from_: FrameReader, raw: bytes, *, owned: bool = False) -> list[tuple[int, Segments]]:
    """Every frame in ``raw``, which must end behind one."""
    view, position = memoryview(bytearray(raw)), 0
    frames = []
    while position < len(raw):
        frame = from_.next_frame(view, position, len(raw), owned=owned)
        assert frame is not None, f"incomplete at {position} of {len(raw)}"
        frames.append(plain(frame))
        position = frame[0]
    return frames


def preamble(
    tag: int = MESSAGE_TAG,
    lengths: tuple[int, int, int, int] = (41, 0, 0, 0),
    *,
    segments: int = 1,
    alignments: tuple[int, int, int, int] = (8, 8, 8, 4096),
    flags: int = 0,
    reserved: int = 0,
) -> bytes:
    """Return a preamble with these values and a right crc."""
    sizes = [value for pair in zip(lengths, alignments, strict=True) for value in pair]
    head = _PREAMBLE.pack(tag, segments, *sizes, flags, reserved)
    return head + crc32c(head, 0).to_bytes(4, "little")


def crc_frame(
    raw_preamble: bytes, s0: bytes = b"", rest: tuple[bytes, ...] = (), late_status: int = 0x0E
) -> bytes:
    """A crc frame from its parts, with good crcs."""
    raw = raw_preamble + s0
    if s0:
        raw += crc32c(s0, 0xFFFFFFFF).to_bytes(4, "little")
    if rest:
        crcs = [crc32c(segment, 0xFFFFFFFF) for segment in rest] + [0] * (3 - len(rest))
        raw += b"".join(rest) + bytes([late_status]) + b"".join(crc.to_bytes(4, "little") for crc in crcs)
    return raw


def secure_frame(
    raw_preamble: bytes, s0: bytes = b"", rest: tuple[bytes, ...] = (), late_status: int = 0x0E
) -> bytes:
    """The first frame of a secure link from its parts, properly sealed. ``s0`` fits into the preamble's block."""
    _, cipher = ciphers()
    raw = cipher.encrypt(raw_preamble + s0.ljust(48, b"\0"))
    if rest:
        padded = b"".join(segment + bytes(-len(segment) % 16) for segment in rest)
        raw += cipher.encrypt(padded + bytes([late_status]) + bytes(15))
    return raw


def old_crc_frame(
    raw_preamble: bytes, s0: bytes = b"", rest: tuple[bytes, ...] = (), late_flags: int = 0
) -> bytes:
    """A crc frame of msgr 2.0 from its parts, with good crcs."""
    segments = (s0, *rest)
    crcs = [crc32c(segment, 0xFFFFFFFF) for segment in segments] + [0] * (4 - len(segments))
    epilogue = bytes([late_flags]) + b"".join(crc.to_bytes(4, "little") for crc in crcs)
    return raw_preamble + b"".join(segments) + epilogue


def old_secure_frame(
    raw_preamble: bytes, s0: bytes = b"", rest: tuple[bytes, ...] = (), late_flags: int = 0
) -> bytes:
    """The first frame of a secure link of msgr 2.0 from its parts, properly sealed."""
    padded = b"".join(segment + bytes(-len(segment) % 16) for segment in (s0, *rest))
    return old_ciphers()[1].encrypt(raw_preamble + padded + bytes([late_flags]) + bytes(15))


BUILDERS: dict[str, Callable[..., bytes]] = {
    "crc": crc_frame,
    "secure": secure_frame,
    "rev0 crc": old_crc_frame,
    "rev0 secure": old_secure_frame,
}
