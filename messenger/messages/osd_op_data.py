"""Input and output of operations in the data segment, according to the table in ``osd_operations.py``."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityName
from messenger.denc.utime import UTime
from messenger.errors import LocalError
from messenger.messages.layout import codec_of
from messenger.messages.osd_objects import HObject, ObjectLocator
from messenger.messages.osd_operations import OPERATIONS, OpCode, OsdOp

_TEXT = re.compile(r"text\[(\w+)\]")
_SHORTEST_ENTRY = 12
_SHORTEST_WATCHER = 6


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One object of a listing."""

    nspace: str
    oid: str
    locator: str
    """Its locator key, if it was placed by one."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of the objects of a placement group (pg_nls_response_t)."""

    cursor: HObject
    """The object at which to continue."""
    entries: list[ListEntry]

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        with encoder.versioned(1, 1):
            self.cursor.encode(encoder, 0)
            encoder.u32(len(self.entries))
            for entry in self.entries:
                encoder.string(entry.nspace)
                encoder.string(entry.oid)
                encoder.string(entry.locator)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode one listing; raises DecodeError."""
        body = decoder.versioned(1)

        def entry() -> ListEntry:
            return ListEntry(body.string(), body.string(), body.string())

        return cls(HObject.decode(body), body.sequence(entry, _SHORTEST_ENTRY))


@dataclass(frozen=True, slots=True)
class Watcher:
    """A watcher of an object (watch_item_t)."""

    name: EntityName
    cookie: int
    timeout_s: int
    addr: EntityAddr

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        with encoder.versioned(2, 1):
            self.name.encode(encoder)
            encoder.u64(self.cookie)
            encoder.u32(self.timeout_s)
            self.addr.encode(encoder)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode one watcher; raises DecodeError."""
        body = decoder.versioned(2)
        return cls(EntityName.decode(body), body.u64(), body.u32(), EntityAddr.decode(body))


Kind = tuple[Callable[[Encoder, Any], None], Callable[[Decoder], Any]]


def _structure(cls: Any) -> Kind:  # noqa: ANN401 - a class with encode and decode
    codec = codec_of(cls)
    return (lambda encoder, value: codec.encode(encoder, value, 0)), (lambda decoder: codec.decode(decoder, 0))


def _encode_watchers(encoder: Encoder, watchers: list[Watcher]) -> None:
    with encoder.versioned(1, 1):
        encoder.sequence(watchers, lambda watcher: watcher.encode(encoder))


def _decode_watchers(decoder: Decoder) -> list[Watcher]:
    body = decoder.versioned(1)
    return body.sequence(lambda: Watcher.decode(body), _SHORTEST_WATCHER)


def _encode_assertion(encoder: Encoder, assertion: tuple[bytes, int]) -> None:
    encoder.blob(assertion[0])
    encoder.i32(assertion[1])


_KINDS: dict[str, Kind] = {
    "bool": (Encoder.boolean, Decoder.boolean),
    "u32": (Encoder.u32, Decoder.u32),
    "u64": (Encoder.u64, Decoder.u64),
    "string": (Encoder.string, Decoder.string),
    "bl": (Encoder.blob, Decoder.blob),
    "bytes": (Encoder.raw, Decoder.rest),
    "utime": _structure(UTime),
    "hobject_t": _structure(HObject),
    "object_locator_t": _structure(ObjectLocator),
    "pg_nls_response_t": _structure(Listing),
    "obj_list_watch_response_t": (_encode_watchers, _decode_watchers),
    "set<string>": (
        lambda e, v: e.sequence(sorted(v), e.string),
        lambda d: d.sequence(d.string, 4),
    ),
    "map<string,bl>": (
        lambda e, v: e.mapping(dict(sorted(v.items())), e.string, e.blob),
        lambda d: d.mapping(d.string, d.blob, 8),
    ),
    "map<u64,u64>": (
        lambda e, v: e.mapping(v, e.u64, e.u64),
        lambda d: d.mapping(d.u64, d.u64, 16),
    ),
    "map<string,pair<bl,i32>>": (
        lambda e, v: e.mapping(dict(sorted(v.items())), e.string, lambda pair: _encode_assertion(e, pair)),
        lambda d: d.mapping(d.string, lambda: (d.blob(), d.i32()), 12),
    ),
}


@cache
def _fields(layout: str) -> tuple[tuple[str, str], ...]:
    """Kind and name of each part of a layout."""
    parts = (part.split() for part in layout.split(";")) if layout else ()
    return tuple((kind, name) for kind, name in parts)


def operation(code: OpCode, *values: Any, op_flags: int = 0, **args: int) -> OsdOp:  # noqa: ANN401 - by the table
    """Create an operation to send.

    Args:
        code: code of the operation.
        values: its input, in the order of the table.
        op_flags: :class:`OpFlag` bits; some views have an argument ``flags`` of their own.
        args: fields of its view; those with the length of the input are computed.

    Raises:
        LocalError: the number of values is not that of the operation, or a value has the wrong kind.
    """
    row = OPERATIONS[code]
    fields = _fields(row.indata)
    if len(values) != len(fields):
        raise LocalError(f"{code.name} takes {len(fields)} values ({row.indata}), not {len(values)}")
    if len(fields) == 1 and fields[0][0] == "bytes":  # common and large: not copied
        data, measured = values[0], 0
    else:
        data, measured = _encode(fields, values, args)
    if row.length_arg:
        args[row.length_arg] = len(data) - measured
    return OsdOp(code, row.view.complete(args), op_flags, len(data), data)


def _encode(
    fields: tuple[tuple[str, str], ...], values: tuple[Any, ...], args: dict[str, int]
) -> tuple[bytes, int]:
    """The encoded input, and the lengths of its parts that fields of the union contain."""
    encoder, measured = Encoder(), 0
    for (kind, name), value in zip(fields, values, strict=True):
        try:
            if match := _TEXT.fullmatch(kind):
                text = value.encode("utf-8", "surrogateescape")
                args[match[1]] = len(text)
                measured += len(text)
                encoder.raw(text)
            else:
                _KINDS[kind][0](encoder, value)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise LocalError(f"{name} is to be {kind}, not {value!r:.80}: {error}") from None
    return encoder.getvalue(), measured


def input_of(op: OsdOp) -> dict[str, Any]:
    """The input of a received operation, by name; ``data`` as a whole if the code is not in the table.

    Raises:
        DecodeError: the data does not fit the table.
    """
    return _decode(op, "indata")


def output_of(op: OsdOp) -> dict[str, Any]:
    """The output of an operation in a reply, by name; empty if there is no data at all.

    Raises:
        DecodeError: the data does not fit the table.
    """
    return _decode(op, "outdata") if len(op.data) else {}


def _decode(op: OsdOp, segment: str) -> dict[str, Any]:
    if not isinstance(op.code, OpCode):
        return {"data": bytes(op.data)}
    decoder, values = Decoder(op.data), {}
    for kind, name in _fields(getattr(OPERATIONS[op.code], segment)):
        if match := _TEXT.fullmatch(kind):
            values[name] = decoder.raw(op.args[match[1]]).decode("utf-8", "surrogateescape")
        else:
            values[name] = _KINDS[kind][1](decoder)
    return values
