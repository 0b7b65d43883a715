"""Commands about placement groups, which a manager answers in a real cluster."""

import errno
import re
from typing import Any

from messenger.messages.pg import PgId
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, table
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.maps import now
from toolkit.embedded.mon.osd_commands import require_osd
from toolkit.embedded.mon.pg_sums import osd_stats, osd_stats_sum, pg_stats_sum, pool_stats
from toolkit.embedded.mon.pool_commands import require_pool
from toolkit.rados.placement import NO_OSD

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


def _groups(cluster: Cluster, pool: int | None = None) -> list[dict[str, Any]]:
    """Return the placement groups of a pool, or of all."""
    found = []
    for pool_id, known in sorted(cluster.maps.osdmap.pools.items()):
        for seed in range(known.pg_num if pool in (None, pool_id) else 0):
            pgid = cluster.maps.placement.pg_of(pool_id, seed)
            mapping = cluster.maps.placement.mapping(pgid)
            state = "unknown" if mapping.acting_primary == NO_OSD else "active+clean"
            about: dict[str, Any] = {"pgid": str(pgid), "state": state}
            about |= {"up": list(mapping.up), "up_primary": mapping.up_primary}
            about |= {"acting": list(mapping.acting), "acting_primary": mapping.acting_primary}
            found.append(about)
    return found


def _shown(groups: list[dict[str, Any]]) -> str:
    rows = [["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"]]
    for each in groups:
        up, acting = (f"[{','.join(map(str, each[name]))}]" for name in ("up", "acting"))
        rows.append(
            [each["pgid"], each["state"], up, str(each["up_primary"]), acting, str(each["acting_primary"])]
        )
    return table(rows, left=3)


@COMMANDS.add(
    "pg dump name=dumpcontents,type=CephChoices,n=N,req=false,"
    "strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief",
    "print the states of all placement groups",
)
def pg_dump(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg dump``: state and place of each group; as JSON also sums of pools and OSDs."""
    groups = _groups(cluster)
    wanted = arguments.get("dumpcontents") or ["all"]
    if wanted in (["pgs_brief"], ["pgs"]):
        parts: dict[str, Any] = {"pg_stats": groups}
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
    return Answer(value, _shown(groups), f"dumped {' '.join(arguments.get('dumpcontents') or ['all'])}")


@COMMANDS.add(
    "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
    "print the placement groups of a pool or in some states",
)
def pg_ls(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg ls [POOL_ID] [STATE...]``."""
    groups, states = _groups(cluster, arguments.get("pool")), arguments.get("states") or []
    if unknown := set(states).difference(_STATES):
        raise CommandError(errno.EINVAL, f"'{min(unknown)}' is not a valid pg state")
    if "osd" in arguments:
        osd = require_osd(cluster, arguments["osd"])
        groups = [each for each in groups if osd in each["acting"]]
    kept = [each for each in groups if not states or set(states) & {*each["state"].split("+"), "all"}]
    return Answer({"pg_ready": True, "pg_stats": kept}, _shown(kept))


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
    groups = [each for each in _groups(cluster) if is_shown and each["state"] == "unknown"]
    return Answer({"pg_ready": True, "stuck_pg_stats": groups}, _shown(groups) if groups else "", "ok")


@COMMANDS.add("pg map name=pgid,type=CephPgid", "print the OSDs of a placement group")
def pg_map(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph pg map PGID``."""
    match = re.fullmatch(r"(\d+)\.([0-9a-f]+)", str(arguments["pgid"]))
    pgid = PgId(int(match[1]), int(match[2], 16)) if match else None
    pool = cluster.maps.osdmap.pools.get(pgid.pool) if pgid else None
    if pgid is None or pool is None or pgid.seed >= pool.pg_num:
        raise CommandError(errno.ENOENT, f"pg '{arguments['pgid']}' does not exist")
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
