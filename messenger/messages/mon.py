"""Requests of clients to monitors, and the replies (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.messages.layout import Fields, Paxos
from messenger.messages.types import MessageType

SUBSCRIBE_ONETIME = 1
"""Flag of a subscription that ends after one reply."""


@dataclass(slots=True)
class MMonGetMap(Fields):
    """Requests the monitor map; the front is empty."""

    TYPE: ClassVar = MessageType.MON_GET_MAP
    COMPAT_VERSION: ClassVar = 1


@dataclass(slots=True)
class MMonGetOSDMap(Fields):
    """Requests ranges of OSD maps; a pair of zeros requests none of that kind."""

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
    """First map epoch that is requested; 0: the latest map in full."""

    start: U64 = 0
    flags: U8 = 0


@dataclass(slots=True)
class MMonSubscribe(Fields):
    """Subscribes to maps: the monitor sends them now and after every change."""

    TYPE: ClassVar = MessageType.MON_SUBSCRIBE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    what: dict[str, Subscription] = field(default_factory=dict)
    """Subscriptions by map name: ``monmap``, ``osdmap``, ``mgrmap``, ``config`` and so on."""
    hostname: Annotated[str, Since(3)] = ""


@dataclass(slots=True)
class MMonSubscribeAck(Fields):
    """Reply to clients without MON_STATEFUL_SUB, which must renew within ``interval_s``."""

    TYPE: ClassVar = MessageType.MON_SUBSCRIBE_ACK
    COMPAT_VERSION: ClassVar = 1

    interval_s: U32
    fsid: UUID


@dataclass(slots=True)
class MMonCommand(Fields):
    """A command for the monitors; the input of the command is in the data segment."""

    TYPE: ClassVar = MessageType.MON_COMMAND
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    """The fsid of the monitor map; any other is refused with EPERM."""
    cmd: list[str]
    """One element, a JSON object with the ``prefix`` of the command and its arguments."""


@dataclass(slots=True)
class MMonCommandAck(Fields):
    """Result of an MMonCommand; the output of the command is in the data segment."""

    TYPE: ClassVar = MessageType.MON_COMMAND_ACK
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    """Epoch of the first map that contains the effect of the command."""
    r: I32
    """0, or a negative Linux error number."""
    rs: str
    """Status text."""
    cmd: list[str]
    """The command, repeated."""


@dataclass(slots=True)
class MMonGetVersion(Fields):
    """Requests the version of a map."""

    TYPE: ClassVar = MessageType.MON_GET_VERSION
    COMPAT_VERSION: ClassVar = 1

    handle: U64
    """Chosen by the client; the reply repeats it."""
    what: str
    """Map name, as in subscriptions."""


@dataclass(slots=True)
class MMonGetVersionReply(Fields):
    """The newest and the oldest version of a map that the monitors store."""

    TYPE: ClassVar = MessageType.MON_GET_VERSION_REPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2

    handle: U64
    version: U64
    oldest_version: Annotated[U64, Since(2)] = 0
