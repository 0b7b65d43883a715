"""MPing: a message that only arrives (protocol.md §6.2)."""

from dataclasses import dataclass
from typing import ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MPing:
    """Empty front."""

    TYPE: ClassVar = MessageType.PING
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    def encode(self, _encoder: Encoder, _features: int) -> None:
        """Append nothing."""

    @classmethod
    def decode(cls, _decoder: Decoder, _version: int, _features: int) -> Self:
        """Read nothing."""
        return cls()
