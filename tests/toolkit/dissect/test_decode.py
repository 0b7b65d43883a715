"""Captures, from the file to the frames."""

import io
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import LocalError
from messenger.link import Protocol
from tests.support.links import SESSIONS, Script, decode, frame_content, packets_of, session
from tests.support.network import Pair, Wire
from tests.support.packets import Segment, pcap
from toolkit.capture.formats import open_capture
from toolkit.dissect import decode as decode_module
from toolkit.dissect.decode import CaptureDecoder, Decoder, decode_capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook

HTTP = [(Direction.TO_SERVER, b"GET / HTTP/1.1\r\n\r\n"), (Direction.TO_CLIENT, b"HTTP/1.1 200 OK\r\n\r\n")]


def _file(segments: Sequence[Segment]) -> io.BytesIO:
    return io.BytesIO(pcap(segment.ethernet() for segment in segments))


def _interleaved(*conversations: Sequence[Segment]) -> list[Segment]:
    return [segment for row in zip_longest(*conversations) for segment in row if segment]


def _content(frame: DecodedFrame) -> tuple[object, ...]:
    return frame_content(frame)


@pytest.mark.parametrize("name", SESSIONS)
def test_a_capture_is_decoded_like_its_links(name: str) -> None:
    one = session(name)
    with CaptureDecoder(_file(packets_of(one.script)), one.keys) as decoding:
        frames = list(decoding)
    assert decoding.problem is None
    assert decoding.frames == len(frames)
    assert sorted(map(_content, frames), key=repr) == sorted(map(_content, decode(one.script, one.keys)), key=repr)
    assert [frame.frame for frame in frames] == list(range(len(frames)))
    assert [frame.packet for frame in frames] == sorted(frame.packet for frame in frames)
    assert {(frame.src, frame.dst) for frame in frames} == {
        ("10.0.0.1:40000", "10.0.0.2:6800"),
        ("10.0.0.2:6800", "10.0.0.1:40000"),
    }


def test_connections_are_distinguished_and_others_are_left_out() -> None:
    first, second = session("v2.1 secure"), session("v1")
    segments = _interleaved(
        packets_of(first.script),
        packets_of(second.script, client="10.0.0.1:40001", server="10.0.0.3:6789"),
        packets_of(HTTP, client="10.0.0.1:40002", server="10.0.0.3:80"),
    )
    with CaptureDecoder(_file(segments), first.keys) as decoding:
        frames = list(decoding)
    assert decoding.problem is None
    assert decoding.decoder.other_streams == 1
    for index, one in enumerate((first, second)):
        mine = [frame for frame in frames if frame.stream.index == index]
        assert len(mine) == len(decode(one.script, one.keys))
    assert [frame.frame for frame in frames] == list(range(len(frames)))


def test_only_some_ports() -> None:
    one = session("v2.1 crc")
    segments = packets_of(one.script)
    assert list(decode_capture(_file(segments), one.keys, ports=[6789])) == []
    assert len(list(decode_capture(_file(segments), one.keys, ports=[6800]))) == len(decode(one.script, one.keys))


def test_decoder_returns_frames_batch_by_batch() -> None:
    one = session("v2.1 secure")
    decoder = Decoder(one.keys)
    at_a_time = []
    for batch in open_capture(_file(packets_of(one.script)), window_bytes=1 << 12):
        frames = decoder.feed(batch)
        assert all(batch.first <= frame.packet < batch.first + len(batch) for frame in frames)
        at_a_time += frames
    at_a_time += decoder.finish()
    whole = list(decode_capture(_file(packets_of(one.script)), one.keys))
    assert [(frame.frame, frame_content(frame)) for frame in at_a_time] == [
        (frame.frame, frame_content(frame)) for frame in whole
    ]


def test_lost_packet_is_reported() -> None:
    one = session("v2.1 crc")
    segments = packets_of(one.script)
    lost = next(at for at, segment in enumerate(segments) if len(segment.payload) == 1448)
    with CaptureDecoder(_file([*segments[:lost], *segments[lost + 1 :]]), one.keys) as decoding:
        frames = list(decoding)
    assert [frame.length for frame in frames if frame.tag == "GAP"] == [1448]
    assert decoding.undecoded == len([frame for frame in frames if frame.tag == "UNKNOWN"])
    assert decoding.problem is not None
    assert "1448 bytes in 1 place are missing" in decoding.problem
    assert len([frame for frame in frames if frame.message]) == 10


def test_a_file_that_ends_too_soon(tmp_path: Path) -> None:
    one = session("v2.1 crc")
    path = tmp_path / "cut.pcap"
    path.write_bytes(_file(packets_of(one.script)).getvalue()[:-700])
    with CaptureDecoder(path, one.keys) as decoding:
        frames = list(decoding)
    assert decoding.reader.unfinished is not None
    assert decoding.problem is None, "what is there is in order"
    assert frames[0].tag == "BANNER"


def test_the_missing_key_is_named() -> None:
    one = session("v2.1 secure")
    with CaptureDecoder(_file(packets_of(one.script))) as decoding:
        list(decoding)
    assert decoding.problem is not None
    assert "service key of osd" in decoding.problem


def test_decode_capture_refuses_files_that_are_no_capture() -> None:
    with pytest.raises(LocalError):
        next(decode_capture(io.BytesIO(b"not a capture at all, whatever its name says")))


def test_frames_above_the_memory_limit_end_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "_MOST_PENDING_BYTES", 1000)
    one = session("v2.1 crc")
    last = packets_of(one.script)[:-2]
    begun = next(at for at, segment in enumerate(last) if len(segment.payload) == 1448)
    with CaptureDecoder(_file(last[: begun + 1]), one.keys) as decoding:
        frames = list(decoding)
    assert frames[-1].error is not None
    assert "no more memory" in frames[-1].error


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_a_resumed_session_has_the_names_of_the_first_link(protocol: Protocol, mode: ConMode) -> None:
    if protocol is Protocol.V1:
        mode = ConMode.CRC
    pair = Pair(auth="cephx", mode=mode, protocol=protocol)
    links: list[Script] = []

    def listen(wire: Wire) -> None:
        script: list[tuple[Direction, bytes]] = []
        links.append(script)
        for pipe, way in zip(wire.pipes, (Direction.TO_SERVER, Direction.TO_CLIENT), strict=True):
            pipe.edit = lambda _at, raw, way=way: script.append((way, raw)) or raw  # type: ignore[misc, func-returns-value]

    pair.opened = listen
    mine, theirs = pair.established()
    pair.a.send(mine, 1, 2)
    pair.drive()
    pair.wire.cut()
    pair.a.send(mine, 3)
    pair.pass_time(1.0)
    pair.b.send(theirs, 4)
    pair.drive()
    assert len(links) == 2
    segments = chain(packets_of(links[0]), packets_of(links[1], client="10.0.0.1:40001"))
    frames = list(decode_capture(_file(list(segments)), KeyBook()))
    if mode is ConMode.CRC:
        sources = [(f.stream.index, f.direction, f.message.src) for f in frames if f.message]
        assert sorted(set(sources)) == [
            (0, Direction.TO_SERVER, "osd.1"),
            (1, Direction.TO_CLIENT, "osd.2"),
            (1, Direction.TO_SERVER, "osd.1"),
        ]
