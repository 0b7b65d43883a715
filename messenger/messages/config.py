"""Options and keys that the monitors hold for others (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from typing import ClassVar

from messenger.denc.entity import AuthName
from messenger.denc.layout import U64
from messenger.messages.layout import Fields
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MGetConfig(Fields):
    """Asks which options apply to an entity on a host."""

    TYPE: ClassVar = MessageType.GET_CONFIG
    COMPAT_VERSION: ClassVar = 1

    name: AuthName
    host: str = ""
    device_class: str = ""
    """Of an OSD: options may be set for ``hdd`` or ``ssd`` alone."""


@dataclass(slots=True)
class MConfig(Fields):
    """All options of the receiver at once; one that is missing is back at its default."""

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
    """Only what changed; otherwise everything with that prefix."""
    data: dict[str, bytes | None] = field(default_factory=dict)
    """By key; None: removed."""
