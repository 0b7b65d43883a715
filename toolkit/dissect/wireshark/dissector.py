"""Generates the Lua dissector: the files in ``lua``, after tables built from the layouts of the codecs.

A frame, field or message type that is added to the messenger appears in the dissector without a change here.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from importlib.resources import files
from typing import get_args

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import Feature, Msgr2Feature
from messenger.denc.layout import Kind, U32List, layout_of
from messenger.errors import LocalError
from messenger.messages.types import MessageType, message_name
from messenger.v2.compressor import Algorithm
from messenger.v2.wire import (
    BANNER_PREFIX,
    CONTROL_FRAMES,
    FLAG_LOSSY,
    MESSAGE_HEADER,
    MESSAGE_HEADER_FIELDS,
    ControlFrame,
    Tag,
)

PORTS = "3300,6800-7568"
"""Default ports of monitors and of other daemons."""
MARK = "-- Ceph Messenger v2 for Wireshark"
"""Beginning of the first line; a file without it was not written by msgrlab."""

_HEADER = f"""{MARK} (4.0 or later), written by `msgrlab wireshark`.
-- Try it: tshark -X lua_script:msgr2.lua -r FILE -Y msgr2
"""
_PARTS = ("crc", "fields", "structures", "frames", "streams")
"""Files of the engine, in the order of their dependencies."""
_PROBE = bytes(256)

_BY_ENCODER: Mapping[object, str] = {
    Encoder.u8: "u8",
    Encoder.boolean: "bool",
    Encoder.u16: "u16",
    Encoder.u32: "u32",
    Encoder.i32: "i32",
    Encoder.u64: "u64",
    Encoder.i64: "i64",
    Encoder.blob: "blob",
    Encoder.raw: "raw",
}
_BY_DECODER: Mapping[object, str] = {
    get_args(U32List)[1].decode: "u32_list",
    EntityAddr.decode: "addr",
    AddrVec.decode: "addrvec",
}
_BY_CODE = {"Q": "u64", "I": "u32", "H": "u16", "B": "u8"}
"""Kinds of header fields, by format characters of a Struct."""

_VALUES: Mapping[str, type[IntEnum]] = {
    "address_type": AddressType,
    "algorithm": Algorithm,
    "auth_method": AuthMethod,
    "con_mode": ConMode,
    "entity_type": EntityType,
}
_MEANINGS = {
    "entity_type": "entity_type",
    "method": "auth_method",
    "allowed_methods": "auth_method",
    "preferred_modes": "con_mode",
    "allowed_modes": "con_mode",
    "con_mode": "con_mode",
    "type": "message_type",
    "COMPRESSION_REQUEST.methods": "algorithm",
    "COMPRESSION_DONE.method": "algorithm",
}
"""Enumerations of fields, by field name, or by frame and field if field names are ambiguous."""
_MASKS = {"features": "features", "flags": "flags", "features_supported": "", "features_required": ""}
"""Fields that are masks, with the table of their bits; empty if too many bits are set for names to help."""
_COOKIES = {"client_cookie", "server_cookie"}
_MESSAGE = "MESSAGE"


def dissector() -> str:
    """Return the whole Lua file."""
    tables = {
        "PORTS": PORTS,
        "BANNER_PREFIX": BANNER_PREFIX.decode(),
        "TAG_MESSAGE": int(Tag.MESSAGE),
        "TAG_AUTH_DONE": int(Tag.AUTH_DONE),
        "CON_MODE_SECURE": int(ConMode.SECURE),
        "TAGS": {int(tag): tag.name for tag in Tag},
        "CONTROL": {int(tag): _control(frame) for tag, frame in CONTROL_FRAMES.items()},
        "MESSAGE_HEADER": _message_header(),
        "VALUES": _names(),
        "BITS": {
            "msgr2": _bits((feature, feature.name) for feature in Msgr2Feature),
            "flags": _bits([(FLAG_LOSSY, "LOSSY")]),
            "features": _bits((feature, feature.name) for feature in Feature),
        },
    }
    written = "\n".join(f"local {name} = {_lua(table)}" for name, table in tables.items())
    folder = files(__package__).joinpath("lua")
    parts = [folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in _PARTS]
    return "\n".join([_HEADER, written + "\n", *parts])


def _names() -> dict[str, dict[int, str]]:
    names = {name: {int(item): item.name.lower() for item in values} for name, values in _VALUES.items()}
    return names | {"message_type": {int(kind): message_name(kind) for kind in MessageType}}


def _control(frame: type[ControlFrame]) -> list[object]:
    """Return a frame's fields in order, and the frame's name in filters."""
    name = frame.TAG.name
    fields = [_spec(field, _shape(frame, field, kind), name) for field, kind, _ in layout_of(frame)]
    return [*fields, ("key", name.lower())]


def _shape(frame: type[ControlFrame], field: str, kind: Kind) -> dict[str, object]:
    """Return the layout of a field on the wire for the engine."""
    shape = _BY_ENCODER.get(kind.encode) or _BY_DECODER.get(kind.decode)
    if shape is None:
        raise LocalError(f"{frame.__name__}.{field}: the dissector does not know how to read this kind of field")
    return {"kind": shape, "size": _raw_size(kind)} if shape == "raw" else {"kind": shape}


def _raw_size(kind: Kind) -> int:
    decoder = Decoder(_PROBE)
    kind.decode(decoder)
    return len(_PROBE) - decoder.remaining


def _message_header() -> list[object]:
    codes = MESSAGE_HEADER.format.lstrip("<")
    fields = zip(MESSAGE_HEADER_FIELDS, codes, strict=True)
    return [_spec(name, {"kind": _BY_CODE[code]}, _MESSAGE) for name, code in fields]


def _spec(name: str, shape: dict[str, object], frame: str) -> dict[str, object]:
    spec = {"name": name, **shape}
    values = _MEANINGS.get(f"{frame}.{name}") or _MEANINGS.get(name)
    if values:
        spec["values"] = values
    if name in _MASKS or name in _COOKIES:
        spec["hex"] = True
    if frame != _MESSAGE and _MASKS.get(name):
        spec["bits"] = _MASKS[name]
    if name.endswith("seq") and name != "ack_seq":
        spec["telling"] = True
    return spec


def _bits(masks: Iterable[tuple[int, str | None]]) -> dict[int, str]:
    """Return names by bit. A later use of a bit, marked by further bits, is added to the name of the first use."""
    names: dict[int, str] = {}
    for mask, name in masks:
        bit = (mask & -mask).bit_length() - 1
        names[bit] = f"{names[bit]}/{name}" if bit in names else str(name)
    return names


def _lua(value: object) -> str:
    """Format a value as a Lua literal; tuples in a list become named entries."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        entries = [f"{_key(key)} = {_lua(item)}" for key, item in value.items()]
    else:
        assert isinstance(value, list)
        entries = [f"{item[0]} = {_lua(item[1])}" if isinstance(item, tuple) else _lua(item) for item in value]
    line = "{ " + ", ".join(entries) + " }" if entries else "{}"
    if len(line) <= 110:
        return line
    return "{\n" + "".join(f"  {_indented(entry)},\n" for entry in entries) + "}"


def _indented(entry: str) -> str:
    return entry.replace("\n", "\n  ")


def _key(key: object) -> str:
    return f"[{key}]" if isinstance(key, int) else str(key)


def _quoted(text: str) -> str:
    special: Callable[[str], str] = lambda c: c if c.isprintable() and c not in '"\\' else f"\\{ord(c):03d}"  # noqa: E731
    return '"' + "".join(map(special, text)) + '"'
