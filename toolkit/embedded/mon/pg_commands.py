"""Commands about placement groups, which a manager answers in a real cluster."""

import errno
from typing import Any

from messenger.messages.pg import PgId
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, size, table
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.maps import now
from toolkit.embedded.mon.osd_commands import require_osd
from toolkit.embedded.mon.pg_stats import (
    BRIEF_HEADING,
    DUMP_HEADING,
    DUMPED,
    LIST_HEADING,
    Group,
    counter_row,
    groups_of,
)
from toolkit.embedded.mon.pg_sums import osd_stats, osd_stats_sum, pg_stats_sum, pool_stats
from toolkit.embedded.mon.pool_commands import require_pool
from toolkit.embedded.usage import parse_pgid

_STUCK = ("inactive", "unclean", "stale", "undersized", "degraded")
_STATES = frozenset(
    (
        *("all", "active", "clean", "unknown", "down", "stale", "creating", "undersized", "degraded", "peering"),
        *("remapped", "scrubbing", "deep", "recovering", "recovery_wait", "recovery_toofull", "recovery_unfound"),
        *("backfilling", "backfill_wait", "backfill_toofull", "backfill_unfound", "inconsistent", "repair"),
        *("incomplete", "peered", "snaptrim", "snaptrim_wait", "snaptrim_error", "failed_repair", "laggy", "wait"),
        *("premerge", "activating", "forced_recovery", "forced_backfill"),
    )
)
"""States of Ceph's placement groups; those here have two of them."""


@COMMANDS.add(
    "pg dump name=dumpcontents,type=CephChoices,n=N,req=false,"
    "strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief",
    "print the states of all placement groups",
)
def pg_dump(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg dump``: each group with its counters, and sums of pools and OSDs."""
    found = groups_of(cluster)
    groups = [each.value() for each in found]
    wanted = arguments.get("dumpcontents") or ["all"]
    if wanted == ["pgs_brief"]:
        parts: dict[str, Any] = {"pg_stats": [each.place() for each in found]}
    elif wanted == ["pgs"]:
        parts = {"pg_stats": groups}
    elif wanted == ["osds"]:
        parts = {"osd_stats": osd_stats(cluster), "osd_stats_sum": osd_stats_sum(cluster)}
    elif wanted == ["pools"]:
        parts = {"pool_stats": pool_stats(cluster)}
    else:
        sums = {"pg_stats_sum": pg_stats_sum(cluster), "osd_stats_sum": osd_stats_sum(cluster)}
        every = {"pg_stats": groups, "pool_stats": pool_stats(cluster), "osd_stats": osd_stats(cluster)}
        about = {"version": cluster.maps.osdmap.epoch, "stamp": str(now())}
        parts = {"pg_map": {**about, **sums, **(every if not {"sum", "summary"} & set(wanted) else {})}}
    value = {"pg_ready": True, **parts}
    return Answer(value, _dumped(cluster, found, wanted), f"dumped {' '.join(wanted)}")


_OMAP_NOTE = "\n* NOTE: embedded OSDs count omap keys and bytes whenever they report\n"


def _dumped(cluster: Cluster, groups: list[Group], wanted: list[str]) -> str:
    """Return the tables of ``ceph pg dump``."""
    if wanted == ["pgs_brief"]:
        return _brief(groups)
    head = f"version {cluster.maps.osdmap.epoch}\nstamp {now()}\n"
    has_all = bool({"all", "delta"} & set(wanted))
    text = ""
    if has_all or "pgs" in wanted:
        text += table([DUMP_HEADING, *(each.dumped_row() for each in groups)], left=1) + "\n"
    if has_all or "pools" in wanted:
        rows = [counter_row(str(pool), cluster.pool_use(pool)) for pool in sorted(cluster.maps.osdmap.pools)]
        text += table([["POOLID", *DUMPED, "LOG", "DISK_LOG"], *rows]) + "\n"
    if has_all or {"sum", "summary"} & set(wanted):
        text += table([["PG_STAT", *DUMPED, "LOG", "DISK_LOG"], counter_row("sum", cluster.total_use())]) + "\n"
    if wanted not in (["pgs"], ["pools"]):
        text += _osds_text(cluster, each_osd=has_all or "osds" in wanted)
    return (head if wanted in (["all"], ["sum"], ["summary"]) else "") + text + _OMAP_NOTE * (wanted != ["osds"])


def _osds_text(cluster: Cluster, *, each_osd: bool) -> str:
    """Return the space of the OSDs as ``ceph pg dump`` shows it."""
    rows = [["OSD_STAT", "USED", "AVAIL", "USED_RAW", "TOTAL", "HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"]]
    for osd in osd_stats(cluster) if each_osd else ():
        used, free, total = (size(osd[name] << 10) for name in ("kb_used", "kb_avail", "kb"))
        count = str(osd["num_pgs"])
        rows.append([str(osd["osd"]), used, free, used, total, "[]", count, count])
    sums = osd_stats_sum(cluster)
    used, free, total = (size(sums[name] << 10) for name in ("kb_used", "kb_avail", "kb"))
    rows.append(["sum", used, free, used, total, "", "", ""])
    return table(rows)


def _brief(groups: list[Group]) -> str:
    return table([BRIEF_HEADING, *(each.brief_row() for each in groups)], left=3)


@COMMANDS.add(
    "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
    "print the placement groups of a pool or in some states",
)
def pg_ls(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg ls [POOL_ID] [STATE...]``."""
    groups, states = groups_of(cluster, arguments.get("pool")), arguments.get("states") or []
    if unknown := set(states).difference(_STATES):
        raise CommandError(errno.EINVAL, f"'{min(unknown)}' is not a valid pg state")
    if "osd" in arguments:
        osd = require_osd(cluster, arguments["osd"])
        groups = [each for each in groups if osd in each.mapping.acting]
    kept = [each for each in groups if not states or set(states) & {*each.state_name.split("+"), "all"}]
    text = table([LIST_HEADING, *(each.row() for each in kept)]) + _OMAP_NOTE
    return Answer({"pg_ready": True, "pg_stats": [each.value() for each in kept]}, text)


@COMMANDS.add(
    "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
    "print the placement groups of a pool",
)
def pg_ls_by_pool(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg ls-by-pool POOL``."""
    return pg_ls(cluster, {**arguments, "pool": require_pool(cluster, str(arguments["poolstr"]))})


_OF_OSD = "name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false"


@COMMANDS.add(f"pg ls-by-osd {_OF_OSD}", "print the placement groups of an OSD")
@COMMANDS.add(f"pg ls-by-primary {_OF_OSD}", "print the placement groups of which an OSD is the primary")
def pg_ls_by_osd(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg ls-by-osd ID``, ``ceph pg ls-by-primary ID``."""
    return pg_ls(cluster, arguments)


@COMMANDS.add(
    f"pg dump_stuck name=stuckops,type=CephChoices,strings={'|'.join(_STUCK)},n=N,req=false"
    " name=threshold,type=CephInt,req=false",
    "print the placement groups that make no progress",
)
def dump_stuck(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg dump_stuck [inactive|unclean...]``: the groups whose OSD is away."""
    wanted = arguments.get("stuckops") or ["unclean"]
    if unknown := set(wanted).difference(_STUCK):
        raise CommandError(errno.EINVAL, f"'{min(unknown)}' is no way to be stuck")
    is_shown = not {"inactive", "unclean"}.isdisjoint(wanted)
    groups = [each for each in groups_of(cluster) if is_shown and each.state_name == "unknown"]
    value = {"pg_ready": True, "stuck_pg_stats": [each.value() for each in groups]}
    return Answer(value, _brief(groups) if groups else "", "ok")


def require_group(cluster: Cluster, name: object) -> PgId:
    """Return the placement group that a command names; raises CommandError, ENOENT: there is no such group."""
    pgid = parse_pgid(str(name))
    pool = cluster.maps.osdmap.pools.get(pgid.pool) if pgid else None
    if pgid is None or pool is None or pgid.seed >= pool.pg_num:
        raise CommandError(errno.ENOENT, f"pg '{name}' does not exist")
    return pgid


@COMMANDS.add("pg map name=pgid,type=CephPgid", "print the OSDs of a placement group")
def pg_map(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg map PGID``."""
    pgid = require_group(cluster, arguments["pgid"])
    mapping, epoch = cluster.maps.placement.mapping(pgid), cluster.maps.osdmap.epoch
    up, acting = (f"[{','.join(map(str, osds))}]" for osds in (mapping.up, mapping.acting))
    value = {"epoch": epoch, "raw_pgid": str(pgid), "pgid": str(pgid)}
    value |= {"up": list(mapping.up), "acting": list(mapping.acting)}
    return Answer(value, f"osdmap e{epoch} pg {pgid} ({pgid}) -> up {up} acting {acting}")


@COMMANDS.add("osd pool autoscale-status", "report on pool pg_num sizing recommendation and intent")
def autoscale_status(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd pool autoscale-status``: pools keep their number of groups."""
    rows, value = [["POOL", "SIZE", "RATE", "RAW CAPACITY", "PG_NUM", "AUTOSCALE"]], []
    for pool_id, pool in sorted(cluster.maps.osdmap.pools.items()):
        name, use = cluster.maps.osdmap.pool_names[pool_id], cluster.pool_use(pool_id)
        rows.append([name, str(use.size_bytes), "1.0", str(cluster.capacity_bytes), str(pool.pg_num), "off"])
        about = {"pool_name": name, "pool_id": pool_id, "logical_used": use.size_bytes, "raw_used_rate": 1.0}
        value.append({**about, "pg_num_target": pool.pg_num, "pg_autoscale_mode": "off", "would_adjust": False})
    return Answer(value, table(rows))
