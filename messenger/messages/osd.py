"""MOSDMap: full and incremental OSD maps on their way (protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import ClassVar, Self
from uuid import UUID

from messenger.denc.codec import Decoder, Encoder
from messenger.messages.fields import decode_uuid, encode_uuid
from messenger.messages.types import MessageType

_SHORTEST_MAP_ENTRY = 8
_GAP_VERSION = 4


@dataclass(slots=True)
class MOSDMap:
    """Maps by epoch, still encoded: most receivers need only the newest, or none.

    :meth:`OSDMap.decode` and :meth:`Incremental.decode` read the values.
    """

    TYPE: ClassVar = MessageType.OSD_MAP
    VERSION: ClassVar = _GAP_VERSION
    COMPAT_VERSION: ClassVar = 3

    fsid: UUID
    incremental_maps: dict[int, bytes] = field(default_factory=dict)
    maps: dict[int, bytes] = field(default_factory=dict)
    oldest: int = 0
    """First epoch that the cluster still keeps."""
    newest: int = 0
    """Last epoch that the sender has."""

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encode_uuid(encoder, self.fsid)
        encoder.mapping(dict(sorted(self.incremental_maps.items())), encoder.u32, encoder.blob)
        encoder.mapping(dict(sorted(self.maps.items())), encoder.u32, encoder.blob)
        encoder.u32(self.oldest)
        encoder.u32(self.newest)
        encoder.u32(0)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        return cls(
            decode_uuid(decoder),
            decoder.mapping(decoder.u32, decoder.blob, _SHORTEST_MAP_ENTRY),
            decoder.mapping(decoder.u32, decoder.blob, _SHORTEST_MAP_ENTRY),
            decoder.u32(),
            decoder.u32(),
        )
