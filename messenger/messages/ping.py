"""Messages without effect: MPing and others (docs/protocol.md §6.2)."""

from dataclasses import dataclass
from typing import ClassVar

from messenger.denc.layout import U32
from messenger.messages.layout import Fields, Rest
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MPing(Fields):
    """A sign of life; a monitor answers one of a client with another that describes the monitor."""

    TYPE: ClassVar = MessageType.PING
    COMPAT_VERSION: ClassVar = 1

    contents: Rest = b""
    """Empty, or of a monitor: a string with a JSON object."""


@dataclass(slots=True)
class MShutdown(Fields):
    """A message without contents that Ceph decodes, but does not send."""

    TYPE: ClassVar = MessageType.SHUTDOWN
    COMPAT_VERSION: ClassVar = 1


@dataclass(slots=True)
class MNop(Fields):
    """A message without effect, of releases before 14.2."""

    TYPE: ClassVar = MessageType.NOP
    COMPAT_VERSION: ClassVar = 1

    tag: U32 = 0
    """Ignored."""
