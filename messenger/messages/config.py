"""MConfig: the options a monitor holds for this client (protocol.md §6.2)."""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MConfig:
    """All options at once; one that is missing is back at its default."""

    TYPE: ClassVar = MessageType.CONFIG
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    config: dict[str, str] = field(default_factory=dict)

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encoder.mapping(dict(sorted(self.config.items())), encoder.string, encoder.string)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        return cls(decoder.mapping(decoder.string, decoder.string, 8))
