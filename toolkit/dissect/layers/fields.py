"""Scapy fields on top of the project's codecs, so that each layout is defined once.

A field that is on the wire encodes and decodes by a :class:`~messenger.denc.layout.Kind`. The classes here add
what scapy needs: which values users may assign, and how values are displayed. A field whose bytes are missing or
malformed keeps them as :class:`~scapy.fields.RawVal`, which scapy builds unchanged.
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
"""Names of numbers."""


def kind_of(annotated: object) -> Kind:
    """Return the kind of an annotated type such as :data:`~messenger.denc.layout.U32`."""
    return next(note for note in annotated.__metadata__ if isinstance(note, Kind))  # type: ignore[attr-defined]


U8_KIND, U16_KIND, U32_KIND, U64_KIND, I64_KIND = map(kind_of, (U8, U16, U32, U64, I64))
_BOOL = kind_of(Bool)
_SIGNED = (kind_of(I32), I64_KIND)
_NUMBERS = frozenset(map(kind_of, (U8, U16, U32, I32, U64, I64, Bool)))


def names_of(enum: Iterable[IntEnum]) -> Names:
    """Return the names of an enumeration's numbers."""
    return {int(member): member.name for member in enum}


def shown_bytes(value: bytes) -> str:
    """Format bytes as their number and the first of them."""
    text = f"{len(value)} bytes"
    return text + f": {value[:_SHOWN_BYTES].hex(' ')}" + " ..." * (len(value) > _SHOWN_BYTES) if value else text


class LayerField(Field[Any, Any]):
    """Base of the fields of these layers."""

    __slots__: list[str] = []

    def i2repr(self, pkt: Packet | None, x: object) -> str:
        """Format the value for display; malformed and missing ones are marked."""
        if isinstance(x, RawVal):
            return f"malformed, {shown_bytes(bytes(x))}" if len(x) else "missing"
        if isinstance(x, VolatileValue):
            return repr(x)
        return self.shown(pkt, x)

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Format a valid value for display."""
        return str(x)

    def randval(self) -> Any:
        """Return None: ``fuzz()`` does not change the field."""
        return None


class KindField(LayerField):
    """A field that a kind encodes and decodes."""

    __slots__ = ["kind"]

    def __init__(self, name: str, kind: Kind, default: object) -> None:
        self.kind = kind
        super().__init__(name, default, "B")

    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """Return ``s`` with the encoded value appended."""
        encoder = Encoder()
        self.kind.encode(encoder, val)
        return s + encoder.getvalue()

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, object]:
        """Return the rest of ``s`` and the value decoded from its front.

        Raises:
            DecodeError: the value is cut short or malformed.
        """
        decoder = Decoder(s)
        value = self.kind.decode(decoder)
        return s[len(s) - decoder.remaining :], value


class NumberField(KindField):
    """An integer. Some values may have names, which can be assigned instead."""

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
        """Convert a name, in upper or lower case, to its number; numbers are returned unchanged.

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
        """Return the name of a value, or the number if it has none."""
        return self.names.get(x) or (hex(x) if self.hexadecimal and x is not None else str(x))

    @override
    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """Append the value; None is written as 0."""
        return super().addfield(pkt, s, 0 if val is None else val)

    def randval(self) -> RandNum:
        """Return any value that fits."""
        if self.kind == _BOOL:
            return RandNum(0, 1)
        encoder = Encoder()
        self.kind.encode(encoder, 0)
        values = 1 << 8 * len(encoder)
        least = -values // 2 if self.kind in _SIGNED else 0
        return RandNum(least, least + values - 1)


class FlagsField(NumberField):
    """Bits with names; a sum of names may be assigned, such as ``COMPLETE+NOCRC``."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Convert a sum of names to a number; numbers are returned unchanged.

        Raises:
            ValueError: no such name.
        """
        if not isinstance(x, str):
            return x
        return sum(super(FlagsField, self).any2i(pkt, name.strip()) for name in x.split("+") if name.strip())

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the names of the set bits, and bits without a name as a number."""
        if not x:
            return str(x)
        unnamed = x & ~sum(self.names)
        return "+".join([name for bit, name in self.names.items() if x & bit] + [hex(unnamed)] * bool(unnamed))


class ErrnoField(NumberField):
    """A negated errno."""

    __slots__: list[str] = []

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the number and its name."""
        return f"{x} ({errorcode[-x]})" if -x in errorcode else str(x)


class LengthField(NumberField):
    """A length or a count; None means that it is computed when the layer is built."""

    __slots__: list[str] = []

    def __init__(self, name: str, kind: Kind = U32_KIND) -> None:
        super().__init__(name, kind, None)

    @override
    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        return super().addfield(pkt, s, pkt.computed(self.name, s) if val is None else val)

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the number."""
        return "computed when built" if x is None else str(x)

    def randval(self) -> Any:
        """Return None: ``fuzz()`` keeps computed values correct."""
        return None


class CrcField(LengthField):
    """A crc; None means that it is computed when the layer is built. A wrong one is kept and marked as wrong."""

    __slots__: list[str] = []

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the number and whether it is right."""
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
        """Convert a number, a name, or a list of them to a list of numbers."""
        if isinstance(x, RawVal):
            return x
        one = NumberField(self.name, U32_KIND, 0, self.names)
        return [one.any2i(pkt, item) for item in ([x] if isinstance(x, int | str) else x)]

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the numbers, by name if they have one."""
        return "[" + ", ".join(self.names.get(item, str(item)) for item in x) + "]"


class BlobField(KindField):
    """Bytes after their length."""

    __slots__: list[str] = []

    def __init__(self, name: str, kind: Kind, default: bytes = b"") -> None:
        super().__init__(name, kind, default)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Convert text or a bytes-like value to bytes."""
        return as_bytes(x)

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the number of bytes and the first of them."""
        return shown_bytes(x)


class BytesField(LayerField):
    """Bytes whose number another field or layer gives."""

    __slots__ = ["size_of"]

    def __init__(self, name: str, size_of: Callable[[Packet, bytes], int], default: bytes = b"") -> None:
        self.size_of = size_of
        """Returns the size for a packet and the bytes from the field on."""
        super().__init__(name, default, "B")

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Convert text or a bytes-like value to bytes."""
        return as_bytes(x)

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        """Return ``s`` with the bytes appended."""
        return s + bytes(val)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, bytes]:
        """Return the rest of ``s`` and the value, which is shorter if bytes are missing."""
        size = self.size_of(pkt, s)
        return s[size:], s[:size]

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the number of bytes and the first of them."""
        return shown_bytes(x)


def as_bytes(value: Any) -> Any:
    """Convert text or a bytes-like value to bytes; other values, as scapy's random ones, are kept."""
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


class AddrField(KindField):
    """An entity_addr_t; text such as ``v2:10.1.2.3:3300/0`` may be assigned."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Convert text to an address. Raises LocalError if it is malformed."""
        return EntityAddr.parse(x) if isinstance(x, str) else x


class AddrVecField(KindField):
    """An entity_addrvec_t; text such as ``[v2:10.1.2.3:3300/0,v1:10.1.2.3:6789/0]`` may be assigned."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Convert text or one address to a vector of addresses. Raises LocalError if the text is malformed."""
        if isinstance(x, str):
            return AddrVec.parse(x)
        return AddrVec((x,)) if isinstance(x, EntityAddr) else x


class EntityTypeField(KindField):
    """An entity type; its name may be assigned."""

    __slots__: list[str] = []

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Convert a name to an entity type. Raises LocalError if it is unknown."""
        return EntityType.from_label(x) if isinstance(x, str) else x

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the type as Ceph prints it; a number of no type was crafted and is printed as it is."""
        return x.label if isinstance(x, EntityType) else str(x)


class VirtualField(LayerField):
    """A value that is displayed with a layer but is not on the wire."""

    __slots__: list[str] = []

    def __init__(self, name: str, default: object = None) -> None:
        super().__init__(name, default, "B")

    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """Return ``s`` unchanged."""
        return s

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, object]:
        """Return ``s`` unchanged, and the default value."""
        return s, self.default


class OpenedField(VirtualField):
    """The content of a sealed or compressed frame as a packet of its own; None until it is opened."""

    __slots__: list[str] = []
    holds_packets = 1

    def shown(self, pkt: Packet | None, x: Any) -> str:
        """Return the content in scapy's own form."""
        return "not opened" if x is None else repr(x)


# ---- from the tables of the codecs


def field_of(name: str, kind: Kind, names: Names | None = None, *, hexadecimal: bool = False) -> KindField:
    """Return the scapy field for one row of a layout.

    Raises:
        TypeError: no field class here fits the kind.
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
