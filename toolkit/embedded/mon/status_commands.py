"""Commands that show the cluster: status, health, df, versions, the monitor map."""

import time
from typing import Any

from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, addrs_value, age, legacy_text, size
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.maps import PACIFIC
from toolkit.embedded.mon.mutes import health_word, mark, muted_text, mutes_of, mutes_value
from toolkit.embedded.release import VERSION


@COMMANDS.add("status", "print a summary of the cluster")
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
        "mgrmap": {
            "available": cluster.maps.mgrmap.available,
            "num_standbys": 0,
            "modules": [],
            "services": {},
        },
        "servicemap": {"epoch": 1, "modified": "0.000000", "services": {}},
        "progress_events": {},
    }


def _status_text(cluster: Cluster) -> str:
    osdmap, use = cluster.maps.osdmap, cluster.total_use()
    states, capacity = cluster.pg_states(), cluster.capacity_bytes
    checks = cluster.health()
    muted = mutes_of(cluster)
    shown = [check.summary for name, check in checks.items() if name not in muted]
    shown += [muted_text(cluster)] if muted else []
    warnings = "".join(f"            {text}\n" for text in shown)
    up, inside, known = cluster.up_osds(), cluster.in_osds(), cluster.maps.hosts
    groups = [f"{count} {state}" for state, count in sorted(states.items())]
    flags = cluster.warned_flags()
    up_age, in_age = (age(at.to_seconds()) for at in (osdmap.last_up_change, osdmap.last_in_change))
    lines = [
        "  cluster:",
        f"    id:     {cluster.maps.fsid}",
        f"    health: {health_word(cluster)}\n{warnings} ",
        "  services:",
        f"    mon: 1 daemons, quorum {cluster.name} (age {age(cluster.began_s)})",
        f"    mgr: {_manager_text(cluster)}",
        f"    osd: {len(known)} osds: {len(up)} up (since {up_age}), {len(inside)} in (since {in_age})",
        *([f"         flags {','.join(flags)}"] if flags else []),
        " ",
        "  data:",
        f"    pools:   {len(osdmap.pools)} pools, {sum(states.values())} pgs",
        f"    objects: {use.objects} objects, {size(use.size_bytes)}",
        f"    usage:   {size(use.size_bytes)} used, {size(capacity - use.size_bytes)} / {size(capacity)} avail",
        "    pgs:     " + "\n             ".join(groups),
        " ",
    ]
    return "\n".join(lines) + "\n"


def _manager_text(cluster: Cluster) -> str:
    mgrmap = cluster.maps.mgrmap
    if not mgrmap.available:
        return "no daemons active"
    return f"{mgrmap.active_name}(active, since {age(mgrmap.active_change.to_seconds())})"


# ---- health


def _health_value(cluster: Cluster, *, detail: bool = False) -> dict[str, Any]:
    muted = mutes_of(cluster)
    checks = {
        name: {
            "severity": "HEALTH_WARN",
            "summary": {"message": check.summary, "count": check.count},
            **({"detail": [{"message": text} for text in check.detail]} if detail else {}),
            "muted": name in muted,
        }
        for name, check in cluster.health().items()
    }
    return {"status": health_word(cluster), "checks": checks, "mutes": mutes_value(cluster)}


@COMMANDS.add(
    "health name=detail,type=CephChoices,strings=detail,req=false", "print the warnings about the cluster"
)
def health(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph health``; with ``detail`` the affected daemons of each warning."""
    checks = cluster.health()
    muted = mutes_of(cluster)
    shown = [check.summary for name, check in checks.items() if name not in muted]
    summary = "; ".join([*shown, muted_text(cluster)] if muted else shown)
    lines = [f"{health_word(cluster)} {summary}".rstrip()]
    if arguments.get("detail"):
        for name, check in checks.items():
            lines.append(f"{mark(muted.get(name))}[WRN] {name}: {check.summary}")
            lines += [f"    {text}" for text in check.detail]
    value = _health_value(cluster, detail=bool(arguments.get("detail")))
    return Answer(value, "\n".join(lines))


# ---- the monitor


@COMMANDS.add("fsid", "print the id of the cluster")
def fsid(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph fsid``."""
    return Answer({"fsid": str(cluster.maps.fsid)}, f"{cluster.maps.fsid}\n")


@COMMANDS.add("mon dump", "print the monitor map")
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


_FEATURES = ("kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific")
"""Persistent features of the monitor map."""


def _monmap_value(cluster: Cluster) -> dict[str, Any]:
    monmap = cluster.maps.monmap
    mons = [
        {
            "rank": rank,
            "name": info.name,
            "public_addrs": addrs_value(info.public_addrs),
            "addr": legacy_text(info.public_addrs),
            "public_addr": legacy_text(info.public_addrs),
            "priority": 0,
            "weight": 0,
            "crush_location": "{}",
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
        "disallowed_leaders": "",
        "stretch_mode": False,
        "tiebreaker_mon": "",
        "features": {"persistent": list(_FEATURES), "optional": []},
        "mons": mons,
        "quorum": [0],
    }


@COMMANDS.add("mon stat", "print a line about the monitors")
def mon_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mon stat``."""
    (info,) = cluster.maps.monmap.ranked
    value = {"epoch": 1, "num_mons": 1, "leader": cluster.name, "quorum": [{"rank": 0, "name": cluster.name}]}
    text = f"e1: 1 mons at {{{info.name}={info.public_addrs}}}, election epoch 1, leader 0 {info.name}, quorum 0"
    return Answer(value, f"{text} {info.name}")


@COMMANDS.add("quorum_status", "print the monitors of the quorum")
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


@COMMANDS.add("mon_status", "print the state of this monitor")
def mon_status(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph tell mon.NAME mon_status``."""
    known = {"name": cluster.name, "rank": 0, "state": "leader", "election_epoch": 1, "quorum": [0]}
    known |= {"quorum_age": int(time.time() - cluster.began_s), "outside_quorum": [], "sync_provider": []}
    return Answer({**known, "monmap": _monmap_value(cluster)})


@COMMANDS.add("versions", "count all daemons by version")
def versions(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph versions``."""
    counts = {"mon": 1, "mgr": int(cluster.maps.mgrmap.available), "osd": len(cluster.up_osds()), "mds": 0}
    running = {kind: {VERSION: count} if count else {} for kind, count in counts.items()}
    return Answer({**running, "overall": {VERSION: sum(counts.values())}})


@COMMANDS.add("version", "print the version of this monitor")
def version(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph version``."""
    return Answer({"version": VERSION}, VERSION)


@COMMANDS.add("mgr stat", "print the name of the active manager")
def mgr_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mgr stat``."""
    mgrmap = cluster.maps.mgrmap
    about = {"epoch": mgrmap.epoch, "available": mgrmap.available, "active_name": mgrmap.active_name}
    return Answer({**about, "num_standby": 0})


@COMMANDS.add("mgr dump name=epoch,type=CephInt,range=0,req=false", "print the map of the managers")
def mgr_dump(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mgr dump``."""
    mgrmap = cluster.maps.mgrmap
    about = {"epoch": mgrmap.epoch, "active_gid": mgrmap.active_gid, "active_name": mgrmap.active_name}
    about |= {"active_addrs": addrs_value(mgrmap.active_addrs), "available": mgrmap.available}
    return Answer({**about, "standbys": [], "modules": [], "available_modules": [], "services": {}})


@COMMANDS.add("pg stat", "print a line about the placement groups")
def pg_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph pg stat``."""
    states, use = cluster.pg_states(), cluster.total_use()
    groups = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    value = {
        "num_pgs": sum(states.values()),
        "num_pg_by_state": [{"name": state, "num": count} for state, count in sorted(states.items())],
        "num_bytes": use.size_bytes,
        "total_bytes": cluster.capacity_bytes,
        "total_avail_bytes": cluster.capacity_bytes - use.size_bytes,
        "total_used_bytes": use.size_bytes,
        "total_used_raw_bytes": use.size_bytes,
    }
    free, most = size(cluster.capacity_bytes - use.size_bytes), size(cluster.capacity_bytes)
    space = f"{size(use.size_bytes)} data, {size(use.size_bytes)} used, {free} / {most} avail"
    text = f"{sum(states.values())} pgs: {groups}; {space}"
    return Answer({"pg_ready": True, "pg_summary": value}, text)
