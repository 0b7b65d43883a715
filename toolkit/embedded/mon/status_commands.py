"""Commands that show the cluster: status, health, df, versions, the monitor map."""

import time
from typing import Any

from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, addrs_value, size, table
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.maps import PACIFIC
from toolkit.embedded.release import CAPACITY_BYTES, VERSION


@COMMANDS.add("status", "show cluster status")
def status(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph -s``."""
    return Answer(_status_value(cluster), _status_text(cluster))


def _status_value(cluster: Cluster) -> dict[str, Any]:
    osdmap, use = cluster.maps.osdmap, cluster.total_use()
    states = cluster.pg_states()
    capacity = cluster.capacity_bytes
    return {
        "fsid": str(cluster.maps.fsid),
        "health": _health_value(cluster),
        "election_epoch": 1,
        "quorum": [0],
        "quorum_names": [cluster.name],
        "quorum_age": int(time.time() - cluster.began_s),
        "monmap": {"epoch": 1, "min_mon_release_name": "pacific", "num_mons": 1},
        "osdmap": {
            "epoch": osdmap.epoch,
            "num_osds": len(cluster.maps.hosts),
            "num_up_osds": len(cluster.up_osds()),
            "osd_up_since": osdmap.last_up_change.sec,
            "num_in_osds": len(cluster.in_osds()),
            "osd_in_since": osdmap.last_in_change.sec,
            "num_remapped_pgs": 0,
        },
        "pgmap": {
            "pgs_by_state": [{"state_name": state, "count": count} for state, count in sorted(states.items())],
            "num_pgs": sum(states.values()),
            "num_pools": len(osdmap.pools),
            "num_objects": use.objects,
            "data_bytes": use.size_bytes,
            "bytes_used": use.size_bytes,
            "bytes_avail": capacity - use.size_bytes,
            "bytes_total": capacity,
        },
        "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
        "mgrmap": {"available": False, "num_standbys": 0, "modules": [], "services": {}},
        "servicemap": {"epoch": 1, "modified": "0.000000", "services": {}},
        "progress_events": {},
    }


def _status_text(cluster: Cluster) -> str:
    osdmap, use = cluster.maps.osdmap, cluster.total_use()
    states, capacity = cluster.pg_states(), cluster.capacity_bytes
    checks = cluster.health()
    warnings = "".join(f"            {check.summary}\n" for check in checks.values())
    up, inside, known = cluster.up_osds(), cluster.in_osds(), cluster.maps.hosts
    groups = [f"{count} {state}" for state, count in sorted(states.items())]
    up_age, in_age = (_age(at.to_seconds()) for at in (osdmap.last_up_change, osdmap.last_in_change))
    lines = [
        "  cluster:",
        f"    id:     {cluster.maps.fsid}",
        f"    health: {_health_word(cluster)}\n{warnings} ",
        "  services:",
        f"    mon: 1 daemons, quorum {cluster.name} (age {_age(cluster.began_s)})",
        "    mgr: no daemons active",
        f"    osd: {len(known)} osds: {len(up)} up (since {up_age}), {len(inside)} in (since {in_age})",
        " ",
        "  data:",
        f"    pools:   {len(osdmap.pools)} pools, {sum(states.values())} pgs",
        f"    objects: {use.objects} objects, {size(use.size_bytes)}",
        f"    usage:   {size(use.size_bytes)} used, {size(capacity - use.size_bytes)} / {size(capacity)} avail",
        "    pgs:     " + "\n             ".join(groups),
        " ",
    ]
    return "\n".join(lines) + "\n"


def _age(since_s: float) -> str:
    age_s = max(0, int(time.time() - since_s))
    for unit, length_s in (("h", 3600), ("m", 60)):
        if age_s >= 2 * length_s:
            return f"{age_s // length_s}{unit}"
    return f"{age_s}s"


# ---- health


def _health_word(cluster: Cluster) -> str:
    return "HEALTH_WARN" if cluster.health() else "HEALTH_OK"


def _health_value(cluster: Cluster, *, detail: bool = False) -> dict[str, Any]:
    checks = {
        name: {
            "severity": "HEALTH_WARN",
            "summary": {"message": check.summary, "count": check.count},
            **({"detail": [{"message": text} for text in check.detail]} if detail else {}),
            "muted": False,
        }
        for name, check in cluster.health().items()
    }
    return {"status": _health_word(cluster), "checks": checks, "mutes": []}


@COMMANDS.add("health name=detail,type=CephChoices,strings=detail,req=false", "show cluster health")
def health(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph health``; with ``detail`` the affected daemons of each warning."""
    checks = cluster.health()
    summary = "; ".join(check.summary for check in checks.values())
    lines = [f"{_health_word(cluster)} {summary}".rstrip()]
    if arguments.get("detail"):
        for name, check in checks.items():
            lines.append(f"[WRN] {name}: {check.summary}")
            lines += [f"    {text}" for text in check.detail]
    value = _health_value(cluster, detail=bool(arguments.get("detail")))
    return Answer(value, "\n".join(lines))


# ---- space


@COMMANDS.add("df name=detail,type=CephChoices,strings=detail,req=false", "show cluster free space stats")
def df(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph df``."""
    use, capacity = cluster.total_use(), cluster.capacity_bytes
    free = capacity - use.size_bytes
    stats = {
        "total_bytes": capacity,
        "total_avail_bytes": free,
        "total_used_bytes": use.size_bytes,
        "total_used_raw_bytes": use.size_bytes,
        "total_used_raw_ratio": use.size_bytes / capacity if capacity else 0.0,
        "num_osds": len(cluster.maps.hosts),
        "num_per_pool_osds": len(cluster.up_osds()),
        "num_per_pool_omap_osds": len(cluster.up_osds()),
    }
    used = f"{100 * stats['total_used_raw_ratio']:.2f}"
    row = [size(capacity), size(free), size(use.size_bytes), size(use.size_bytes), used]
    head = ["SIZE", "AVAIL", "USED", "RAW USED", "%RAW USED"]
    text = "--- RAW STORAGE ---\n" + table([["CLASS", *head], ["mem", *row], ["TOTAL", *row]])
    pools = [["POOL", "ID", "PGS", "STORED", "OBJECTS", "USED", "%USED", "MAX AVAIL"]]
    described = []
    for pool_id, name in sorted(cluster.maps.osdmap.pool_names.items()):
        held, pool = cluster.pool_use(pool_id), cluster.maps.osdmap.pools[pool_id]
        ratio = held.size_bytes / capacity if capacity else 0.0
        stored = [size(held.size_bytes), str(held.objects), size(held.size_bytes), f"{100 * ratio:.2f}"]
        pools.append([name, str(pool_id), str(pool.pg_num), *stored, size(free)])
        counters: dict[str, float] = {
            "stored": held.size_bytes,
            "objects": held.objects,
            "kb_used": -(-held.size_bytes // 1024),
        }
        counters |= {"bytes_used": held.size_bytes, "percent_used": ratio, "max_avail": free}
        described.append({"name": name, "id": pool_id, "stats": counters})
    value = {"stats": stats, "stats_by_class": {}, "pools": described}
    return Answer(value, f"{text} \n--- POOLS ---\n{table(pools)}")


@COMMANDS.add("osd df", "show OSD utilization")
def osd_df(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd df``."""
    rows, nodes = [["ID", "HOST", "REWEIGHT", "SIZE", "USE", "AVAIL", "%USE", "STATUS"]], []
    for osd, host in cluster.maps.hosts.items():
        one, use = cluster.maps.osdmap.osds[osd], cluster.osd_use(osd)
        state, ratio = ("up" if one.is_up else "down"), use.size_bytes / CAPACITY_BYTES
        sizes = [size(CAPACITY_BYTES), size(use.size_bytes), size(CAPACITY_BYTES - use.size_bytes)]
        rows.append([str(osd), host, f"{one.weight / 0x10000:.5f}", *sizes, f"{100 * ratio:.2f}", state])
        about = {"id": osd, "name": f"osd.{osd}", "type": "osd", "reweight": one.weight / 0x10000}
        about |= {"kb": CAPACITY_BYTES >> 10, "kb_used": use.size_bytes >> 10, "utilization": 100 * ratio}
        nodes.append({**about, "status": state})
    return Answer({"nodes": nodes, "stray": []}, table(rows))


# ---- the monitor


@COMMANDS.add("fsid", "show cluster FSID/UUID")
def fsid(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph fsid``."""
    return Answer({"fsid": str(cluster.maps.fsid)}, f"{cluster.maps.fsid}\n")


@COMMANDS.add("mon dump", "dump formatted monmap")
def mon_dump(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mon dump``."""
    monmap = cluster.maps.monmap
    lines = [
        f"epoch {monmap.epoch}",
        f"fsid {monmap.fsid}",
        f"last_changed {monmap.last_changed}",
        f"created {monmap.created}",
        "min_mon_release 16 (pacific)",
        "election_strategy: 1",
        *(f"{rank}: {info.public_addrs} mon.{info.name}" for rank, info in enumerate(monmap.ranked)),
    ]
    return Answer(_monmap_value(cluster), "\n".join(lines) + "\n", f"dumped monmap epoch {monmap.epoch}")


def _monmap_value(cluster: Cluster) -> dict[str, Any]:
    monmap = cluster.maps.monmap
    mons = [
        {
            "rank": rank,
            "name": info.name,
            "public_addrs": addrs_value(info.public_addrs),
            "addr": f"{info.public_addrs.legacy_addr().host}:{info.public_addrs.legacy_addr().port}/0",
            "priority": 0,
            "weight": 0,
        }
        for rank, info in enumerate(monmap.ranked)
    ]
    return {
        "epoch": monmap.epoch,
        "fsid": str(monmap.fsid),
        "modified": str(monmap.last_changed),
        "created": str(monmap.created),
        "min_mon_release": PACIFIC,
        "min_mon_release_name": "pacific",
        "election_strategy": 1,
        "mons": mons,
        "quorum": [0],
    }


@COMMANDS.add("mon stat", "summarize monitor status")
def mon_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mon stat``."""
    (info,) = cluster.maps.monmap.ranked
    value = {"epoch": 1, "num_mons": 1, "leader": cluster.name, "quorum": [{"rank": 0, "name": cluster.name}]}
    text = f"e1: 1 mons at {{{info.name}={info.public_addrs}}}, election epoch 1, leader 0 {info.name}, quorum 0"
    return Answer(value, f"{text} {info.name}")


@COMMANDS.add("quorum_status", "report status of monitor quorum")
def quorum_status(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph quorum_status``."""
    return Answer(
        {
            "election_epoch": 1,
            "quorum": [0],
            "quorum_names": [cluster.name],
            "quorum_leader_name": cluster.name,
            "quorum_age": int(time.time() - cluster.began_s),
            "monmap": _monmap_value(cluster),
        }
    )


@COMMANDS.add("versions", "check running versions of ceph daemons")
def versions(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph versions``."""
    osds = len(cluster.up_osds())
    running = {"mon": {VERSION: 1}, "mgr": {}, "osd": {VERSION: osds} if osds else {}, "mds": {}}
    return Answer({**running, "overall": {VERSION: 1 + osds}})


@COMMANDS.add("version", "show mon daemon version")
def version(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph version``."""
    return Answer({"version": VERSION}, VERSION)


@COMMANDS.add("config dump", "Show all configuration option(s)")
def config_dump(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph config dump``: always empty, because the monitor stores no options."""
    return Answer([], table([["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]], left=6))


@COMMANDS.add("mgr stat", "dump basic info about the mgr cluster state")
def mgr_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mgr stat``: no manager."""
    return Answer({"epoch": cluster.maps.mgrmap.epoch, "available": False, "active_name": "", "num_standby": 0})


@COMMANDS.add("pg stat", "show placement group status.")
def pg_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph pg stat``."""
    states, use = cluster.pg_states(), cluster.total_use()
    groups = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    value = {
        "num_pgs": sum(states.values()),
        "num_pg_by_state": [{"name": state, "num": count} for state, count in sorted(states.items())],
        "num_bytes": use.size_bytes,
    }
    return Answer({"pg_ready": True, "pg_summary": value}, f"{sum(states.values())} pgs: {groups}")
