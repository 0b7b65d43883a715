"""Frames of msgr v2 as layers: banner, and preamble, segments and crcs of msgr 2.1 and 2.0.

See docs/protocol.md §4.2, §4.5.
"""

from collections.abc import Iterator
from typing import ClassVar, cast

from scapy.config import conf
from scapy.fields import AnyField, ConditionalField, RawVal
from scapy.packet import Packet, bind_layers

from messenger.compat import override
from messenger.crc import crc32c
from messenger.denc.features import Msgr2Feature
from messenger.v2.preamble import MAX_SEGMENTS, Lengths, used_segments
from messenger.v2.wire import BANNER_PREFIX, MESSAGE_HEADER, Tag
from toolkit.dissect.layers.control import CONTROL_LAYERS
from toolkit.dissect.layers.fields import (
    U8_KIND,
    U16_KIND,
    U32_KIND,
    U64_KIND,
    BytesField,
    CrcField,
    FlagsField,
    LengthField,
    Names,
    NumberField,
    OpenedField,
    names_of,
)
from toolkit.dissect.layers.layer import Layer
from toolkit.dissect.layers.message import MSGR2_Message, Segmented, segment_field

_SEED = 0xFFFFFFFF
_CRC_SIZE = 4
_FLAG_COMPRESSED = 1
_ALIGNMENTS = (8, 8, 8, 4096)
_FEATURES: Names = {int(Msgr2Feature.REVISION_1): "REVISION_1", int(Msgr2Feature.COMPRESSION): "COMPRESSION"}

WireSegments = tuple[bytes, bytes, bytes, bytes]


class MSGR2_Banner(Layer):
    """The banner, the first bytes of either side."""

    __slots__: list[str] = []
    name = "MSGR2 banner"
    fields_desc = [
        BytesField("magic", lambda _pkt, _rest: len(BANNER_PREFIX), BANNER_PREFIX),
        LengthField("length", U16_KIND),
        FlagsField("supported", U64_KIND, int(Msgr2Feature.REVISION_1), _FEATURES),
        FlagsField("required", U64_KIND, 0, _FEATURES),
        BytesField("extra", lambda pkt, _rest: max((pkt.given("length") or 0) - 16, 0)),
    ]

    def computed(self, name: str, built: bytes) -> int:
        """Return the length of the features."""
        return 16 + len(self.getfieldval("extra"))

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Leave the bytes after the banner to the next frame."""
        return b"", s

    def answers(self, other: Packet) -> int:
        """Return 1 if ``other`` is a banner: both sides send one."""
        return int(isinstance(other, MSGR2_Banner))

    def line(self) -> str:
        """Return the feature masks in one line."""
        return f"MSGR2 BANNER {self.shown('supported', 'required')}"


def _length_fields() -> Iterator[AnyField]:
    for number in range(MAX_SEGMENTS):
        yield LengthField(f"length{number}", U32_KIND)
        yield LengthField(f"align{number}", U16_KIND)


_HEAD: list[AnyField] = [
    NumberField("tag", U8_KIND, int(Tag.MESSAGE), names_of(Tag)),
    LengthField("num_segments", U8_KIND),
    *_length_fields(),
    FlagsField("flags", U8_KIND, 0, {_FLAG_COMPRESSED: "COMPRESSED"}),
    NumberField("reserved", U8_KIND),
    CrcField("preamble_crc"),
]
_COMPUTED = frozenset(field.name for field in _HEAD if isinstance(field, LengthField))


class Frame(Layer):
    """Base of the frames of both revisions: a preamble, the segments, and the crcs between and after them.

    The segments are the payload. Lengths, counts and crcs that are None are computed when the frame is built. A
    dissected frame has all of them, right or wrong, so that it is built again unchanged; :meth:`recompute`
    corrects them after a change.
    """

    __slots__: list[str] = []
    show_summary = False
    COMPLETE: ClassVar[int]
    """The late_status of a complete frame."""

    # ---- dissecting

    def dissect(self, s: bytes) -> None:
        """Dissect the frame; bytes after it become padding."""
        rest = self.read_fields(_HEAD, s)
        content, rest = self.read_body(rest)
        self.explicit = 1
        self.do_dissect_payload(content)
        if rest and conf.padding:
            self.add_payload(conf.padding_layer(rest))

    def read_body(self, rest: bytes) -> tuple[bytes, bytes]:
        """Read segments and crcs from the front of ``rest``; returns the segments joined, and the rest."""
        raise NotImplementedError

    def segment_table(self) -> Lengths:
        """Return the lengths of the four segments by the preamble; 0 for those that it does not count."""
        used = self.given("num_segments")
        lengths = [self.given(f"length{number}") or 0 for number in range(MAX_SEGMENTS)]
        used = used_segments(tuple(lengths)) if used is None else min(max(used, 1), MAX_SEGMENTS)  # type: ignore[arg-type]
        l0, l1, l2, l3 = (length if number < used else 0 for number, length in enumerate(lengths))
        return l0, l1, l2, l3

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer of the segments, by tag and flags."""
        flags, tag = self.given("flags"), self.given("tag")
        if flags is None or self.given("num_segments") not in range(1, MAX_SEGMENTS + 1):
            return conf.raw_layer
        if flags & _FLAG_COMPRESSED:
            return MSGR2_Compressed
        if tag == Tag.MESSAGE and self.segment_table()[0] < MESSAGE_HEADER.size:
            return conf.raw_layer
        return super().guess_payload_class(payload)

    def do_dissect_payload(self, s: bytes) -> None:
        """Dissect the payload, also the empty one of WAIT."""
        super().do_dissect_payload(s)
        if not s and self.given("tag") == Tag.WAIT:
            self.add_payload(CONTROL_LAYERS[Tag.WAIT]())

    # ---- building

    def segments(self) -> WireSegments:
        """Return the bytes of the four segments as they are on the wire."""
        content = self.do_build_payload()
        lengths: Lengths
        if isinstance(self.payload, Segmented):
            lengths = self.payload.segment_lengths(len(content))
        elif all(self.given(f"length{number}") is not None for number in range(MAX_SEGMENTS)):
            lengths = self.segment_table()
        else:
            lengths = (len(content), 0, 0, 0)
        parts, at = [], 0
        for length in lengths:
            parts.append(content[at : at + length])
            at += length
        # Content that exceeds the lengths was crafted on purpose: append it to the last segment.
        parts[used_segments(lengths) - 1] += content[at:]
        s0, s1, s2, s3 = parts
        return s0, s1, s2, s3

    def do_build(self) -> bytes:
        """Build the frame as it is on the wire."""
        frame = self if self.explicit else cast("Frame", next(iter(self)))
        segments = frame.segments()
        built = b""
        for field in _HEAD:
            built = frame.with_field(built, field, segments)
        return built + frame.build_body(segments)

    def build_body(self, segments: WireSegments) -> bytes:
        """Return the segments with their crcs."""
        raise NotImplementedError

    def with_field(self, built: bytes, field: AnyField, segments: WireSegments) -> bytes:
        """Return ``built`` with one field appended, computed if it has no value."""
        value = self.getfieldval(field.name)
        if isinstance(value, RawVal):
            return built + bytes(value)
        if value is None:
            value = self.completed(field.name, segments, built)
        return bytes(field.addfield(self, built, value))

    def completed(self, name: str, segments: WireSegments, built: bytes) -> int:
        """Return the value of a field that is None, in a frame of these segments, after ``built``."""
        lengths = tuple(map(len, segments))
        count = self.given("num_segments")
        used = used_segments(lengths) if count is None else count  # type: ignore[arg-type]
        if name == "num_segments":
            return int(used)
        if name == "preamble_crc":
            return crc32c(built, 0)
        kind, number = name[:-1], int(name[-1])
        if kind == "length":
            return lengths[number]
        if kind == "align":
            return _ALIGNMENTS[number] if number < used else 0
        return crc32c(segments[number], _SEED) if number < used else 0

    @override
    def computed(self, name: str, built: bytes) -> int:
        return self.completed(name, self.segments(), built)

    def answers(self, other: Packet) -> int:
        """Return 1 if the payload answers that of the other frame."""
        return int(self.payload.answers(other.payload)) if isinstance(other, Frame) else 0

    def recompute(self) -> "Frame":
        """Clear lengths, counts and crcs, so that they are recomputed; returns the frame itself."""
        for name in [name for name in self.fields if name in _COMPUTED or name[:-1] == "crc"]:
            self.delfieldval(name)
        return self

    # ---- checking

    @override
    def right_crc(self, name: str) -> int:
        segments = self.segments()
        head = b""
        if name == "preamble_crc":
            for field in _HEAD[:-1]:
                head = self.with_field(head, field, segments)
        return self.completed(name, segments, head)

    @property
    def crc_ok(self) -> bool:
        """True if every crc of the frame is right and none is missing."""
        return not any(
            isinstance(value, RawVal) or (value is not None and value != self.right_crc(field.name))
            for field, value in ((field, self.getfieldval(field.name)) for field in self.present())
            if isinstance(getattr(field, "fld", field), CrcField)
        )

    @property
    def whole(self) -> bool:
        """True if no part of the frame is missing."""
        held = [isinstance(self.getfieldval(field.name), RawVal) for field in self.present()]
        return not any(held) and sum(self.segment_table()) <= sum(map(len, self.segments()))

    def present(self) -> Iterator[AnyField]:
        """Yield the fields that this frame has."""
        for field in self.fields_desc:
            if not isinstance(field, ConditionalField) or field.cond(self):
                yield field

    @property
    def compressed(self) -> bool:
        """True if the segments are compressed."""
        return bool((self.given("flags") or 0) & _FLAG_COMPRESSED)

    def line(self) -> str:
        """Return name and tag, for a frame whose payload has no line of its own."""
        return f"{self.name} {self.shown('tag')}"


def _has_crc0(pkt: Packet) -> bool:
    """True if a crc follows the first segment: in msgr 2.1, unless the segment is empty."""
    length0 = pkt.getfieldval("length0")
    if isinstance(length0, RawVal):
        return False
    return bool(len(pkt.segments()[0]) if length0 is None else length0)


def _has_epilogue(pkt: Packet) -> bool:
    """True if crcs follow the last segment: in msgr 2.1, if there is more than one segment."""
    used = pkt.getfieldval("num_segments")
    if isinstance(used, RawVal):
        return False
    return (used_segments(tuple(map(len, pkt.segments()))) if used is None else used) > 1  # type: ignore[arg-type]


class MSGR2(Frame):
    """A frame of msgr 2.1 in crc mode; :class:`MSGR2_Rev0` is one of msgr 2.0."""

    __slots__: list[str] = []
    name = "MSGR2"
    COMPLETE = 0x0E
    _CRC0 = CrcField("crc0")
    _EPILOGUE: ClassVar[list[AnyField]] = [
        NumberField("late_status", U8_KIND, COMPLETE, {COMPLETE: "COMPLETE", 0x01: "ABORTED"}),
        *(CrcField(f"crc{number}") for number in range(1, MAX_SEGMENTS)),
    ]
    fields_desc = [
        *_HEAD,
        ConditionalField(_CRC0, _has_crc0),
        *(ConditionalField(field, _has_epilogue) for field in _EPILOGUE),
    ]

    @override
    def read_body(self, rest: bytes) -> tuple[bytes, bytes]:
        l0, *others = self.segment_table()
        content, rest = rest[:l0], rest[l0:]
        if _has_crc0(self):
            rest = self.read_fields([self._CRC0], rest)
        if _has_epilogue(self):
            size = sum(others)
            content += rest[:size]
            rest = self.read_fields(self._EPILOGUE, rest[size:])
        return content, rest

    @override
    def build_body(self, segments: WireSegments) -> bytes:
        s0, *others = segments
        built = s0
        if _has_crc0(self):
            built = self.with_field(built, self._CRC0, segments)
        built += b"".join(others)
        if _has_epilogue(self):
            for field in self._EPILOGUE:
                built = self.with_field(built, field, segments)
        return built


class MSGR2_Rev0(Frame):
    """A frame of msgr 2.0 in crc mode."""

    __slots__: list[str] = []
    name = "MSGR2 2.0"
    COMPLETE = 0
    _EPILOGUE: ClassVar[list[AnyField]] = [
        NumberField("late_status", U8_KIND, COMPLETE, {COMPLETE: "COMPLETE", 0x01: "ABORTED"}),
        *(CrcField(f"crc{number}") for number in range(MAX_SEGMENTS)),
    ]
    fields_desc = [*_HEAD, *_EPILOGUE]

    @override
    def read_body(self, rest: bytes) -> tuple[bytes, bytes]:
        size = sum(self.segment_table())
        return rest[:size], self.read_fields(self._EPILOGUE, rest[size:])

    @override
    def build_body(self, segments: WireSegments) -> bytes:
        built = b"".join(segments)
        for field in self._EPILOGUE:
            built = self.with_field(built, field, segments)
        return built


class MSGR2_Compressed(Segmented):
    """The segments of a compressed frame (§4.10). ``opened`` is the decompressed frame; None if unknown."""

    __slots__: list[str] = []
    name = "MSGR2 compressed"
    fields_desc = [
        segment_field("header", 0),
        segment_field("front", 1),
        segment_field("middle", 2),
        segment_field("data", 3),
        OpenedField("opened"),
    ]

    def line(self) -> str:
        """Return the content in one line, or the number of bytes if it is not opened."""
        opened = self.getfieldval("opened")
        size = len(self.self_build())
        return (
            f"{opened.lastlayer().line()} ({size} bytes compressed)"
            if opened
            else f"MSGR2 compressed {size} bytes"
        )


for _frame in (MSGR2, MSGR2_Rev0):
    bind_layers(_frame, MSGR2_Message, tag=int(Tag.MESSAGE))
    for _tag, _layer in CONTROL_LAYERS.items():
        bind_layers(_frame, _layer, tag=int(_tag))
