"""Changes of frames by an attacker in the middle: each change, where it strikes, and well-formed changes."""

from dataclasses import replace

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import LocalError, PeerError
from messenger.v2.framing import CrcReader, CrcWriter
from messenger.v2.rev0 import Rev0CrcReader, Rev0CrcWriter
from messenger.v2.wire import Ack, AuthRequest, Hello, Tag, decode_control, encode_banner
from toolkit.dissect.direction import Direction
from toolkit.faults.mangle import (
    Change,
    Drop,
    Duplicate,
    Flip,
    Insert,
    Join,
    Mangle,
    Reflect,
    Replace,
    Replay,
    Rewrite,
    Swap,
    Truncate,
)
from toolkit.faults.passage import Passage
from toolkit.faults.tap import LinkTap, Tape, Trickle

BANNER = encode_banner(1, 0)
ACKS = [CrcWriter().control(Ack.TAG, Ack(seq).encode()) for seq in range(1, 6)]
STREAM = BANNER + b"".join(ACKS)


def _fed(change: Change, tag: str = "ACK", nth: int = 2, stream: bytes = STREAM, step: int = 7) -> list[Passage]:
    tap = LinkTap("a", "b", [Mangle("a", tag, nth, change=change)])
    return [tap.feed(Direction.TO_SERVER, stream[at : at + step]) for at in range(0, len(stream), step)]


def _through(change: Change, **how: object) -> list[bytes]:
    """The frames behind the banner, as the receiver gets them."""
    whole = b"".join(passage.forward for passage in _fed(change, **how))  # type: ignore[arg-type]
    assert whole.startswith(BANNER)
    size = len(ACKS[0])
    return [whole[at : at + size] for at in range(len(BANNER), len(whole), size)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Drop(), [0, 2, 3, 4]),
        (Drop(rest=True), [0]),
        (Duplicate(), [0, 1, 1, 2, 3, 4]),
        (Swap(), [0, 2, 1, 3, 4]),
        (Join(), [0, 1, 2, 3, 4]),
        (Reflect(), [0, 2, 3, 4]),
        (Reflect(both=True), [0, 1, 2, 3, 4]),
        (Replay("ACK"), [0, 1, 0, 2, 3, 4]),
        (Replay("ACK", instead=True), [0, 0, 2, 3, 4]),
        (Rewrite(lambda ack: replace(ack, seq=5)), [0, 4, 2, 3, 4]),
        (Replace(ACKS[3]), [0, 3, 2, 3, 4]),
    ],
    ids=lambda value: str(getattr(value, "what", "")),
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_whole_frames(change: Change, expected: list[int], step: int) -> None:
    assert _through(replace(change), step=step) == [ACKS[number] for number in expected]  # type: ignore[type-var]


def test_truncate_and_insert_change_the_length_of_a_frame() -> None:
    assert b"".join(_through(Truncate(9))) == ACKS[0] + ACKS[1][:9] + b"".join(ACKS[2:])
    assert b"".join(_through(Insert(b"xy"))) == ACKS[0] + ACKS[1] + b"xy" + b"".join(ACKS[2:])
    assert b"".join(_through(Insert(b"xy", 3))) == ACKS[0] + ACKS[1][:3] + b"xy" + ACKS[1][3:] + b"".join(ACKS[2:])


def test_reflected_bytes_go_back() -> None:
    assert b"".join(passage.back for passage in _fed(Reflect())) == ACKS[1]


def test_join_forwards_two_frames_in_one_piece() -> None:
    pieces = [passage.pieces for passage in _fed(Join(), step=len(ACKS[0])) if passage.pieces is not None]
    assert pieces == [[ACKS[1] + ACKS[2]]]


def test_the_whole_is_replayed_on_another_link() -> None:
    mangle = Mangle("a", "HELLO", 1, change=Replay("ACK", 3))
    first, second = LinkTap("a", "b", [mangle]), LinkTap("a", "b", [mangle])
    first.feed(Direction.TO_SERVER, STREAM)
    hello = CrcWriter().control(Tag.HELLO, Hello(EntityType.OSD, EntityAddr()).encode())
    assert second.feed(Direction.TO_SERVER, BANNER + hello).forward == BANNER + hello + ACKS[2]
    assert mangle.spent


def test_replay_without_an_earlier_frame_is_refused() -> None:
    with pytest.raises(LocalError, match="no HELLO #1 has passed"):
        _fed(Replay("HELLO"))


def test_flips_with_and_without_the_crc() -> None:
    plain = _through(Flip(0, 0x80, "segment 0"))[1]
    with pytest.raises(PeerError, match="bad segment crc"):
        CrcReader(1000).next_frame(memoryview(plain), 0, len(plain), owned=False)
    fixed = _through(Flip(0, 0x80, "segment 0", fix_crc=True))[1]
    frame = CrcReader(1000).next_frame(memoryview(fixed), 0, len(fixed), owned=False)
    assert frame is not None
    assert decode_control(frame[1], frame[2:]) == Ack(2 ^ 0x80)


def test_flips_of_missing_bytes_are_reported() -> None:
    with pytest.raises(LocalError, match="has no data; it has preamble, segment 0, crc 0"):
        _fed(Flip(0, 1, "data"))
    with pytest.raises(LocalError, match="there is no byte 8"):
        _fed(Flip(8, 1, "segment 0"))


def test_rewritten_fields_of_any_revision_and_of_banners() -> None:
    request = AuthRequest(2, [ConMode.SECURE, ConMode.CRC], b"payload")
    raw = Rev0CrcWriter().control(request.TAG, request.encode())
    only_crc = Rewrite(lambda frame: replace(frame, preferred_modes=[ConMode.CRC]))
    stream = encode_banner(0, 0) + raw
    passed = b"".join(p.forward for p in _fed(only_crc, "AUTH_REQUEST", 1, stream))[len(BANNER) :]
    frame = Rev0CrcReader(1000).next_frame(memoryview(passed), 0, len(passed), owned=False)
    assert frame is not None
    assert decode_control(frame[1], frame[2:]) == AuthRequest(2, [ConMode.CRC], b"payload")
    masks = Rewrite(lambda banner: (banner[0] | 8, 4))
    assert _fed(masks, "BANNER", 1, BANNER, step=100)[0].forward == encode_banner(9, 4)


def test_trickle_and_tape() -> None:
    tape = Tape("a")
    tap = LinkTap("a", "b", [Trickle("a", size_bytes=3), tape])
    passage = tap.feed(Direction.TO_SERVER, STREAM)
    assert passage.pieces is not None
    assert (b"".join(passage.pieces), {len(piece) for piece in passage.pieces[:-1]}) == (STREAM, {3})
    assert tap.feed(Direction.TO_CLIENT, BANNER).pieces is None
    assert bytes(tape.received) == STREAM
    assert [frame.tag for frame in tape.frames] == ["BANNER", *["ACK"] * len(ACKS)]
