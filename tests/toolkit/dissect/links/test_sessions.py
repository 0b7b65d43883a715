"""Whole links: sessions of our own endpoints by every protocol and mode, cut and ordered in any way."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.links import SESSIONS, Session, decode, frame_content, of, require_tiled, session, shuffled
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict

AUTHENTICATION = ["HELLO", "AUTH_REQUEST", "AUTH_REQUEST_MORE", "AUTH_SIGNATURE"]
OPENING_V1 = ["BANNER", "IDENTIFY", "CONNECT", "CONNECT", "SEQ"]


@pytest.fixture(params=SESSIONS)
def one(request: pytest.FixtureRequest) -> Session:
    return session(request.param)


def _tags(frames: list[DecodedFrame], direction: Direction) -> list[str]:
    return [frame.tag for frame in of(direction, frames) if frame.tag != "ACK"]


def test_every_frame_is_decoded(one: Session) -> None:
    frames = decode(one.script, one.keys)
    assert [frame for frame in frames if frame.error] == []
    require_tiled(frames, {way: len(one.bytes_of(way)) for way in Direction})
    for way in Direction:
        assert b"".join(bytes(frame.wire) for frame in of(way, frames)) == one.bytes_of(way)
    assert {frame.protocol for frame in frames} == {one.protocol}
    tags = _tags(frames, Direction.TO_SERVER)
    if one.protocol == "v1":
        assert tags == [*OPENING_V1, *["MSG"] * 6]
    else:
        asked = ["COMPRESSION_REQUEST"] if "COMPRESSION_REQUEST" in tags else []
        assert tags == ["BANNER", *AUTHENTICATION, *asked, "CLIENT_IDENT", *["MESSAGE"] * 6]


def test_messages_have_their_sender(one: Session) -> None:
    frames = decode(one.script, one.keys)
    for way, src, sizes in (
        (Direction.TO_SERVER, "osd.1", [2000] * 3 + [300] * 3),
        (Direction.TO_CLIENT, "osd.2", [100] * 5),
    ):
        messages = [frame.message for frame in of(way, frames) if frame.message]
        assert [message.src for message in messages] == [src] * len(sizes)
        assert [message.data for message in messages] == sizes
        assert [message.seq for message in messages] == list(range(1, len(sizes) + 1))
        assert {message.name for message in messages} == {"ping"}
        data = [bytes(frame.segments[3]) for frame in of(way, frames) if frame.message]
        assert list(map(len, data)) == sizes


def test_verdicts_show_the_checks_made(one: Session) -> None:
    for frame in decode(one.script, one.keys):
        if frame.message:
            assert frame.crc is Verdict.OK
            authenticated = one.secure or one.protocol == "v1"
            assert frame.auth is (Verdict.OK if authenticated else Verdict.NONE)
            assert frame.mode == ("secure" if one.secure else "crc")
        elif frame.tag == "AUTH_SIGNATURE":
            assert frame.auth is Verdict.OK
        elif one.protocol == "v1" or frame.tag == "BANNER":
            assert frame.crc is Verdict.NONE


def test_compressed_messages_have_their_original_sizes(one: Session) -> None:
    large = [frame for frame in decode(one.script, one.keys) if frame.message and frame.message.data == 2000]
    assert {frame.compressed for frame in large} == {"compressed" in one.name}
    assert all((frame.length < 2000) == ("compressed" in one.name) for frame in large)


def test_each_frame_was_complete_with_the_packet_of_its_last_byte(one: Session) -> None:
    ends: dict[Direction, list[int]] = {way: [] for way in Direction}
    for way, raw in one.script:
        ends[way].append((ends[way] or [0])[-1] + len(raw))
    packets = {way: [at for at, (each, _) in enumerate(one.script) if each is way] for way in Direction}
    for frame in decode(one.script, one.keys):
        place = next(at for at, end in enumerate(ends[frame.direction]) if end >= frame.offset + frame.length)
        assert frame.packet == packets[frame.direction][place]
        assert frame.time_ns == frame.packet * 1000


@pytest.mark.parametrize("name", SESSIONS)
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32))
def test_frames_do_not_depend_on_cuts_or_the_order_of_directions(name: str, seed: int) -> None:
    one, rng = session(name), Random(seed)
    whole = decode(one.script, one.keys)
    other = decode(shuffled(one.script, rng), one.keys, rng)
    for way in Direction:
        assert [frame_content(frame) for frame in of(way, other)] == [
            frame_content(frame) for frame in of(way, whole)
        ]


@pytest.mark.parametrize("way", Direction)
def test_one_direction_may_come_before_the_other_begins(one: Session, way: Direction) -> None:
    late = [(each, raw) for each, raw in one.script if each is not way]
    early = [(each, raw) for each, raw in one.script if each is way]
    whole = decode(one.script, one.keys)
    other = decode(early + late, one.keys)
    for each in Direction:
        assert [frame_content(frame) for frame in of(each, other)] == [
            frame_content(frame) for frame in of(each, whole)
        ]
