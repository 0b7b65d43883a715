"""Ceph's primitive encodings (docs/protocol.md §1.1, §1.2): little-endian scalars, counted containers, envelopes.

:class:`Encoder` appends to one growing buffer. :class:`Decoder` reads a view and checks every length before it is
used, so a hostile count allocates nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct
from typing import TypeVar

from messenger.errors import DecodeError

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Buffer = bytes | bytearray | memoryview

_U16 = Struct("<H")
_U32 = Struct("<I")
_U64 = Struct("<Q")
_I8 = Struct("<b")
_I16 = Struct("<h")
_I32 = Struct("<i")
_I64 = Struct("<q")
_F32 = Struct("<f")
_F64 = Struct("<d")
_U64_MASK = (1 << 64) - 1


class Encoder:
    """Builds one encoding. Methods are named after Ceph's types and append a value of that type."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def getvalue(self) -> bytes:
        """Everything encoded so far."""
        return bytes(self._out)

    def __len__(self) -> int:
        return len(self._out)

    def u8(self, value: int) -> None:
        self._out.append(value)

    def boolean(self, value: bool) -> None:  # noqa: FBT001 - the encoded value itself
        self._out.append(1 if value else 0)

    def u16(self, value: int) -> None:
        self._out += _U16.pack(value)

    def u32(self, value: int) -> None:
        self._out += _U32.pack(value)

    def u64(self, value: int) -> None:
        self._out += _U64.pack(value & _U64_MASK)

    def i8(self, value: int) -> None:
        self._out += _I8.pack(value)

    def i16(self, value: int) -> None:
        self._out += _I16.pack(value)

    def i32(self, value: int) -> None:
        self._out += _I32.pack(value)

    def i64(self, value: int) -> None:
        self._out += _I64.pack(value)

    def f32(self, value: float) -> None:
        self._out += _F32.pack(value)

    def f64(self, value: float) -> None:
        self._out += _F64.pack(value)

    def raw(self, data: Buffer) -> None:
        """Append bytes without a length."""
        self._out += data

    def blob(self, data: Buffer) -> None:
        """Append a nested bufferlist: u32 length, then the bytes."""
        self._out += _U32.pack(len(data))
        self._out += data

    def string(self, text: str) -> None:
        """Append UTF-8 text as a counted string; undecodable bytes survive a round trip (surrogateescape)."""
        self.blob(text.encode("utf-8", "surrogateescape"))

    def sequence(self, items: "list[T] | tuple[T, ...]", encode: "Callable[[T], None]") -> None:
        """Append a vector, list or set: u32 count, then each item through ``encode``."""
        self.u32(len(items))
        for item in items:
            encode(item)

    def mapping(self, items: Mapping[K, V], key: "Callable[[K], None]", value: "Callable[[V], None]") -> None:
        """Append a map: u32 count, then key and value of each entry, in the order of ``items``."""
        self.u32(len(items))
        for k, v in items.items():
            key(k)
            value(v)

    @contextmanager
    def versioned(self, version: int, compat: int) -> Iterator[None]:
        """Append an ENC(version, compat) envelope around what is encoded inside the ``with`` block (§1.2)."""
        self._out.append(version)
        self._out.append(compat)
        start = len(self._out)
        self._out += b"\0\0\0\0"
        yield
        _U32.pack_into(self._out, start, len(self._out) - start - 4)


class Decoder:
    """Reads one encoding from a buffer without copying it. Raises :class:`DecodeError` if bytes are missing."""

    __slots__ = ("_end", "_offset", "_view", "struct_v")

    def __init__(self, data: Buffer, *, struct_v: int = 0) -> None:
        self._view = memoryview(data)
        self._offset = 0
        self._end = len(self._view)
        self.struct_v = struct_v
        """Version of the envelope whose body this decoder reads; 0 outside envelopes."""

    @property
    def remaining(self) -> int:
        """Number of bytes not read yet."""
        return self._end - self._offset

    def _take(self, size: int, what: str) -> int:
        offset = self._offset
        if size > self._end - offset:
            raise DecodeError(f"{what} needs {size} bytes at offset {offset}, {self._end - offset} left")
        self._offset = offset + size
        return offset

    def u8(self) -> int:
        return self._view[self._take(1, "u8")]

    def boolean(self) -> bool:
        return self.u8() != 0

    def u16(self) -> int:
        return int(_U16.unpack_from(self._view, self._take(2, "u16"))[0])

    def u32(self) -> int:
        return int(_U32.unpack_from(self._view, self._take(4, "u32"))[0])

    def u64(self) -> int:
        return int(_U64.unpack_from(self._view, self._take(8, "u64"))[0])

    def i8(self) -> int:
        return int(_I8.unpack_from(self._view, self._take(1, "i8"))[0])

    def i16(self) -> int:
        return int(_I16.unpack_from(self._view, self._take(2, "i16"))[0])

    def i32(self) -> int:
        return int(_I32.unpack_from(self._view, self._take(4, "i32"))[0])

    def i64(self) -> int:
        return int(_I64.unpack_from(self._view, self._take(8, "i64"))[0])

    def f32(self) -> float:
        return float(_F32.unpack_from(self._view, self._take(4, "f32"))[0])

    def f64(self) -> float:
        return float(_F64.unpack_from(self._view, self._take(8, "f64"))[0])

    def raw(self, size: int) -> bytes:
        """Read ``size`` bytes as a copy."""
        offset = self._take(size, "raw bytes")
        return bytes(self._view[offset : offset + size])

    def rest(self) -> bytes:
        """Read all remaining bytes as a copy."""
        return self.raw(self.remaining)

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes."""
        self._take(size, "skipped bytes")

    def blob(self) -> bytes:
        """Read a counted bufferlist as a copy."""
        return self.raw(self.u32())

    def string(self) -> str:
        """Read a counted string; bytes that are not UTF-8 survive as surrogates."""
        return self.blob().decode("utf-8", "surrogateescape")

    def count(self, item_size: int, most: int | None = None) -> int:
        """Read a container's u32 count; refuse it above ``most``, or if too few bytes are left for the items."""
        value = self.u32()
        if value * item_size > self.remaining:
            raise DecodeError(f"count {value} needs {value * item_size} bytes, {self.remaining} left")
        if most is not None and value > most:
            raise DecodeError(f"count {value}, at most {most} are accepted")
        return value

    def sequence(self, decode: Callable[[], T], item_size: int = 1, most: int | None = None) -> list[T]:
        """Read a vector, list or set of at most ``most`` items, each at least ``item_size`` bytes long."""
        return [decode() for _ in range(self.count(item_size, most))]

    def mapping(self, key: Callable[[], K], value: Callable[[], V], item_size: int = 2) -> dict[K, V]:
        """Read a map whose entries are at least ``item_size`` bytes long."""
        return {key(): value() for _ in range(self.count(item_size))}

    def versioned(self, supported: int) -> "Decoder":
        """Read an ENC envelope; returns a decoder for its body, while this one continues after it (§1.2).

        Args:
            supported: newest struct version that the caller knows.

        Raises:
            DecodeError: the struct requires a newer reader than ``supported``, or the bytes are too short.
        """
        struct_v, compat = self.u8(), self.u8()
        if compat > supported:
            raise DecodeError(f"struct needs a reader of version {compat}, this one knows {supported}")
        size = self.u32()
        offset = self._take(size, "envelope body")
        return Decoder(self._view[offset : offset + size], struct_v=struct_v)
