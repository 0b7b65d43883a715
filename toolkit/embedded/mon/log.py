"""The last entries of the cluster log."""

from collections import deque
from dataclasses import dataclass, field

from messenger.denc.address import AddrVec
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.denc.utime import UTime
from messenger.messages.log import LogEntry, LogPriority

LEVELS = {
    "debug": LogPriority.DEBUG,
    "info": LogPriority.INFO,
    "sec": LogPriority.SEC,
    "warn": LogPriority.WARN,
    "error": LogPriority.ERROR,
}
"""Severities by the name that commands and subscriptions have for them."""
SHOWN = {
    LogPriority.DEBUG: "DBG",
    LogPriority.INFO: "INF",
    LogPriority.SEC: "SEC",
    LogPriority.WARN: "WRN",
    LogPriority.ERROR: "ERR",
}
MOST_ENTRIES = 1000
"""Entries that are kept."""
_MOST_CHARACTERS = 16 << 10
"""Longest entry; the rest is cut off."""


@dataclass(slots=True)
class Log:
    """Entries that the monitor writes, for itself and for commands; the earliest ones are forgotten.

    Args:
        name: name of the monitor.
        addrs: its addresses.
    """

    name: str
    addrs: AddrVec
    entries: deque[LogEntry] = field(default_factory=lambda: deque(maxlen=MOST_ENTRIES))
    version: int = 1
    """Number of the next entry."""

    def write(self, stamp: UTime, message: str, priority: LogPriority = LogPriority.INFO) -> None:
        """Append an entry to the channel ``cluster``."""
        name, rank = AuthName(EntityType.MON, self.name), EntityName(EntityType.MON, 0)
        text = message[:_MOST_CHARACTERS]
        self.entries.append(LogEntry(name, rank, self.addrs, stamp, self.version, priority, text))
        self.version += 1

    def since(self, version: int, level: LogPriority) -> list[LogEntry]:
        """Return the entries from a version on that are at least so severe."""
        return [entry for entry in self.entries if entry.priority >= level and entry.seq >= version]
