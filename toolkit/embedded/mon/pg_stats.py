"""The state of each placement group with its counters, as ``ceph pg ls`` and ``ceph pg dump`` show it."""

from dataclasses import dataclass
from typing import Any

from messenger.denc.utime import UTime
from messenger.messages.pg import PgId
from toolkit.embedded.mon.answers import age
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.usage import GroupState, Scrub, Usage
from toolkit.rados.placement import NO_OSD, PgMapping

_NOT_COUNTED = (
    *("num_objects_missing_on_primary", "num_objects_missing", "num_objects_degraded", "num_objects_misplaced"),
    *("num_objects_unfound", "num_whiteouts", "num_objects_recovered", "num_bytes_recovered"),
    *("num_keys_recovered", "num_flush", "num_flush_kb", "num_evict", "num_evict_kb", "num_promote"),
    *("num_objects_hit_set_archive", "num_objects_pinned", "num_legacy_snapsets", "num_objects_manifest"),
)
"""Counters of recovery, cache tiers and so on, of which embedded OSDs have none: always 0."""


def stat_sum(use: Usage, errors: int = 0) -> dict[str, int]:
    """Return the counters of a group, or of several, by Ceph's names."""
    return {
        "num_bytes": use.size_bytes,
        "num_objects": use.objects,
        "num_object_clones": use.clones,
        "num_object_copies": use.objects,
        "num_objects_dirty": use.objects,
        **dict.fromkeys(_NOT_COUNTED, 0),
        "num_read": use.reads,
        "num_read_kb": use.read_kb,
        "num_write": use.writes,
        "num_write_kb": use.write_kb,
        "num_scrub_errors": errors,
        "num_objects_omap": use.omap_objects,
        "num_omap_bytes": use.omap_bytes,
        "num_omap_keys": use.omap_keys,
    }


@dataclass(frozen=True, slots=True)
class Group:
    """A placement group: where it is by the map, and what its primary has reported."""

    pgid: PgId
    mapping: PgMapping
    since_s: float
    """Unix time of the last change of its state."""
    state: GroupState
    reported: tuple[int, int]
    """Epoch of the primary's map at its last report, and number of its reports."""
    created: UTime

    @property
    def state_name(self) -> str:
        """The group's state: ``active+clean``, or ``unknown`` without an OSD."""
        return "unknown" if self.mapping.acting_primary == NO_OSD else "active+clean"

    def place(self) -> dict[str, Any]:
        """Return state and OSDs as JSON."""
        return {
            "pgid": str(self.pgid),
            "state": self.state_name,
            "up": list(self.mapping.up),
            "acting": list(self.mapping.acting),
            "up_primary": self.mapping.up_primary,
            "acting_primary": self.mapping.acting_primary,
        }

    def value(self) -> dict[str, Any]:
        """Return the group as JSON."""
        state = self.state
        epoch, sequence = self.reported
        scrub, deep_scrub = self._scrubbed(state.scrub), self._scrubbed(state.deep_scrub)
        return {
            **self.place(),
            "version": _version(state.epoch, state.version),
            "reported_seq": sequence,
            "reported_epoch": epoch,
            "last_change": str(UTime.from_seconds(self.since_s)),
            "last_scrub": scrub[0],
            "last_scrub_stamp": scrub[1],
            "last_deep_scrub": deep_scrub[0],
            "last_deep_scrub_stamp": deep_scrub[1],
            "log_size": 0,
            "ondisk_log_size": 0,
            "snaptrimq_len": 0,
            "stat_sum": stat_sum(state.use, state.errors),
            "blocked_by": [],
        }

    def _scrubbed(self, scrub: Scrub | None) -> tuple[str, str]:
        """Return version and time of a scrub; those of the creation of the pool if there was none."""
        if scrub is None:
            return _version(0, 0), str(self.created)
        return _version(scrub.epoch, scrub.version), str(UTime.from_seconds(scrub.at_s))

    def row(self) -> list[str]:
        """Return the group as a line of ``ceph pg ls``."""
        value = self.value()
        up, acting = (f"{_ids(value[name])}p{value[f'{name}_primary']}" for name in ("up", "acting"))
        stamps = [value["last_scrub_stamp"], value["last_deep_scrub_stamp"]]
        where = [f"{value['reported_epoch']}:{value['reported_seq']}", up, acting]
        state = [self.state_name, age(self.since_s), value["version"]]
        return [value["pgid"], *_counted(value["stat_sum"], _LISTED), "0", *state, *where, *stamps]

    def dumped_row(self) -> list[str]:
        """Return the group as a line of ``ceph pg dump``."""
        value = self.value()
        state = [self.state_name, value["last_change"], value["version"]]
        state.append(f"{value['reported_epoch']}:{value['reported_seq']}")
        scrubs = [value[name] for name in ("last_scrub", "last_scrub_stamp", "last_deep_scrub")]
        scrubs += [value["last_deep_scrub_stamp"], str(value["snaptrimq_len"])]
        counts = _counted(value["stat_sum"], DUMPED)
        return [value["pgid"], *counts, "0", "0", *state, *self.brief_row()[2:], *scrubs]

    def brief_row(self) -> list[str]:
        """Return the group as a line of ``ceph pg dump pgs_brief``."""
        place = self.place()
        up, acting = (_ids(place[name]) for name in ("up", "acting"))
        return [place["pgid"], place["state"], up, str(place["up_primary"]), acting, str(place["acting_primary"])]


_LISTED = {
    "OBJECTS": "num_objects",
    "DEGRADED": "num_objects_degraded",
    "MISPLACED": "num_objects_misplaced",
    "UNFOUND": "num_objects_unfound",
    "BYTES": "num_bytes",
    "OMAP_BYTES*": "num_omap_bytes",
    "OMAP_KEYS*": "num_omap_keys",
}
"""Columns of counters in ``ceph pg ls``."""
DUMPED = {"OBJECTS": "num_objects", "MISSING_ON_PRIMARY": "num_objects_missing_on_primary", **_LISTED}
"""Columns of counters in ``ceph pg dump``."""
BRIEF_HEADING = ["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"]
LIST_HEADING = [
    *("PG", *_LISTED, "LOG", "STATE", "SINCE", "VERSION", "REPORTED", "UP", "ACTING"),
    *("SCRUB_STAMP", "DEEP_SCRUB_STAMP"),
]
DUMP_HEADING = [
    *("PG_STAT", *DUMPED, "LOG", "DISK_LOG", "STATE", "STATE_STAMP", "VERSION", "REPORTED", *BRIEF_HEADING[2:]),
    *("LAST_SCRUB", "SCRUB_STAMP", "LAST_DEEP_SCRUB", "DEEP_SCRUB_STAMP", "SNAPTRIMQ_LEN"),
]


def _counted(sums: dict[str, int], columns: dict[str, str]) -> list[str]:
    return [str(sums[name]) for name in columns.values()]


def counter_row(name: str, use: Usage) -> list[str]:
    """Return sums as a line of ``ceph pg dump``, with a name before and the length of logs, 0, behind."""
    return [name, *_counted(stat_sum(use), DUMPED), "0", "0"]


def _version(epoch: int, version: int) -> str:
    return f"{epoch if version else 0}'{version}"


def _ids(osds: list[int]) -> str:
    return f"[{','.join(map(str, osds))}]"


def groups_of(cluster: Cluster, pool: int | None = None) -> list[Group]:
    """Return the placement groups of a pool, or of all."""
    found = []
    cluster.note_groups()
    for pool_id, known in sorted(cluster.maps.osdmap.pools.items()):
        for seed in range(known.pg_num if pool in (None, pool_id) else 0):
            pgid = cluster.maps.placement.pg_of(pool_id, seed)
            mapping = cluster.maps.placement.mapping(pgid)
            primary = mapping.acting_primary
            state = cluster.reported.get(primary, {}).get(pgid, GroupState(Usage()))
            since_s = cluster.groups_since[pgid][1]
            reported = cluster.reports.get(primary, (0, 0)) if state.version or state.use.reads else (0, 0)
            found.append(Group(pgid, mapping, since_s, state, reported, known.create_time))
    return found
