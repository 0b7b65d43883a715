"""Scapy fields over the project's own codecs, so that a layout is written down once.

A field that is on the wire encodes and decodes by a :class:`~messenger.denc.layout.Kind`; the classes here add
what scapy wants to know: what people may write for a value, and how it is shown. A field that bytes are missing
for, or that they make no sense for, keeps them as :class:`~scapy.fields.RawVal`, which scapy builds as they are.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from errno import errorcode
from typing import Any

from scapy.fields import Field, RawVal
from scapy.packet import Packet
from scapy.volatile import RandNum, VolatileValue

from messenger.compat import override
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityType
from messenger.denc.layout import I32, I64, U8, U16, U32, U64, Blob, Bool, Kind, U32List

_SHOWN_BYTES = 16

Names = dict[int, str]
"""What numbers are called."""


def kind_of(annotated: object) -> Kind:
    """The kind in an annotated type such as :data:`~messenger.denc.layout.U32`."""
    return next(note for note in annotated.__metadata__ if isinstance(note, Kind))  # type: ignore[attr-defined]


U8_KIND, U16_KIND, U32_KIND, U64_KIND, I64_KIND = map(kind_of, (U8, U16, U32, U64, I64))
_BOOL = kind_of(Bool)
_SIGNED = (kind_of(I32), I64_KIND)
_NUMBERS = frozenset(map(kind_of, (U8, U16, U32, I32, U64, I64, Bool)))


def names_of(enum: Iterable[IntEnum]) -> Names:
    """The names that an enumeration has for its numbers."""
    return {int(member): member.name for member in enum}


def shown_bytes(value: bytes) -> str:
    """How many, and the first of them."""
    text = f"{len(value)} bytes"
    return text + f": {value[:_SHOWN_BYTES].hex(' ')}" + " ..." * (len(value) > _SHOWN_BYTES) if value else text


class LayerField(Field[Any, Any]):
    """Base of the fields of these layers."""

    __slots__: list[str] = []

    def i2repr(self, pkt: Packet | None, x: object) -> str:
        """The value for people."""
        if isinstance(x, RawVal):
            return f"malformed, {shown_bytes(bytes(x))}" if len(x) else "missing"
        if isinstance(x, VolatileValue):
            return repr(x)
        return self.shown(pkt, x)

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """A value of the field for people."""
        return str(x)

    def randval(self) -> Any:
        """Nothing: ``fuzz()`` leaves the field as it is."""
        return None


class KindField(LayerField):
    """A field that is encoded and decoded by a kind."""

    __slots__ = ["kind"]

    def __init__(self, name: str, kind: Kind, default: object) -> None:
        self.kind = kind
        super().__init__(name, default, "B")

    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """``s`` with the value's encoding behind it."""
        encoder = Encoder()
        self.kind.encode(encoder, val)
        return s + encoder.getvalue()

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, object]:
        """What follows in ``s``, and the value.

        Raises:
            DecodeError: cut short or malformed.
        """
        decoder = Decoder(s)
        value = self.kind.decode(decoder)
        return s[len(s) - decoder.remaining :], value


class NumberField(KindField):
    """An integer, perhaps with names for some values, which may be given instead of it."""

    __slots__ = ["hexadecimal", "names"]

    def __init__(
        self,
        name: str,
        kind: Kind,
        default: int | None = 0,
        names: Names | None = None,
        *,
        hexadecimal: bool = False,
    ) -> None:
        self.names = names or {}
        self.hexadecimal = hexadecimal
        super().__init__(name, kind, default)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """A number for a number or its name, whose case does not matter.

        Raises:
            ValueError: no such name.
        """
        if not isinstance(x, str):
            return x
        wanted = x.lower()
        for number, name in self.names.items():
            if name.lower() == wanted:
                return number
        raise ValueError(f"{self.name} cannot be {x!r}; it has the names {', '.join(self.names.values())}")

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Its name if it has one."""
        return self.names.get(x) or (hex(x) if self.hexadecimal and x is not None else str(x))

    @override
    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """Append the value; None is written as 0."""
        return super().addfield(pkt, s, 0 if val is None else val)

    def randval(self) -> RandNum:
        """Any value that fits."""
        if self.kind == _BOOL:
            return RandNum(0, 1)
        encoder = Encoder()
        self.kind.encode(encoder, 0)
        values = 1 << 8 * len(encoder)
        least = -values // 2 if self.kind in _SIGNED else 0
        return RandNum(least, least + values - 1)


class FlagsField(NumberField):
    """Bits with names; a sum of names may be given, as in ``COMPLETE+NOCRC``."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """A number for a number or for names.

        Raises:
            ValueError: no such name.
        """
        if not isinstance(x, str):
            return x
        return sum(super(FlagsField, self).any2i(pkt, name.strip()) for name in x.split("+") if name.strip())

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """The names of its bits, and what has none as a number."""
        if not x:
            return str(x)
        unnamed = x & ~sum(self.names)
        return "+".join([name for bit, name in self.names.items() if x & bit] + [hex(unnamed)] * bool(unnamed))


class ErrnoField(NumberField):
    """A negated errno."""

    __slots__: list[str] = []

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """The number and its name."""
        return f"{x} ({errorcode[-x]})" if -x in errorcode else str(x)


class LengthField(NumberField):
    """A length or a count: None is computed when the layer is built."""

    __slots__: list[str] = []

    def __init__(self, name: str, kind: Kind = U32_KIND) -> None:
        super().__init__(name, kind, None)

    @override
    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        return super().addfield(pkt, s, pkt.computed(self.name, s) if val is None else val)

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """The number."""
        return "computed when built" if x is None else str(x)

    def randval(self) -> Any:
        """Nothing: what is computed stays right."""
        return None


class CrcField(LengthField):
    """A crc: None is computed when the layer is built, a wrong one is kept and shown as such."""

    __slots__: list[str] = []

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """The number, and whether it is right."""
        if x is None:
            return "computed when built"
        if pkt is None:
            return f"0x{x:08x}"
        right = pkt.right_crc(self.name)
        return f"0x{x:08x} (ok)" if x == right else f"0x{x:08x} (bad, 0x{right:08x} would be right)"


class NumbersField(KindField):
    """A counted list of numbers."""

    __slots__ = ["names"]
    islist = 1

    def __init__(self, name: str, names: Names | None = None) -> None:
        self.names = names or {}
        super().__init__(name, kind_of(U32List), [])

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Numbers or names."""
        if isinstance(x, RawVal):
            return x
        one = NumberField(self.name, U32_KIND, 0, self.names)
        return [one.any2i(pkt, item) for item in ([x] if isinstance(x, int | str) else x)]

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """The numbers, by name where they have one."""
        return "[" + ", ".join(self.names.get(item, str(item)) for item in x) + "]"


class BlobField(KindField):
    """Bytes behind their length."""

    __slots__: list[str] = []

    def __init__(self, name: str, kind: Kind, default: bytes = b"") -> None:
        super().__init__(name, kind, default)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Bytes for anything like them, or for text."""
        return as_bytes(x)

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """How many, and the first."""
        return shown_bytes(x)


class BytesField(LayerField):
    """Bytes whose number another field or layer gives."""

    __slots__ = ["size_of"]

    def __init__(self, name: str, size_of: Callable[[Packet, bytes], int], default: bytes = b"") -> None:
        self.size_of = size_of
        """Of the packet, and of the bytes from the field on."""
        super().__init__(name, default, "B")

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Bytes for anything like them, or for text."""
        return as_bytes(x)

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """``s`` with the bytes behind it."""
        return s + bytes(val)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, bytes]:
        """What follows in ``s``, and the value, which is shorter where bytes are missing."""
        size = self.size_of(pkt, s)
        return s[size:], s[:size]

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """How many, and the first."""
        return shown_bytes(x)


def as_bytes(value: Any) -> Any:
    """Bytes for anything like them, or for text; what scapy makes up later stays as it is."""
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


class AddrField(KindField):
    """An entity_addr_t; text such as ``v2:10.1.2.3:3300/0`` may be given."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """An address; raises LocalError for text that is none."""
        return EntityAddr.parse(x) if isinstance(x, str) else x


class AddrVecField(KindField):
    """An entity_addrvec_t; text such as ``[v2:10.1.2.3:3300/0,v1:10.1.2.3:6789/0]`` may be given."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Addresses; raises LocalError for text that is none."""
        if isinstance(x, str):
            return AddrVec.parse(x)
        return AddrVec((x,)) if isinstance(x, EntityAddr) else x


class EntityTypeField(KindField):
    """An entity type; its name may be given."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """A type; raises LocalError for a name that is none."""
        return EntityType.from_label(x) if isinstance(x, str) else x

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """As Ceph prints it; a number that is none is crafted on purpose."""
        return x.label if isinstance(x, EntityType) else str(x)


class VirtualField(LayerField):
    """Something that is shown with a layer and is not on the wire."""

    __slots__: list[str] = []

    def __init__(self, name: str, default: object = None) -> None:
        super().__init__(name, default, "B")

    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """Nothing is added."""
        return s

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, object]:
        """Nothing is taken."""
        return s, self.default


class OpenedField(VirtualField):
    """The content of a sealed or compressed frame as a packet of its own, once it was opened."""

    __slots__: list[str] = []
    holds_packets = 1

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Scapy shows a packet by itself."""
        return "not opened" if x is None else repr(x)


# ---- from the tables of the codecs


def field_of(name: str, kind: Kind, names: Names | None = None, *, hexadecimal: bool = False) -> KindField:
    """The field for one row of a layout.

    Raises:
        TypeError: a kind of value that has no field here.
    """
    if kind in _NUMBERS:
        return NumberField(name, kind, 0, names, hexadecimal=hexadecimal)
    if kind == kind_of(U32List):
        return NumbersField(name, names)
    if kind == kind_of(Blob):
        return BlobField(name, kind)
    if kind.decode == EntityAddr.decode:
        return AddrField(name, kind, EntityAddr())
    if kind.decode == AddrVec.decode:
        return AddrVecField(name, kind, AddrVec())
    raise TypeError(f"no field shows {name}")
