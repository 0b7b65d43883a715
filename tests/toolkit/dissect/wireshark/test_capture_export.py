"""Exported captures, read by our own decoder and by tshark."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.v2.framing import CrcWriter
from messenger.v2.wire import Tag
from tests.support.wireshark import Chunk, chop, column, record, rows, tshark, write_capture
from toolkit.capture.formats import LinkType, PcapngWriter, open_capture
from toolkit.cli.main import run as msgrlab
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import IN_PART, DecodedFrame, Verdict
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import Stream
from toolkit.dissect.wireshark.capture_export import export_capture
from toolkit.dissect.wireshark.export import Exporter
from toolkit.dissect.wireshark.packets import Conversation

UP, DOWN = Direction
COMPRESSED = {"ms_osd_compress_mode": "force", "ms_compress_secure": True, "ms_osd_compression_algorithm": "lz4"}
LINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "v1": ("v1", {}),
    "crc": ("v2-crc", {}),
    "secure": ("v2-secure", {}),
    "secure of 2.0": ("v2-secure", {"msgr2_features": 0}),
    "crc compressed": ("v2-crc", COMPRESSED),
    "secure compressed": ("v2-secure", COMPRESSED),
    "secure of 2.0 compressed": ("v2-secure", {"msgr2_features": 2, **COMPRESSED}),
}
PLAIN = {"v1", "crc"}
HTTP: list[Chunk] = [(UP, b"GET / HTTP/1.1\r\n\r\n"), (DOWN, b"HTTP/1.1 200 OK\r\n\r\n")]


def what(frame: DecodedFrame) -> tuple[object, ...]:
    """Return a frame's contents, without its form on the wire and the keys' explanation of its authentication."""
    message = frame.message
    content = message and (message.name, message.seq, message.front, message.middle, message.data, message.ack_seq)
    fields = {name: value for name, value in frame.fields.items() if name not in {"con_mode", "cephx"}}
    return frame.stream.index, frame.direction, frame.protocol, frame.tag, content, str(fields)


def decoded(path: Path, keys: KeyBook | None = None) -> list[DecodedFrame]:
    return list(decode_capture(path, keys))


@pytest.mark.parametrize("link", LINKS)
def test_our_own_decoder_reads_the_same_in_crc_mode(link: str, tmp_path: Path) -> None:
    way, options = LINKS[link]
    chunks, keys = record(way, **options)
    source = write_capture(tmp_path / "source.pcapng", chop(chunks, 1, 3000), chop(chunks, 2, 300))
    target = tmp_path / "plain.pcapng"
    exported = export_capture(source, target, keys)
    before, after = decoded(source, keys), decoded(target)
    assert [what(frame) for frame in after] == [what(frame) for frame in before]
    assert len([frame for frame in after if frame.message]) == 16
    assert {frame.mode for frame in after} == {"crc"}
    assert not any(frame.compressed or (frame.error and frame.auth is not Verdict.NO_KEY) for frame in after)
    assert {frame.crc for frame in after if frame.tag in {"MESSAGE", "MSG"}} == {Verdict.OK}
    assert [frame.time_ns for frame in after] == [frame.time_ns for frame in before]
    assert [(frame.src, frame.dst) for frame in after] == [(frame.src, frame.dst) for frame in before]
    assert (exported.opened, exported.sealed, exported.left_out) == (0 if link in PLAIN else 2, 0, 0)
    assert exported.trouble is None


@pytest.mark.needs("tshark")
def test_tshark_reads_it(tmp_path: Path) -> None:
    links, books = zip(*(record(way, **options) for way, options in LINKS.values()), strict=True)
    source = write_capture(tmp_path / "source.pcapng", *(chop(chunks, 3, 2000) for chunks in links))
    keys: KeyBook = books[0]  # one lab is like the other: their key is the same
    target = tmp_path / "plain.pcapng"
    export_capture(source, target, keys)
    frames = [
        frame for frame in decoded(source, keys) if frame.protocol.startswith("v2") and frame.tag != "BANNER"
    ]
    wanted = ["tcp.stream", "msgr2.tag", "msgr2.crc.status", "msgr2.revision"]
    found = [(stream, *row) for (stream,), *columns in rows(target, *wanted) for row in zip(*columns, strict=True)]
    assert found == [(str(f.stream.index), str(int(Tag[f.tag])), "1", f.protocol[1:]) for f in frames]
    sizes = [str(frame.message.data) for frame in frames if frame.message]
    assert column(target, "msgr2.message.data_len") == sizes
    assert column(target, "tcp.analysis.flags") == []
    complete = {stream: state for (stream,), (state,) in rows(target, "tcp.stream", "tcp.completeness")}
    assert set(complete.values()) == {"31"}  # SYN, SYN-ACK, ACK, data, FIN
    judged = tshark(target, "-o", "tcp.check_checksum:TRUE", "-T", "fields", "-e", "tcp.checksum.status")
    assert set(judged.split()) == {"1"}
    comments = column(target, "frame.comment")
    assert "stream 2 of source.pcapng" in comments
    assert "con_mode was secure: what follows was encrypted" in comments


def test_export_without_keys_leaves_streams_encrypted(tmp_path: Path) -> None:
    chunks, _ = record("v2-secure")
    source = write_capture(tmp_path / "source.pcapng", chunks)
    target = tmp_path / "sealed.pcapng"
    exported = export_capture(source, target, KeyBook())
    assert (exported.opened, exported.sealed, exported.rewritten) == (0, 1, 0)
    assert exported.trouble is not None
    assert "streams that stay encrypted: 1" in str(exported)
    assert payloads(target) == payloads(source)
    assert list(map(what, decoded(target))) == list(map(what, decoded(source)))


def test_export_copies_other_traffic(tmp_path: Path) -> None:
    source = write_capture(
        tmp_path / "source.pcapng", HTTP, HTTP[:1], server="[fd00::1]:80", client="[fd00::2]:1024"
    )
    target = tmp_path / "target.pcapng"
    assert export_capture(source, target, KeyBook()).trouble is None
    assert payloads(target) == payloads(source)
    assert len(payloads(target)) == 3


def payloads(path: Path) -> list[bytes]:
    """Data of each packet that has any."""
    found = []
    with open_capture(path) as reader:
        for batch in reader:
            for at, size in zip(batch.offsets.tolist(), batch.captured_bytes.tolist(), strict=True):
                packet = bytes(batch.data[at : at + size])
                tcp = 20 if packet[0] == 0x45 else 40
                found.append(packet[tcp + (packet[tcp + 12] >> 2) :])
    return [data for data in found if data]


def damaged(chunks: Sequence[Chunk], at: int) -> list[Chunk]:
    """The longest chunk of the client with one bit wrong."""
    place = max((i for i, (way, _) in enumerate(chunks) if way is UP), key=lambda i: len(chunks[i][1]))
    way, chunk = chunks[place]
    broken = bytearray(chunk)
    broken[at] ^= 1
    return [*chunks[:place], (way, bytes(broken)), *chunks[place + 1 :]]


def test_undecryptable_frame_is_left_out_and_reported(tmp_path: Path) -> None:
    chunks, keys = record("v2-secure", sizes=[10, 500, 20])
    messages = [frame for frame in decoded(write_capture(tmp_path / "a.pcapng", chunks), keys) if frame.message]
    source = write_capture(tmp_path / "source.pcapng", damaged(chunks, 300))
    target = tmp_path / "plain.pcapng"
    exported = export_capture(source, target, keys)
    left = [frame for frame in decoded(target) if frame.message]
    assert exported.left_out == 1
    assert len(left) == len(messages) - 1
    assert not any(frame.error for frame in left)
    with open_capture(target) as reader:
        assert sum(map(len, reader)) == exported.packets
        assert any(note.startswith("left out: MESSAGE, ") for note in reader.notes)


def test_export_keeps_wrong_crcs_wrong(tmp_path: Path) -> None:
    for options in ({}, COMPRESSED):
        chunks, keys = record("v2-crc", **options)
        folder = tmp_path / str(len(options))
        folder.mkdir()
        source = write_capture(folder / "source.pcapng", damaged(chunks, 200))
        export_capture(source, folder / "target.pcapng", keys)
        after = decoded(folder / "target.pcapng")
        assert [frame.crc for frame in after].count(Verdict.BAD) == 1
        assert len(after) == len(decoded(source, keys))


def seqs_of(frames: Sequence[DecodedFrame]) -> list[tuple[Direction, int]]:
    """Return the seqs of the complete messages."""
    whole = [frame for frame in frames if frame.error != IN_PART]
    return [(frame.direction, frame.message.seq) for frame in whole if frame.message]


def test_export_keeps_the_gaps_of_the_capture(tmp_path: Path) -> None:
    for way in ("v2-crc", "v2-secure"):
        chunks, keys = record(way, sizes=[3000] * 6)
        packets = packets_of(chop(chunks, 1, 700))
        del packets[-30]
        source = write_packets(tmp_path / f"{way}.pcapng", packets)
        target = tmp_path / f"{way} plain.pcapng"
        export_capture(source, target, keys)
        before, after = decoded(source, keys), decoded(target)
        assert sum(frame.tag == "GAP" or frame.error == IN_PART for frame in after) == 1
        seqs = seqs_of(before)
        assert seqs_of(after) == seqs
        assert 9 <= len(seqs) <= 11


@pytest.mark.parametrize("link", ["crc", "secure"])
def test_export_puts_reordered_packets_in_order(link: str, tmp_path: Path) -> None:
    chunks, keys = record(LINKS[link][0], sizes=[3000] * 6)
    frames = decoded(write_capture(tmp_path / "whole.pcapng", chunks), keys)
    packets = packets_of([(frame.direction, bytes(frame.wire)) for frame in frames])
    place = (
        max(i for i, (a, b) in enumerate(pairwise(frames)) if a.direction is b.direction) + 3
    )  # a handshake before
    packets[place], packets[place + 1] = packets[place + 1], packets[place]
    packets[-1] = with_fin(packets[-1])
    source, target = write_packets(tmp_path / "source.pcapng", packets), tmp_path / "target.pcapng"
    assert export_capture(source, target, keys).trouble is None
    before, after = by_direction(decoded(source, keys)), by_direction(decoded(target))
    for direction in Direction:
        in_order = sorted(before[direction], key=lambda frame: frame.offset)
        assert list(map(what, after[direction])) == list(map(what, in_order))
    assert fin_is_last(target)


def by_direction(frames: Sequence[DecodedFrame]) -> dict[Direction, list[DecodedFrame]]:
    return {direction: [frame for frame in frames if frame.direction is direction] for direction in Direction}


def packets_of(chunks: Sequence[Chunk]) -> list[bytes]:
    talk = Conversation("10.0.0.1:40000", "10.0.0.2:6800")
    return talk.open() + [packet for side, chunk in chunks for packet in talk.data(side, chunk)]


def write_packets(path: Path, packets: Sequence[bytes]) -> Path:
    with PcapngWriter(path) as writer:
        writer.interface("test", LinkType.RAW)
        for time_ns, packet in enumerate(packets):
            writer.packet(time_ns, packet)
    return path


def with_fin(packet: bytes) -> bytes:
    return packet[:33] + bytes([packet[33] | 1]) + packet[34:]


def fin_is_last(path: Path) -> bool:
    with open_capture(path) as reader:
        fins = [bool(packet[33] & 1) for batch in reader for _, _, _, packet in batch.packets()]
    return fins[-1] and not any(fins[:-1])


def test_export_leaves_undecompressible_frames_compressed(tmp_path: Path) -> None:
    chunks, keys = record("v2-crc", **COMPRESSED)
    broken: list[Buffer] = []
    CrcWriter().compressed(broken, Tag.ACK, (b"no such thing", b"", b"", b""))
    source = write_capture(tmp_path / "source.pcapng", [*chunks, (UP, b"".join(broken))])
    target = tmp_path / "target.pcapng"
    exported = export_capture(source, target, keys)
    assert exported.opened == 1
    assert exported.trouble is not None
    assert payloads(target)[-1] == b"".join(broken)


@pytest.mark.parametrize("link", ["v1", "secure", "secure of 2.0 compressed"])
def test_export_survives_random_damage(link: str, tmp_path: Path) -> None:
    chunks, keys = record(LINKS[link][0], sizes=[10, 3000], **LINKS[link][1])
    packets = packets_of(chop(chunks, 1, 900))
    for seed in range(15):
        rng = Random(seed)
        mangled = [bytearray(packet) for packet in packets if rng.random() < 0.98]
        for _ in range(seed):
            packet = rng.choice(mangled)
            packet[rng.randrange(12, len(packet))] = rng.randrange(256)
        source = write_packets(tmp_path / f"{seed}.pcapng", mangled)
        target = tmp_path / f"{seed} plain.pcapng"
        export_capture(source, target, keys)
        assert intact(decoded(target)) == intact(decoded(source, keys))


def intact(frames: Sequence[DecodedFrame]) -> list[tuple[object, ...]]:
    """The messages in which nothing is wrong."""
    return sorted(
        what(frame)[1:]
        for frame in frames
        if frame.message and frame.error != IN_PART and Verdict.BAD not in {frame.crc, frame.auth}
    )


def test_export_omits_aborted_messages() -> None:
    """It would come back as a whole one."""
    packets: list[tuple[int, bytes, str | None]] = []

    class Sink:
        def packet(self, time_ns: int, data: bytes, *, comment: str | None = None) -> None:
            packets.append((time_ns, data, comment))

    stream = Stream(0, "10.0.0.1:40000", "10.0.0.2:6800", opening_seen=False)
    where: dict[str, Any] = {"frame": 0, "time_ns": 5, "packet": 0, "stream": stream, "direction": UP, "offset": 0}
    checks: dict[str, Any] = {"crc": Verdict.OK, "auth": Verdict.OK, "error": "aborted by its sender"}
    exporter = Exporter(Sink(), "x")
    segments = (bytes(41), b"front", b"", b"")
    exporter.frame(
        DecodedFrame(
            **where,
            **checks,
            protocol="v2.1",
            mode="secure",
            tag="MESSAGE",
            length=160,
            segments=segments,
            wire=b"x",
        )
    )
    exporter.flush()
    assert exporter.total.left_out == 1
    assert packets == [(5, packets[0][1], "left out: MESSAGE, 160 bytes, aborted by its sender")]


# ---- the command


def test_the_command_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunks, _ = record("v2-crc")
    source, target = write_capture(tmp_path / "source.pcapng", chunks), tmp_path / "plain.pcapng"
    assert msgrlab(["wireshark", str(source), "-o", str(target)]) == 0
    assert capsys.readouterr().out.startswith(f"{target}: ")
    assert msgrlab(["wireshark", str(source), "-o", str(target)]) == 2
    assert "plain.pcapng: exists already" in capsys.readouterr().err


def test_command_reports_what_stays_encrypted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunks, _ = record("v2-secure")
    source, target = write_capture(tmp_path / "source.pcapng", chunks), tmp_path / "plain.pcapng"
    assert msgrlab(["wireshark", str(source), "-o", str(target)]) == 1
    output = capsys.readouterr()
    assert "streams that stay encrypted: 1" in output.out
    assert "missing: service key of osd" in output.err
    assert output.err.count("\n") == 1


def test_export_of_an_invalid_capture_writes_no_file(tmp_path: Path) -> None:
    source = tmp_path / "noise.pcap"
    source.write_bytes(b"no capture at all, but some bytes")
    with pytest.raises(LocalError, match="noise"):
        export_capture(source, tmp_path / "target.pcapng", KeyBook())
    assert not (tmp_path / "target.pcapng").exists()
