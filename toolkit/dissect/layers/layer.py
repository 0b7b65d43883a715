"""The base class of the layers of both protocols."""

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

    Dissecting one never raises: parts that are cut short or malformed are kept as they are, displayed as such, and
    built again byte by byte.
    """

    __slots__: list[str] = []

    def read_fields(self, fields: Iterable[AnyField], s: bytes) -> bytes:
        """Read the fields from the front of ``s``; returns the rest."""
        for field in fields:
            try:
                s, self.fields[field.name] = field.getfield(self, s)
            except PeerError:
                self.fields[field.name] = RawVal(s)
                s = b""
        return s

    def do_dissect(self, s: bytes) -> bytes:
        """Dissect the fields. A layer that is not changed afterwards is built again unchanged."""
        rest = self.read_fields(self.fields_desc, s)
        self.raw_packet_cache = s[: len(s) - len(rest)]
        # Scapy compares mutable values with these copies, to detect changes in place.
        self.raw_packet_cache_fields = {
            name: list(value) for name, value in self.fields.items() if isinstance(value, list)
        }
        self.explicit = 1
        return rest

    def _command(self, json: bool = False) -> list[tuple[str, Any]]:  # noqa: FBT001, FBT002 - see scapy
        """Return the fields with their values for :meth:`json`, or as code for :meth:`command`."""
        if json:
            values = ((field, self.getfieldval(field.name)) for field in self.fields_desc)
            return [(field.name, _as_json(field.i2h(self, value))) for field, value in values]
        written = ((name, value) for name, value in self.fields.items() if name != "typed")
        return [(name, _as_code(value)) for name, value in written]

    def answers(self, other: Packet) -> int:
        """Return 1 if a peer sends this layer in answer to ``other``, as ``sr1`` requires."""
        return 0

    def hashret(self) -> bytes:
        """Return the same value for all layers, so that :meth:`answers` decides."""
        return b"MSGR"

    def computed(self, name: str, built: bytes) -> int:
        """Return the value of a length or crc that is None.

        Args:
            name: name of the field.
            built: bytes of the fields before it.
        """
        raise NotImplementedError

    def right_crc(self, name: str) -> int:
        """Return the correct value of a crc field."""
        raise NotImplementedError

    def given(self, name: str) -> Any:
        """Return a field's value; None if it is to be computed, or was cut off."""
        value = self.getfieldval(name)
        return None if isinstance(value, RawVal) else value

    def mysummary(self) -> tuple[str, list[type[Packet]]]:  # type: ignore[override]  # scapy takes both
        """Return one line for the layer, and the layers below it that add a line of their own."""
        return self.line(), [TCP]

    def line(self) -> str:
        """Return the layer in one line."""
        return str(self.name)

    def shown(self, *names: str) -> str:
        """Format some fields with their values."""
        return " ".join(f"{name} {self.get_field(name).i2repr(self, self.getfieldval(name))}" for name in names)


def _as_json(value: Any) -> object:
    """Convert a field's value to a JSON value."""
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
    """Convert a field's value to a Python expression, using names of scapy and these layers."""
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
    """Return the text of an address if it is complete, else its bytes."""
    text = str(addr)
    try:
        if type(addr).parse(text) == addr:
            return repr(text)
    except LocalError:
        pass
    encoder = Encoder()
    addr.encode(encoder)
    return f"RawVal({encoder.getvalue()!r})"
