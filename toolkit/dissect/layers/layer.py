"""What the layers of both protocols have in common."""

from collections.abc import Iterable
from typing import Any

from scapy.fields import AnyField, RawVal
from scapy.layers.inet import TCP
from scapy.packet import Packet

from messenger.errors import PeerError


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
