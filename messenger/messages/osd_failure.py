"""OSDs report failures and their own end to the monitors (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from enum import IntFlag
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.layout import I32, U8, U32, Since
from messenger.messages.layout import Bits, Fields, Paxos
from messenger.messages.types import MessageType


class FailureFlag(IntFlag):
    """Bits of :attr:`MOSDFailure.flags`."""

    FAILED = 1
    """Without it: the OSD answers again, and earlier reports are void."""
    IMMEDIATE = 2
    """The connection was refused; the report does not wait for others."""


@dataclass(slots=True)
class MOSDFailure(Fields):
    """An OSD reports that another one does not answer, or answers again."""

    TYPE: ClassVar = MessageType.OSD_FAILURE
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    target_osd: I32
    """The OSD that is reported."""
    target_addrs: AddrVec
    epoch: U32
    flags: Annotated[U8, Bits(FailureFlag)] = FailureFlag.FAILED
    """:class:`FailureFlag` bits."""
    failed_for_s: I32 = 0
    """Seconds since its last heartbeat."""


@dataclass(slots=True)
class MOSDMarkMeDown(Fields):
    """An OSD that shuts down wants to be marked down; the monitor answers with the same message."""

    TYPE: ClassVar = MessageType.OSD_MARK_ME_DOWN
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    target_osd: I32
    target_addrs: AddrVec
    epoch: U32
    request_ack: bool = False
    down_and_dead: Annotated[bool, Since(4)] = False
    """The OSD reads and writes nothing any more: no need to wait for its leases."""


@dataclass(slots=True)
class MOSDMarkMeDead(Fields):
    """An OSD that was marked down confirms that it is dead: it serves no reads of that epoch any more."""

    TYPE: ClassVar = MessageType.OSD_MARK_ME_DEAD
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    target_osd: I32
    epoch: U32
