"""Frames with other contents: their fields by name, written again as their sender would have.

Checksums are always right, and so are signatures and seals where their keys are known. A sealed frame can only
be replaced by one that takes as many operations of the cipher: every nonce behind it would be another otherwise
(docs/protocol.md §4.6).
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

from messenger.denc.codec import Buffer, Encoder
from messenger.denc.layout import layout_of
from messenger.errors import LocalError, PeerError
from messenger.messages.message import Message
from messenger.messages.registry import decode_payload
from messenger.messages.types import MessageType, message_name
from messenger.v1.framing import HEADER as V1_HEADER
from messenger.v1.framing import Header as V1Header
from messenger.v1.wire import Banner, ClientIdentify, Connect, ConnectReply, Frame, Piece, Seq, ServerIdentify
from messenger.v1.wire import cut_small as cut_small_v1
from messenger.v2.wire import (
    MESSAGE_HEADER,
    MESSAGE_HEADER_FIELDS,
    ControlFrame,
    Tag,
    decode_banner,
    decode_control,
    encode_banner,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import Form, SeenFrame
from toolkit.dissect.regions import regions_of, v1_header
from toolkit.faults.values import parse_value

_MAX_BYTES = 1 << 30
_PARTS = ("front", "middle", "data")
_PAYLOAD = "payload."
_V1_HEADER_FIELDS = tuple(name for name in V1Header._fields if name not in {"crc", *(f"{p}_len" for p in _PARTS)})

_UNWRITABLE = (struct.error, ValueError, OverflowError, TypeError, AttributeError, LookupError)
"""What encoders raise for values that do not fit."""

Segments = tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A frame that was written again."""

    raw: bytes
    segments: Segments = ()
    """What it carries, if it is one of v2, or a message."""


# ---- what a frame says


def is_message(frame: SeenFrame) -> bool:
    """True if it is a MESSAGE of v2 or a MSG of v1."""
    return frame.tag in {Tag.MESSAGE.name, Piece.MSG.value}


def settable(frame: SeenFrame) -> list[str]:
    """The names of all that can be set in a frame.

    Raises:
        LocalError: nothing can.
    """
    if is_message(frame):
        header = MESSAGE_HEADER_FIELDS if frame.tag == Tag.MESSAGE.name else _V1_HEADER_FIELDS
        payload = _payload(frame)
        inner = [f"{_PAYLOAD}{item.name}" for item in fields(payload)] if is_dataclass(payload) else []
        return [*header, *_PARTS, *inner]
    if is_v2_banner(frame):
        return ["supported", "required"]
    return [item.name for item in fields(decoded(frame))]


def is_v2_banner(frame: SeenFrame) -> bool:
    """True if it is the banner of v2, which has feature masks."""
    return "supported" in frame.fields and frame.form is Form.PLAIN


def decoded(frame: SeenFrame) -> Any:  # noqa: ANN401 - a dataclass, of which kind its tag says
    """What a frame other than a message says: a :class:`ControlFrame`, or a piece of v1.

    Raises:
        LocalError: it has no fields.
    """
    if frame.form is not Form.PLAIN:
        return decode_control(Tag[frame.tag], tuple(frame.segments))
    cut = _V1_PIECES.get(frame.tag)
    if cut is not None:
        found = cut[frame.direction is Direction.TO_CLIENT](memoryview(frame.raw))
    elif frame.tag in {Piece.ACK, Piece.KEEPALIVE, Piece.KEEPALIVE2, Piece.KEEPALIVE2_ACK, Piece.CLOSE}:
        found = cut_small_v1(memoryview(frame.raw), 0, len(frame.raw))
    else:
        found = None
    if found is None:
        raise LocalError(f"{frame.tag} has no fields to be rewritten; replace its bytes")
    return found[1]


_V1_PIECES: dict[str, tuple[Callable[[memoryview], Any], Callable[[memoryview], Any]]] = {
    Piece.BANNER: (Banner.cut, Banner.cut),
    Piece.IDENTIFY: (ClientIdentify.cut, ServerIdentify.cut),
    Piece.CONNECT: (partial(Connect.cut, max_bytes=_MAX_BYTES),) * 2,
    Piece.CONNECT_REPLY: (partial(ConnectReply.cut, max_bytes=_MAX_BYTES),) * 2,
    Piece.SEQ: (Seq.cut, Seq.cut),
}
"""What cuts a piece that the connector sent, and one that the acceptor sent."""


# ---- with other fields


def with_fields(frame: SeenFrame, values: Mapping[str, str]) -> Rebuilt:
    """The frame with other values in some of its fields.

    Args:
        frame: which.
        values: by the names of :func:`settable`, as texts (see :func:`toolkit.faults.values.parse_value`).

    Raises:
        LocalError: there is no such field, or it does not take such a value; the frame cannot be written again.
    """
    known = settable(frame)
    for name in values:
        if name not in known and not (name.startswith(_PAYLOAD) and name.split(".")[1] in _payload_names(known)):
            raise LocalError(f"{frame.tag} has no {name}; it has {', '.join(known)}")
    if is_message(frame):
        return _message_with(frame, values)
    if is_v2_banner(frame):
        banner = decode_banner(memoryview(frame.raw))
        assert banner is not None
        old = dict(zip(("supported", "required"), banner[1:], strict=True))
        new = old | {name: parse_value(name, text, old[name]) for name, text in values.items()}
        return Rebuilt(encode_banner(new["supported"], new["required"]))
    return encoded(frame, _replaced(decoded(frame), values))


def _payload_names(known: list[str]) -> set[str]:
    return {name.removeprefix(_PAYLOAD) for name in known if name.startswith(_PAYLOAD)}


def encoded(frame: SeenFrame, piece: ControlFrame | Frame) -> Rebuilt:
    """The frame with other contents in the place of one that is no message.

    Raises:
        LocalError: it cannot be sealed, or its values do not fit into its fields.
    """
    try:
        if isinstance(piece, Frame):
            return Rebuilt(piece.encode())
        payload = piece.encode()
    except _UNWRITABLE as error:
        raise LocalError(f"{frame.tag} cannot be written: {error}") from None
    return sealed(frame, piece.TAG, (payload, b"", b"", b""))


def sealed(frame: SeenFrame, tag: int, segments: Segments) -> Rebuilt:
    """A frame of v2 as the sender of another would have written it in its place.

    Raises:
        LocalError: the place is in a sealed stream, and it takes other nonces than that one.
    """
    assert frame.source is not None
    writer, cipher = frame.source.writer(frame)
    before = 0 if cipher is None else cipher.used_nonces
    if tag == Tag.MESSAGE:
        header, front, middle, data = segments
        pieces: list[Buffer] = []
        writer.message(pieces, bytes(header), front, middle, data)
        raw = b"".join(pieces)
    else:
        raw = writer.control(tag, bytes(segments[0]))
    if cipher is not None:
        needed, had = cipher.used_nonces - before, len(regions_of(frame)["tag"])
        if needed != had:
            lost = "what follows would not fit any more"
            raise LocalError(f"{frame.tag} is sealed by {had} nonces and would take {needed}: {lost}")
    return Rebuilt(raw, segments)


def _replaced(value: Any, values: Mapping[str, str]) -> Any:  # noqa: ANN401 - any dataclass
    """A dataclass with other values; dots lead into its parts."""
    new: dict[str, Any] = {}
    for name, text in values.items():
        own, _, inner = name.partition(".")
        part = new.get(own, getattr(value, own, None))
        if own not in {item.name for item in fields(value)}:
            raise LocalError(f"no field {own!r}; there are {', '.join(item.name for item in fields(value))}")
        if inner and not is_dataclass(part):
            raise LocalError(f"{own} has no parts, so .{inner} leads nowhere")
        new[own] = _replaced(part, {inner: text}) if inner else parse_value(name, text, part)
    return replace(value, **new)


def _message_of(frame: SeenFrame) -> Message:
    parts = frame.segments[-3:]
    said = frame.fields
    numbers = {name: said[name] for name in ("tid", "priority", "version", "compat_version", "seq")}
    return Message(said["type"], *parts, **numbers)  # type: ignore[arg-type] # integers, as they were printed


def _payload(frame: SeenFrame) -> Any:  # noqa: ANN401 - of any message
    """The decoded front of a message; None if it does not decode."""
    try:
        return decode_payload(_message_of(frame), frame.source.features if frame.source else 0)
    except (PeerError, ValueError, OverflowError, RecursionError):
        return None


def _message_with(frame: SeenFrame, values: Mapping[str, str]) -> Rebuilt:
    parts = dict(zip(_PARTS, frame.segments[-3:], strict=True))
    for name in _PARTS:
        if name in values:
            parts[name] = parse_value(name, values[name], b"")
    inner = {name.removeprefix(_PAYLOAD): text for name, text in values.items() if name.startswith(_PAYLOAD)}
    if inner:
        parts["front"] = _front_with(frame, inner)
    outer = {name: text for name, text in values.items() if name not in _PARTS and not name.startswith(_PAYLOAD)}
    if frame.tag == Piece.MSG:
        return _v1_message(frame, outer, (parts["front"], parts["middle"], parts["data"]))
    old = dict(zip(MESSAGE_HEADER_FIELDS, MESSAGE_HEADER.unpack_from(frame.segments[0]), strict=True))
    header = _packed(MESSAGE_HEADER.pack, old, outer)
    return sealed(frame, Tag.MESSAGE, (header, *parts.values()))


def with_payload(frame: SeenFrame, change: Callable[[Any], Any]) -> Rebuilt:
    """A message whose payload is what a function makes of it.

    Raises:
        LocalError: it is not known what its payload means; the frame cannot be written again.
    """
    payload = _payload(frame)
    if payload is None:
        raise LocalError(f"what {frame.fields.get('name')} says is not known")
    front = _front_of(frame, change(payload))
    parts = front, frame.segments[-2], frame.segments[-1]
    return (
        _v1_message(frame, {}, parts)
        if frame.tag == Piece.MSG
        else sealed(frame, Tag.MESSAGE, (frame.segments[0], *parts))
    )


def _front_with(frame: SeenFrame, values: Mapping[str, str]) -> bytes:
    return _front_of(frame, _replaced(_payload(frame), values))


def _front_of(frame: SeenFrame, payload: Any) -> bytes:  # noqa: ANN401 - of any message
    assert frame.source is not None
    encoder = Encoder()
    try:
        payload.encode(encoder, frame.source.features)
    except _UNWRITABLE as error:
        raise LocalError(f"the payload cannot be written: {error}") from None
    return encoder.getvalue()


def _packed(pack: Callable[..., bytes], old: Mapping[str, int], values: Mapping[str, str]) -> bytes:
    new = dict(old) | {name: _number(name, text, old[name]) for name, text in values.items()}
    try:
        return pack(*new.values())
    except _UNWRITABLE as error:
        given = ", ".join(f"{name}={text}" for name, text in values.items())
        raise LocalError(f"{given}: {error}") from None


def _number(name: str, text: str, old: int) -> int:
    """A number of a header; types of messages go by their names, too."""
    if name == "type":
        for known in MessageType:
            if message_name(known) == text:
                return int(known)
    return int(parse_value(name, text, old))


def _v1_message(frame: SeenFrame, values: Mapping[str, str], parts: tuple[Buffer, Buffer, Buffer]) -> Rebuilt:
    assert frame.source is not None
    old = v1_header(frame.raw)
    new = {name: _number(name, text, getattr(old, name)) for name, text in values.items()}
    header = old._replace(**new)
    return v1_message(frame, header, parts)


def v1_message(frame: SeenFrame, header: V1Header, parts: tuple[Buffer, Buffer, Buffer]) -> Rebuilt:
    """A message of v1 in the place of a frame.

    Raises:
        LocalError: a value does not fit into its field.
    """
    assert frame.source is not None
    pieces: list[Buffer] = []
    numbers = header.seq, header.tid, header.type, header.priority, header.version
    source = header.src_type, header.src_num
    try:
        frame.source.v1_writer().message(pieces, numbers, parts, header.data_off, source, header.compat_version)
    except _UNWRITABLE as error:
        raise LocalError(f"{frame.tag} cannot be written: {error}") from None
    return Rebuilt(b"".join(pieces), parts)


# ---- where a field is


def place_of(frame: SeenFrame, name: str) -> tuple[str, int]:
    """The region of a frame and the byte in it where a field begins (:func:`toolkit.dissect.regions.regions_of`).

    Raises:
        LocalError: there is no such field, or it has no certain place.
    """
    if is_message(frame):
        return _place_in_header(frame, name)
    if is_v2_banner(frame):
        if name not in {"supported", "required"}:
            raise LocalError(f"{frame.tag} has no {name}; it has supported, required")
        return "features", 0 if name == "supported" else 8
    piece = decoded(frame)
    names = [item.name for item in fields(piece)]
    if name not in names:
        raise LocalError(f"{frame.tag} has no {name}; it has {', '.join(names)}")
    if isinstance(piece, ControlFrame):
        encoder = Encoder()
        for own, kind, _ in layout_of(type(piece)):
            if own == name:
                return "segment 0", len(encoder)
            kind.encode(encoder, getattr(piece, own))
    raise LocalError(f"where {name} is in {frame.tag} of v1 is not known; give a byte")


def _place_in_header(frame: SeenFrame, name: str) -> tuple[str, int]:
    v1 = frame.tag == Piece.MSG
    names, form = (V1Header._fields, V1_HEADER.format) if v1 else (MESSAGE_HEADER_FIELDS, MESSAGE_HEADER.format)
    if name in _PARTS:
        return (name if v1 else f"segment {1 + _PARTS.index(name)}"), 0
    if name not in names:
        raise LocalError(f"the header of {frame.tag} has no {name}; it has {', '.join((*names, *_PARTS))}")
    return ("header" if v1 else "segment 0"), struct.calcsize(form[: 1 + names.index(name)])


def with_byte(frame: SeenFrame, segment: int, byte: int, mask: int) -> Rebuilt:
    """The frame with bits of a segment's byte flipped, and every crc, signature or seal over it recomputed.

    Raises:
        LocalError: there is no such byte.
    """
    segments = list(frame.segments)
    changed = bytearray(segments[segment])
    try:
        changed[byte] ^= mask
    except IndexError:
        raise LocalError(f"segment {segment} has {len(changed)} bytes, there is no byte {byte}") from None
    segments[segment] = bytes(changed)
    return sealed(frame, Tag[frame.tag], tuple(segments))


def signed(frame: SeenFrame, raw: bytes) -> bytes:
    """A changed message of v1 with a signature that fits, if its link's are known; anything else as it is."""
    if frame.tag != Piece.MSG or frame.source is None or frame.source.keys.signer is None:
        return raw
    regions = regions_of(frame)
    parts = tuple(b"".join(raw[one.start : one.stop] for one in regions.get(name, ())) for name in _PARTS)
    return v1_message(frame, v1_header(raw), parts).raw  # type: ignore[arg-type]
