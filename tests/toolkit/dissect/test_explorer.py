"""A frame's bytes beside its fields."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolkit
from messenger import LocalError
from tests.support.browser import Tab, browser
from toolkit.dissect.capture import Capture
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame
from toolkit.dissect.spans import anatomy

CAPTURES = ("tentacle-osds", "nautilus-secure", "nautilus-osds-v1")


@pytest.fixture(scope="module", params=CAPTURES)
def capture(request: pytest.FixtureRequest) -> Capture:
    return toolkit.read_capture(request.param)


@pytest.fixture(scope="module")
def tentacle() -> Capture:
    return toolkit.read_capture("tentacle-osds")


def _first(capture: Capture, tag: str, message: str = "") -> DecodedFrame:
    return next(
        frame
        for frame in capture.frames
        if frame.tag == tag and (not message or (frame.message and frame.message.name == message))
    )


def _bytes(frame: DecodedFrame, name: str) -> bytes:
    found = anatomy(frame)
    span = next(span for span in found.spans if span.name == name)
    return b"".join(found.blocks[span.block].data[part.start : part.stop] for part in span.ranges)


def test_regions_cover_each_frame_and_fields_lie_in_them(capture: Capture) -> None:
    for frame in capture.frames:
        found = anatomy(frame)
        for number, block in enumerate(found.blocks):
            spans = [span for span in found.spans if span.block == number]
            regions = [at for span in spans if span.value is None for part in span.ranges for at in part]
            assert sorted(regions) == list(range(len(block.data))), frame
            fields = [at for span in spans if span.value is not None for part in span.ranges for at in part]
            assert len(fields) == len(set(fields)), "no byte is in two fields"
            assert set(fields) <= set(regions)


def test_the_bytes_of_a_field_are_its_value(capture: Capture) -> None:
    message = next(frame for frame in capture.frames if frame.message and frame.tag not in NO_FRAMES)
    for name, size in (("seq", 8), ("tid", 8), ("type", 2)):
        assert _bytes(message, name) == int(getattr(message.message, name)).to_bytes(size, "little")
    if message.protocol != "v1":
        hello = _first(capture, "HELLO")
        assert anatomy(hello).blocks[0].data == bytes(hello.wire)
        assert len(_bytes(hello, "entity_type")) == 1
        banner = _first(capture, "BANNER")
        assert _bytes(banner, "supported") == banner.fields["supported"].to_bytes(8, "little")


def test_payload_fields_of_a_plain_layout_have_their_places(tentacle: Capture) -> None:
    frame = _first(tentacle, "MESSAGE", "mon_get_version")
    placed = {span.name for span in anatomy(frame).spans if span.block >= 0}
    assert set(frame.fields) <= placed
    what = str(frame.fields["what"]).encode()
    assert _bytes(frame, "what") == len(what).to_bytes(4, "little") + what


def test_explorer_hides_secrets_of_encrypted_frames(tentacle: Capture) -> None:
    frame = next(frame for frame in tentacle.frames if frame.tag == "AUTH_SIGNATURE" and frame.mode == "secure")
    opened = anatomy(frame)
    (secret,) = [span for span in opened.spans if span.hidden]
    data = opened.blocks[secret.block].data
    shown = re.sub("<[^>]+>", "", frame.explore().html())
    assert data[4:16].hex(" ") not in shown
    assert "·· ··" in shown


def test_explore_refuses_an_unknown_frame(tentacle: Capture) -> None:
    with pytest.raises(LocalError, match=r"no frame 100000 in capture\.pcapng\.gz: it has 337, counted from 0"):
        tentacle.explore(100_000)
    assert "peer_addr" in repr(tentacle.explore(_first(tentacle, "HELLO").frame))


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with browser(tmp_path / "chromium") as tab:
        yield tab


@pytest.mark.needs("chromium")
def test_a_byte_shows_its_field_and_a_field_its_bytes(tab: Tab, tentacle: Capture, tmp_path: Path) -> None:
    page = tmp_path / "frame.html"
    hello = _first(tentacle, "HELLO").explore().html()
    page.write_text(f"<!doctype html><meta charset=utf-8>{hello}", encoding="utf-8")
    tab.screen(390, 800, dark=True)
    tab.open(page)
    assert tab.value("document.documentElement.scrollWidth") == 390
    assert "<script" not in hello
    tab.value("[...document.querySelectorAll('.dump label')].find((each) => each.textContent === '01').click()")
    name = "document.querySelector('input:checked')?.closest('label').textContent.trim()"
    tab.until(f"{name} === 'preamble' || {name} === 'entity_type'")
    marked = "[...document.querySelectorAll('.dump label')]"
    marked += ".filter((each) => getComputedStyle(each).outlineStyle !== 'none').map((each) => each.textContent)"
    before = tab.value(marked)
    assert before
    chosen = tab.value("document.querySelector('input:checked').id")
    tab.value("document.querySelector('input:checked').focus()")
    tab.press("ArrowDown")
    tab.until(f"document.querySelector('input:checked').id !== '{chosen}'")
    assert tab.value(marked) != before
