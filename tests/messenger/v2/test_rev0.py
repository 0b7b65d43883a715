"""Frames of msgr 2.0: the vectors of docs/protocol.md §10, late flags, and what was changed on the way.

What both revisions have in common is in test_framing.py.
"""

import pytest

from messenger.errors import FaultReason, PeerError
from messenger.v2.framing import ABORTED
from messenger.v2.wire import MESSAGE_HEADER, KeepAlive2, decode_control
from tests.support.frames import (
    BUILDERS,
    HEADER,
    REV0_MODES,
    Segments,
    message,
    preamble,
    read_all,
    reader,
    writer,
)

KEEPALIVE = KeepAlive2(0x65000000, 0x075BCD15)
KEEPALIVES = {
    "rev0 crc": (
        "12010800000008000000000000000000000000000000000000000000d8d5f5990000006515cd5b070092ae1e3a00000000000000"
        "0000000000"
    ),
    "rev0 secure": (
        "d62f0baf0f4fbeef17dd5df5c727eb3e3abc748736f46bbf85cb2911bfd0e434d2d9215a946ba01be3a0d5c8dad0511b89b8f12b"
        "f9c3bbe86b152db687904698dcaa8202508f4daa1b6456de4752a374"
    ),
}


@pytest.mark.parametrize("mode", REV0_MODES)
def test_control_frame_vectors(mode: str) -> None:
    raw = KEEPALIVES[mode]
    assert writer(mode).control(KEEPALIVE.TAG, KEEPALIVE.encode()).hex() == raw
    ((tag, segments),) = read_all(reader(mode), bytes.fromhex(raw))
    assert decode_control(tag, segments) == KEEPALIVE


def test_empty_segment_inside_the_count_has_the_crc_of_an_empty_text() -> None:
    header = MESSAGE_HEADER.pack(1, 0, 2, 127, 1, 0, 0, 0, 3, 1, 0)
    raw = message(writer("rev0 crc"), header, b"AB", b"", b"data!")
    assert raw[-17:].hex() == "00d4496b8a15bb6b42ffffffffa61b425e"
    assert len(raw) == 32 + 41 + 2 + 5 + 17


@pytest.mark.parametrize(
    ("mode", "size"), [("rev0 crc", 32 + 41 + 5 + 100 + 17), ("rev0 secure", 32 + 48 + 16 + 112 + 16 + 16)]
)
def test_a_frame_has_one_epilogue_and_at_most_one_tag(mode: str, size: int) -> None:
    assert len(message(writer(mode), HEADER, b"front", b"", bytes(100))) == size


@pytest.mark.parametrize("mode", REV0_MODES)
@pytest.mark.parametrize("late_flags", [0x01, 0x03, 0xFF])
def test_an_aborted_frame_is_reported_as_such(mode: str, late_flags: int) -> None:
    head = preamble(lengths=(41, 5, 0, 0), segments=2)
    ((tag, _),) = read_all(reader(mode), BUILDERS[mode](head, HEADER, (bytes(5),), late_flags=late_flags))
    assert tag == ABORTED


@pytest.mark.parametrize("mode", REV0_MODES)
@pytest.mark.parametrize("late_flags", [0x02, 0x0E, 0xFE])
def test_other_late_flags_are_ignored(mode: str, late_flags: int) -> None:
    head = preamble(lengths=(41, 0, 0, 0))
    raw = BUILDERS[mode](head, HEADER, late_flags=late_flags)
    assert read_all(reader(mode), raw) == [(17, (HEADER, b"", b"", b""))]


@pytest.mark.parametrize("segments", [(HEADER, b"", b"", b""), (HEADER, b"front", b"", b"data")])
def test_every_flipped_byte_of_a_secure_frame_faults(segments: Segments) -> None:
    """The preamble is decrypted ahead of the tag, so its own crc speaks first."""
    raw = message(writer("rev0 secure"), *segments)
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 0x01
        with pytest.raises(PeerError) as caught:
            read_all(reader("rev0 secure"), bytes(changed))
        expected = FaultReason.PREAMBLE_CRC if position < 32 else FaultReason.AUTH_TAG
        assert caught.value.reason is expected, position


@pytest.mark.parametrize("segments", [(HEADER, b"", b"", b""), (HEADER, b"front", b"", b"data")])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_covered_byte_of_a_crc_frame_faults(segments: Segments, mask: int) -> None:
    raw = message(writer("rev0 crc"), *segments)
    used = 4 if segments[3] else 1
    late_flags = len(raw) - 17
    covered = [*range(late_flags), *range(late_flags + 1, late_flags + 1 + 4 * used)]
    for position in covered:
        changed = bytearray(raw)
        changed[position] ^= mask
        with pytest.raises(PeerError) as caught:
            read_all(reader("rev0 crc"), bytes(changed))
        expected = FaultReason.PREAMBLE_CRC if position < 32 else FaultReason.SEGMENT_CRC
        assert caught.value.reason is expected, position


def test_secure_frames_only_open_once_and_in_order() -> None:
    out = writer("rev0 secure")
    first, second = message(out, HEADER, b"1"), message(out, HEADER, b"2")
    assert len(read_all(reader("rev0 secure"), first + second)) == 2
    for raw in second + first, first + first:
        with pytest.raises(PeerError) as caught:
            read_all(reader("rev0 secure"), raw)
        assert caught.value.reason is FaultReason.PREAMBLE_CRC


def test_frames_are_not_returned_before_their_tag_is_verified() -> None:
    raw = message(writer("rev0 secure"), HEADER, b"front")
    from_ = reader("rev0 secure")
    for end in range(len(raw)):
        assert from_.next_frame(memoryview(raw), 0, end, owned=False) is None
    forged = bytearray(raw)
    forged[-1] ^= 1
    with pytest.raises(PeerError) as caught:
        from_.next_frame(memoryview(forged), 0, len(forged), owned=False)
    assert caught.value.reason is FaultReason.AUTH_TAG


@pytest.mark.parametrize("mode", REV0_MODES)
def test_segments_are_slices_of_an_owned_buffer_or_copies(mode: str) -> None:
    raw = message(writer(mode), HEADER, b"front", b"", b"data" * 1000)
    view = memoryview(bytearray(raw))
    frame = reader(mode).next_frame(view, 0, len(raw), owned=False)
    assert frame is not None
    view[:] = bytes(len(raw))
    assert bytes(frame[5]) == b"data" * 1000
