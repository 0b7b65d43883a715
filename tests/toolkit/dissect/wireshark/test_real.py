"""Captures of real daemons, exported, as tshark and our own decoder read them."""

from pathlib import Path

import pytest

from messenger.v2.wire import Tag
from tests.support.wireshark import rows
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.wireshark.capture_export import export_capture

CAPTURES = Path(__file__).parents[4] / "captures"
NAMES = ["nautilus-secure", "nautilus-v1", "pacific-osds", "reef-compressed", "reef-none", "tentacle-compressed"]


def content(frame: DecodedFrame) -> tuple[object, ...]:
    message = frame.message
    parts = message and (message.name, message.seq, message.tid, message.src, message.front, message.data)
    return frame.stream.index, frame.direction, frame.protocol, frame.tag, parts, frame.time_ns


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("name", NAMES)
def test_exported_captures_decode_alike_in_tshark_and_our_decoder(name: str, tmp_path: Path) -> None:
    source, target = CAPTURES / name / "capture.pcapng.gz", tmp_path / "plain.pcapng"
    keyring = [CAPTURES / name / "keyring"]
    exported = export_capture(source, target, KeyBook.read(keyring))
    frames = list(decode_capture(source, KeyBook.read(keyring)))
    assert sorted(map(repr, map(content, decode_capture(target)))) == sorted(map(repr, map(content, frames)))
    assert (exported.sealed, exported.left_out, exported.trouble) == (0, 0, None)
    wanted = ("tcp.stream", "msgr2.tag", "msgr2.crc.status", "msgr2.revision")
    shown = [(stream, *row) for (stream,), *cells in rows(target, *wanted) for row in zip(*cells, strict=True)]
    assert sorted(shown) == sorted(
        (str(frame.stream.index), str(int(Tag[frame.tag])), "1", frame.protocol[1:])
        for frame in frames
        if frame.protocol.startswith("v2") and frame.tag != "BANNER"
    )
    messages = [frame.message for frame in frames if frame.message and frame.protocol.startswith("v2")]
    wanted = ("msgr2.message.name", "msgr2.message.seq", "msgr2.message.front_len", "msgr2.message.data_len")
    shown = [row for cells in rows(target, *wanted) for row in zip(*cells, strict=True)]
    assert sorted(shown) == sorted((m.name, str(m.seq), str(m.front), str(m.data)) for m in messages)
