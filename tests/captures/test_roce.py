"""The kept captures over RDMA decode to what both ends have received."""

import gzip
import hashlib
import json

import pytest

from captures.expected import CAPTURE, EXPECTED, expected_lines
from captures.roce.__main__ import HERE
from captures.roce.recipes import RECIPES
from messenger.cephx.exchange import ConMode
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.direction import Direction

LARGEST_BYTES = 100 << 10


@pytest.mark.parametrize("name", RECIPES)
def test_messages_are_those_that_both_ends_have_received(name: str) -> None:
    frames = list(decode_capture(HERE / name / CAPTURE))
    seen: dict[str, list[list[object]]] = {"server": [], "client": []}
    for frame in frames:
        if frame.message is not None:
            data = bytes(frame.segments[3]) if len(frame.segments) > 3 else b""
            to = "server" if frame.direction is Direction.TO_SERVER else "client"
            seen[to].append([frame.message.tid, len(data), hashlib.sha256(data).hexdigest()[:16]])
    assert seen == json.loads((HERE / name / "ends.json").read_text())
    assert not any(frame.error for frame in frames)


@pytest.mark.parametrize("name", RECIPES)
def test_the_decode_is_as_expected(name: str) -> None:
    expected = gzip.decompress((HERE / name / EXPECTED).read_bytes()).decode().splitlines()
    assert expected_lines(decode_capture(HERE / name / CAPTURE)) == expected


@pytest.mark.parametrize("name", [name for name in RECIPES if RECIPES[name].mode is ConMode.SECURE])
def test_secure_links_open_by_the_key_log_inside(name: str) -> None:
    frames = [frame for frame in decode_capture(HERE / name / CAPTURE) if frame.message is not None]
    assert {(frame.mode, str(frame.auth)) for frame in frames} == {("secure", "ok")}


def test_captures_are_small() -> None:
    sizes_bytes = [sum(path.stat().st_size for path in (HERE / name).iterdir()) for name in RECIPES]
    assert max(sizes_bytes) < LARGEST_BYTES
