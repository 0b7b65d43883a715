"""MPing: a message without contents or effect (docs/protocol.md §6.2)."""

from dataclasses import dataclass
from typing import ClassVar

from messenger.messages.layout import Fields
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MPing(Fields):
    """A message without contents."""

    TYPE: ClassVar = MessageType.PING
    COMPAT_VERSION: ClassVar = 1
