"""The expected decoding of each capture: the lines of ``msgrlab decode --format json``."""

import json
from collections.abc import Iterable
from pathlib import Path

from captures.trim import compress
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.keys import KeyBook

HERE = Path(__file__).parent
CAPTURE = "capture.pcapng.gz"
EXPECTED = "expected.jsonl.gz"
KEYRING = "keyring"


def expected_lines(frames: Iterable[DecodedFrame]) -> list[str]:
    """Return the frames as JSON, one line each."""
    return [json.dumps(frame.as_json()) for frame in frames]


def write_expected(directory: Path) -> None:
    """Decode a capture, with its keyring if it has one, and store the result next to it."""
    keyring = directory / KEYRING
    frames = decode_capture(directory / CAPTURE, KeyBook.read([keyring] if keyring.exists() else []))
    text = "".join(f"{line}\n" for line in expected_lines(frames))
    compress(text.encode(), directory / EXPECTED)
