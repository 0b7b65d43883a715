"""Layers of messages: MESSAGE frames of v2 (docs/protocol.md §4.8), and the parts that v1 and v2 share."""

from collections.abc import Callable
from pprint import pformat
from typing import Any

from scapy.fields import RawVal
from scapy.packet import Packet

from messenger.denc.codec import Encoder
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.errors import PeerError
from messenger.messages.message import PRIORITY_DEFAULT, Message, Payload
from messenger.messages.registry import decode_payload
from messenger.messages.types import MessageType, message_name
from messenger.v2.wire import MESSAGE_HEADER
from toolkit.dissect.layers.fields import (
    U8_KIND,
    U16_KIND,
    U32_KIND,
    U64_KIND,
    BytesField,
    FlagsField,
    Names,
    NumberField,
    VirtualField,
)
from toolkit.dissect.layers.layer import Layer

MESSAGE_NAMES: Names = {int(number): message_name(number) for number in MessageType}
_RELEASES = [
    int(Feature[f"SERVER_{name}"]) for name in ("TENTACLE", "SQUID", "REEF", "QUINCY", "PACIFIC", "OCTOPUS")
]
"""Feature bits of releases, the newest first."""
_SHOWN_COLUMNS = 100
_SHOWN_LINES = 40


class TypedField(VirtualField):
    """The payload in ``front``, a class of ``messenger.messages``, decoded at the first access.

    Assigning a payload sets ``front``, ``type``, ``version`` and ``compat_version``. A message of the same type
    keeps its version, if any release encodes that version.
    """

    __slots__: list[str] = []

    def __init__(self) -> None:
        super().__init__("typed")

    def any2i(self, pkt: Packet | None, x: Payload | None) -> None:
        """Encode a payload into the fields that are on the wire; nothing is stored in this field."""
        if pkt is None or x is None:
            return
        encoder = Encoder()
        version_for = getattr(x, "version_for", None)
        features = ALL_FEATURES
        if version_for and "version" in pkt.fields and pkt.getfieldval("type") == x.TYPE:
            features = _features_of(version_for, pkt.getfieldval("version"), getattr(x, "features", None))
        x.encode(encoder, features)
        pkt.setfieldval("type", int(x.TYPE))
        pkt.setfieldval("version", version_for(features) if version_for else x.VERSION)
        pkt.setfieldval("compat_version", x.COMPAT_VERSION)
        pkt.setfieldval("front", encoder.getvalue())

    def i2h(self, pkt: Packet | None, x: object) -> Payload | None:
        """Return the payload; None if its type has no class here, or it is malformed."""
        try:
            return _decoded(pkt)
        except PeerError:
            return None

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the payload's fields, or the reason why there are none."""
        try:
            payload = _decoded(pkt)
        except PeerError as error:
            return f"malformed: {error.detail}"
        if payload is None:
            return "no fields known"
        lines = pformat(payload, width=_SHOWN_COLUMNS, compact=True, sort_dicts=False).splitlines()
        if len(lines) > _SHOWN_LINES:
            lines[_SHOWN_LINES:] = [f"... and {len(lines) - _SHOWN_LINES} lines"]
        return "\n".join(lines)


def _features_of(version_for: Callable[[int], int], version: int, known: int | None) -> int:
    """Return features for which a payload has this version: those it names, or all if none do."""
    if known is not None and version_for(known) == version:
        return known
    features = ALL_FEATURES
    for release in _RELEASES:
        if version_for(features) == version:
            return features
        features &= ~(release & ~int(Feature.SERVER_NAUTILUS))
    return features if version_for(features) == version else ALL_FEATURES


def _decoded(pkt: Packet | None) -> Payload | None:
    """Decode the payload of a message layer. Raises DecodeError."""
    if pkt is None:
        return None
    values = [pkt.getfieldval(name) for name in ("type", "version", "compat_version", "front")]
    if any(isinstance(value, RawVal) for value in values):
        return None
    type_, version, compat_version, front = values
    return decode_payload(Message(type_, front, version=version, compat_version=compat_version), ALL_FEATURES)


class Segmented(Layer):
    """Base of the payloads of frames with several segments."""

    __slots__: list[str] = []

    def segment_lengths(self, content_bytes: int) -> tuple[int, int, int, int]:
        """Return the lengths of the four segments of a content of that many bytes."""
        front, middle, data = (len(bytes(self.getfieldval(name))) for name in ("front", "middle", "data"))
        return max(content_bytes - front - middle - data, 0), front, middle, data


def segment_field(name: str, number: int) -> BytesField:
    """Return the field of a segment whose length the enclosing frame gives.

    Without an enclosing frame, ``front`` takes all bytes.
    """

    def size_of(pkt: Packet, rest: bytes) -> int:
        lengths = getattr(pkt.underlayer, "segment_table", None)
        if lengths is None:
            return len(rest) if name == "front" else 0
        return int(lengths()[number])

    return BytesField(name, size_of)


def _extra_bytes(pkt: Packet, _rest: bytes) -> int:
    """Number of bytes by which the header exceeds the known one."""
    table = getattr(pkt.underlayer, "segment_table", None)
    return 0 if table is None else max(int(table()[0]) - MESSAGE_HEADER.size, 0)


class MSGR2_Message(Segmented):
    """A message: header, front, middle and data, each a segment of the enclosing frame.

    ``typed`` is the payload in ``front``, if its type is known.
    """

    __slots__: list[str] = []
    name = "MSGR2 MESSAGE"
    fields_desc = [
        NumberField("seq", U64_KIND),
        NumberField("tid", U64_KIND),
        NumberField("type", U16_KIND, MessageType.PING, MESSAGE_NAMES),
        NumberField("priority", U16_KIND, PRIORITY_DEFAULT),
        NumberField("version", U16_KIND, 1),
        NumberField("data_pre_padding_len", U32_KIND),
        NumberField("data_off", U16_KIND),
        NumberField("ack_seq", U64_KIND),
        FlagsField("flags", U8_KIND, 3, {1: "COMPLETE", 2: "NOCRC", 4: "SIGNED"}),
        NumberField("compat_version", U16_KIND, 1),
        NumberField("reserved", U16_KIND),
        BytesField("header_extra", _extra_bytes),
        segment_field("front", 1),
        segment_field("middle", 2),
        segment_field("data", 3),
        TypedField(),
    ]

    def answers(self, other: Packet) -> int:
        """Return 1 if the message answers ``other``: another type with the same tid."""
        return int(isinstance(other, MSGR2_Message) and is_reply(self, other))

    def line(self) -> str:
        """Return the main fields in one line."""
        return f"MSGR2 MESSAGE {message_line(self)}"


def is_reply(layer: Layer, other: Layer) -> bool:
    """True if a message is the reply to ``other``, a message of the same protocol."""
    tid = layer.given("tid")
    return bool(tid) and tid == other.given("tid") and layer.given("type") != other.given("type")


def message_line(layer: Layer) -> str:
    """Format type, seq, tid and lengths of a message of either protocol."""
    sizes = [(name, len(bytes(layer.getfieldval(name)))) for name in ("front", "middle", "data")]
    name = layer.get_field("type").i2repr(layer, layer.getfieldval("type"))
    return " ".join([name, layer.shown("seq", "tid"), *(f"{part} {size}" for part, size in sizes if size)])
