"""Links with wrong bytes, with holes, and without their beginning."""

from itertools import chain, dropwhile, takewhile
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.links import (
    SESSIONS,
    Session,
    changed,
    decode,
    decode_events,
    frame_content,
    new_stream,
    of,
    require_tiled,
    runs,
    session,
    with_gap,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import IN_PART, DecodedFrame, Verdict
from toolkit.dissect.stream import End, Ending

TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT
UNPROTECTED_TAIL_BYTES = {"v1": 9, "v2": 17}
"""Signature and flags of v1, which not every message has; crcs of absent segments and the late status of v2."""


@pytest.fixture(params=SESSIONS)
def one(request: pytest.FixtureRequest) -> Session:
    return session(request.param)


def _messages(frames: list[DecodedFrame], way: Direction) -> list[DecodedFrame]:
    return [frame for frame in of(way, frames) if frame.message]


def _sizes(one: Session) -> dict[Direction, int]:
    return {way: len(one.bytes_of(way)) for way in Direction}


def _possible_ends(hit: DecodedFrame, frames: list[DecodedFrame]) -> set[int]:
    """Return the possible ends of a frame with a wrong length: an ACK of v1 has no crc that would prove it."""
    ends = {hit.offset + hit.length}
    if hit.protocol == "v1":
        after = dropwhile(lambda frame: frame.offset <= hit.offset, frames)
        ends.update(ack.offset + ack.length for ack in takewhile(lambda frame: frame.tag == "ACK", after))
    return ends


# ---- wrong bytes


@pytest.mark.parametrize("name", SESSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_wrong_byte_is_found_in_its_frame_and_nowhere_else(name: str, data: st.DataObject) -> None:
    one = session(name)
    whole = decode(one.script, one.keys)
    hit = data.draw(st.sampled_from(_messages(whole, TO_SERVER)))
    tail = 0 if one.secure else UNPROTECTED_TAIL_BYTES[one.protocol[:2]]
    place = data.draw(st.integers(1 if one.protocol == "v1" else 0, hit.length - 1 - tail))
    flip = 1 << data.draw(st.integers(0, 7))
    rng = Random(place)
    frames = decode(changed(one.script, TO_SERVER, hit.offset + place, lambda byte: byte ^ flip), one.keys, rng)
    require_tiled(frames, _sizes(one))
    unhurt = {frame_content(frame) for frame in whole if frame is not hit and frame.tag != "ACK"}
    assert unhurt <= {frame_content(frame) for frame in frames}
    (wrong,) = [frame for frame in frames if frame.error]
    assert wrong.offset == hit.offset
    assert wrong.offset + wrong.length in _possible_ends(hit, of(TO_SERVER, whole))
    assert Verdict.BAD in {wrong.crc, wrong.auth}


@pytest.mark.parametrize("name", [name for name in SESSIONS if "secure" not in name and "compressed" not in name])
def test_frame_with_a_wrong_crc_is_decoded_with_its_error(name: str) -> None:
    one = session(name)
    hit = _messages(decode(one.script, one.keys), TO_SERVER)[1]
    frames = decode(changed(one.script, TO_SERVER, hit.offset + 1000, lambda byte: byte ^ 1), one.keys)
    (wrong,) = [frame for frame in frames if frame.error]
    assert wrong.message == hit.message
    assert wrong.crc is Verdict.BAD
    assert wrong.error is not None
    what = "crc of data" if name.startswith("v1") else "crc of segment 3"
    assert wrong.error.startswith(f"{what}: 0x")
    assert " should be 0x" in wrong.error
    assert len(wrong.segments[3]) == 2000


@pytest.mark.parametrize("name", ["v2.1 secure", "v2.0 secure"])
def test_frame_with_a_wrong_tag_is_decoded_and_marked_bad(name: str) -> None:
    one = session(name)
    hit = _messages(decode(one.script, one.keys), TO_SERVER)[1]
    frames = decode(changed(one.script, TO_SERVER, hit.offset + 1000, lambda byte: byte ^ 1), one.keys)
    (wrong,) = [frame for frame in frames if frame.error]
    assert wrong.message == hit.message
    assert (wrong.crc, wrong.auth) == (Verdict.OK, Verdict.BAD)
    assert wrong.error is not None
    assert wrong.error.startswith("authentication tag of ")
    different = [a for a, b in zip(bytes(wrong.segments[3]), bytes(hit.segments[3]), strict=True) if a != b]
    assert len(different) == 1


@pytest.mark.parametrize("name", [name for name in SESSIONS if "secure" not in name])
def test_a_wrong_preamble_or_header_does_not_hide_the_frame(name: str) -> None:
    """Its lengths are right, as the next frame shows."""
    one = session(name)
    hit = _messages(decode(one.script, one.keys), TO_SERVER)[1]
    crc_at = 1 + 49 if one.protocol == "v1" else 28
    frames = decode(changed(one.script, TO_SERVER, hit.offset + crc_at, lambda byte: byte ^ 1), one.keys)
    (wrong,) = [frame for frame in frames if frame.error]
    assert wrong.message == hit.message
    assert wrong.crc is Verdict.BAD
    assert wrong.error is not None
    # The signature of v1 covers the header's crc.
    assert ("crc of the header" if one.protocol == "v1" else "crc of the preamble") in wrong.error


def test_a_wrong_handshake_frame_does_not_stop_decoding(one: Session) -> None:
    whole = decode(one.script, one.keys)
    for hit in [frame for frame in whole if frame.tag in {"HELLO", "CLIENT_IDENT", "SERVER_IDENT"}]:
        script = changed(one.script, hit.direction, hit.offset + hit.length - 20, lambda byte: byte ^ 1)
        frames = decode(script, one.keys)
        require_tiled(frames, _sizes(one))
        assert len([frame for frame in frames if frame.message]) == 11


def test_wrong_signature_is_reported() -> None:
    one = session("v1")
    hit = _messages(decode(one.script, one.keys), TO_SERVER)[1]
    script = changed(one.script, TO_SERVER, hit.offset + hit.length - 9, lambda byte: byte ^ 1)
    (wrong,) = [frame for frame in decode(script, one.keys) if frame.error]
    assert (wrong.crc, wrong.auth, wrong.error) == (Verdict.OK, Verdict.BAD, "the signature does not fit")


def test_auth_signature_covers_what_was_received() -> None:
    one = session("v2.1 crc")
    whole = decode(one.script, one.keys)
    mine, theirs = (next(f for f in of(way, whole) if f.tag == "AUTH_SIGNATURE") for way in Direction)
    # A byte of the client's HELLO, which its crc covers as well as the server's signature.
    script = changed(one.script, TO_SERVER, 26 + 60, lambda byte: byte ^ 1)
    frames = decode(script, one.keys)
    verdicts = {frame.direction: frame.auth for frame in frames if frame.tag == "AUTH_SIGNATURE"}
    assert verdicts == {mine.direction: Verdict.OK, theirs.direction: Verdict.BAD}


# ---- holes


@pytest.mark.parametrize("name", SESSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_decoder_continues_after_a_gap(name: str, data: st.DataObject) -> None:
    one = session(name)
    whole = decode(one.script, one.keys)
    way = data.draw(st.sampled_from(Direction))
    size = len(one.bytes_of(way))
    start = data.draw(st.integers(one.opened_at(way), size - 2))
    stop = data.draw(st.integers(start + 1, size - 1))
    stream = new_stream()
    frames = decode_events(stream, with_gap(stream, one.script, way, start, stop), one.keys)
    require_tiled(frames, _sizes(one))
    gaps = [frame for frame in frames if frame.tag == "GAP" or frame.error == IN_PART]
    assert gaps
    assert all(gap.direction is way and gap.offset < stop and start < gap.offset + gap.length for gap in gaps)
    found = {frame_content(frame) for frame in frames}
    for frame in whole:
        before = frame.direction is not way or frame.offset + frame.length <= start
        if before or (frame.offset >= stop and frame.message):
            assert frame_content(frame) in found
    right = {frame_content(frame) for frame in whole}
    assert all((frame.error is None) == (frame_content(frame) in right) for frame in frames)


@pytest.mark.parametrize("way", Direction)
@pytest.mark.parametrize("name", [name for name in SESSIONS if name != "v2.0 secure" and "compressed" not in name])
def test_a_message_with_its_header_before_a_gap_has_its_name_and_sizes(name: str, way: Direction) -> None:
    """As every message has in a capture with a snap length; in secure mode as far as its first block goes."""
    one = session(name)
    whole = decode(one.script, one.keys)
    for hit in _messages(whole, way):
        if hit.length < 150:
            continue
        start, stop = hit.offset + 120, hit.offset + hit.length - 10
        stream = new_stream()
        frames = decode_events(stream, with_gap(stream, one.script, way, start, stop), one.keys)
        require_tiled(frames, _sizes(one))
        (wrong,) = [frame for frame in frames if frame.error]
        assert (wrong.offset, wrong.length, wrong.message) == (hit.offset, hit.length, hit.message)
        assert wrong.error == IN_PART
        right = [frame_content(frame) for frame in whole if frame is not hit]
        assert [frame_content(frame) for frame in frames if frame is not wrong] == right


@pytest.mark.parametrize("way", Direction)
def test_a_gap_over_a_border_takes_two_frames_and_no_third(one: Session, way: Direction) -> None:
    """In secure mode the two that are hurt have used up to six nonces, however short the gap."""
    whole = [frame for frame in decode(one.script, one.keys) if frame.direction is way]
    borders = [frame.offset for frame in whole if frame.offset > one.opened_at(way)]
    for border in borders[:-1]:
        stream = new_stream()
        frames = decode_events(stream, with_gap(stream, one.script, way, border - 3, border + 3), one.keys)
        found = {frame_content(frame) for frame in frames}
        assert all(frame_content(frame) in found for frame in whole if frame.offset > border and frame.message), (
            border
        )


@pytest.mark.parametrize("way", Direction)
def test_a_gap_in_the_handshake(one: Session, way: Direction) -> None:
    """Everything that is known without it is still reported."""
    for start in range(0, one.opened_at(way), 61):
        stream = new_stream()
        stop = min(start + 40, one.opened_at(way))
        frames = decode_events(stream, with_gap(stream, one.script, way, start, stop), one.keys)
        require_tiled(frames, _sizes(one))
        if not one.secure and "compressed" not in one.name:
            assert len(_messages(frames, TO_SERVER)) == 6, start
            assert len(_messages(frames, TO_CLIENT)) == 5, start


# ---- without the beginning


@pytest.mark.parametrize("name", ["v1", "v1 aes256k", "v2.1 crc", "v2.0 crc"])
@settings(max_examples=25)
@given(data=st.data())
def test_a_link_without_its_beginning(name: str, data: st.DataObject) -> None:
    one = session(name)
    whole = decode(one.script, one.keys)
    opened = next(at for at, (way, raw) in enumerate(one.script) if len(raw) > 3000)
    script = one.script[opened:]
    skipped = {way: sum(len(raw) for each, raw in one.script[:opened] if each is way) for way in Direction}
    cut = data.draw(st.integers(0, 2500))
    way, raw = script[0]
    script = [(way, raw[cut:]), *script[1:]]
    stream = new_stream(opening_seen=False, server_port=12345)
    rng = Random(data.draw(st.integers(0, 99)))
    frames = decode_events(stream, runs(stream, script, rng))
    expected = [frame for frame in whole if frame.message]
    for frame in expected:
        start = frame.offset - skipped[frame.direction] - (cut if frame.direction is way else 0)
        if start < 0:
            continue
        (found,) = [each for each in of(frame.direction, frames) if each.offset == start]
        assert (found.tag, found.length, found.crc) == (frame.tag, frame.length, Verdict.OK)
        assert found.protocol == one.protocol
        assert found.message is not None
        assert found.message.seq == frame.message.seq  # type: ignore[union-attr]


def test_a_secure_link_without_its_beginning_is_unknown() -> None:
    one = session("v2.1 secure")
    script = one.script[10:]
    stream = new_stream(opening_seen=False)
    frames = decode_events(stream, runs(stream, script), one.keys)
    assert [frame.tag for frame in frames] == ["UNKNOWN", "UNKNOWN"]
    assert sum(frame.length for frame in frames) == sum(len(raw) for _, raw in script)


# ---- keys


@pytest.mark.parametrize("name", ["v2.1 secure", "v2.0 secure", "v2.1 secure compressed"])
def test_without_its_key_a_secure_link_is_one_stretch_per_direction(name: str) -> None:
    one = session(name)
    frames = decode(one.script)
    require_tiled(frames, _sizes(one))
    sealed = [frame for frame in frames if frame.tag == "UNKNOWN"]
    assert [frame.direction for frame in sealed] == list(Direction)
    for frame in sealed:
        assert frame.auth is Verdict.NO_KEY
        assert frame.error is not None
        assert "service key of osd" in frame.error


def test_without_its_key_signatures_are_not_judged() -> None:
    for name in ("v1", "v2.1 crc"):
        one = session(name)
        frames = decode(one.script)
        signed = [frame for frame in frames if frame.tag in {"MSG", "AUTH_SIGNATURE"}]
        assert {frame.auth for frame in signed} == {Verdict.NO_KEY}
        assert all("service key of osd" in (frame.error or "") for frame in signed)
        assert len([frame for frame in frames if frame.message]) == 11


def test_a_wrong_key_opens_nothing() -> None:
    one, other = session("v2.1 secure aes256k"), session("v2.1 secure")
    frames = decode(one.script, other.keys)
    require_tiled(frames, _sizes(one))
    assert [frame.message for frame in frames if frame.message] == []


# ---- other traffic


HTTP = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n" * 20


@pytest.mark.parametrize("opening_seen", [True, False])
def test_other_protocols_give_no_frames(opening_seen: bool) -> None:  # noqa: FBT001 - a case
    stream = new_stream(opening_seen=opening_seen, server_port=80)
    script = [(TO_SERVER, HTTP), (TO_CLIENT, HTTP)]
    assert decode_events(stream, runs(stream, script)) == []


def test_unreadable_bytes_on_a_ceph_port_become_unknown_frames() -> None:
    stream = new_stream(server_port=6789)
    frames = decode_events(stream, runs(stream, [(TO_SERVER, HTTP), (TO_CLIENT, HTTP)]))
    assert [(frame.tag, frame.length) for frame in frames] == [("UNKNOWN", len(HTTP))] * 2


@given(st.lists(st.tuples(st.sampled_from(Direction), st.binary(max_size=200))), st.booleans())
def test_noise_never_raises(script: list[tuple[Direction, bytes]], opening_seen: bool) -> None:  # noqa: FBT001
    stream = new_stream(opening_seen=opening_seen)
    frames = decode_events(stream, runs(stream, script))
    require_tiled(frames, {way: sum(len(raw) for each, raw in script if each is way) for way in Direction})


@pytest.mark.parametrize("name", SESSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_link_that_turns_into_noise(name: str, data: st.DataObject) -> None:
    one = session(name)
    at = data.draw(st.integers(0, len(one.script)))
    noise = [(data.draw(st.sampled_from(Direction)), data.draw(st.binary(max_size=300))) for _ in range(4)]
    script = [*one.script[:at], *noise, *one.script[at:]]
    frames = decode(script, one.keys, Random(at))
    require_tiled(frames, {way: sum(len(raw) for each, raw in script if each is way) for way in Direction})


# ---- ends


def test_a_link_that_ends_inside_a_frame(one: Session) -> None:
    last = max(at for at, (way, _) in enumerate(one.script) if way is TO_SERVER)
    script = [*one.script[:last], (TO_SERVER, one.script[last][1][:-3])]
    stream = new_stream()
    end = End(stream, TO_SERVER, Ending.RESET, 0, 0)
    frames = decode_events(stream, chain(runs(stream, script), [end]), one.keys)
    cut = of(TO_SERVER, frames)[-1]
    assert cut.tag == "UNKNOWN"
    assert cut.error == "the connection was reset inside this frame"
