"""Behaviour of few senders: crcs left out, footers of old versions, replies that come before their requests."""

from random import Random

import pytest

from messenger.denc.codec import Buffer
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.link import Protocol
from messenger.messages.types import MessageType
from messenger.v1.framing import MessageWriter
from messenger.v2.framing import CrcWriter, FrameCaches
from messenger.v2.wire import MESSAGE_HEADER
from tests.support.links import (
    Script,
    changed,
    decode,
    decode_events,
    new_stream,
    of,
    require_tiled,
    runs,
    session,
)
from tests.support.network import Pair, Wire
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links import LinkDecoder, Names, RecordPhase
from toolkit.dissect.links.link import DecodedLink
from toolkit.dissect.stream import End, Ending, Gap, Run

TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT


def _recorded(**options: object) -> Script:
    """A session on v1 of two that have these options."""
    script: list[tuple[Direction, bytes]] = []

    def listen(wire: Wire) -> None:
        for pipe, way in zip(wire.pipes, (TO_SERVER, TO_CLIENT), strict=True):
            pipe.edit = lambda _at, raw, way=way: script.append((way, raw)) or raw  # type: ignore[misc, func-returns-value]

    pair = Pair(protocol=Protocol.V1, **options)
    pair.opened = listen
    mine, _ = pair.established()
    pair.a.send(mine, 1, 2, size_bytes=500)
    pair.drive()
    return script


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, Verdict.OK),
        ({"ms_crc_header": False}, Verdict.OK),
        ({"ms_crc_data": False}, Verdict.OK),
        ({"ms_crc_header": False, "ms_crc_data": False}, Verdict.NONE),
    ],
)
def test_crcs_omitted_by_a_v1_sender_are_no_error(options: dict[str, object], verdict: Verdict) -> None:
    script = _recorded(**options)
    for rng in (None, Random(1)):
        messages = [frame for frame in decode(script, rng=rng) if frame.message]
        assert len(messages) == 2
        assert {(frame.crc, frame.error) for frame in messages} == {(verdict, None)}


@pytest.mark.parametrize("missing", [Feature.NOSRCADDR, Feature.NOSRCADDR | Feature.MSG_AUTH])
def test_messages_with_the_old_header_are_decoded(missing: int) -> None:
    script = _recorded(features_supported=CLIENT_FEATURES & ~missing)
    for rng in (None, Random(1)):
        messages = [frame for frame in decode(script, rng=rng) if frame.message]
        assert [(frame.message.seq, frame.message.data) for frame in messages if frame.message] == [
            (1, 500),
            (2, 500),
        ]
        assert {(frame.crc, frame.error) for frame in messages} == {(Verdict.OK, None)}


@pytest.mark.parametrize("name", ["v2.1 crc", "v2.0 crc"])
def test_crcs_omitted_by_a_v2_sender_are_no_error(name: str) -> None:
    """With ms_crc_data off they are all 0 but that of the preamble (docs/protocol.md §4.5)."""
    one = session(name)
    script = one.script
    hit = next(frame for frame in decode(script, one.keys) if frame.message)
    crcs = [range(32 + 41, 32 + 45), range(hit.length - 12, hit.length)]
    if name == "v2.0 crc":
        crcs = [range(hit.length - 16, hit.length)]
    for place in [place for places in crcs for place in places]:
        script = changed(script, TO_SERVER, hit.offset + place, lambda _: 0)
    messages = [frame for frame in decode(script, one.keys) if frame.message]
    assert [frame.crc for frame in messages] == [Verdict.NONE] + [Verdict.OK] * 10
    assert {frame.error for frame in messages} == {None}


def _v1_messages(*, msg_auth: bool, signature: int | None = None) -> bytes:
    signer = None if signature is None else lambda *_: signature
    writer = MessageWriter(signer, msg_auth=msg_auth)
    pieces: list[Buffer] = []
    for seq in range(1, 6):
        fields = seq, 0, int(MessageType.PING), 127, 1
        writer.message(pieces, fields, (b"", b"", b"x" * 70), 0, (4, 3), 1)
    return b"".join(pieces)


@pytest.mark.parametrize("msg_auth", [True, False])
def test_decoder_recognises_footers_with_and_without_signatures(msg_auth: bool) -> None:  # noqa: FBT001 - a case
    raw = _v1_messages(msg_auth=msg_auth)
    stream = new_stream(opening_seen=False)
    frames = decode_events(stream, runs(stream, [(TO_SERVER, raw[100:])], Random(2)))
    assert [frame.message.seq for frame in frames if frame.message] == ([2, 3, 4, 5])
    assert {frame.crc for frame in frames if frame.message} == {Verdict.OK}


def test_a_signature_may_look_like_the_end_of_an_old_footer() -> None:
    raw = _v1_messages(msg_auth=True, signature=0x0701)
    stream = new_stream(opening_seen=False)
    frames = decode_events(stream, runs(stream, [(TO_SERVER, raw)]))
    assert [frame.message.seq for frame in frames if frame.message] == [1, 2, 3, 4, 5]
    assert {frame.auth for frame in frames} == {Verdict.NO_KEY}


# ---- the other direction


class _Listener:
    def __init__(self) -> None:
        self.calls: list[tuple[Direction, int]] = []

    def message(self, direction: Direction, kind: int, _front: bytes) -> None:
        self.calls.append((direction, kind))


def test_key_replies_are_processed_after_their_requests() -> None:
    link = DecodedLink(new_stream(), KeyBook(), lambda _: None, Names(), RecordPhase(), FrameCaches())
    listener = _Listener()
    link.keys = listener  # type: ignore[assignment]
    for kind in 1, 2:
        link.key_message(TO_CLIENT, kind, b"")
    for kind in 3, 4, 5:
        link.key_message(TO_SERVER, kind, b"")
    assert listener.calls == [(TO_SERVER, 3), (TO_CLIENT, 1), (TO_SERVER, 4), (TO_CLIENT, 2), (TO_SERVER, 5)]
    listener.calls.clear()
    link.key_message(TO_CLIENT, 6, b"")
    for way, kind in (TO_SERVER, 7), (TO_SERVER, 8), (TO_CLIENT, 9), (TO_CLIENT, 10):
        link.key_message(way, kind, b"")
    assert [kind for _, kind in listener.calls] == [6, 7, 9, 8, 10]
    listener.calls.clear()
    for kind in range(10, 20):
        link.key_message(TO_SERVER, kind, b"")
    assert len(listener.calls) > 4, "a reply that never comes holds nothing up for ever"


def test_decoder_does_not_wait_for_a_closed_direction() -> None:
    one = session("v2.1 crc")
    stream = new_stream()
    frames: list[DecodedFrame] = []
    decoder = LinkDecoder(stream, one.keys, frames.append)
    server = [(way, raw) for way, raw in one.script if way is TO_CLIENT][:2]
    client = [(way, raw) for way, raw in one.script if way is TO_SERVER]
    for run in runs(stream, [*server, *client]):
        decoder.take(run)
    assert len([frame for frame in frames if frame.message]) == 0
    decoder.take(End(stream, TO_CLIENT, Ending.FIN, 0, 0))
    assert len([frame for frame in frames if frame.message]) == 6


def test_decoder_bounds_the_bytes_of_an_unrecognized_link() -> None:
    stream = new_stream(opening_seen=False, server_port=12345)
    pieces: list[Buffer] = []
    for seq in range(1, 4):
        CrcWriter().message(pieces, MESSAGE_HEADER.pack(seq, 0, 2, 127, 1, 0, 0, 0, 3, 1, 0), b"", b"", b"data")
    messages = b"".join(pieces)
    frames: list[DecodedFrame] = []
    decoder = LinkDecoder(stream, KeyBook(), frames.append)
    for number in range(1000):
        decoder.take(Gap(stream, TO_SERVER, 10, number, number))
        decoder.take(Run(stream, TO_SERVER, memoryview(b"?" * 50), [50], [number], [number]))
    assert frames == []
    decoder.take(Run(stream, TO_SERVER, memoryview(messages), [len(messages)], [1000], [1000]))
    decoder.finish()
    require_tiled(frames, {TO_SERVER: 60_000 + len(messages), TO_CLIENT: 0})
    assert len(of(TO_SERVER, frames)) < 300
    assert [frame.message.seq for frame in frames if frame.message] == [1, 2, 3]
