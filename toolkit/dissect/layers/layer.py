"""What the layers of both protocols have in common."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from scapy.fields import AnyField, RawVal
from scapy.layers.inet import TCP
from scapy.packet import Packet

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Encoder
from messenger.errors import LocalError, PeerError
from toolkit.dissect.fields import json_value


class Layer(Packet):
    """Base of the layers.

    Dissecting one never raises: what is cut short or malformed stays as it is, is shown as such, and is built
    again byte by byte.
    """

    __slots__: list[str] = []

    def read_fields(self, fields: Iterable[AnyField], s: bytes) -> bytes:
        """Take the fields off the front of ``s``; returns what follows them."""
        for field in fields:
            try:
                s, self.fields[field.name] = field.getfield(self, s)
            except PeerError:
                self.fields[field.name] = RawVal(s)
                s = b""
        return s

    def do_dissect(self, s: bytes) -> bytes:
        """See scapy. What is not changed afterwards is built as it was."""
        rest = self.read_fields(self.fields_desc, s)
        self.raw_packet_cache = s[: len(s) - len(rest)]
        # Scapy compares what can be changed in place with these copies.
        self.raw_packet_cache_fields = {
            name: list(value) for name, value in self.fields.items() if isinstance(value, list)
        }
        self.explicit = 1
        return rest

    def _command(self, json: bool = False) -> list[tuple[str, Any]]:  # noqa: FBT001, FBT002 - see scapy
        """Fields with their values for :meth:`json`, or as code for :meth:`command`."""
        if json:
            values = ((field, self.getfieldval(field.name)) for field in self.fields_desc)
            return [(field.name, _as_json(field.i2h(self, value))) for field, value in values]
        written = ((name, value) for name, value in self.fields.items() if name != "typed")
        return [(name, _as_code(value)) for name, value in written]

    def answers(self, other: Packet) -> int:
        """1 if the layer is what a peer sends back for ``other``, as ``sr1`` asks."""
        return 0

    def hashret(self) -> bytes:
        """The same for all: :meth:`answers` decides."""
        return b"MSGR"

    def computed(self, name: str, built: bytes) -> int:
        """What a length or crc that was left out is.

        Args:
            name: of the field.
            built: the fields before it.
        """
        raise NotImplementedError

    def right_crc(self, name: str) -> int:
        """What a crc would have to be."""
        raise NotImplementedError

    def given(self, name: str) -> Any:
        """A field's value; None if it is computed, or was cut off."""
        value = self.getfieldval(name)
        return None if isinstance(value, RawVal) else value

    def mysummary(self) -> tuple[str, list[type[Packet]]]:  # type: ignore[override]  # scapy takes both
        """One line for the layer, and the layers below that have a line too."""
        return self.line(), [TCP]

    def line(self) -> str:
        """One line for the layer."""
        return str(self.name)

    def shown(self, *names: str) -> str:
        """Some fields with their values."""
        return " ".join(f"{name} {self.get_field(name).i2repr(self, self.getfieldval(name))}" for name in names)


def _as_json(value: Any) -> object:
    """A field's value as JSON has it."""
    if isinstance(value, Packet):
        return dict(value._command(json=True))  # noqa: SLF001 - scapy's own way
    if isinstance(value, RawVal):
        value = bytes(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, IntEnum):
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return json_value(value)


def _as_code(value: Any) -> str:
    """A field's value as an expression, of names that scapy and these layers bring."""
    if isinstance(value, Packet):
        return str(value.command())
    if isinstance(value, RawVal):
        return f"RawVal({bytes(value)!r})"
    if isinstance(value, IntEnum):
        return repr(int(value))
    if isinstance(value, EntityAddr | AddrVec):
        return _addr_as_code(value)
    return repr(value)


def _addr_as_code(addr: EntityAddr | AddrVec) -> str:
    """Its text, where that has all of it, and else its bytes."""
    text = str(addr)
    try:
        if type(addr).parse(text) == addr:
            return repr(text)
    except LocalError:
        pass
    encoder = Encoder()
    addr.encode(encoder)
    return f"RawVal({encoder.getvalue()!r})"
