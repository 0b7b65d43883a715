"""Summaries that monitors and the active manager send to each other."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder
from messenger.denc.layout import I64, U8, U64, Since
from messenger.messages.layout import F32, Enveloped, Fields, Inside, Paxos
from messenger.messages.mgrmap import ServiceMap
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MMgrDigest(Fields):
    """Status of the cluster that the maps do not contain, for the manager."""

    TYPE: ClassVar = MessageType.MGR_DIGEST
    COMPAT_VERSION: ClassVar = 1

    mon_status_json: str
    """What ``ceph mon_status`` prints."""
    health_json: str
    """What ``ceph health detail`` prints."""


class HealthStatus(IntEnum):
    """Values of :attr:`HealthCheck.severity`."""

    ERR = 0
    WARN = 1
    OK = 2


@dataclass(frozen=True, slots=True)
class HealthCheck(Enveloped):
    """One health problem of the cluster."""

    VERSION: ClassVar = 2

    severity: U8
    """A :class:`HealthStatus`."""
    summary: str
    detail: list[str] = field(default_factory=list)
    count: Annotated[I64, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class HealthChecks(Enveloped):
    """All health problems by code."""

    VERSION: ClassVar = 1

    checks: dict[str, HealthCheck] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProgressEvent(Enveloped):
    """A long operation in progress."""

    VERSION: ClassVar = 1

    message: str
    progress: F32 = 0.0
    """0 to 1."""


@dataclass(slots=True)
class MMonMgrReport(Fields):
    """The manager's report about the cluster; the sums over all placement groups are in the data segment."""

    TYPE: ClassVar = MessageType.MON_MGR_REPORT
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    health_checks: HealthChecks = field(default_factory=HealthChecks)
    service_map: Annotated[bytes, Inside(lambda data: ServiceMap.decode(Decoder(data)))] = b""
    """An encoded :class:`ServiceMap`; empty if it has not changed."""
    progress_events: Annotated[dict[str, ProgressEvent], Since(2)] = field(default_factory=dict)
    gid: Annotated[U64, Since(3)] = 0
    """Global id of the manager."""
