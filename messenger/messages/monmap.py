"""The monitor map and the message that carries it (docs/protocol.md §6.2, §6.5)."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import I32, U8, U16, U32, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import (
    ANY_VERSION,
    Addrs,
    Codec,
    Enveloped,
    Fields,
    before_nautilus,
    decode_fields,
    encode_fields,
)
from messenger.messages.types import MessageType

_LEGACY_VERSION = 5
_LEGACY_COMPAT = 3
_LEGACY_INFO_VERSION = 2
_ADDRVEC_INFO_VERSION = 3
_RANKS_VERSION = 6


@dataclass(frozen=True, slots=True)
class MonInfo(Enveloped):
    """One monitor."""

    VERSION: ClassVar = 6
    WHAT: ClassVar = "monitor"

    name: str
    public_addrs: Addrs
    priority: Annotated[U16, Since(2)] = 0
    """Clients try monitors with a lower value first."""
    weight: Annotated[U16, Since(4)] = 0
    crush_loc: Annotated[dict[str, str], Since(5)] = field(default_factory=dict)
    time_added: Annotated[UTime, Since(6)] = EPOCH

    def version_for(self, features: int) -> int:
        """Version for the peer's features; before Nautilus there is only one address."""
        return ANY_VERSION if has_feature(features, Feature.SERVER_NAUTILUS) else _LEGACY_INFO_VERSION

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields of ``version``."""
        if version < _ADDRVEC_INFO_VERSION:
            features = before_nautilus(features)
        encode_fields(self, encoder, version, features)


def _encode_mon_feature(encoder: Encoder, value: int, _features: int) -> None:
    with encoder.versioned(1, 1):
        encoder.u64(value)


MonFeature = Annotated[int, Codec(_encode_mon_feature, lambda d, _: d.versioned(ANY_VERSION).u64(), 14)]
"""Features of monitors: a mask of their own, not that of connections."""


@dataclass(frozen=True, slots=True)
class MonMap(Enveloped):
    """The monitors of the cluster. A monitor's entity number is its index in ``ranks``."""

    VERSION: ClassVar = 10
    COMPAT: ClassVar = 6
    OLDEST: ClassVar = _LEGACY_VERSION
    WHAT: ClassVar = "monmap"

    fsid: UUID
    epoch: U32 = 0
    last_changed: UTime = EPOCH
    created: UTime = EPOCH
    persistent_features: MonFeature = 0
    optional_features: MonFeature = 0
    mon_info: dict[str, MonInfo] = field(default_factory=dict)
    ranks: Annotated[list[str], Since(_RANKS_VERSION)] = field(default_factory=list)
    min_mon_release: Annotated[U8, Since(7)] = 0
    removed_ranks: Annotated[set[I32], Since(8)] = field(default_factory=set)
    strategy: Annotated[U8, Since(8)] = 1
    """Election strategy: 1 classic, 2 disallow, 3 connectivity."""
    disallowed_leaders: Annotated[set[str], Since(8)] = field(default_factory=set)
    stretch_mode_enabled: Annotated[bool, Since(9)] = False
    tiebreaker_mon: Annotated[str, Since(9)] = ""
    stretch_marked_down_mons: Annotated[set[str], Since(9)] = field(default_factory=set)
    auth_epoch: Annotated[U32, Since(10)] = 0
    """Changes when keys must be renewed with another cipher."""
    auth_service_cipher: Annotated[I32, Since(10)] = 1
    """Key types (§5.1): 1 aes, 2 aes256k."""
    auth_allowed_ciphers: Annotated[list[I32], Since(10)] = field(default_factory=lambda: [1])
    auth_preferred_cipher: Annotated[I32, Since(10)] = 1

    @property
    def ranked(self) -> list[MonInfo]:
        """The monitors in rank order."""
        return [self.mon_info[name] for name in self.ranks]

    def version_for(self, features: int) -> int:
        """Version 5, another form, for peers before Nautilus."""
        return ANY_VERSION if has_feature(features, Feature.SERVER_NAUTILUS) else _LEGACY_VERSION

    @classmethod
    def compat_for(cls, version: int) -> int:
        """The oldest reader version that can decode ``version``; lower for the legacy form."""
        return _LEGACY_COMPAT if version == _LEGACY_VERSION else cls.COMPAT

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields of ``version``."""
        if version > _LEGACY_VERSION:
            encode_fields(self, encoder, version, features)
            return
        values = {name: getattr(self, name) for name in _LEGACY_NAMES}
        addrs = {name: info.public_addrs.legacy_addr() for name, info in self.mon_info.items()}
        _LegacyMonMap(**values, mon_addr=addrs).encode(encoder, before_nautilus(features))

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The values of either form; raises DecodeError if a rank has no monitor."""
        if body.struct_v == _LEGACY_VERSION:
            values = decode_fields(_LegacyMonMap, body, _LEGACY_VERSION, features)
            return {name: values[name] for name in _LEGACY_NAMES} | {"ranks": _legacy_ranks(values["mon_info"])}
        values = decode_fields(cls, body, body.struct_v, features)
        strangers = [name for name in values["ranks"] if name not in values["mon_info"]]
        if strangers:
            raise DecodeError(f"monmap ranks {', '.join(strangers)}, of whom it says nothing else")
        return values


@dataclass(slots=True)
class _LegacyMonMap(Fields):
    """Version 5, for peers before Nautilus, which contains the addresses twice."""

    fsid: UUID
    epoch: U32
    mon_addr: dict[str, EntityAddr]
    last_changed: UTime
    created: UTime
    persistent_features: MonFeature
    optional_features: MonFeature
    mon_info: dict[str, MonInfo]


_LEGACY_NAMES = tuple(item.name for item in fields(_LegacyMonMap) if item.name != "mon_addr")


def _legacy_ranks(mon_info: dict[str, MonInfo]) -> list[str]:
    """Ranks in the order of addresses, for maps without ranks."""
    return sorted(mon_info, key=lambda name: mon_info[name].public_addrs.legacy_addr().sort_key())


@dataclass(slots=True)
class MMonMap:
    """Carries the monitor map."""

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
    def decode(cls, decoder: Decoder, _version: int, features: int) -> Self:
        """Read the front."""
        return cls(MonMap.decode(Decoder(decoder.blob()), features))
