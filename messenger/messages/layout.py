"""Payload layouts as annotations: fields of a dataclass in wire order, with their types (docs/protocol.md §1.1).

A type determines the encoding of its values: the integers of ``messenger.denc.layout``, ``str``, ``bytes`` (a
counted blob), ``bool``, ``UUID``, ``list``, ``set``, ``dict``, pairs, ``T | None`` (Ceph's optional), any class
with ``encode`` and ``decode``, or a :class:`Codec` inside ``Annotated``. From the fields come the codec of a
structure, its smallest size (against which counts are checked), and the values with which tests fill it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import IntFlag
from functools import cache
from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import Kind, Since
from messenger.errors import DecodeError
from messenger.messages.fields import decode_paxos, decode_uuid, encode_paxos, encode_uuid

ANY_VERSION = 255
"""Version that a reader claims to support when it skips an envelope or keeps it unread."""
_ENVELOPE_HEAD_SIZE = 6
_NAUTILUS_BIT = Feature.SERVER_NAUTILUS & ~Feature.SERVER_MIMIC


@dataclass(frozen=True, slots=True)
class Codec:
    """Encodes values of one type for a peer with certain features, and decodes them."""

    encode: Callable[[Encoder, Any, int], None]
    decode: Callable[[Decoder, int], Any]
    size_bytes: int = 1
    """Length of the shortest encoding; a count is refused if that many items do not fit into the remaining
    bytes."""


@dataclass(frozen=True, slots=True)
class Inside:
    """Decoder of a blob that stays encoded in the message, because few receivers read it."""

    decode: Callable[[bytes], object]
    sparse: bool = False
    """True to omit fields with default values when the blob is displayed."""


@dataclass(frozen=True, slots=True)
class Bits:
    """Names for the bits of an integer, which are displayed beside its value."""

    names: type[IntFlag]


def plain(encode: Callable[[Encoder, Any], None], decode: Callable[[Decoder], Any], size_bytes: int) -> Codec:
    """A codec that does not depend on features."""
    return Codec(lambda e, value, _: encode(e, value), lambda d, _: decode(d), size_bytes)


def _encode_addrs(encoder: Encoder, addrs: AddrVec, features: int) -> None:
    """Encode a field that was one address before Nautilus and has been a vector since (§6.5, §6.6)."""
    if has_feature(features, Feature.SERVER_NAUTILUS):
        addrs.encode(encoder, features)
    else:
        addrs.legacy_addr().encode(encoder, features)


def before_nautilus(features: int) -> int:
    """``features`` without SERVER_NAUTILUS, for encoding the contents of older versions."""
    return features & ~_NAUTILUS_BIT


I8 = Annotated[int, Kind(Encoder.i8, Decoder.i8)]
I16 = Annotated[int, Kind(Encoder.i16, Decoder.i16)]
F32 = Annotated[float, Kind(Encoder.f32, Decoder.f32)]
F64 = Annotated[float, Kind(Encoder.f64, Decoder.f64)]
Paxos = Annotated[int, plain(encode_paxos, decode_paxos, 18)]
"""The PaxosServiceMessage preamble (PX in §6.2); its value is the map version that the sender has."""
Addrs = Annotated[AddrVec, Codec(_encode_addrs, lambda d, _: AddrVec.decode(d), 5)]
"""An address vector, encoded as a single address for peers before Nautilus."""
Rest = Annotated[bytes, plain(Encoder.raw, Decoder.rest, 0)]
"""All remaining bytes, uninterpreted."""


def _decode_envelope(decoder: Decoder) -> bytes:
    head = decoder.raw(_ENVELOPE_HEAD_SIZE)
    return head + decoder.raw(int.from_bytes(head[2:], "little"))


RawEnvelope = Annotated[bytes, plain(Encoder.raw, _decode_envelope, _ENVELOPE_HEAD_SIZE)]
"""A versioned structure as it was received, its header included."""


def raw_codec(size_bytes: int) -> Codec:
    """A codec for ``size_bytes`` uninterpreted bytes."""
    return plain(Encoder.raw, lambda d: d.raw(size_bytes), size_bytes)


@dataclass(frozen=True, slots=True)
class LayoutField:
    """One field of a layout."""

    name: str
    codec: Codec
    since: int
    """The first version that has the field."""


class Fields:
    """A payload or a part of one: its fields, one after the other."""

    __slots__ = ()
    VERSION: ClassVar[int] = 1
    """The version that :meth:`encode` writes, and the newest one whose fields are all supported."""
    OLDEST: ClassVar[int] = 0
    """The oldest version that can be decoded."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the fields for a peer with which ``features`` were negotiated."""
        encode_fields(self, encoder, self.VERSION, features)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int) -> Self:
        """Decode the fields of ``version``; later fields get their defaults, bytes after the fields are not read.

        Raises:
            DecodeError: the bytes are too short or malformed, or older than OLDEST.
        """
        if version < cls.OLDEST:
            raise DecodeError(f"{cls.__name__} of version {version}, at least {cls.OLDEST} is known")
        return cls(**decode_fields(cls, decoder, version, features))


@dataclass(frozen=True, slots=True)
class Enveloped:
    """A structure inside ENC(version, compat); fields appended by newer senders survive a round trip (§1.2)."""

    VERSION: ClassVar[int]
    """The newest version whose fields are all supported."""
    COMPAT: ClassVar[int] = 1
    """Oldest reader version that can decode what is written."""
    OLDEST: ClassVar[int] = 1
    """The oldest version that can be decoded."""
    WHAT: ClassVar[str] = "structure"
    """Name of the structure in error messages."""

    struct_v: int = field(default=0, kw_only=True, compare=False)
    """The version as which it was decoded, and is encoded for peers that support it; 0: the newest one."""
    tail: bytes = field(default=b"", kw_only=True)
    """Bytes after the supported fields."""

    def version_for(self, features: int) -> int:  # noqa: ARG002 - most structures have one version for all
        """The newest version that a peer with these features can decode."""
        return ANY_VERSION

    @classmethod
    def compat_for(cls, version: int) -> int:
        """The oldest reader version that can decode ``version``."""
        return min(cls.COMPAT, version)

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the envelope, in the newest version that both this value and the peer support."""
        own = self.struct_v or self.VERSION
        version = min(own, self.version_for(features))
        with encoder.versioned(version, self.compat_for(version)):
            self.encode_body(encoder, version, features)
            if version == own:
                encoder.raw(self.tail)

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields of ``version``."""
        encode_fields(self, encoder, version, features)

    @classmethod
    def decode(cls, decoder: Decoder, features: int = 0) -> Self:
        """Decode an envelope; fields that its version lacks get their defaults.

        Raises:
            DecodeError: the bytes are too short or malformed, older than OLDEST, or require a newer reader.
        """
        body = decoder.versioned(cls.VERSION)
        if body.struct_v < cls.OLDEST:
            raise DecodeError(f"{cls.WHAT} of version {body.struct_v}, at least {cls.OLDEST} is known")
        values = cls.decode_body(body, features)
        return cls(**values, struct_v=body.struct_v, tail=body.rest())

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The values of the fields that the envelope's version has."""
        return decode_fields(cls, body, body.struct_v, features)


def encode_fields(value: object, encoder: Encoder, version: int, features: int) -> None:
    """Append the fields that ``version`` has."""
    for item in layout_of(type(value)):
        if version >= item.since:
            item.codec.encode(encoder, getattr(value, item.name), features)


def decode_fields(structure: type, decoder: Decoder, version: int, features: int) -> dict[str, Any]:
    """The values of the fields that ``version`` has, by name."""
    return {
        item.name: item.codec.decode(decoder, features) for item in layout_of(structure) if version >= item.since
    }


def layout_of(structure: type) -> tuple[LayoutField, ...]:
    """The fields of a dataclass in wire order, without the bookkeeping of :class:`Enveloped`."""
    return _layout_of(structure)


@cache
def _layout_of(structure: Any) -> tuple[LayoutField, ...]:  # noqa: ANN401 - a dataclass type
    hints = get_type_hints(structure, include_extras=True)
    bookkeeping = {item.name for item in fields(Enveloped)} if issubclass(structure, Enveloped) else set()
    return tuple(
        LayoutField(item.name, codec_of(hints[item.name]), since_of(hints[item.name]))
        for item in fields(structure)
        if item.name not in bookkeeping
    )


def since_of(hint: Any) -> int:  # noqa: ANN401 - a type, plain or annotated
    """The first version that has a field of that type."""
    notes = getattr(hint, "__metadata__", ())
    return next((note.version for note in notes if isinstance(note, Since)), 0)


@cache
def codec_of(hint: Any) -> Codec:  # noqa: ANN401 - a type, plain or annotated
    """The codec of a type.

    Raises:
        TypeError: the type does not determine an encoding.
    """
    if get_origin(hint) is Annotated:
        return _annotated(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in arguments:
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _optional(codec_of(inner))
    if origin in _COMPOSITES:
        return _COMPOSITES[origin](*map(codec_of, arguments))
    if isinstance(hint, type) and issubclass(hint, Fields):
        return Codec(_encode_self, lambda d, f: hint.decode(d, hint.VERSION, f), _shortest(hint))
    if isinstance(hint, type) and issubclass(hint, Enveloped):
        return Codec(_encode_self, hint.decode, _ENVELOPE_HEAD_SIZE)
    if hasattr(hint, "encode") and hasattr(hint, "decode"):
        return _of_class(hint)
    raise TypeError(f"{hint} does not say how it is encoded")


def _annotated(hint: Any) -> Codec:  # noqa: ANN401 - an annotated type
    for note in hint.__metadata__:
        if isinstance(note, Codec):
            return note
        if isinstance(note, Kind):
            encoder = Encoder()
            note.encode(encoder, hint.__origin__())  # an int, str or list is shortest at its zero
            return plain(note.encode, note.decode, len(encoder))
    return codec_of(hint.__origin__)


def _shortest(structure: type) -> int:
    first = [item.codec.size_bytes for item in layout_of(structure) if not item.since]
    return max(sum(first), 1)


def _encode_self(encoder: Encoder, value: Any, features: int) -> None:  # noqa: ANN401 - has an encode of its own
    value.encode(encoder, features)


def _of_class(hint: Any) -> Codec:  # noqa: ANN401 - a class with encode and decode
    """A codec for a class; its methods get ``features`` if they take them."""
    featured = ["features" in signature(method).parameters for method in (hint.encode, hint.decode)]
    return Codec(
        _encode_self if featured[0] else lambda e, value, _: value.encode(e),
        hint.decode if featured[1] else lambda d, _: hint.decode(d),
    )


def _optional(inner: Codec) -> Codec:
    def encode(encoder: Encoder, value: Any, features: int) -> None:  # noqa: ANN401 - of the inner codec
        encoder.boolean(value is not None)
        if value is not None:
            inner.encode(encoder, value, features)

    return Codec(encode, lambda d, f: inner.decode(d, f) if d.boolean() else None)


def _list(item: Codec) -> Codec:
    return Codec(
        lambda e, values, f: e.sequence(values, lambda value: item.encode(e, value, f)),
        lambda d, f: d.sequence(lambda: item.decode(d, f), item.size_bytes),
        4,
    )


def _set(item: Codec) -> Codec:
    many = _list(item)
    return Codec(
        lambda e, values, f: many.encode(e, sorted(values, key=_order), f),
        lambda d, f: set(many.decode(d, f)),
        4,
    )


def _pair(first: Codec, second: Codec) -> Codec:
    def encode(encoder: Encoder, value: Any, features: int) -> None:  # noqa: ANN401 - a pair
        first.encode(encoder, value[0], features)
        second.encode(encoder, value[1], features)

    return Codec(
        encode, lambda d, f: (first.decode(d, f), second.decode(d, f)), first.size_bytes + second.size_bytes
    )


def _dict(key: Codec, value: Codec) -> Codec:
    entries = _list(_pair(key, value))
    return Codec(
        lambda e, items, f: entries.encode(e, sorted(items.items(), key=lambda entry: _order(entry[0])), f),
        lambda d, f: dict(entries.decode(d, f)),
        4,
    )


def _order(key: Any) -> Any:  # noqa: ANN401 - whatever keys a map has
    """Sort key of map keys and set items: Ceph orders strings and addresses by their bytes (§0, §1.3)."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogateescape")
    return key.sort_key() if isinstance(key, EntityAddr) else key


_SIMPLE: dict[Any, Codec] = {
    str: plain(Encoder.string, Decoder.string, 4),
    bytes: plain(Encoder.blob, Decoder.blob, 4),
    bool: plain(Encoder.boolean, Decoder.boolean, 1),
    UUID: plain(encode_uuid, decode_uuid, 16),
}
_COMPOSITES: dict[Any, Callable[..., Codec]] = {list: _list, set: _set, tuple: _pair, dict: _dict}
