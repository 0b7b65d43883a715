"""The manager map and the service map (docs/protocol.md §6.7)."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import U8, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import (
    ANY_VERSION,
    Addrs,
    Enveloped,
    Fields,
    Rest,
    before_nautilus,
    decode_fields,
    encode_fields,
)
from messenger.messages.types import MessageType

_LEGACY_VERSION = 5
_LEGACY_COMPAT = 1


@dataclass(frozen=True, slots=True)
class ModuleOption(Enveloped):
    """One option of a manager module."""

    VERSION: ClassVar = 1

    name: str
    type: U8 = 0
    level: U8 = 0
    flags: U32 = 0
    default_value: str = ""
    min: str = ""
    max: str = ""
    enum_allowed: set[str] = field(default_factory=set)
    desc: str = ""
    long_desc: str = ""
    tags: set[str] = field(default_factory=set)
    see_also: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ModuleInfo(Enveloped):
    """One module of a manager."""

    VERSION: ClassVar = 2

    name: str
    can_run: bool = True
    error_string: str = ""
    """The reason if the module cannot run."""
    module_options: Annotated[dict[str, ModuleOption], Since(2)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandbyInfo(Enveloped):
    """One standby manager."""

    VERSION: ClassVar = 4

    gid: U64
    name: str
    module_names: Annotated[set[str], Since(2)] = field(default_factory=set)
    """The names of ``available_modules``, for older readers."""
    available_modules: Annotated[list[ModuleInfo], Since(3)] = field(default_factory=list)
    mgr_features: Annotated[U64, Since(4)] = 0


@dataclass(frozen=True, slots=True)
class MgrMap(Enveloped):
    """The active manager and the standby managers."""

    VERSION: ClassVar = 14
    COMPAT: ClassVar = 6
    OLDEST: ClassVar = _LEGACY_VERSION
    WHAT: ClassVar = "manager map"

    epoch: U32 = 0
    active_addrs: Addrs = field(default_factory=AddrVec)
    """Addresses of the active manager."""
    active_gid: U64 = 0
    """0 if there is no active manager."""
    available: bool = False
    """True if the active manager has loaded its modules and accepts commands."""
    active_name: str = ""
    standbys: dict[U64, StandbyInfo] = field(default_factory=dict)
    """Standby managers by global id."""
    modules: set[str] = field(default_factory=set)
    """Names of the enabled modules."""
    services: dict[str, str] = field(default_factory=dict)
    """URLs by module, as ``ceph mgr services`` shows them."""
    available_modules: list[ModuleInfo] = field(default_factory=list)
    active_change: Annotated[UTime, Since(7)] = EPOCH
    always_on_modules: Annotated[dict[U32, set[str]], Since(8)] = field(default_factory=dict)
    """Module names by release number."""
    active_mgr_features: Annotated[U64, Since(9)] = 0
    """With SERVER_OCTOPUS the manager accepts MMgrCommand, otherwise MCommand (§6.3)."""
    last_failure_osd_epoch: Annotated[U32, Since(10)] = 0
    clients_addrs: Annotated[list[AddrVec], Since(11)] = field(default_factory=list)
    """RADOS clients of the active manager, which are blocklisted when it is replaced."""
    clients_names: Annotated[list[str], Since(12)] = field(default_factory=list)
    """Names of the clients, in the order of ``clients_addrs``."""
    flags: Annotated[U64, Since(13)] = 0
    force_disabled_modules: Annotated[set[str], Since(14)] = field(default_factory=set)

    def version_for(self, features: int) -> int:
        """Version 5, another form, for peers before Nautilus."""
        return ANY_VERSION if has_feature(features, Feature.SERVER_NAUTILUS) else _LEGACY_VERSION

    @classmethod
    def compat_for(cls, version: int) -> int:
        """The oldest reader version that can decode ``version``; 1 for the legacy form."""
        return _LEGACY_COMPAT if version == _LEGACY_VERSION else cls.COMPAT

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields of ``version``."""
        if version != _LEGACY_VERSION:
            encode_fields(self, encoder, version, features)
            return
        values = {name: getattr(self, name) for name in _LEGACY_NAMES}
        legacy = _LegacyMgrMap(**values, module_names={module.name for module in self.available_modules})
        legacy.encode(encoder, before_nautilus(features))

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The values of either form."""
        if body.struct_v != _LEGACY_VERSION:
            return decode_fields(cls, body, body.struct_v, features)
        values = decode_fields(_LegacyMgrMap, body, _LEGACY_VERSION, features)
        return {name: values[name] for name in _LEGACY_NAMES}


@dataclass(slots=True)
class _LegacyMgrMap(Fields):
    """Version 5, for peers before Nautilus."""

    epoch: U32
    active_addrs: Addrs
    active_gid: U64
    available: bool
    active_name: str
    standbys: dict[U64, StandbyInfo]
    modules: set[str]
    module_names: set[str]
    services: dict[str, str]
    available_modules: list[ModuleInfo]


_LEGACY_NAMES = tuple(item.name for item in fields(_LegacyMgrMap) if item.name != "module_names")


@dataclass(slots=True)
class MMgrMap(Fields):
    """Carries the manager map."""

    TYPE: ClassVar = MessageType.MGR_MAP
    COMPAT_VERSION: ClassVar = 1

    mgrmap: MgrMap


@dataclass(frozen=True, slots=True)
class ServiceMap(Enveloped):
    """Daemons that have registered with the manager and are in no other map."""

    VERSION: ClassVar = 2
    WHAT: ClassVar = "service map"

    epoch: U32 = 0
    modified: UTime = EPOCH
    services: Rest = bytes(4)
    """A map of services by name, uninterpreted."""


@dataclass(slots=True)
class MServiceMap(Fields):
    """Carries the service map."""

    TYPE: ClassVar = MessageType.SERVICE_MAP
    COMPAT_VERSION: ClassVar = 1

    service_map: ServiceMap
