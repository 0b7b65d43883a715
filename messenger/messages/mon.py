"""What clients ask monitors, and the answers (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.messages.layout import Fields, Paxos
from messenger.messages.types import MessageType

SUBSCRIBE_ONETIME = 1
"""Subscription flag: one answer is enough."""


@dataclass(slots=True)
class MMonGetMap(Fields):
    """Asks for the monitor map; the front is empty."""

    TYPE: ClassVar = MessageType.MON_GET_MAP
    COMPAT_VERSION: ClassVar = 1


@dataclass(slots=True)
class MMonGetOSDMap(Fields):
    """Asks for a range of OSD maps; a pair of zeros asks for none of that kind."""

    TYPE: ClassVar = MessageType.MON_GET_OSDMAP
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    full_first: U32 = 0
    """Epochs of the full maps, both ends included."""
    full_last: U32 = 0
    inc_first: U32 = 0
    """Epochs of the incremental maps, both ends included."""
    inc_last: U32 = 0


@dataclass(slots=True)
class Subscription(Fields):
    """From which map epoch on; 0 asks for the latest in full."""

    start: U64 = 0
    flags: U8 = 0


@dataclass(slots=True)
class MMonSubscribe(Fields):
    """Asks to be sent maps, now and whenever they change."""

    TYPE: ClassVar = MessageType.MON_SUBSCRIBE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    what: dict[str, Subscription] = field(default_factory=dict)
    """By map name: ``monmap``, ``osdmap``, ``mgrmap``, ``config`` and so on."""
    hostname: Annotated[str, Since(3)] = ""


@dataclass(slots=True)
class MMonSubscribeAck(Fields):
    """Answers clients that lack MON_STATEFUL_SUB: renew within ``interval_s``."""

    TYPE: ClassVar = MessageType.MON_SUBSCRIBE_ACK
    COMPAT_VERSION: ClassVar = 1

    interval_s: U32
    fsid: UUID


@dataclass(slots=True)
class MMonCommand(Fields):
    """A command for the monitors; its input travels in the data segment."""

    TYPE: ClassVar = MessageType.MON_COMMAND
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    """Must be that of the monitor map: any other is refused with EPERM."""
    cmd: list[str]
    """One element, a JSON object with the ``prefix`` of the command and its arguments."""


@dataclass(slots=True)
class MMonCommandAck(Fields):
    """How a command went; its output travels in the data segment."""

    TYPE: ClassVar = MessageType.MON_COMMAND_ACK
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    """Epoch of the map from which on the command has its effect."""
    r: I32
    """0, or a negative Linux error number."""
    rs: str
    """Status text."""
    cmd: list[str]
    """The command, repeated."""


@dataclass(slots=True)
class MMonGetVersion(Fields):
    """Asks how new a map is."""

    TYPE: ClassVar = MessageType.MON_GET_VERSION
    COMPAT_VERSION: ClassVar = 1

    handle: U64
    """Comes back in the answer."""
    what: str
    """Map name, as in subscriptions."""


@dataclass(slots=True)
class MMonGetVersionReply(Fields):
    """The newest and the oldest version of a map that the monitors hold."""

    TYPE: ClassVar = MessageType.MON_GET_VERSION_REPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2

    handle: U64
    version: U64
    oldest_version: Annotated[U64, Since(2)] = 0
