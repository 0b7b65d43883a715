"""The Lua dissector in real tshark, compared with our own readers of the same bytes."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import pytest

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.layout import Kind, layout_of
from messenger.errors import LocalError
from messenger.messages.types import message_name
from messenger.v2.wire import CONTROL_FRAMES, MESSAGE_HEADER, ControlFrame, Tag, encode_banner
from tests.support.frames import message, preamble, writer
from tests.support.wireshark import CLIENT, Chunk, chop, column, pack, record, rows, tshark, write_capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower, SeenFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.wireshark import dissector as generator
from toolkit.dissect.wireshark.dissector import dissector

pytestmark = pytest.mark.needs("tshark")

UP, DOWN = Direction
GOOD, BAD, UNVERIFIED = "1", "0", "2"
LINKS: dict[str, dict[str, Any]] = {
    "2.1": {},
    "2.0": {"msgr2_features": 0},
    "2.1 compressed": {"ms_osd_compress_mode": "force", "ms_osd_compression_algorithm": "zstd"},
}
"""Options of both ends."""


def follow(chunks: list[Chunk], keys: KeyBook | None = None) -> list[SeenFrame]:
    follower = LinkFollower(keys)
    return [frame for direction, chunk in chunks for frame in follower.feed(direction, chunk)]


def number(value: str) -> int:
    return int(value, 0)


# ---- frames of our own messengers


@pytest.mark.parametrize("name", LINKS)
def test_dissector_shows_the_frames_of_our_reader(name: str, tmp_path: Path) -> None:
    chunks, keys = record("v2-crc", **LINKS[name])
    seen = [frame for frame in follow(chunks, keys) if frame.tag != "BANNER"]
    packings = [chunks, pack(chunks), chop(chunks, 1, 97), chop(chunks, 2, 4000)]
    path = write_capture(tmp_path / "links.pcapng", *packings)
    wanted = ["tcp.stream", "msgr2.tag", "msgr2.length", "msgr2.crc.status", "msgr2.revision"]
    found: dict[str, list[tuple[str, ...]]] = {}
    for (stream,), *columns in rows(path, *wanted):
        found.setdefault(stream, []).extend(zip(*columns, strict=True))
    expected = sorted((str(int(Tag[f.tag])), str(len(f.raw)), GOOD, name[:3]) for f in seen)
    assert [sorted(frames) for frames in found.values()] == [expected] * len(packings)


@pytest.mark.parametrize("name", ["2.1", "2.0"])
def test_messages_have_their_fields(name: str, tmp_path: Path) -> None:
    chunks, _ = record("v2-crc", **LINKS[name])
    path = write_capture(tmp_path / "link.pcapng", chop(chunks, 3, 900))
    keys = ("seq", "tid", "type", "priority", "version", "compat_version", "ack_seq", "name")
    lengths = ("front_len", "middle_len", "data_len")
    table = rows(path, *(f"msgr2.message.{field}" for field in keys + lengths))
    found = [message for row in table for message in zip(*row, strict=True)]
    shown = (*keys, "front", "middle", "data")
    expected = [
        tuple(str(frame.fields[key]) for key in shown) for frame in follow(chunks) if frame.tag == "MESSAGE"
    ]
    assert sorted(found) == sorted(expected)
    assert {message[-1] for message in found} == {"0", "1", "2000", "70000"}


def test_any_port_will_do(tmp_path: Path) -> None:
    chunks, _ = record("v2-crc", sizes=[10])
    chunks = [*chunks[:2], *chop(chunks[2:], 1, 50)]
    path = write_capture(tmp_path / "odd.pcapng", chunks, server="[fd00::1]:9999", client="[fd00::2]:1234")
    assert column(path, "msgr2.message.seq") == ["1", "1"]
    assert column(path, "msgr2.banner") == [r"ceph v2\n"] * 2


def test_dissector_finds_frames_midstream(tmp_path: Path) -> None:
    for name in ("2.1", "2.0"):
        chunks, _ = record("v2-crc", sizes=[100, 100, 100], **LINKS[name])
        frames = [frame for frame in follow(chunks) if frame.tag == "MESSAGE" and frame.direction is UP]
        damaged = bytearray(frames[1].raw)
        damaged[45] ^= 1
        middle = [(UP, frames[0].raw[20:] + frames[1].raw + bytes(damaged) + frames[2].raw)]
        path = write_capture(tmp_path / f"middle {name}.pcapng", middle, opening=False)
        assert len(column(path, "msgr2.message.seq")) == 3
        assert column(path, "msgr2.revision") == [name] * 3
        assert column(path, "msgr2.crc.status") == [GOOD, BAD, GOOD]


# ---- each control frame, field by field

ADDR = EntityAddr.parse("v2:10.1.2.3:3300/7")
ADDR6 = EntityAddr.parse("v1:[2001:db8::1:0:0:5]:6789/4294967295")
SAMPLES: dict[type, object] = {
    EntityType: EntityType.OSD,
    EntityAddr: ADDR6,
    AddrVec: AddrVec((ADDR, ADDR6)),
    bool: True,
    bytes: bytes(range(32)),
    list[int]: [2, 1],
}


def sample(frame: type[ControlFrame], seed: int) -> ControlFrame:
    """A frame with values of every size."""
    values: dict[str, object] = {}
    for position, field in enumerate(fields(frame)):  # type: ignore[arg-type]
        plain = getattr(field.type, "__origin__", field.type)
        big = -(seed + position) if field.name in ("gid", "result") else (seed << 24) + position + 1
        values[field.name] = SAMPLES.get(plain, big)
    return frame(**values)


def shown(value: str, like: object) -> object:
    """Return the value that tshark's text stands for."""
    if isinstance(like, bool):
        return value in ("1", "True")
    if isinstance(like, bytes):
        return bytes.fromhex(value.replace(":", ""))
    if isinstance(like, int):
        return number(value)
    if isinstance(like, list):
        return list(map(number, value.split(";")))
    return value


def test_every_field_of_every_control_frame(tmp_path: Path) -> None:
    to = writer("crc")
    frames = {tag: sample(frame, tag) for tag, frame in CONTROL_FRAMES.items()}
    chunks = [(UP, encode_banner(1, 0)), (DOWN, encode_banner(1, 0))]
    chunks += [(UP, to.control(tag, frame.encode())) for tag, frame in frames.items()]
    path = write_capture(tmp_path / "control.pcapng", chunks)
    names = [(tag, name) for tag, frame in frames.items() for name, _, _ in layout_of(type(frame))]
    wanted = [f"msgr2.{Tag(tag).name.lower()}.{name}" for tag, name in names]
    table = rows(path, "msgr2.tag", *wanted)
    found = {int(row[0][0]): dict(zip(wanted, row[1:], strict=True)) for row in table}
    assert list(found) == list(frames)
    for (tag, name), field in zip(names, wanted, strict=True):
        value = getattr(frames[tag], name)
        plain = value if isinstance(value, bool | bytes | int | list) else str(value)
        assert shown(";".join(found[tag][field]), plain) == plain, field
        assert not any(found[other][field] for other in found if other != tag), field
    wanted = [f"msgr2.{Tag(tag).name.lower()}" for tag in frames]
    marks = rows(path, *wanted)
    assert [[place for place, mark in enumerate(row) if mark] for row in marks] == [
        [i] for i in range(len(wanted))
    ]


def test_addresses_of_every_form(tmp_path: Path) -> None:
    addresses = [EntityAddr(), ADDR, ADDR6, ADDR.with_type(type(ADDR.type).ANY), EntityAddr.parse("v2:[::]:0/1")]
    bodies = []
    for address in addresses:
        encoder = Encoder()
        encoder.u8(EntityType.CLIENT)
        address.encode(encoder)
        bodies.append(encoder.getvalue())
    bodies.append(b"\x08" + ADDR.legacy_image())
    frames = [(UP, writer("crc").control(Tag.HELLO, body)) for body in bodies]
    path = write_capture(tmp_path / "addresses.pcapng", [(UP, encode_banner(1, 0)), *frames])
    expected = [*map(str, addresses), str(ADDR.with_type(type(ADDR.type).LEGACY))]
    assert column(path, "msgr2.hello.peer_addr") == expected
    assert not column(path, "msgr2.trailing")


def test_fields_have_the_position_of_their_bytes(tmp_path: Path) -> None:
    chunks, _ = record("v2-crc", sizes=[5])
    (frame,) = [frame for frame in follow(chunks) if frame.tag == "MESSAGE" and frame.direction is UP]
    path = write_capture(tmp_path / "bytes.pcapng", chop(chunks, 5, 30))
    found = tshark(path, "-T", "json", "-x", "-Y", f"msgr2.tag == {Tag.MESSAGE} and tcp.srcport == 40000")
    for field, start, size in [
        ("msgr2.message.seq_raw", 32, 8),
        ("msgr2.message.type_raw", 48, 2),
        ("msgr2.message.data_raw", len(frame.raw) - 13 - 5, 5),
        ("msgr2.late_status_raw", len(frame.raw) - 13, 1),
    ]:
        line = found.split(f'"{field}": [')[1].split("]")[0].replace('"', "").replace("\n", "").split(",")
        text, place, length = (word.strip() for word in line[:3])
        assert (bytes.fromhex(text), int(place), int(length)) == (frame.raw[start : start + size], start, size)


# ---- what is wrong


def test_dissector_marks_the_damaged_part(tmp_path: Path) -> None:
    chunks, _ = record("v2-crc", sizes=[400, 400, 400])
    messages = [frame for frame in follow(chunks) if frame.tag == "MESSAGE" and frame.direction is UP]
    before = b"".join(frame.raw for frame in follow(chunks) if frame.direction is UP and frame.tag != "ACK")
    links = {}
    for at, verdicts in {
        3: [GOOD, GOOD],  # the preamble: it is no frame any more
        40: [GOOD, BAD, GOOD],  # the header
        300: [GOOD, BAD, GOOD],  # the data
        len(messages[1].raw) - 1: [GOOD, BAD, GOOD],  # the crc itself
    }.items():
        raw = bytearray(before)
        raw[messages[1].offset + at] ^= 0x40
        links[at] = (bytes(raw), verdicts)
    path = write_capture(tmp_path / "damage.pcapng", *([(UP, raw)] for raw, _ in links.values()))
    found: dict[str, list[str]] = {}
    for (stream,), seqs, status, unknown in rows(
        path, "tcp.stream", "msgr2.message.seq", "msgr2.crc.status", "msgr2.unknown"
    ):
        found.setdefault(stream, []).extend([*status[-len(seqs) :]] if seqs else [])
        if stream == "0" and seqs:
            assert seqs == ["1", "3"]
            assert len(unknown) == 1
    assert list(found.values()) == [verdicts for _, verdicts in links.values()]


def test_dissector_skips_an_impossible_length(tmp_path: Path) -> None:
    long = preamble(lengths=(1 << 28, 1 << 28, 1 << 28, 1 << 28), segments=4)
    ack = writer("crc").control(Tag.ACK, (5).to_bytes(8, "little"))
    banners = [(UP, encode_banner(1, 0)), (DOWN, encode_banner(1, 0))]
    path = write_capture(tmp_path / "long.pcapng", [*banners, (UP, long), (UP, ack)])
    assert column(path, "msgr2.unknown") == [long.hex()]
    assert column(path, "msgr2.ack.seq") == ["5"]


def test_zero_crc_is_unverified_and_not_bad(tmp_path: Path) -> None:
    raw = bytearray(writer("crc").control(Tag.ACK, (5).to_bytes(8, "little")))
    raw[-4:] = bytes(4)  # a sender with ms_crc_data off
    banners = [(UP, encode_banner(1, 0)), (DOWN, encode_banner(1, 0))]
    path = write_capture(tmp_path / "none.pcapng", [*banners, (UP, bytes(raw))])
    assert column(path, "msgr2.crc.status") == [UNVERIFIED]
    assert column(path, "msgr2.preamble.crc.status") == [GOOD]


def test_encrypted_part_is_marked(tmp_path: Path) -> None:
    chunks, _ = record("v2-secure")
    path = write_capture(tmp_path / "secure.pcapng", chop(chunks, 7, 3000))
    tags = [Tag(int(tag)).name for tag in column(path, "msgr2.tag")]
    assert tags[-1] == "AUTH_DONE"
    assert "AUTH_SIGNATURE" not in tags
    assert "encrypted (export the capture decrypted first)" in tshark(path)
    sealed = sum(len(value) // 2 for value in column(path, "msgr2.encrypted"))
    assert sealed > sum(len(chunk) for _, chunk in chunks) - 1500


def test_aborted_frames(tmp_path: Path) -> None:
    header = MESSAGE_HEADER.pack(9, 0, 2, 127, 1, 0, 0, 0, 3, 1, 0)
    raw = bytearray(message(writer("crc"), header, b"front"))
    raw[-13] = 0x01
    path = write_capture(tmp_path / "aborted.pcapng", [(UP, encode_banner(1, 0)), (UP, bytes(raw))])
    assert column(path, "msgr2.aborted") == ["1"]
    assert not column(path, "msgr2.message.seq")


def test_payloads_that_end_early_or_late(tmp_path: Path) -> None:
    good = sample(CONTROL_FRAMES[Tag.CLIENT_IDENT], 5).encode()
    to = writer("crc")
    frames = [(UP, to.control(Tag.CLIENT_IDENT, good[:size])) for size in range(len(good) + 3)]
    path = write_capture(tmp_path / "early.pcapng", [(UP, encode_banner(1, 0)), *frames])
    assert column(path, "msgr2.crc.status") == [GOOD] * len(frames)
    assert len(column(path, "msgr2.client_ident.client_cookie")) == 3
    assert column(path, "msgr2.trailing") == ["00", "0000"] or len(column(path, "msgr2.trailing")) == 0
    assert len(column(path, "msgr2.expert.malformed")) == len(good)


def test_dissector_survives_random_damage(tmp_path: Path) -> None:
    """Any mangling of a link leaves tshark with something to show, and the script without an error."""
    chunks, _ = record("v2-crc", sizes=[10, 300])
    everything = b"".join(chunk for direction, chunk in chunks if direction is UP)
    long = preamble(lengths=(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), segments=4)
    links = [[(UP, everything[:40] + long + everything[40:])], [(UP, long * 3)], [(UP, everything[: 26 + 31])]]
    for seed in range(40):
        mangled = bytearray(everything)
        for at in range(seed * 13 % 50, len(mangled), 37 + seed):
            mangled[at] = (mangled[at] * 5 + seed) & 0xFF
        links.append(chop([(UP, bytes(mangled))], seed, 500))
    path = write_capture(tmp_path / "noise.pcapng", *links)
    assert tshark(path, "-V").count("Ceph Messenger v2") > len(links)


def test_a_capture_that_cuts_packets_short(tmp_path: Path) -> None:
    from toolkit.capture.formats import LinkType, PcapngWriter
    from toolkit.dissect.wireshark.packets import Conversation

    chunks, _ = record("v2-crc", sizes=[10, 3000])
    talk = Conversation(CLIENT, "10.0.0.2:6800")
    path = tmp_path / "short.pcapng"
    with PcapngWriter(path) as writer_:
        writer_.interface("test", LinkType.RAW)
        packets = talk.open() + [packet for way, chunk in chunks for packet in talk.data(way, chunk)]
        for time_ns, packet in enumerate(packets):
            writer_.packet(time_ns, packet[:150], original_bytes=len(packet))
    assert "part of a frame" in tshark(path)
    assert str(int(Tag.HELLO)) in column(path, "msgr2.tag")


# ---- others' streams


def test_dissector_leaves_v1_to_wireshark(tmp_path: Path) -> None:
    v1, _ = record("v1", sizes=[100])
    path = write_capture(tmp_path / "v1.pcapng", v1, [(UP, b"GET / HTTP/1.1\r\n\r\n")], [(UP, bytes(500))])
    columns = ("_ws.col.Protocol", "_ws.col.Info", "ceph.ver", "tcp.len")
    assert rows(path, *columns) == rows(path, *columns, ours=False)
    assert "Ceph" in column(path, "_ws.col.Protocol")
    assert not column(path, "msgr2.tag")


# ---- the file itself


def test_names_of_messages_are_those_of_logs() -> None:
    text = dissector()
    assert text.startswith(generator.MARK)
    for number_ in (15, 42, 43, 0x700):
        assert f'[{number_}] = "{message_name(number_)}"' in text


def test_a_kind_of_field_that_lua_cannot_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import dataclass

    strange = Annotated[int, Kind(Encoder.f64, Decoder.f64)]

    @dataclass
    class Strange(ControlFrame):
        TAG = Tag.WAIT
        value: strange  # type: ignore[valid-type]

    monkeypatch.setattr(generator, "CONTROL_FRAMES", {Tag.WAIT: Strange})
    with pytest.raises(LocalError, match=r"Strange\.value: the dissector does not know"):
        dissector()
