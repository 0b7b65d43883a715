"""Banner, control frames by tag, and message headers as histories show them.

See docs/protocol.md §4.2, §4.3, §4.8.
"""

import json
from collections.abc import Iterator

from messenger.cephx.exchange import ConMode
from messenger.errors import PeerError
from messenger.v2.wire import (
    CONTROL_FRAMES,
    MESSAGE_HEADER,
    decode_banner,
    decode_control,
    encode_banner,
    printable_message,
)
from tests.fuzz.seeds import conversation, structure_seeds
from tests.fuzz.target import BrokenPromise, Cursor, Cut, Target, require_same, same_for_every_cut
from toolkit.dissect.direction import Direction


def run_banner(data: bytes) -> None:
    """The verdict on a growing buffer; once there is one, more bytes do not change it."""

    def play(cut: Cut) -> object:
        received = b""
        for piece in cut(data):
            received += piece
            try:
                banner = decode_banner(memoryview(received))
            except PeerError as error:
                return error.reason  # its text quotes what had arrived
            if banner is not None:
                return banner
        return None

    found = same_for_every_cut(play)
    if isinstance(found, tuple):
        size, supported, required = found
        if size > len(data):
            raise BrokenPromise(f"a banner of {size} bytes in {len(data)}")
        again = decode_banner(memoryview(encode_banner(supported, required)))
        require_same("the masks, encoded and decoded", again and again[1:], (supported, required))


def banner_seeds() -> Iterator[bytes]:
    """A banner as it is sent, a longer one, those of v1 and of others."""
    yield encode_banner(1, 1)
    yield b"ceph v2\n\x12\x00" + bytes(20)
    yield from (
        b"ceph v027" + bytes(20),
        b"HTTP/1.1 400\r\n",
        b"GET / HTTP/1.1",
        b"SSH-2.0-x",
        b"\x16\x03\x01\x02",
    )


def run_control(data: bytes) -> None:
    """A frame of any tag: the tag, the length of a second segment, the two segments."""
    cursor = Cursor(data)
    tag, second, rest = cursor.number(), cursor.number(), cursor.rest()
    cut_at = len(rest) - min(second, len(rest))
    try:
        frame = decode_control(tag, (memoryview(rest)[:cut_at], rest[cut_at:], b"", b""))
    except PeerError:
        return
    require_same("the tag of the frame, and its own", int(frame.TAG), tag)
    json.dumps(frame.printable(), allow_nan=False)
    require_same("decoded, encoded and decoded again", decode_control(tag, (frame.encode(),)), frame)


def control_seeds() -> Iterator[bytes]:
    """Every control frame there was in a conversation."""
    for tag, frame in CONTROL_FRAMES.items():
        yield from (bytes([tag, 0]) + raw for raw in structure_seeds(frame))
    yield from (b"\x11\0", b"\x15\0\1", b"\xff\0", b"\x10\3abc")


def run_header(data: bytes) -> None:
    """The header of a MESSAGE frame as JSON."""
    try:
        json.dumps(printable_message((data, b"", b"", b"")), allow_nan=False)
    except PeerError:
        if len(data) >= MESSAGE_HEADER.size:
            raise


def header_seeds() -> Iterator[bytes]:
    """A real header and one that is too short."""
    for direction, raw in conversation("none", ConMode.CRC):
        if direction is Direction.TO_SERVER and raw[0] == 0x11:
            yield raw[32:73]
    yield bytes(40)


TARGETS = (
    Target(name="v2-banner", run=run_banner, seeds=banner_seeds, mutations=200, max_bytes=80),
    Target(name="v2-control", run=run_control, seeds=control_seeds, max_bytes=600),
    Target(name="v2-header", run=run_header, seeds=header_seeds, mutations=100, max_bytes=80),
)
