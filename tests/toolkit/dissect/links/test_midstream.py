"""Secure links whose beginning the capture does not have: opened by the secrets of a key log."""

from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.connection_secret import CONNECTION_SECRET_SIZE
from messenger.cephx.keys import CryptoKey
from messenger.keylog import LinkSecrets
from messenger.v2.wire import Tag, decode_control
from tests.support.links import (
    Script,
    Session,
    decode,
    decode_events,
    frame_content,
    new_stream,
    of,
    runs,
    session,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.keys import KeyBook, LinkKeys
from toolkit.dissect.keys.midstream import MOST_SECRETS

NAMES = ["v2.1 secure", "v2.1 secure aes256k"]


@pytest.fixture(params=NAMES)
def one(request: pytest.FixtureRequest) -> Session:
    return session(request.param)


def key_log(one: Session) -> str:
    """The line that either end of the link writes."""
    found: list[LinkSecrets] = []
    keys = LinkKeys(one.keys)
    keys.on_secrets = found.append
    for frame in decode(one.script, one.keys):
        if frame.tag.startswith("AUTH_"):
            keys.control(frame.direction, decode_control(int(Tag[frame.tag]), tuple(frame.segments), last=True))
    (secrets,) = found
    return secrets.line()


def other_line(number: int) -> str:
    """The line of another link."""
    rng = Random(number)
    key = CryptoKey(KeyType.AES, rng.randbytes(16))
    return LinkSecrets("v2", f"{number:032x}", key, rng.randbytes(CONNECTION_SECRET_SIZE)).line()


def content(frame: DecodedFrame) -> tuple[str, bytes, list[bytes]]:
    return frame.tag, bytes(frame.wire), [bytes(segment) for segment in frame.segments]


def messages_of(frames: list[DecodedFrame], direction: Direction) -> list[DecodedFrame]:
    return [frame for frame in of(direction, frames) if frame.message is not None]


def behind_the_handshake(one: Session) -> Script:
    """Return the chunks from the first message on: the first bytes are those of a frame."""
    opened = {way: one.opened_at(way) for way in Direction}
    seen = dict.fromkeys(Direction, 0)
    rest = []
    for way, raw in one.script:
        if seen[way] >= opened[way]:
            rest.append((way, raw))
        seen[way] += len(raw)
    return rest


def decoded(script: Script, log: str, *, swapped: bool = False) -> list[DecodedFrame]:
    book = KeyBook()
    book.add_key_log(log)
    stream = new_stream(opening_seen=False)
    if swapped:
        script = [(way.other, raw) for way, raw in script]
    return decode_events(stream, runs(stream, script), book)


@pytest.mark.parametrize("swapped", [False, True], ids=["", "client taken for server"])
def test_every_frame_after_the_handshake_is_decoded(one: Session, *, swapped: bool) -> None:
    frames = decoded(behind_the_handshake(one), key_log(one), swapped=swapped)
    whole = decode(one.script, one.keys)
    assert [frame for frame in frames if frame.error] == []
    assert {frame.auth for frame in frames} == {Verdict.OK}
    for way in Direction:
        seen = of(way.other if swapped else way, frames)
        expected = of(way, whole)[-len(seen) :]
        assert expected[0].offset == one.opened_at(way)
        assert [content(each) for each in seen] == [content(each) for each in expected]


def test_a_capture_that_begins_inside_a_frame_has_the_frames_of_the_next_packet(one: Session) -> None:
    (way, first), *rest = behind_the_handshake(one)
    frames = decoded([(way, first[100:]), *rest], key_log(one))
    lost, *others = of(way, frames)
    assert lost.tag == "UNKNOWN"
    assert lost.length == len(first) - 100
    assert {frame.auth for frame in others} == {Verdict.OK}
    assert len(messages_of(frames, way)) == 3


def test_the_secret_of_the_link_is_found_among_others(one: Session) -> None:
    script, mine = behind_the_handshake(one), key_log(one)
    alone = [frame_content(frame) for frame in decoded(script, mine)]
    assert [frame_content(frame) for frame in decoded(script, other_line(1) + mine + other_line(2))] == alone


def test_the_last_secrets_of_a_long_log_are_tried() -> None:
    book = KeyBook()
    lines = [other_line(number) for number in range(MOST_SECRETS + 1)]
    book.add_key_log("".join(lines))
    assert book.midstream.candidates() == [bytes.fromhex(line.split()[-1]) for line in lines[:0:-1]]


@pytest.mark.parametrize("log", ["", other_line(1)], ids=["no key log", "another link's"])
def test_link_joined_midstream_without_secret_gives_unknown_frames_only(one: Session, log: str) -> None:
    frames = decoded(behind_the_handshake(one), log)
    assert {frame.tag for frame in frames} <= {"UNKNOWN"}


def test_a_secret_of_a_link_with_a_handshake_is_not_tried_on_others(one: Session) -> None:
    book = KeyBook()
    book.add_key_log(key_log(one))
    assert len(book.midstream.candidates()) == 1
    decode(one.script, book)
    assert book.midstream.candidates() == []
