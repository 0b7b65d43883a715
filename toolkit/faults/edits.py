"""Changes of frames: set fields, insert frames, recompute signatures."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

from messenger.cephx.keys import hmac_sha256
from messenger.compat import override
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.errors import LocalError
from messenger.messages.types import MessageType, message_name
from messenger.v1.framing import Header as V1Header
from messenger.v1.wire import (
    Ack,
    Banner,
    Close,
    Connect,
    ConnectReply,
    Frame,
    KeepAlive,
    KeepAlive2,
    KeepAlive2Ack,
    Piece,
    Seq,
)
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import (
    CONTROL_FRAMES,
    MESSAGE_HEADER,
    MESSAGE_HEADER_FIELDS,
    SIGNATURE_SIZE,
    AuthSignature,
    ControlFrame,
    Tag,
)
from toolkit.dissect.follow import Form, SeenFrame
from toolkit.dissect.regions import regions_of
from toolkit.faults.mangle import Altered, Change
from toolkit.faults.rewrites import Rebuilt, encoded, sealed, v1_message, with_fields
from toolkit.faults.values import parse_value

Assignments = tuple[tuple[str, str], ...]
"""Names of fields, each with its value as text."""

_CHECKS = ("crc 0", "epilogue", "tag", "footer")
"""Regions whose content is computed from the others."""
_NOTHING = {AddrVec: AddrVec(()), EntityAddr: EntityAddr(), EntityType: EntityType.CLIENT, V1Tag: V1Tag.READY}


@dataclass(slots=True)
class SetFields(Change):
    """Replace the frame by one with other values in some of its fields.

    Args:
        values: see :func:`toolkit.faults.rewrites.with_fields`.
        fix: True to recompute crcs, signature and seal; otherwise those of the old frame stay.
    """

    what = "rewrite"
    values: Assignments
    fix: bool = True

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        made = with_fields(frame, dict(self.values))
        raw = made.raw if self.fix else _with_old_checks(frame, made)
        return Altered(raw, segments=made.segments or None)

    def __str__(self) -> str:
        return _printed(self.values) + ("" if self.fix else ", crcs as they were")


def _with_old_checks(frame: SeenFrame, made: Rebuilt) -> bytes:
    if len(made.raw) != len(frame.raw):
        raise LocalError(f"{frame.tag} would change its length, so its old crcs do not fit")
    raw = bytearray(made.raw)
    for name, places in regions_of(frame).items():
        # In v1 the region "tag" is the byte that identifies the frame, not a checksum.
        if name in _CHECKS and not (name == "tag" and frame.form is Form.PLAIN):
            for place in places:
                raw[place.start : place.stop] = frame.raw[place.start : place.stop]
    return bytes(raw)


@dataclass(slots=True)
class Inject(Change):
    """Insert a frame that the sender did not write, after the matched one; impossible in sealed streams.

    Args:
        tag: tag of the new frame: of v2, or a v1 frame name.
        values: values of its fields; the others are zero or empty.
        before: True to insert it before the matched frame.
        back: True to send it to the sender, as if from the other party.
    """

    what = "insert"
    tag: str
    values: Assignments = ()
    before: bool = False
    back: bool = False

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        if frame.form in {Form.SECURE, Form.REV0_SECURE}:
            raise LocalError("another frame in a sealed stream would shift the nonces of all that follow")
        extra = made(frame, self.tag, dict(self.values)).raw
        if self.back:
            return Altered(frame.raw, back=extra)
        return Altered(extra + frame.raw if self.before else frame.raw + extra)

    def __str__(self) -> str:
        where = " to its sender" if self.back else " before it" if self.before else " behind it"
        return f"{self.tag}{where}{', ' * bool(self.values)}{_printed(self.values)}"


@dataclass(slots=True)
class Sign(Change):
    """Replace an AUTH_SIGNATURE by one that its receiver accepts, whatever was changed before.

    See docs/protocol.md §4.7.
    """

    what = "rewrite"

    @override
    def alter(self, frame: SeenFrame) -> Altered:
        if frame.tag != Tag.AUTH_SIGNATURE.name or frame.source is None:
            raise LocalError(f"{frame.tag} has no signature; only AUTH_SIGNATURE has")
        keys = frame.source.keys
        if keys.session_key is None:
            if keys.missing:
                raise LocalError(f"AUTH_SIGNATURE cannot be made without the {keys.missing}")
            return Altered(frame.raw)  # without authentication it is all zeros
        received = frame.source.received[frame.direction.other]
        made = encoded(frame, AuthSignature(hmac_sha256(keys.session_key.secret, received)))
        return Altered(made.raw, segments=made.segments)

    def __str__(self) -> str:
        return "signature over what its receiver has sent"


def _printed(values: Assignments) -> str:
    return " ".join(f"{name}={value}" for name, value in values)


# ---- frames out of nothing


def made(frame: SeenFrame, tag: str, values: dict[str, str]) -> Rebuilt:
    """Return a frame with these fields, to be sent in the place of another; the other fields are zero or empty.

    Raises:
        LocalError: links of that protocol have no such frame, it has no such field, or the field no such value.
    """
    assert frame.source is not None
    v1 = frame.source.is_v1
    if tag not in (V1_TAGS if v1 else V2_TAGS):
        known = sorted(V1_TAGS if v1 else V2_TAGS)
        raise LocalError(
            f"no frame {tag} can be made on a link of {'v1' if v1 else 'v2'}; there are {', '.join(known)}"
        )
    if tag in {Piece.MSG.value, Tag.MESSAGE.name}:
        return _message(frame, values, v1=v1)
    kind: Any = _V1_KINDS[tag] if v1 else CONTROL_FRAMES[Tag[tag]]
    return encoded(frame, _filled(kind, values))


def _filled(kind: type[ControlFrame | Frame], values: dict[str, str]) -> Any:  # noqa: ANN401 - of that kind
    hints = get_type_hints(kind)
    known = [item.name for item in fields(kind)]  # type: ignore[arg-type] # all of them are dataclasses
    for name in values:
        if name not in known:
            raise LocalError(f"{kind.__name__} has no {name}; it has {', '.join(known) or 'no fields'}")
    filled = {}
    for item in fields(kind):  # type: ignore[arg-type] # all of them are dataclasses
        blank = item.default if item.default is not MISSING else _blank(item.name, hints[item.name])
        filled[item.name] = parse_value(item.name, values[item.name], blank) if item.name in values else blank
    return kind(**filled)


def _blank(name: str, kind: Any) -> object:  # noqa: ANN401 - a type, plain or parametrised
    if name == "signature":
        return bytes(SIGNATURE_SIZE)
    if kind in _NOTHING:
        return _NOTHING[kind]
    return [] if getattr(kind, "__origin__", None) is list else kind()


def _message(frame: SeenFrame, values: dict[str, str], *, v1: bool) -> Rebuilt:
    parts = tuple(parse_value(name, values.pop(name, "-"), b"") for name in ("front", "middle", "data"))
    names: Sequence[str] = V1Header._fields if v1 else MESSAGE_HEADER_FIELDS
    for name in values:
        if name not in names:
            raise LocalError(f"a message has no {name}; it has {', '.join((*names, 'front', 'middle', 'data'))}")
    numbers = dict.fromkeys(names, 0) | {"version": 1, "priority": 127}
    numbers |= {name: _number(name, text) for name, text in values.items()}
    if v1:
        return v1_message(frame, V1Header(**numbers), parts)
    try:
        header = MESSAGE_HEADER.pack(*numbers.values())
    except Exception as error:  # noqa: BLE001 - meant for struct.error
        raise LocalError(f"{_printed(tuple(values.items()))}: {error}") from None
    return sealed(frame, Tag.MESSAGE, (header, *parts))


def _number(name: str, text: str) -> int:
    if name == "type":
        for known in MessageType:
            if message_name(known) == text:
                return int(known)
    return int(parse_value(name, text, 0))


_V1_KINDS: dict[str, type[Frame]] = {
    kind.PIECE.value: kind
    for kind in (Banner, Connect, ConnectReply, Seq, Ack, KeepAlive, KeepAlive2, KeepAlive2Ack, Close)
}
V1_TAGS = frozenset({*_V1_KINDS, Piece.MSG.value})
"""Frames that can be inserted into a v1 link."""
V2_TAGS = frozenset({tag.name for tag in Tag})
"""Frames that can be inserted into a v2 link."""
