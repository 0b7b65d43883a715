"""The monitor map and the message that carries it (protocol.md §6.2, §6.5)."""

from dataclasses import dataclass, field
from typing import ClassVar, Self
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.fields import decode_uuid, encode_uuid
from messenger.messages.types import MessageType

_MAP_VERSION = 9
_MAP_COMPAT = 6
_NEWEST_MAP_VERSION = 10
_OLDEST_MAP_VERSION = 7
_INFO_VERSION = 5
_NEWEST_INFO_VERSION = 6
_SHORTEST_INFO = 11


@dataclass(slots=True)
class MonInfo:
    """One monitor."""

    name: str
    public_addrs: AddrVec
    priority: int = 0
    """Clients try monitors of a lower value first."""
    weight: int = 0
    crush_loc: dict[str, str] = field(default_factory=dict)
    time_added: UTime = field(default_factory=UTime)

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the form of Pacific to Squid, which has no ``time_added``."""
        with encoder.versioned(_INFO_VERSION, 1):
            encoder.string(self.name)
            self.public_addrs.encode(encoder, features)
            encoder.u16(self.priority)
            encoder.u16(self.weight)
            encoder.mapping(dict(sorted(self.crush_loc.items())), encoder.string, encoder.string)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read any version."""
        body = decoder.versioned(_NEWEST_INFO_VERSION)
        info = cls(body.string(), AddrVec.decode(body))
        if body.struct_v >= 2:
            info.priority = body.u16()
        if body.struct_v >= 4:
            info.weight = body.u16()
        if body.struct_v >= 5:
            info.crush_loc = body.mapping(body.string, body.string, 8)
        if body.struct_v >= 6:
            info.time_added = UTime.decode(body)
        return info


@dataclass(slots=True)
class MonMap:
    """Which monitors there are. A monitor's entity number is its place in ``ranks``."""

    fsid: UUID
    epoch: int = 0
    last_changed: UTime = field(default_factory=UTime)
    created: UTime = field(default_factory=UTime)
    persistent_features: int = 0
    """Monitor features: bits of their own, not those of connections."""
    optional_features: int = 0
    mon_info: dict[str, MonInfo] = field(default_factory=dict)
    ranks: list[str] = field(default_factory=list)
    min_mon_release: int = 0
    removed_ranks: list[int] = field(default_factory=list)
    strategy: int = 1
    """How leaders are elected: 1 classic, 2 disallow, 3 connectivity."""
    disallowed_leaders: list[str] = field(default_factory=list)
    stretch_mode_enabled: bool = False
    tiebreaker_mon: str = ""
    stretch_marked_down_mons: list[str] = field(default_factory=list)

    @property
    def ranked(self) -> list[MonInfo]:
        """The monitors in rank order."""
        return [self.mon_info[name] for name in self.ranks]

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append version 9, which every release from Nautilus on reads."""
        with encoder.versioned(_MAP_VERSION, _MAP_COMPAT):
            encode_uuid(encoder, self.fsid)
            encoder.u32(self.epoch)
            self.last_changed.encode(encoder)
            self.created.encode(encoder)
            for mon_features in (self.persistent_features, self.optional_features):
                with encoder.versioned(1, 1):
                    encoder.u64(mon_features)
            infos = dict(sorted(self.mon_info.items()))
            encoder.mapping(infos, encoder.string, lambda info: info.encode(encoder, features))
            encoder.sequence(self.ranks, encoder.string)
            encoder.u8(self.min_mon_release)
            encoder.sequence(sorted(self.removed_ranks), encoder.i32)
            encoder.u8(self.strategy)
            encoder.sequence(sorted(self.disallowed_leaders), encoder.string)
            encoder.boolean(self.stretch_mode_enabled)
            encoder.string(self.tiebreaker_mon)
            encoder.sequence(sorted(self.stretch_marked_down_mons), encoder.string)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read versions 7 to 10; the tail that version 10 adds is skipped.

        Raises:
            DecodeError: cut short, malformed, older than Nautilus, or a rank without a monitor.
        """
        body = decoder.versioned(_NEWEST_MAP_VERSION)
        if body.struct_v < _OLDEST_MAP_VERSION:
            raise DecodeError(f"monmap of version {body.struct_v}, at least {_OLDEST_MAP_VERSION} is known")
        monmap = cls(
            fsid=decode_uuid(body),
            epoch=body.u32(),
            last_changed=UTime.decode(body),
            created=UTime.decode(body),
            persistent_features=body.versioned(1).u64(),
            optional_features=body.versioned(1).u64(),
            mon_info=body.mapping(body.string, lambda: MonInfo.decode(body), _SHORTEST_INFO),
            ranks=body.sequence(body.string, 4),
            min_mon_release=body.u8(),
        )
        if body.struct_v >= 8:
            monmap.removed_ranks = body.sequence(body.i32, 4)
            monmap.strategy = body.u8()
            monmap.disallowed_leaders = body.sequence(body.string, 4)
        if body.struct_v >= 9:
            monmap.stretch_mode_enabled = body.boolean()
            monmap.tiebreaker_mon = body.string()
            monmap.stretch_marked_down_mons = body.sequence(body.string, 4)
        strangers = [name for name in monmap.ranks if name not in monmap.mon_info]
        if strangers:
            raise DecodeError(f"monmap ranks {', '.join(strangers)}, of whom it says nothing else")
        return monmap


@dataclass(slots=True)
class MMonMap:
    """The monitor map."""

    TYPE: ClassVar = MessageType.MON_MAP
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    monmap: MonMap

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the front."""
        inner = Encoder()
        self.monmap.encode(inner, features)
        encoder.blob(inner.getvalue())

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        return cls(MonMap.decode(Decoder(decoder.blob())))
