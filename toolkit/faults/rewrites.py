"""Encode a frame again with other contents, as its sender would have written it.

Checksums are always correct, and so are signatures and seals if their keys are known. A sealed frame can only be
replaced by one that takes as many cipher operations, because all later nonces would differ otherwise
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
"""Errors that encoders raise for values that do not fit."""

Segments = tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A frame that was encoded again."""

    raw: bytes
    segments: Segments = ()
    """Its segments, if it is a v2 frame or a message."""


# ---- contents of a frame


def is_message(frame: SeenFrame) -> bool:
    """True if the frame is a MESSAGE of v2 or a MSG of v1."""
    return frame.tag in {Tag.MESSAGE.name, Piece.MSG.value}


def settable(frame: SeenFrame) -> list[str]:
    """Return the names of all fields of a frame that can be set.

    Raises:
        LocalError: it has none.
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
    """True if the frame is the v2 banner, which has feature masks."""
    return "supported" in frame.fields and frame.form is Form.PLAIN


def decoded(frame: SeenFrame) -> Any:  # noqa: ANN401 - a dataclass, of which kind its tag says
    """Decode a frame other than a message: a :class:`ControlFrame`, or a v1 frame.

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
"""Decoders of the frames that the connector sends, and of those that the acceptor sends."""


# ---- with other fields


def with_fields(frame: SeenFrame, values: Mapping[str, str]) -> Rebuilt:
    """Return the frame with other values in some of its fields.

    Args:
        frame: the frame.
        values: texts by the names of :func:`settable`; see :func:`toolkit.faults.values.parse_value`.

    Raises:
        LocalError: there is no such field or value, or the frame cannot be encoded.
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
    """Return the frame with the content of another control frame or v1 frame.

    Raises:
        LocalError: it cannot be sealed, or a value does not fit in its field.
    """
    try:
        if isinstance(piece, Frame):
            return Rebuilt(piece.encode())
        payload = piece.encode()
    except _UNWRITABLE as error:
        raise LocalError(f"{frame.tag} cannot be written: {error}") from None
    return sealed(frame, piece.TAG, (payload, b"", b"", b""))


def sealed(frame: SeenFrame, tag: int, segments: Segments) -> Rebuilt:
    """Encode a v2 frame as the sender of ``frame`` would have written it in its place.

    Raises:
        LocalError: the stream is sealed, and the new frame takes another number of nonces.
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
    """Return a dataclass with other values; a name with dots is that of a nested field."""
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
    fields = frame.fields
    numbers = {name: fields[name] for name in ("tid", "priority", "version", "compat_version", "seq")}
    return Message(fields["type"], *parts, **numbers)  # type: ignore[arg-type] # integers, as they were printed


def _payload(frame: SeenFrame) -> Any:  # noqa: ANN401 - of any message
    """Decode the payload of a message; returns None if it does not decode."""
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
    """Return a message with its payload changed by a function.

    Raises:
        LocalError: the payload's type is unknown, or the frame cannot be encoded.
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
    """Parse a number of a message header; message types may be given by name."""
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
    """Encode a v1 message in the place of a frame.

    Raises:
        LocalError: a value does not fit in its field.
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
    """Return the region and the offset in it where a field begins (:func:`toolkit.dissect.regions.regions_of`).

    Raises:
        LocalError: there is no such field, or it has no fixed position.
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
    """Return the frame with bits of a segment's byte flipped, and its crcs, signature or seal recomputed.

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
    """Return a changed v1 message with a valid signature, if the key of its link is known; else ``raw`` itself."""
    if frame.tag != Piece.MSG or frame.source is None or frame.source.keys.signer is None:
        return raw
    regions = regions_of(frame)
    parts = tuple(b"".join(raw[one.start : one.stop] for one in regions.get(name, ())) for name in _PARTS)
    return v1_message(frame, v1_header(raw), parts).raw  # type: ignore[arg-type]
