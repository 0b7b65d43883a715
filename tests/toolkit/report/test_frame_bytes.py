"""The bytes of frames in a page: compact, limited, and without secrets."""

import json
from base64 import b64decode

from toolkit.report.frame_bytes import MOST_BLOCK_BYTES, FrameLines, ShownFrame, ShownPart

SECRET = b"secret key bytes"


def _frame(number: int, value: str = "1") -> ShownFrame:
    parts = [
        ShownPart("segment 0", "", 0, (range(40),)),
        ShownPart("seq", value, 0, (range(8),)),
        ShownPart("key", "16 bytes", 0, (range(20, 36),), hidden=True),
    ]
    return ShownFrame(f"frame {number}", "", [("on the wire", bytes(20) + SECRET + bytes(4))], parts)


def _source(count: int, value: str = "1") -> list[tuple[int, object]]:
    return [(number, lambda number=number: _frame(number, value)) for number in range(count)]


def _filled(count: int, room_bytes: int = 1 << 20, value: str = "1") -> FrameLines:
    lines = FrameLines()
    lines.fill(_source(count, value), range(count), room_bytes)
    return lines


def test_bytes_of_secrets_are_not_in_the_page() -> None:
    _, line = _filled(1).text().split("\n")
    ((size, data),) = json.loads(line.removeprefix("0 "))[3]
    assert size == 40
    assert b64decode(data) == bytes(40)


def test_frames_of_a_kind_share_the_description_of_their_parts() -> None:
    head, *lines = _filled(50).text().split("\n")
    assert len(json.loads(head)["shapes"]) == 1
    assert len(lines) == 50


def test_only_requested_frames_are_dissected() -> None:
    lines = FrameLines()
    lines.fill([(0, lambda: 1 / 0), (1, lambda: _frame(1)), (2, lambda: 1 / 0)], {1}, 1 << 20)
    assert [line.split(" ")[0] for line in lines.lines] == ["1"]


def test_full_page_notes_the_missing_frames() -> None:
    lines = _filled(100, 2000)
    assert 0 < len(lines.lines) < 100
    assert lines.size_bytes <= 2000
    assert f"those of {len(lines.lines)} frames" in json.loads(lines.text().split("\n")[0])["left"]
    assert json.loads(_filled(3).text().split("\n")[0])["left"] == ""


def test_a_long_block_is_cut_and_its_size_stays() -> None:
    lines = FrameLines()
    long = ShownFrame("long", "", [("data", b"x" * 100_000)], [])
    lines.fill([(7, lambda: long)], {7}, 1 << 20)
    ((size, data),) = json.loads(lines.lines[0].removeprefix("7 "))[3]
    assert (size, len(b64decode(data))) == (100_000, MOST_BLOCK_BYTES)


def test_text_of_a_frame_cannot_end_the_script_element_or_its_line() -> None:
    text = _filled(1, value="</script>\n<b>").text()
    assert "<" not in text
    assert len(text.split("\n")) == 2
