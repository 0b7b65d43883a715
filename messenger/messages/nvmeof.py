"""Messages between gateways for NVMe over Fabrics and the monitors (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import I32, U32
from messenger.errors import DecodeError
from messenger.messages.layout import ANY_VERSION, Codec, Enveloped, Fields, Paxos, encode_fields
from messenger.messages.types import MessageType

_SHORTEST_ENVELOPE = 6
_GROUPS = 16
_INACCESSIBLE = (1, 0)


@dataclass(frozen=True, slots=True)
class AnaStates(Enveloped):
    """State of each group of namespaces at a gateway."""

    VERSION: ClassVar = 1

    states: list[tuple[U32, U32]] = field(default_factory=list)
    """0 optimized or 1 inaccessible, and the epoch of the OSD map from which on a gateway may serve it."""


@dataclass(frozen=True, slots=True)
class GatewaySubsystems(Enveloped):
    """Subsystems of a gateway."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2

    subsystems: dict[str, AnaStates] = field(default_factory=dict)
    """By name (NQN)."""

    def version_for(self, features: int) -> int:
        """Version 1, in which each subsystem has 16 states, for gateways without NVMEOFHA."""
        return ANY_VERSION if has_feature(features, Feature.NVMEOFHA) else 1

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the subsystems; in version 1 with the states that they lack."""
        value = self if version > 1 else replace(self, subsystems=_filled(self.subsystems))
        encode_fields(value, encoder, version, features)


def _filled(subsystems: dict[str, AnaStates]) -> dict[str, AnaStates]:
    missing = {nqn: _GROUPS - len(ana.states) for nqn, ana in subsystems.items()}
    return {
        nqn: replace(ana, states=ana.states + [_INACCESSIBLE] * missing[nqn]) for nqn, ana in subsystems.items()
    }


@dataclass(frozen=True, slots=True)
class GatewayState(Enveloped):
    """State of one gateway."""

    VERSION: ClassVar = 1

    group_id: U32 = 0
    """The group of namespaces that the gateway serves."""
    map_epoch: U32 = 0
    subsystems: GatewaySubsystems = field(default_factory=GatewaySubsystems)
    availability: U32 = 0
    """0 created, 1 available, 2 unavailable, 3 being deleted."""


@dataclass(frozen=True, slots=True)
class GatewayStates(Enveloped):
    """The gateways of a group."""

    VERSION: ClassVar = 1

    gateways: dict[str, GatewayState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GatewayGroup(Fields):
    """A group of gateways."""

    pool: str
    group: str
    states: GatewayStates = field(default_factory=GatewayStates)


@dataclass(frozen=True, slots=True)
class GatewayGroups(Enveloped):
    """All groups of gateways."""

    VERSION: ClassVar = 1

    groups: list[GatewayGroup] = field(default_factory=list)


@dataclass(slots=True)
class MNVMeofGwMap(Fields):
    """Carries the states of all gateways, for each of them."""

    TYPE: ClassVar = MessageType.MNVMEOF_GW_MAP
    COMPAT_VERSION: ClassVar = 1

    layout: I32 = 1
    """Version of the front."""
    epoch: U32 = 0
    groups: GatewayGroups = field(default_factory=GatewayGroups)


@dataclass(frozen=True, slots=True)
class BeaconListener(Enveloped):
    """An address on which a subsystem listens."""

    VERSION: ClassVar = 1

    address_family: str = ""
    address: str = ""
    service_id: str = ""
    """The port."""


@dataclass(frozen=True, slots=True)
class BeaconNamespace(Enveloped):
    """A namespace of a subsystem."""

    VERSION: ClassVar = 1

    group_id: U32 = 0
    nonce: str = ""
    """Address of the client with which the gateway accesses the cluster."""


@dataclass(frozen=True, slots=True)
class BeaconSubsystem(Enveloped):
    """A subsystem of the gateway."""

    VERSION: ClassVar = 1

    nqn: str
    listeners: list[BeaconListener] = field(default_factory=list)
    namespaces: list[BeaconNamespace] = field(default_factory=list)


def _encode_subsystems(encoder: Encoder, subsystems: list[BeaconSubsystem], features: int) -> None:
    encoder.u64(len(subsystems))
    for subsystem in subsystems:
        subsystem.encode(encoder, features)


def _decode_subsystems(decoder: Decoder, features: int) -> list[BeaconSubsystem]:
    """Decode a list whose count has 64 bits instead of 32."""
    count = decoder.u64()
    if count * _SHORTEST_ENVELOPE > decoder.remaining:
        raise DecodeError(f"{count} subsystems do not fit into the remaining {decoder.remaining} bytes")
    return [BeaconSubsystem.decode(decoder, features) for _ in range(count)]


BeaconSubsystems = Annotated[list[BeaconSubsystem], Codec(_encode_subsystems, _decode_subsystems, 8)]


@dataclass(slots=True)
class MNVMeofGwBeacon(Fields):
    """Keepalive and subsystems of a gateway, for the monitors."""

    TYPE: ClassVar = MessageType.MNVMEOF_GW_BEACON
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    gateway: str
    pool: str
    group: str
    subsystems: BeaconSubsystems = field(default_factory=list)
    availability: I32 = 0
    """As in :attr:`GatewayState.availability`."""
    last_osd_epoch: U32 = 0
