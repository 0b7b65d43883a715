"""Payloads of messages as JSON values, by the layouts of the payloads; no code for single types.

Blobs that a layout marks as such, and sealed or secret bytes, show their length only. Other bytes are hex,
abbreviated if they are long.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import IntEnum, IntFlag
from math import isfinite
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from messenger.cephx.keys import CryptoKey
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.denc.layout import Blob
from messenger.errors import PeerError
from messenger.messages.layout import Bits, Enveloped, Inside
from messenger.messages.message import Message
from messenger.messages.registry import decode_payload
from messenger.messages.types import MessageType

_Note = TypeVar("_Note")
_LONGEST_HEX_BYTES = 256
SEALED = frozenset(
    {MessageType.FORWARD, MessageType.ROUTE, MessageType.KV_DATA, MessageType.MON_USED_PENDING_KEYS}
)
"""Types whose bytes may be keys, or whole messages with keys; only the length of their bytes is shown."""
_BLOB = Blob.__metadata__[0]  # type: ignore[attr-defined] # of an annotated type
_BOOKKEEPING = frozenset(item.name for item in fields(Enveloped))


def message_fields(message: Message, features: int) -> dict[str, object]:
    """Return the fields of a message's payload.

    If the type is unknown or the payload malformed, they are the bytes and the reason.

    Args:
        message: the message as received.
        features: features negotiated on its link.
    """
    try:
        payload = decode_payload(message, features)
    except PeerError as error:
        return undecoded(message.front, error.detail)
    except (ValueError, OverflowError, RecursionError) as error:
        return undecoded(message.front, f"{type(error).__name__}: {error}")
    if payload is None:
        return undecoded(message.front, "the contents of this type are not read") if message.front else {}
    value = _structure(payload, sealed=message.type in SEALED)
    return value if isinstance(value, dict) else {"value": value}


def undecoded(front: Buffer, why: str) -> dict[str, object]:
    """Return the fields shown for a front that does not decode."""
    return {"front": bytes(front[:_LONGEST_HEX_BYTES]).hex(), "front_bytes": len(front), "undecoded": why}


def json_value(value: Any, *, sealed: bool = False) -> object:  # noqa: ANN401 - any field of any payload
    """Convert a field's value to a JSON value.

    Args:
        value: the value.
        sealed: True to show only the length of bytes.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes" if sealed else _hex(value)
    if isinstance(value, CryptoKey):
        return f"{len(value.secret)} bytes"
    if isinstance(value, Mapping):
        return _mapping(value, sealed=sealed)
    if isinstance(value, set | frozenset):
        return [json_value(item, sealed=sealed) for item in sorted(value)]  # the order differs between processes
    if isinstance(value, list | tuple):
        return [json_value(item, sealed=sealed) for item in value]
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return _structure(value, sealed=sealed)
    return str(value)


def _number(value: int) -> object:
    if isinstance(value, EntityType):
        return value.label
    return value.name if isinstance(value, IntEnum) and not isinstance(value, IntFlag) else int(value)


def _hex(value: Buffer) -> str:
    text = bytes(value[:_LONGEST_HEX_BYTES]).hex()
    return text if len(value) <= _LONGEST_HEX_BYTES else f"{text}... ({len(value)} bytes)"


def _mapping(value: Mapping[Any, Any], *, sealed: bool) -> object:
    entries = [(json_value(key), json_value(item, sealed=sealed)) for key, item in value.items()]
    if any(isinstance(key, dict | list) for key, _ in entries):
        return [{"key": key, "value": item} for key, item in entries]
    return {str(key): item for key, item in entries}


def _structure(value: Any, *, sealed: bool, sparse: bool = False) -> object:  # noqa: ANN401 - a payload or a part of one
    if not is_dataclass(value):
        return str(value)
    hints = _hints(type(value))
    shown: dict[str, object] = {}
    for item in fields(value):
        part = getattr(value, item.name)
        if item.name in _BOOKKEEPING and isinstance(value, Enveloped):
            continue
        if sparse and part == _default(item):
            continue
        hint = hints.get(item.name)
        if (bits := _note(hint, Bits)) is not None:
            shown[item.name], shown[f"{item.name}_names"] = int(part), bit_names(part, bits.names)
            continue
        if not sealed and (inside := _inside(hint)) is not None:
            shown[item.name] = _opened(part, inside)
        else:
            shown[item.name] = json_value(part, sealed=sealed or _is_blob(hint))
    return shown


def _default(item: "Field[Any]") -> object:
    if item.default_factory is not MISSING:
        return item.default_factory()
    return item.default


def _opened(value: Any, inside: Inside) -> object:  # noqa: ANN401 - a blob, or several by their numbers
    """The contents of blobs; the bytes of one that does not decode."""
    if isinstance(value, Mapping):
        return {str(key): _opened(item, inside) for key, item in value.items()}
    if not value:
        return ""
    try:
        return _structure(inside.decode(value), sealed=False, sparse=inside.sparse)
    except (PeerError, ValueError, OverflowError, RecursionError):
        return _hex(value)


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(structure: type) -> dict[str, Any]:
    if structure not in _HINTS:
        _HINTS[structure] = get_type_hints(structure, include_extras=True)
    return _HINTS[structure]


def _inside(hint: Any) -> Inside | None:  # noqa: ANN401 - a type, plain or annotated
    """The note on the contents of blobs of that type, which may be the values of a map; None if there is none."""
    if get_origin(hint) is dict:
        hint = get_args(hint)[1]
    return _note(hint, Inside)


def _note(hint: Any, kind: type[_Note]) -> _Note | None:  # noqa: ANN401 - a type, plain or annotated
    return next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, kind)), None)


def bit_names(value: int, names: type[IntFlag]) -> list[str]:
    """Return the names of the bits that are set, lowest first; a bit without a name as a number.

    ``bit_names(0x24, RequestFlag)`` is ``["ONDISK", "WRITE"]``.
    """
    known = {int(bit): bit.name or "" for bit in names}
    bits = [1 << place for place in range(value.bit_length()) if value >> place & 1]
    return [known.get(bit) or hex(bit) for bit in bits]


def _is_blob(hint: Any) -> bool:  # noqa: ANN401 - a type, plain or annotated
    """True if values of the type show their length only."""
    return get_origin(hint) is Annotated and _BLOB in hint.__metadata__
