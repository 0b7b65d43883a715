"""Options and keys that the monitors store (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from typing import ClassVar

from messenger.denc.entity import AuthName
from messenger.denc.layout import U64
from messenger.messages.layout import Fields
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MGetConfig(Fields):
    """Requests the options that apply to an entity on a host."""

    TYPE: ClassVar = MessageType.GET_CONFIG
    COMPAT_VERSION: ClassVar = 1

    name: AuthName
    host: str = ""
    device_class: str = ""
    """Device class of an OSD: options may be set for ``hdd`` or ``ssd`` only."""


@dataclass(slots=True)
class MConfig(Fields):
    """All options of the receiver; an option that is missing has its default again."""

    TYPE: ClassVar = MessageType.CONFIG
    COMPAT_VERSION: ClassVar = 1

    config: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class MKVData(Fields):
    """Entries of the monitors' key-value store, for subscribers of ``kv:PREFIX``."""

    TYPE: ClassVar = MessageType.KV_DATA
    COMPAT_VERSION: ClassVar = 1

    version: U64
    prefix: str
    incremental: bool
    """True if only changed entries are included; False: all entries with that prefix."""
    data: dict[str, bytes | None] = field(default_factory=dict)
    """Values by key; None: removed."""
