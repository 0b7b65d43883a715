"""Failure reports of OSDs to the monitors, and their own shutdown (docs/protocol.md §6.4)."""

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
    """Absent: the OSD answers again, which cancels earlier reports."""
    IMMEDIATE = 2
    """The connection was refused, so the monitor does not wait for reports of other OSDs."""


@dataclass(slots=True)
class MOSDFailure(Fields):
    """An OSD reports that another OSD does not answer, or answers again."""

    TYPE: ClassVar = MessageType.OSD_FAILURE
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    target_osd: I32
    """The reported OSD."""
    target_addrs: AddrVec
    epoch: U32
    flags: Annotated[U8, Bits(FailureFlag)] = FailureFlag.FAILED
    """:class:`FailureFlag` bits."""
    failed_for_s: I32 = 0
    """Seconds since its last heartbeat."""


@dataclass(slots=True)
class MOSDMarkMeDown(Fields):
    """An OSD that shuts down asks to be marked down; the monitor answers with the same message."""

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
    """True if the OSD has stopped all reads and writes, so that its leases need not expire."""


@dataclass(slots=True)
class MOSDMarkMeDead(Fields):
    """An OSD that was marked down confirms that it serves no more reads of that epoch."""

    TYPE: ClassVar = MessageType.OSD_MARK_ME_DEAD
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    target_osd: I32
    epoch: U32
