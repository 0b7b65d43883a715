"""Entity types and the two forms of entity names (docs/protocol.md §0, §1.1)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError, LocalError


class EntityType(IntEnum):
    """Entity types, as bits: service masks of cephx are sums of them."""

    MON = 0x01
    MDS = 0x02
    OSD = 0x04
    CLIENT = 0x08
    MGR = 0x10
    AUTH = 0x20
    ANY = 0xFF

    @property
    def label(self) -> str:
        """The lower-case name that Ceph prints: ``mon``, ``osd``, ``client`` and so on."""
        return self.name.lower()

    @classmethod
    def from_wire(cls, value: int) -> "EntityType":
        """The type for an encoded value.

        Raises:
            DecodeError: there is no such entity type.
        """
        try:
            return cls(value)
        except ValueError:
            raise DecodeError(f"unknown entity type 0x{value:x}") from None

    @classmethod
    def from_label(cls, label: str) -> "EntityType":
        """The type for Ceph's printed name.

        Raises:
            LocalError: there is no such entity type.
        """
        try:
            return cls[label.upper()]
        except KeyError:
            known = ", ".join(t.label for t in cls)
            raise LocalError(f"unknown entity type {label!r}; known: {known}") from None


NEW_ENTITY_NUM = -1
"""``EntityName.num`` of an entity that has no number yet."""


@dataclass(frozen=True, slots=True)
class EntityName:
    """A name of the messenger layer, such as ``osd.3``: u8 type, i64 num (entity_name_t, 9 bytes)."""

    type: EntityType
    num: int = NEW_ENTITY_NUM

    def __str__(self) -> str:
        return f"{self.type.label}.{'?' if self.num == NEW_ENTITY_NUM else self.num}"

    def encode(self, encoder: Encoder) -> None:
        """Append the 9-byte form."""
        encoder.u8(self.type)
        encoder.i64(self.num)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read the 9-byte form."""
        return cls(EntityType.from_wire(decoder.u8()), decoder.i64())


@dataclass(frozen=True, slots=True, order=True)
class AuthName:
    """A name of the authentication layer, such as ``client.admin``: u32 type, string id (Ceph's EntityName)."""

    type: EntityType
    id: str

    def __str__(self) -> str:
        return f"{self.type.label}.{self.id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``TYPE.ID``.

        Raises:
            LocalError: there is no dot, or the type is unknown.
        """
        label, dot, name_id = text.partition(".")
        if not dot:
            raise LocalError(f"entity name {text!r} is not TYPE.ID, as in client.admin")
        return cls(EntityType.from_label(label), name_id)

    def encode(self, encoder: Encoder) -> None:
        """Append u32 type and string id."""
        encoder.u32(self.type)
        encoder.string(self.id)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read u32 type and string id."""
        return cls(EntityType.from_wire(decoder.u32()), decoder.string())
