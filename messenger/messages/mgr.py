"""Messages between daemons, managers and monitors (docs/protocol.md §6.3)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.layout import U8, U32, U64, Blob, Since
from messenger.messages.layout import Enveloped, Fields, Paxos, RawEnvelope, Rest
from messenger.messages.mgrmap import ModuleInfo
from messenger.messages.types import MessageType


@dataclass(slots=True)
class ServiceDaemon(Fields):
    """Properties of a daemon that the manager shows as a service."""

    metadata: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class MMgrOpen(Fields):
    """First message of a daemon to a manager. Plain clients send none."""

    TYPE: ClassVar = MessageType.MGR_OPEN
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    daemon_name: str
    """The id of the daemon, ``0`` for osd.0."""
    service_name: Annotated[str, Since(2)] = ""
    """Empty: the name of the sender's entity type."""
    service_daemon: Annotated[ServiceDaemon | None, Since(2)] = None
    config: Annotated[Blob, Since(3)] = b""
    """The daemon's options and their sources, encoded."""
    config_defaults: Annotated[Blob, Since(3)] = b""


@dataclass(slots=True)
class MMgrUpdate(Fields):
    """A daemon that the manager already knows changes its metadata."""

    TYPE: ClassVar = MessageType.MGR_UPDATE
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    daemon_name: str
    service_name: Annotated[str, Since(2)] = ""
    """Empty: the name of the sender's entity type."""
    service_daemon: Annotated[ServiceDaemon | None, Since(2)] = None
    """The new metadata; None: they have not changed."""


@dataclass(slots=True)
class MMgrConfigure(Fields):
    """The manager's answer to MMgrOpen: what to report, and how often."""

    TYPE: ClassVar = MessageType.MGR_CONFIGURE
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 1

    stats_period_s: U32
    stats_threshold: Annotated[U32, Since(2)] = 0
    """Counters of a lower priority are not reported."""
    queries: Annotated[Rest, Since(3)] = bytes(5)
    """Performance queries to OSDs and others, uninterpreted; by default none."""


@dataclass(frozen=True, slots=True)
class PerfCounterType(Enveloped):
    """Declares one counter of a daemon."""

    VERSION: ClassVar = 3

    path: str
    description: str = ""
    nick: str = ""
    type: U8 = 0
    priority: Annotated[U8, Since(2)] = 5
    unit: Annotated[U8, Since(3)] = 0


@dataclass(frozen=True, slots=True)
class DaemonHealthMetric(Enveloped):
    """One health problem of a daemon."""

    VERSION: ClassVar = 1

    type: U8
    """0: slow operations; 1: placement groups waiting to be created."""
    value: U64


@dataclass(slots=True)
class MMgrReport(Fields):
    """Counters and state of a daemon."""

    TYPE: ClassVar = MessageType.MGR_REPORT
    VERSION: ClassVar = 9
    COMPAT_VERSION: ClassVar = 1

    daemon_name: str
    declare_types: list[PerfCounterType] = field(default_factory=list)
    """Counters that were not declared in this session yet."""
    packed: Blob = b""
    """Values of all declared counters, encoded according to their types."""
    undeclare_types: Annotated[list[str], Since(2)] = field(default_factory=list)
    service_name: Annotated[str, Since(3)] = ""
    daemon_status: Annotated[dict[str, str] | None, Since(3)] = None
    daemon_health_metrics: Annotated[list[DaemonHealthMetric], Since(5)] = field(default_factory=list)
    config: Annotated[Blob, Since(6)] = b""
    osd_perf_metric_reports: Annotated[list[tuple[RawEnvelope, RawEnvelope]], Since(7)] = field(
        default_factory=list
    )
    """Performance queries and their results, uninterpreted."""
    task_status: Annotated[dict[str, str] | None, Since(8)] = None
    metric_report: Annotated[Rest, Since(9)] = bytes(1)
    """An optional report of later queries, uninterpreted; by default none."""


@dataclass(slots=True)
class MMgrClose(Fields):
    """Last message of a daemon to a manager."""

    TYPE: ClassVar = MessageType.MGR_CLOSE
    COMPAT_VERSION: ClassVar = 1

    daemon_name: str
    service_name: str = ""


@dataclass(frozen=True, slots=True)
class ManagerCommand(Enveloped):
    """One command of a manager, as ``ceph -h`` shows it."""

    VERSION: ClassVar = 1

    cmdstring: str
    helpstring: str = ""
    module: str = ""
    req_perms: str = ""
    availability: str = "cli,rest"
    """Retired."""
    flags: U64 = 0


@dataclass(slots=True)
class MMgrBeacon(Fields):
    """Keepalive and state of a manager for the monitors."""

    TYPE: ClassVar = MessageType.MGR_BEACON
    VERSION: ClassVar = 11
    COMPAT_VERSION: ClassVar = 8
    OLDEST: ClassVar = 8

    map_version: Paxos = field(default=0, kw_only=True)
    server_addrs: AddrVec
    gid: U64
    available: bool
    name: str
    fsid: UUID
    module_names: set[str] = field(default_factory=set)
    """The names of ``modules``, for older readers."""
    command_descs: list[ManagerCommand] = field(default_factory=list)
    """Sent only after the manager has become active."""
    metadata: dict[str, str] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)
    modules: list[ModuleInfo] = field(default_factory=list)
    mgr_features: Annotated[U64, Since(9)] = 0
    clients_addrs: Annotated[list[AddrVec], Since(10)] = field(default_factory=list)
    clients_names: Annotated[list[str], Since(11)] = field(default_factory=list)
    """Names of the clients, in the order of ``clients_addrs``."""
