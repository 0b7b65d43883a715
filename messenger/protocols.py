"""The two protocols, and their types of addresses."""

from enum import StrEnum

from messenger.denc.address import AddressType, EntityAddr


class Protocol(StrEnum):
    """The two protocols of the messenger."""

    V1 = "v1"
    V2 = "v2"

    @property
    def addr_type(self) -> AddressType:
        """The type of this protocol's addresses."""
        return AddressType.LEGACY if self is Protocol.V1 else AddressType.MSGR2

    @classmethod
    def of(cls, addr: EntityAddr) -> "Protocol":
        """The protocol of an address, by its type."""
        return cls.V1 if addr.type is AddressType.LEGACY else cls.V2
