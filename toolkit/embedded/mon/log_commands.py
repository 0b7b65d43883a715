"""Commands about the cluster log, and the entries about OSDs and health that the monitor writes to it."""

import errno
from typing import Any

from messenger.messages.log import LogEntry, LogPriority
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, addrs_value
from toolkit.embedded.mon.cluster import Cluster, HealthCheck
from toolkit.embedded.mon.log import LEVELS, SHOWN
from toolkit.embedded.mon.maps import now

_DEFAULT_ENTRIES = 20
_CHANNELS = ("*", "cluster", "audit", "cephadm")


@COMMANDS.add("log name=logtext,type=CephString,n=N", "add a line to the cluster log", writes=True)
def log(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph log TEXT...``."""
    cluster.log.write(now(), " ".join(arguments["logtext"]))
    return Answer()


@COMMANDS.add(
    "log last name=num,type=CephInt,range=1,req=false"
    f" name=level,type=CephChoices,strings={'|'.join(LEVELS)},req=false"
    f" name=channel,type=CephChoices,strings={'|'.join(_CHANNELS)},req=false",
    "print the newest lines of the cluster log",
)
def log_last(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph log last [NUMBER [LEVEL [CHANNEL]]]``: the only channel with entries is ``cluster``."""
    level = LEVELS.get(arguments.get("level", "info"))
    if level is None:
        raise CommandError(errno.EINVAL, f"unknown level '{arguments['level']}'")
    found = cluster.log.since(1, level) if arguments.get("channel", "*") in ("*", "cluster") else []
    most = int(arguments.get("num", _DEFAULT_ENTRIES))
    if most < 1:
        raise CommandError(errno.EINVAL, "at least one entry")
    found = found[-most:]
    return Answer([_value(entry) for entry in found], "".join(f"{_line(entry)}\n" for entry in found))


def _line(entry: LogEntry) -> str:
    shown = SHOWN[LogPriority(entry.priority)]
    return f"{entry.stamp} {entry.name} ({entry.rank}) {entry.seq} : {entry.channel} [{shown}] {entry.message}"


def _value(entry: LogEntry) -> dict[str, Any]:
    about: dict[str, Any] = {"rank": str(entry.rank), "name": str(entry.name), "addrs": addrs_value(entry.addrs)}
    about |= {"stamp": str(entry.stamp), "seq": entry.seq, "channel": entry.channel}
    return about | {"priority": f"[{SHOWN[LogPriority(entry.priority)]}]", "message": entry.message}


class Observer:
    """Writes the changes of OSDs and of health to the log.

    Args:
        cluster: state of the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._epoch = 0
        self._up: set[int] = set()
        self._checks: dict[str, HealthCheck] = {}

    def look(self) -> None:
        """Write what has changed since the last look. Placement groups are not looked at: there may be many."""
        cluster = self._cluster
        if cluster.maps.osdmap.epoch == self._epoch:
            return
        self._epoch, up = cluster.maps.osdmap.epoch, set(cluster.up_osds())
        for osd in sorted(up - self._up):
            cluster.log.write(now(), f"osd.{osd} {cluster.maps.osdmap.osds[osd].client_addrs} boot")
        for osd in sorted(self._up - up):
            cluster.log.write(now(), f"osd.{osd} (root=default,host={cluster.maps.hosts[osd]}) is down")
        if up != self._up:
            counts = f"{len(cluster.maps.hosts)} total, {len(up)} up, {len(cluster.in_osds())} in"
            cluster.log.write(now(), f"osdmap e{self._epoch}: {counts}", LogPriority.DEBUG)
        self._up = up
        self._look_at_health()

    def _look_at_health(self) -> None:
        cluster, checks = self._cluster, self._cluster.health(groups=False)
        for name, check in checks.items():
            known = self._checks.get(name)
            if known is None or known.summary != check.summary:
                what = "Health check failed" if known is None else "Health check update"
                cluster.log.write(now(), f"{what}: {check.summary} ({name})", LogPriority.WARN)
        for name, check in self._checks.items():
            if name not in checks:
                cluster.log.write(now(), f"Health check cleared: {name} (was: {check.summary})")
        if self._checks and not checks:
            cluster.log.write(now(), "Cluster is now healthy")
        self._checks = checks
