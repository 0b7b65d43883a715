"""A manager's data about one daemon, over all sessions of the daemon."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from messenger.messages.mgr import DaemonHealthMetric, MMgrOpen, MMgrReport
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgStat
from messenger.messages.pg_stats import MPGStats, OsdStat
from toolkit.manager.counters import Counters

if TYPE_CHECKING:
    from messenger.connection import Connection
    from messenger.denc.entity import AuthName

KEPT_EVENTS = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a daemon's sessions."""

    what: str
    """``open``, ``closed`` (the daemon sent MMgrClose), ``lost`` (the link broke), ``cut`` (the manager closed the
    link) or ``bad_message``."""
    detail: str = ""


@dataclass(slots=True, eq=False)
class Daemon:
    """A daemon that has opened a session with the manager."""

    name: str
    """``osd.0``, ``mds.a`` or ``mon.a``."""
    connection: "Connection | None" = None
    """Its open session; None while there is none."""
    entity: "AuthName | None" = None
    """Entity that the daemon authenticated as."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Version, hostname and so on, from the monitors or from MMgrOpen; empty until the monitors have answered."""
    config: bytes = b""
    """Its options and their sources, encoded as in MMgrOpen."""
    status: dict[str, str] = field(default_factory=dict)
    """Status of a service, and of its tasks."""
    health_metrics: list[DaemonHealthMetric] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    """Performance counters of the current session; those of the last one until the daemon opens another."""
    osd_stat: OsdStat | None = None
    """For an OSD, its newest counters."""
    pg_stats: dict[PgId, PgStat] = field(default_factory=dict)
    """For an OSD, the newest state of each placement group of which it is the primary."""
    reports: int = 0
    """Number of MMgrReport messages in the current or last session."""
    pg_reports: int = 0
    """Number of MPGStats messages in the current or last session."""
    events: "deque[Event]" = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    """The newest events, the oldest first."""

    @property
    def is_open(self) -> bool:
        """True while the daemon has an open session."""
        return self.connection is not None

    def times(self, what: str) -> int:
        """Return the number of events of one kind."""
        return sum(event.what == what for event in self.events)

    def record(self, what: str, detail: str = "") -> None:
        """Record an event."""
        self.events.append(Event(what, detail))

    # ---- for the manager

    def opened(self, connection: "Connection", payload: MMgrOpen) -> None:
        """Process the first message of a session."""
        self.connection = connection
        self.entity = None if connection.auth_result is None else connection.auth_result.name
        self.config = payload.config
        self.counters.forget()
        self.reports = self.pg_reports = 0
        if payload.service_daemon is not None:
            self.metadata = dict(payload.service_daemon.metadata)
            self.status = dict(payload.service_daemon.status)
        self.record("open", str(connection.peer_addrs))

    def ended(self, what: str, detail: str = "") -> None:
        """Record the end of the session."""
        self.connection = None
        self.record(what, detail)

    def take_report(self, report: MMgrReport) -> None:
        """Process a report; raises DecodeError if its counters are malformed."""
        self.counters.take(report)
        self.health_metrics = report.daemon_health_metrics
        for status in report.daemon_status, report.task_status:
            if status is not None:
                self.status.update(status)
        if report.config:
            self.config = report.config
        self.reports += 1

    def take_pg_stats(self, payload: MPGStats) -> None:
        """Process an OSD's statistics of itself and its placement groups."""
        self.osd_stat = payload.osd_stat
        self.pg_stats.update(payload.pg_stat)
        self.pg_reports += 1
