"""State of an embedded monitor's cluster: maps, keys, space usage, health."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from messenger.cephx.key_server import KeyServer
from messenger.denc.utime import UTime
from messenger.messages.message import Payload
from messenger.messages.osdmap import MapFlag
from messenger.messages.pg import PgId
from messenger.messages.pool import PoolFlag
from toolkit.embedded.mon.log import Log
from toolkit.embedded.mon.maps import Maps
from toolkit.embedded.release import CAPACITY_BYTES
from toolkit.embedded.usage import GroupState, Usage
from toolkit.rados.placement import NO_OSD

FLAG_NAMES = {
    MapFlag.PAUSERD: "pauserd",
    MapFlag.PAUSEWR: "pausewr",
    MapFlag.NOUP: "noup",
    MapFlag.NODOWN: "nodown",
    MapFlag.NOOUT: "noout",
    MapFlag.NOIN: "noin",
    MapFlag.NOBACKFILL: "nobackfill",
    MapFlag.NORECOVER: "norecover",
    MapFlag.NOSCRUB: "noscrub",
    MapFlag.NODEEP_SCRUB: "nodeep-scrub",
    MapFlag.NOREBALANCE: "norebalance",
    MapFlag.SORTBITWISE: "sortbitwise",
    MapFlag.RECOVERY_DELETES: "recovery_deletes",
    MapFlag.PURGED_SNAPDIRS: "purged_snapdirs",
    MapFlag.PGLOG_HARDLIMIT: "pglog_hardlimit",
}
"""Flags of the OSD map, as ``ceph osd dump`` shows them."""


POOL_FLAG_NAMES = {
    PoolFlag.HASHPSPOOL: "hashpspool",
    PoolFlag.FULL: "full",
    PoolFlag.NODELETE: "nodelete",
    1 << 5: "nopgchange",
    1 << 6: "nosizechange",
    1 << 7: "write_fadvise_dontneed",
    1 << 8: "noscrub",
    1 << 9: "nodeep-scrub",
    PoolFlag.FULL_QUOTA: "full_quota",
    PoolFlag.SELFMANAGED_SNAPS: "selfmanaged_snaps",
    PoolFlag.POOL_SNAPS: "pool_snaps",
    PoolFlag.BULK: "bulk",
}
"""Flags of a pool, as ``ceph osd pool ls detail`` shows them."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A health warning, as ``ceph health`` shows it."""

    summary: str
    count: int
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mute:
    """A health warning that does not count for now."""

    until_s: float | None
    """Unix time at which it ends; None: it does not."""
    is_sticky: bool
    """True if it lasts when the warning is gone."""
    summary: str
    count: int
    """What the warning said when it was muted; nothing if sticky."""


@dataclass(frozen=True, slots=True)
class OptionsChange:
    """A version of the options that the monitor keeps, and how it differs from the one before."""

    version: int
    at: UTime
    name: str = ""
    """What the change is called, for example ``reset to 5``."""
    values: Mapping[tuple[str, str], tuple[str | None, str | None]] = field(default_factory=dict)
    """The value before and after by section and option; None: the option was not set."""


@dataclass(slots=True)
class Cluster:
    """The state that commands read and change."""

    name: str
    """Name of the monitor."""
    maps: Maps
    keys: KeyServer
    auth: str
    """``cephx`` or ``none``."""
    began_s: float = field(default_factory=time.time)
    """Unix time at which the monitor started."""
    reported: dict[int, Mapping[PgId, GroupState]] = field(default_factory=dict)
    """What each OSD has reported of its placement groups, by OSD id and group."""
    options: dict[tuple[str, str], str] = field(default_factory=dict)
    """Options that the monitor keeps, by section (``global``, ``client``, ``client.admin``) and name."""
    reports: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Epoch of the OSD's map at its last report, and number of its reports, by OSD id."""
    groups_since: dict[PgId, tuple[int, float]] = field(default_factory=dict)
    """Acting primary of each placement group, and the Unix time since which it has been so."""
    send_to_osd: Callable[[int, Payload], bool] = field(default=lambda _osd, _payload: False)
    """Sends a message to an OSD; returns False if it has no session with the monitor."""
    options_version: int = 1
    """Version of the options, from 1; each change makes a new one."""
    options_history: list[OptionsChange] = field(default_factory=list)
    """The last changes of the options, the oldest first."""
    mutes: dict[str, Mute] = field(default_factory=dict)
    """Muted health warnings, by name."""
    keys_kept: dict[str, str] = field(default_factory=dict)
    """Values that clients keep in the monitor, by key."""
    log: Log = field(init=False)
    """The cluster log."""

    def __post_init__(self) -> None:
        self.log = Log(self.name, self.maps.monmap.ranked[0].public_addrs)

    # ---- OSDs

    def up_osds(self) -> list[int]:
        """Return the ids of the OSDs that are up."""
        return [osd for osd in self.maps.hosts if self.maps.osdmap.osds[osd].is_up]

    def in_osds(self) -> list[int]:
        """Return the ids of the OSDs that are in."""
        return [osd for osd in self.maps.hosts if self.maps.osdmap.osds[osd].is_in]

    # ---- space

    def pool_use(self, pool_id: int) -> Usage:
        """Return the space usage of a pool on all OSDs that are up."""
        reports = (self.reported.get(osd, {}) for osd in self.up_osds())
        uses = (state.use for groups in reports for pgid, state in groups.items() if pgid.pool == pool_id)
        return sum(uses, Usage())

    def osd_use(self, osd: int) -> Usage:
        """Return the space usage of an OSD."""
        return sum((state.use for state in self.reported.get(osd, {}).values()), Usage())

    def total_use(self) -> Usage:
        """Return the space usage of all pools."""
        return sum(map(self.pool_use, self.maps.osdmap.pools), Usage())

    @property
    def capacity_bytes(self) -> int:
        """Capacity of all OSDs that are up."""
        return CAPACITY_BYTES * len(self.up_osds())

    # ---- placement groups and health

    def pg_states(self) -> Counter[str]:
        """Count placement groups by state: ``active+clean``, or ``unknown`` without an OSD."""
        serving = (osd != NO_OSD for _, osd in self.groups())
        return Counter("active+clean" if served else "unknown" for served in serving)

    def groups(self) -> Iterator[tuple[PgId, int]]:
        """Yield each placement group with its acting primary; ``NO_OSD`` if it has none."""
        placement = self.maps.placement
        for pool_id, pool in self.maps.osdmap.pools.items():
            for seed in range(pool.pg_num):
                pgid = placement.pg_of(pool_id, seed)
                yield pgid, placement.mapping(pgid).acting_primary

    def note_groups(self) -> None:
        """Note the time at which placement groups got another primary, or none."""
        at_s = time.time()
        known = self.groups_since
        self.groups_since = {
            pgid: known[pgid] if pgid in known and known[pgid][0] == primary else (primary, at_s)
            for pgid, primary in self.groups()
        }

    def health(self, *, groups: bool = True) -> dict[str, HealthCheck]:
        """Return the health warnings by Ceph's names of checks; of placement groups only with ``groups``."""
        found = {}
        down = [osd for osd in self.in_osds() if osd not in self.up_osds()]
        if down:
            detail = tuple(f"osd.{osd} (root=default,host={self.maps.hosts[osd]}) is down" for osd in down)
            found["OSD_DOWN"] = HealthCheck(f"{len(down)} osds down", len(down), detail)
        if groups and (unknown := self.pg_states()["unknown"]):
            text = f"Reduced data availability: {unknown} {'pg' if unknown == 1 else 'pgs'} inactive"
            found["PG_AVAILABILITY"] = HealthCheck(text, unknown)
        pools = self.maps.osdmap.pools.items()
        if full := [self.maps.osdmap.pool_names[number] for number, pool in pools if pool.flags & PoolFlag.FULL]:
            detail = tuple(f"pool '{name}' is full (running out of quota)" for name in full)
            found["POOL_FULL"] = HealthCheck(f"{len(full)} pool(s) full", len(full), detail)
        if flags := self.warned_flags():
            found["OSDMAP_FLAGS"] = HealthCheck(f"{','.join(flags)} flag(s) set", len(flags))
        return found

    def warned_flags(self) -> list[str]:
        """Return the names of the flags of the OSD map that are warned of: those that stop something."""
        flags = self.maps.osdmap.flags
        return [name for flag, name in FLAG_NAMES.items() if flag < MapFlag.SORTBITWISE and flags & flag]
