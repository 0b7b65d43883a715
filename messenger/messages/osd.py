"""MOSDMap: carries full and incremental OSD maps (docs/protocol.md §6.4)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.layout import U32, Since
from messenger.messages.layout import Fields, Inside
from messenger.messages.types import MessageType


def _full(data: bytes) -> object:
    from messenger.messages.osdmap import OSDMap  # noqa: PLC0415 - most receivers of MOSDMap do not need it

    return OSDMap.decode(data)


def _incremental(data: bytes) -> object:
    from messenger.messages.osdmap_incremental import Incremental  # noqa: PLC0415 - as above

    return Incremental.decode(data)


@dataclass(slots=True)
class MOSDMap(Fields):
    """Maps by epoch, still encoded, because most receivers need only the newest, or none.

    :meth:`OSDMap.from_bytes` and :meth:`Incremental.from_bytes` decode the values.
    """

    TYPE: ClassVar = MessageType.OSD_MAP
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    fsid: UUID
    incremental_maps: dict[U32, Annotated[bytes, Inside(_incremental, sparse=True)]] = field(default_factory=dict)
    maps: dict[U32, Annotated[bytes, Inside(_full, sparse=True)]] = field(default_factory=dict)
    oldest: U32 = 0
    """First epoch that the cluster still stores."""
    newest: U32 = 0
    """Last epoch that the sender has."""
    num_gaps: Annotated[U32, Since(4)] = 0
    """Retired."""
