"""Wire layouts as annotations: the fields of a dataclass, in wire order, each annotated with its kind.

From the annotations come a structure's codec, its printable form, and everything else that depends on the layout.
Frames of msgr v2 and the structures of cephx are described like this.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_type_hints

from messenger.denc.codec import Decoder, Encoder

MOST_CHOICES = 64
"""Longest accepted list of methods, modes or algorithms: Ceph has three methods, two modes and five algorithms."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Codec and printable form of a field, where its type alone does not determine them."""

    encode: Callable[[Encoder, Any], None]
    decode: Callable[[Decoder], Any]
    show: Callable[[Any], object] = lambda value: value
    """Converts the value to JSON; of secrets and blobs only the length."""


@dataclass(frozen=True, slots=True)
class Since:
    """The first struct version that has the field."""

    version: int


U8 = Annotated[int, Kind(Encoder.u8, Decoder.u8)]
U16 = Annotated[int, Kind(Encoder.u16, Decoder.u16)]
U32 = Annotated[int, Kind(Encoder.u32, Decoder.u32)]
I32 = Annotated[int, Kind(Encoder.i32, Decoder.i32)]
U64 = Annotated[int, Kind(Encoder.u64, Decoder.u64)]
Bool = Annotated[bool, Kind(Encoder.boolean, Decoder.boolean)]
I64 = Annotated[int, Kind(Encoder.i64, Decoder.i64)]
U32List = Annotated[
    list[int], Kind(lambda e, v: e.sequence(v, e.u32), lambda d: d.sequence(d.u32, 4, MOST_CHOICES))
]
"""A list of methods, modes or algorithms."""
Blob = Annotated[bytes, Kind(Encoder.blob, Decoder.blob, lambda value: f"{len(value)} bytes")]


class Structure:
    """Base class of structures: an optional plain version byte, then the fields in order.

    The type of a field is one of the kinds above, or a class with its own ``encode`` and ``decode``. As in Ceph,
    the version is checked only where a later one added fields.
    """

    __slots__ = ()
    VERSION: ClassVar[int] = 1
    """The version byte to encode; 0 if the structure has none."""

    def struct_v(self) -> int:
        """The version to encode for these values."""
        return self.VERSION

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        version = self.struct_v()
        if version:
            encoder.u8(version)
        for name, kind, since in layout_of(type(self)):
            if version >= since:
                kind.encode(encoder, getattr(self, name))

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode one structure; raises DecodeError."""
        version = decoder.u8() if cls.VERSION else 0
        return cls(**{name: kind.decode(decoder) for name, kind, since in layout_of(cls) if version >= since})


def encoded(*parts: Structure) -> bytes:
    """Concatenate the encodings of ``parts``."""
    encoder = Encoder()
    for part in parts:
        part.encode(encoder)
    return encoder.getvalue()


@cache
def _layout_of(structure: Any) -> tuple[tuple[str, Kind, int], ...]:  # noqa: ANN401 - a dataclass type
    hints = get_type_hints(structure, include_extras=True)
    return tuple((field.name, *_kind(hints[field.name])) for field in fields(structure))


def layout_of(structure: type) -> tuple[tuple[str, Kind, int], ...]:
    """Name, kind and first version of each field of a dataclass, in wire order."""
    return _layout_of(structure)


def _kind(hint: Any) -> tuple[Kind, int]:  # noqa: ANN401 - a type, plain or annotated
    notes = getattr(hint, "__metadata__", ())
    since = next((note.version for note in notes if isinstance(note, Since)), 0)
    kind = next((note for note in notes if isinstance(note, Kind)), None)
    return kind or Kind(lambda encoder, value: value.encode(encoder), hint.decode, str), since
