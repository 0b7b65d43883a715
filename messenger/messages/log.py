"""The cluster log: entries for the monitors, and acknowledgements (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Self
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityName
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import U16, U64
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.layout import Fields, Paxos
from messenger.messages.types import MessageType

_ENTRY_VERSION = 5
_ENTRY_VERSION_LEGACY = 4
_ENTRY_COMPAT_LEGACY = 2


class LogPriority(IntEnum):
    """Severity of a log entry (Ceph's clog_type)."""

    DEBUG = 0
    INFO = 1
    SEC = 2
    WARN = 3
    ERROR = 4


@dataclass(slots=True)
class LogEntry:
    """One line of the cluster log."""

    name: AuthName
    """Authentication name of the logging daemon."""
    rank: EntityName
    """Messenger name of the logging daemon."""
    addrs: AddrVec
    stamp: UTime
    seq: U64
    """Number of the entry, counted by its sender; MLogAck refers to it."""
    priority: U16
    """A :class:`LogPriority`, or a number that is not among them."""
    message: str
    channel: str = "cluster"

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the current form, or the older one for peers without SERVER_NAUTILUS."""
        if not has_feature(features, Feature.SERVER_NAUTILUS):
            with encoder.versioned(_ENTRY_VERSION_LEGACY, _ENTRY_COMPAT_LEGACY):
                self.rank.encode(encoder)
                self.addrs.legacy_addr().encode(encoder, features)
                self._encode_text(encoder)
                self.name.encode(encoder)
            return
        with encoder.versioned(_ENTRY_VERSION, _ENTRY_VERSION):
            self.name.encode(encoder)
            self.rank.encode(encoder)
            self.addrs.encode(encoder, features)
            self._encode_text(encoder)

    def _encode_text(self, encoder: Encoder) -> None:
        self.stamp.encode(encoder)
        encoder.u64(self.seq)
        encoder.u16(self.priority)
        encoder.string(self.message)
        encoder.string(self.channel)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode either form.

        Raises:
            DecodeError: the bytes are too short or malformed, or from before Luminous.
        """
        body = decoder.versioned(_ENTRY_VERSION)
        if body.struct_v < _ENTRY_VERSION_LEGACY:
            raise DecodeError(f"log entry of version {body.struct_v}, at least {_ENTRY_VERSION_LEGACY} is known")
        name = AuthName.decode(body) if body.struct_v >= _ENTRY_VERSION else None
        rank = EntityName.decode(body)
        addrs = AddrVec.decode(body)  # also decodes the single address of the older form
        stamp, seq, priority = UTime.decode(body), body.u64(), body.u16()
        message, channel = body.string(), body.string()
        return cls(name or AuthName.decode(body), rank, addrs, stamp, seq, priority, message, channel)


@dataclass(slots=True)
class MLog(Fields):
    """Entries for the cluster log."""

    TYPE: ClassVar = MessageType.LOG
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    entries: list[LogEntry] = field(default_factory=list)


@dataclass(slots=True)
class MLogAck(Fields):
    """Acknowledges that the entries of one channel up to ``last`` are stored."""

    TYPE: ClassVar = MessageType.LOGACK
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    last: U64
    channel: str = "cluster"
