"""The manager's summary of the placement groups and OSDs, for the monitors (MMonMgrReport)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from messenger.messages.mgr_digest import OsdPgCount, PgMapDigest
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgStat
from messenger.messages.pg_stats import OsdStat, StoreStats
from messenger.messages.pools import ObjectStatCollection, ObjectStats, PoolStats

ACTIVE = 1 << 1
"""Bit of the state of a placement group that serves requests."""
_TOP_STATE_SHIFT = 32
_OBJECT_COUNTERS = tuple(item.name for item in fields(ObjectStats) if item.name.startswith("num_"))
_STORE_COUNTERS = tuple(item.name for item in fields(StoreStats) if item.name not in {"struct_v", "tail"})
_OSD_COUNTERS = (
    *("kb", "kb_used", "kb_avail", "kb_used_data", "kb_used_omap", "kb_used_meta", "num_pgs"),
    *("num_osds", "num_per_pool_osds", "num_per_pool_omap_osds", "num_shards_repaired"),
)


def newest(reports: Iterable[Mapping[PgId, PgStat]]) -> dict[PgId, PgStat]:
    """Return the newest state of each placement group, by epoch and sequence number, from the reports of OSDs.

    The report of a former primary may still have an older state.
    """
    found: dict[PgId, PgStat] = {}
    for states in reports:
        for group, state in states.items():
            known = found.get(group)
            if known is None or _age(known) < _age(state):
                found[group] = state
    return found


def digest_of(
    pg_nums: Mapping[int, int],
    groups: Mapping[PgId, PgStat],
    osds: Mapping[int, OsdStat],
    available: Mapping[int, int],
) -> PgMapDigest:
    """Return the summary of a cluster.

    Args:
        pg_nums: number of placement groups by pool number, from the OSD map.
        groups: newest states; groups of other pools are omitted, and missing ones count as unknown.
        osds: newest counters of OSDs by number.
        available: bytes by placement rule, see :func:`~toolkit.manager.capacity.available_by_rule`.
    """
    groups = {group: state for group, state in groups.items() if group.seed < pg_nums.get(group.pool, 0)}
    states = Counter(state.state | state.top_state << _TOP_STATE_SHIFT for state in groups.values())
    num_pg = sum(pg_nums.values())
    unknown = num_pg - len(groups)
    if unknown:
        states[0] += unknown
    by_pool: dict[int, list[PgStat]] = {pool: [] for pool in pg_nums}
    for group, state in groups.items():
        by_pool[group.pool].append(state)
    return PgMapDigest(
        num_pg=num_pg,
        num_pg_active=sum(bool(state.state & ACTIVE) for state in groups.values()),
        num_pg_unknown=unknown,
        num_osd=len(osds),
        pg_pool_sum={pool: _sum_of_groups(members) for pool, members in by_pool.items()},
        pg_sum=_sum_of_groups(groups.values()),
        osd_sum=_sum_of_osds(osds.values()),
        num_pg_by_state=dict(states),
        num_pg_by_osd=_by_osd(groups.values()),
        num_pg_by_pool=dict(pg_nums),
        avail_space_by_rule=dict(available),
        osd_last_seq=[osds[osd].seq if osd in osds else 0 for osd in range(max(osds, default=-1) + 1)],
    )


def _age(state: PgStat) -> tuple[int, int]:
    return state.reported_epoch, state.reported_seq


def _sum_of_groups(groups: Iterable[PgStat]) -> PoolStats:
    members = list(groups)
    sums = [state.stats.sum for state in members]
    counters = {name: sum(getattr(each, name) for each in sums) for name in _OBJECT_COUNTERS}
    return PoolStats(
        stats=ObjectStatCollection(ObjectStats(**counters)),
        log_size=sum(state.log_size for state in members),
        ondisk_log_size=sum(state.ondisk_log_size for state in members),
        up=sum(len(state.up) for state in members),
        acting=sum(len(state.acting) for state in members),
    )


def _sum_of_osds(osds: Iterable[OsdStat]) -> OsdStat:
    members = list(osds)
    counters = {name: sum(getattr(each, name) for each in members) for name in _OSD_COUNTERS}
    space = {name: sum(getattr(each.statfs, name) for each in members) for name in _STORE_COUNTERS}
    return OsdStat(**counters, statfs=StoreStats(**space))


def _by_osd(groups: Iterable[PgStat]) -> dict[int, OsdPgCount]:
    counts: dict[int, OsdPgCount] = defaultdict(OsdPgCount)
    for state in groups:
        for osd in state.acting:
            is_primary = osd == state.acting_primary
            known = counts[osd]
            counts[osd] = replace(known, acting=known.acting + 1, primary=known.primary + is_primary)
        for osd in set(state.up) - set(state.acting):
            counts[osd] = replace(counts[osd], up_not_acting=counts[osd].up_not_acting + 1)
    return dict(counts)
