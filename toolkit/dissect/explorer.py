"""Shows a frame's bytes beside its fields, as HTML without scripts: selecting either highlights the other."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from markupsafe import Markup

from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.spans import Anatomy, Block, anatomy
from toolkit.report.assets import environment
from toolkit.report.frame_bytes import ShownFrame, ShownPart
from toolkit.report.text import printable
from toolkit.report.theme import sheet

_CLASS = "msgrlab"
_LINE_BYTES = 16
_MOST_BYTES = 4096
"""Number of bytes of a block that are shown."""
_LONGEST_VALUE = 200
_numbers = count(1)
"""Makes the ids of several explorers on one page unique."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a line that belong to the same spans."""

    spans: tuple[int, ...]
    """Indexes of the spans, the innermost last."""
    text: str


class FrameExplorer:
    """Shows the bytes of a frame beside its regions and fields. Displays itself in a notebook.

    Click a field to see its bytes, or a byte to see its field; on the keyboard, Tab and the arrow keys move from
    field to field. Bytes that were sealed on the wire and may be secret are shown as ``··``.

    Args:
        frame: frame of a capture.
    """

    def __init__(self, frame: DecodedFrame) -> None:
        self.frame = frame
        self.anatomy: Anatomy = anatomy(frame)

    def html(self) -> str:
        """Return the explorer as one piece of HTML."""
        prefix = f"lv{next(_numbers)}-{self.frame.frame}-"
        chosen = [
            f".{_CLASS}:has(#{prefix}{number}:checked) .{prefix}{number}"
            for number in range(len(self.anatomy.spans))
        ]
        style = sheet(_CLASS, "colours", "live", "explorer") + ", ".join(chosen) + "{ " + _CHOSEN + " }\n"
        template = environment().get_template("explorer.html.j2")
        text = template.render(
            v=self,
            prefix=prefix,
            css=Markup(style),  # noqa: S704 - our own file, and numbers
        )
        return printable(text)

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        lines = [self.title]
        for span in self.anatomy.spans:
            places = ", ".join(f"{part.start}-{part.stop - 1}" for part in span.ranges) or "-"
            lines.append(f"{places:>12}  {span.name} {_value(span.value)}".rstrip())
        return "\n".join(lines)

    def shown(self) -> ShownFrame:
        """Return the explorer's data for a page that shows one of many frames at a time."""
        blocks = [(block.title, block.data) for block in self.anatomy.blocks]
        parts = [
            ShownPart(span.name, _value(span.value), span.block, span.ranges, span.hidden)
            for span in self.anatomy.spans
        ]
        return ShownFrame(self.title, self.problem, blocks, parts)

    # ---- for the template

    @property
    def title(self) -> str:
        """The frame in one line."""
        frame = self.frame
        words = [f"frame {frame.frame}", frame.tag, *([frame.message.name] if frame.message else [])]
        return (
            f"{' '.join(words)}, {frame.src} → {frame.dst}, {frame.protocol} {frame.mode}, {frame.length:,} bytes"
        )

    @property
    def problem(self) -> str:
        """What is wrong with the frame; empty if nothing is."""
        return self.frame.error or ""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the regions and fields, in order."""
        for number, span in enumerate(self.anatomy.spans):
            place = (
                ""
                if span.block < 0
                else f"{span.ranges[0].start}, {span.size_bytes:,} bytes"
                if span.ranges
                else ""
            )
            yield {
                "number": number,
                "name": span.name,
                "value": _value(span.value),
                "place": place,
                "is_region": span.value is None and span.block >= 0,
                "block": span.block,
            }

    def blocks(self) -> Iterator[tuple[str, list[tuple[str, list[Piece]]], str]]:
        """Yield each block: its title, its lines (offset and pieces), and a note on bytes left out."""
        for number, block in enumerate(self.anatomy.blocks):
            more = len(block.data) - _MOST_BYTES
            left_out = f"{more:,} more bytes" if more > 0 else ""
            yield f"{block.title}, {len(block.data):,} bytes", list(self._lines(number, block)), left_out

    def _lines(self, number: int, block: Block) -> Iterator[tuple[str, list[Piece]]]:
        shown = block.data[:_MOST_BYTES]
        owners: list[tuple[int, ...]] = [()] * len(shown)
        hidden = bytearray(len(shown))
        for place, span in enumerate(self.anatomy.spans):
            for at in (at for part in span.ranges for at in part) if span.block == number else ():
                if at >= len(shown):
                    break
                owners[at] = (*owners[at], place)
                hidden[at] |= span.hidden
        for begin in range(0, len(shown), _LINE_BYTES):
            pieces: list[Piece] = []
            for at in range(begin, min(begin + _LINE_BYTES, len(shown))):
                text = "··" if hidden[at] else f"{shown[at]:02x}"
                if pieces and pieces[-1].spans == owners[at]:
                    pieces[-1] = Piece(owners[at], f"{pieces[-1].text} {text}")
                else:
                    pieces.append(Piece(owners[at], text))
            yield f"{begin:04x}", pieces


_CHOSEN = "background: var(--lv-mark); outline: 2px solid var(--lv-link); font-weight: 700; border-radius: 2px;"


def _value(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
