"""The bytes and fields of frames as lines of JSON, of which a page parses one when it shows the frame."""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from toolkit.report.text import printable

MOST_BLOCK_BYTES = 2048
"""Maximum number of bytes of a block that a page contains."""
MOST_PAGE_BYTES = 16 << 20
"""Limit of the size of all lines in one page."""
_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A region or a field of a frame."""

    name: str
    value: str
    """Empty for a region."""
    block: int
    """Index of the block with its bytes; -1 if they are unknown."""
    ranges: tuple[range, ...] = ()
    """Its bytes in the block."""
    hidden: bool = False
    """True for a secret, whose bytes are not written into the page."""


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """A frame: blocks of bytes, and the parts in them."""

    title: str
    problem: str
    """Problem of the frame; empty if there is none."""
    blocks: list[tuple[str, bytes]]
    """Title and bytes of each block."""
    parts: list[ShownPart]


FrameSource = Iterable[tuple[int, Callable[[], ShownFrame]]]
"""Pairs of a frame's number (``frame`` in history records) and a function that returns the frame."""


@dataclass(slots=True)
class FrameLines:
    """Frames as lines; frames of the same layout share one description of their parts (a shape)."""

    shapes: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    size_bytes: int = 0
    is_full: bool = False
    """True if frames were left out because the page is full."""

    def fill(self, source: FrameSource, wanted: Collection[int], room_bytes: int) -> None:
        """Add the frames ``wanted``, in the order of the source, up to ``room_bytes``."""
        missing = set(wanted)
        for number, take_apart in source:
            if number not in missing:
                continue
            line = self._line(number, take_apart())
            if self.size_bytes + len(line) > room_bytes:
                self.is_full = True
                return
            self.lines.append(line)
            self.size_bytes += len(line) + 1
            missing.discard(number)
            if not missing:
                return

    def text(self) -> str:
        """Return the content of a script element: shapes and limit, then a line per frame, its number first."""
        head = {
            "shapes": [json.loads(shape) for shape in self.shapes],
            "left": f"this page has those of {len(self.lines):,} frames, the limit of its size"
            if self.is_full
            else "",
        }
        return "\n".join([_json(head), *self.lines])

    def _line(self, number: int, frame: ShownFrame) -> str:
        titles = [title for title, _ in frame.blocks]
        parts = [
            [
                part.name,
                part.block,
                [edge for each in part.ranges for edge in (each.start, each.stop)],
                part.hidden,
            ]
            for part in frame.parts
        ]
        shape = self.shapes.setdefault(_json([titles, parts]), len(self.shapes))
        blocks = [
            [len(data), b64encode(_without_secrets(data[:MOST_BLOCK_BYTES], place, frame)).decode()]
            for place, (_, data) in enumerate(frame.blocks)
        ]
        values = [_short(part.value) for part in frame.parts]
        return f"{number} {_json([shape, frame.title, frame.problem, blocks, values])}"


def _without_secrets(data: bytes, block: int, frame: ShownFrame) -> bytes:
    """Return the bytes of a block with zeros for the hidden ones."""
    clean = bytearray(data)
    for part in frame.parts:
        if part.hidden and part.block == block:
            for each in part.ranges:
                inside = range(min(each.start, len(clean)), min(each.stop, len(clean)))
                clean[inside.start : inside.stop] = bytes(len(inside))
    return bytes(clean)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _json(values: object) -> str:
    """Return JSON in one line, escaped so that it neither ends a script element nor breaks the page."""
    return printable(json.dumps(values, ensure_ascii=False, separators=(",", ":"))).replace("<", "\\u003c")
