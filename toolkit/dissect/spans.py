"""Locates each field of a decoded frame in the frame's bytes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import calcsize
from typing import Any

from messenger.denc.codec import Buffer, Decoder
from messenger.denc.layout import layout_of as control_layout
from messenger.errors import LocalError, PeerError
from messenger.messages.layout import Fields
from messenger.messages.layout import layout_of as payload_layout
from messenger.messages.registry import PAYLOADS
from messenger.v1.framing import HEADER, Header
from messenger.v1.wire import Piece
from messenger.v2.wire import CONTROL_FRAMES, MESSAGE_HEADER, MESSAGE_HEADER_FIELDS, Tag
from toolkit.dissect.fields import SEALED, json_value
from toolkit.dissect.follow import Form, SeenFrame
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame
from toolkit.dissect.keys import KEY_MESSAGES
from toolkit.dissect.regions import Regions, regions_of

_LENGTH_ONLY = re.compile(r"\b\d+ bytes\b")
"""Matches the value of a field that is a secret or a blob."""
_PARTS = ("header", "front", "middle", "data")
_NOT_THERE = "none"
"""Value of an absent optional field. None would make it a region."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of bytes that are shown together."""

    title: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """A region or a field, with its bytes."""

    name: str
    value: object
    """The value as JSON; None for a region."""
    block: int
    """Index of its block; -1 if its bytes are unknown."""
    ranges: tuple[range, ...] = ()
    """Its bytes in the block."""
    hidden: bool = False
    """True if it was sealed on the wire and may be a secret, so that its bytes must not be shown."""

    @property
    def size_bytes(self) -> int:
        """Number of its bytes."""
        return sum(map(len, self.ranges))


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A frame as blocks of bytes, and the spans in them: each region is followed by the fields inside it."""

    blocks: list[Block]
    spans: list[Span]


def anatomy(frame: DecodedFrame) -> Anatomy:
    """Find the regions and fields of a frame; opened content comes before the bytes on the wire."""
    blocks: list[Block] = []
    spans: list[Span] = []
    is_opened = frame.mode == "secure" or frame.compressed
    for number, segment in enumerate(frame.segments if is_opened else ()):
        if len(segment):
            title = _PARTS[number] if frame.message else f"segment {number}"
            blocks.append(Block(f"{title}, opened", bytes(segment)))
            spans += _opened(frame, number, title, len(blocks) - 1, len(segment))
    wire = bytes(frame.wire)
    blocks.append(Block("on the wire", wire))
    for name, ranges in _regions(frame, wire).items():
        spans.append(Span(name, None, len(blocks) - 1, ranges))
        if not is_opened:
            inside = _fields(frame, _part(frame, name)) if name != "features" else _banner_fields(frame)
            spans += [_moved(span, len(blocks) - 1, ranges[0].start) for span in inside]
    about = {"name": frame.message.name, "src": frame.message.src} if frame.message else {}
    known = {name: _shown(value) for name, value in {**about, **frame.fields}.items()}
    placed = [(span.name, span.value) for span in spans]
    return Anatomy(blocks, spans + [Span(*item, -1) for item in known.items() if item not in placed])


def _shown(value: object) -> object:
    return _NOT_THERE if value is None else value


def _opened(frame: DecodedFrame, number: int, title: str, block: int, size_bytes: int) -> Iterator[Span]:
    """Yield the spans of a segment that was sealed or compressed."""
    sealed = frame.mode == "secure"
    is_secret = sealed and frame.message is not None and number > 0 and frame.message.type in SEALED | KEY_MESSAGES
    inside = list(_fields(frame, number))
    yield Span(title, None, block, (range(size_bytes),), hidden=is_secret)
    for span in inside:
        hidden = is_secret or (sealed and _LENGTH_ONLY.search(str(span.value)) is not None)
        yield Span(span.name, span.value, block, span.ranges, hidden)


def _moved(span: Span, block: int, by: int) -> Span:
    return Span(span.name, span.value, block, tuple(range(r.start + by, r.stop + by) for r in span.ranges))


def _regions(frame: DecodedFrame, wire: bytes) -> Regions:
    """The regions of a frame; the whole frame if they cannot be found."""
    if frame.tag in NO_FRAMES:
        return {"bytes": (range(len(wire)),)}
    forms = {
        ("v2.1", "crc"): Form.CRC,
        ("v2.1", "secure"): Form.SECURE,
        ("v2.0", "crc"): Form.REV0_CRC,
        ("v2.0", "secure"): Form.REV0_SECURE,
    }
    form = Form.PLAIN if frame.tag == "BANNER" else forms.get((frame.protocol, frame.mode), Form.PLAIN)
    lengths = [len(segment) for segment in frame.segments]
    seen = SeenFrame(frame.direction, frame.tag, 0, frame.offset, wire, {}, form, (*lengths, *[0] * 4)[:4])
    try:
        return regions_of(seen)
    except (LocalError, IndexError, ValueError):
        return {"frame": (range(len(wire)),)}


def _part(frame: DecodedFrame, region: str) -> int | None:
    """Number of the segment that a region is; None if it is no segment."""
    if region.startswith("segment "):
        return int(region.removeprefix("segment "))
    is_v1_message = frame.protocol == "v1" and frame.tag == Piece.MSG.name
    return _PARTS.index(region) if is_v1_message and region in _PARTS else None


def _banner_fields(frame: DecodedFrame) -> Iterator[Span]:
    """The two feature masks in the banner of v2 (docs/protocol.md §4.2)."""
    names = ("supported", "required")
    yield from _struct_fields(names, "<QQ", [int(str(frame.fields[name])) for name in names])


def _fields(frame: DecodedFrame, number: int | None) -> Iterator[Span]:
    """Yield the fields of a segment, relative to its first byte."""
    if number is None or number >= len(frame.segments) or frame.is_bad:
        return
    segment = frame.segments[number]
    if frame.message is None:
        if number == 0 and frame.tag in Tag.__members__:
            yield from _control_fields(frame, segment)
    elif number == 0:
        names, code = (
            (Header._fields, HEADER) if frame.protocol == "v1" else (MESSAGE_HEADER_FIELDS, MESSAGE_HEADER)
        )
        if len(segment) == code.size:
            yield from _struct_fields(names, code.format, code.unpack(segment))
    elif number == 1:
        yield from _payload_fields(frame, segment)


def _struct_fields(names: Sequence[str], code: str, values: Sequence[int]) -> Iterator[Span]:
    at = 0
    for name, letter, value in zip(names, code.removeprefix("<"), values, strict=True):
        size = calcsize(f"<{letter}")
        yield Span(name, value, 0, (range(at, at + size),))
        at += size


def _control_fields(frame: DecodedFrame, segment: Buffer) -> Iterator[Span]:
    kind = CONTROL_FRAMES.get(Tag[frame.tag])
    decoder = Decoder(segment)
    for name, how, _ in control_layout(kind) if kind else ():
        at = len(segment) - decoder.remaining
        try:
            value = how.show(how.decode(decoder))
        except (PeerError, ValueError):
            return
        yield Span(name, json_value(value), 0, (range(at, len(segment) - decoder.remaining),))


def _payload_fields(frame: DecodedFrame, front: Buffer) -> Iterator[Span]:
    """Yield the fields of a message's front; none if its type's layout is not described by fields."""
    assert frame.message is not None
    kind: Any = PAYLOADS.get(frame.message.type)
    shown = frame.fields
    if kind is None or "undecoded" in shown or not issubclass(kind, Fields):
        return
    if getattr(kind.decode, "__func__", None) is not Fields.decode.__func__:  # type: ignore[attr-defined]
        return
    decoder = Decoder(front)
    for item in payload_layout(kind):
        if frame.message.version >= item.since:
            at = len(front) - decoder.remaining
            try:
                item.codec.decode(decoder, frame.features)
            except (PeerError, ValueError, OverflowError, RecursionError):
                return
            yield Span(item.name, _shown(shown.get(item.name)), 0, (range(at, len(front) - decoder.remaining),))
