"""Commands that mark OSDs down, ask what depends on them, and remove none."""

import errno
import json
from typing import Any

from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, table
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.crush import WEIGHT_ONE
from toolkit.embedded.mon.osd_commands import named_osds, osd_line, osd_number, osd_value, require_osd

_ID = "name=id,type=CephOsdName"
_IDS = "name=ids,type=CephString,n=N"
_SURE = "name=yes_i_really_mean_it,type=CephBool,req=false"


def _known(cluster: Cluster, words: list[str]) -> list[int]:
    return [require_osd(cluster, osd) for osd in named_osds(cluster, words)]


@COMMANDS.add(
    f"osd down {_IDS} name=definitely_dead,type=CephBool,req=false",
    "mark OSDs down; they come back by themselves",
    writes=True,
)
def osd_down(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd down ID...``; an OSD that runs is up again soon, unless the flag ``noup`` is set."""
    words = []
    for osd in named_osds(cluster, arguments["ids"]):
        if osd not in cluster.maps.hosts:
            words.append(f"osd.{osd} does not exist.")
        elif not cluster.maps.osdmap.osds[osd].is_up:
            words.append(f"osd.{osd} is already down.")
        else:
            cluster.maps.mark_down(osd)
            words.append(f"marked down osd.{osd}.")
    return Answer(status=" ".join(words))


@COMMANDS.add(
    f"osd ok-to-stop {_IDS} name=max,type=CephInt,req=false",
    "check if all data remain available without these OSDs",
)
def ok_to_stop(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd ok-to-stop ID...``: never while an OSD has placement groups, as objects have one copy."""
    osds = _known(cluster, arguments["ids"])
    groups = [pgid for pgid, primary in cluster.groups() if primary in osds]
    value: dict[str, Any] = {
        "ok_to_stop": not groups,
        "osds": osds,
        "num_ok_pgs": 0,
        "num_not_ok_pgs": len(groups),
    }
    if groups:
        value["bad_become_inactive"] = [str(pgid) for pgid in groups]
        text = f"unsafe to stop osd(s) at this time ({len(groups)} PGs are or would become offline)"
        raise CommandError(errno.EBUSY, text, json.dumps(value).encode() + b"\n")
    return Answer(value, json.dumps(value))


@COMMANDS.add(f"osd safe-to-destroy {_IDS}", "check if no data would be lost with these OSDs")
def safe_to_destroy(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd safe-to-destroy ID...``."""
    osds = _known(cluster, arguments["ids"])
    shown = ",".join(map(str, osds))
    if count := sum(primary in osds for _, primary in cluster.groups()):
        raise CommandError(errno.EBUSY, f"OSD(s) {shown} have {count} pgs currently mapped to them.")
    value = {"safe_to_destroy": osds, "active": [], "missing_stats": [], "stored_pgs": []}
    return Answer(value, "", f"OSD(s) {shown} are safe to destroy without reducing data durability.")


@COMMANDS.add(f"osd info {_ID},req=false", "print an OSD, or all, as in the OSD map")
def osd_info(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd info [ID]``."""
    osds = cluster.maps.osdmap.osds
    if "id" in arguments:
        try:
            osd = require_osd(cluster, arguments["id"])
        except CommandError as error:
            raise CommandError(errno.EINVAL, str(error)) from None  # ENOENT of the other commands
        return Answer(osd_value(osd, osds[osd]), osd_line(osd, osds[osd]))
    value = [osd_value(osd, osds[osd]) for osd in cluster.maps.hosts]
    return Answer(value, "".join(f"{osd_line(osd, osds[osd])}\n" for osd in cluster.maps.hosts))


@COMMANDS.add("osd perf", "print the latencies of the OSDs")
def osd_perf(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd perf``: objects are in memory, so all latencies are 0."""
    names = ("commit_latency_ms", "apply_latency_ms", "commit_latency_ns", "apply_latency_ns")
    stats: dict[str, Any] = dict.fromkeys(names, 0)
    value = {"osd_perf_infos": [{"id": osd, "perf_stats": stats} for osd in cluster.up_osds()]}
    rows = [["osd", "commit_latency(ms)", "apply_latency(ms)"], *([str(o), "0", "0"] for o in cluster.up_osds())]
    return Answer({"pg_ready": True, "osdstats": value}, table(rows, left=0))


@COMMANDS.add("osd blocked-by", "count the OSDs for which others wait")
def blocked_by(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd blocked-by``: OSDs have no peers, and block none."""
    return Answer([], "osd  num_blocked\n")


@COMMANDS.add(
    f"osd reweight {_ID} name=weight,type=CephFloat,range=0.0|1.0",
    "set the share of its data that an OSD keeps, from 0 to 1",
    writes=True,
)
def osd_reweight(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd reweight ID WEIGHT``: EOPNOTSUPP for a weight that would move placement groups."""
    osd, weight = require_osd(cluster, arguments["id"]), float(arguments["weight"])
    if not 0 <= weight <= 1:
        raise CommandError(errno.EINVAL, f"weight {weight:g} is not in 0.0 .. 1.0")
    if int(weight * WEIGHT_ONE) != cluster.maps.osdmap.osds[osd].weight:
        raise CommandError(errno.EOPNOTSUPP, "embedded OSDs move no objects; use 'osd out' and 'osd in'")
    return Answer(status=f"reweighted osd.{osd} to {weight:g} ({int(weight * WEIGHT_ONE):x})")


@COMMANDS.add(f"osd rm {_IDS}", "remove OSDs from the map", writes=True)
def osd_rm(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd rm ID...``: EBUSY for an OSD that is up, EOPNOTSUPP for another one."""
    words = []
    for osd in map(osd_number, arguments["ids"]):
        if osd not in cluster.maps.hosts:
            words.append(f"osd.{osd} does not exist.")
        else:
            _refuse(cluster, osd, f"osd.{osd} is up: only an OSD that is down can be removed. ")
    return Answer(status=" ".join(words))


@COMMANDS.add(f"osd lost {_ID} {_SURE}", "give up the data of an OSD", writes=True)
def osd_lost(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd lost ID --yes-i-really-mean-it``: EBUSY for an OSD that is up, EOPNOTSUPP for another one."""
    _check_sure(arguments)
    osd = require_osd(cluster, arguments["id"])
    return _refuse(cluster, osd, f"osd.{osd} is not down or doesn't exist")


@COMMANDS.add(
    f"osd destroy {_ID} name=force,type=CephBool,req=false {_SURE}",
    "remove the keys of an OSD, and keep its id",
    writes=True,
)
@COMMANDS.add(
    f"osd purge {_ID} name=force,type=CephBool,req=false {_SURE}",
    "remove an OSD with its key and its place in the CRUSH map",
    writes=True,
)
def osd_destroy(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd destroy ID``, ``ceph osd purge ID``: EBUSY for an OSD that is up, EOPNOTSUPP for another one."""
    osd = osd_number(arguments["id"])
    if osd not in cluster.maps.hosts:
        return Answer(status=f"osd.{osd} does not exist")
    _check_sure(arguments)
    return _refuse(cluster, osd, f"osd.{osd} is not `down`.")


def _check_sure(arguments: Arguments) -> None:
    if not arguments.get("yes_i_really_mean_it"):
        raise CommandError(errno.EPERM, "objects would be lost; pass --yes-i-really-mean-it if you want this")


def _refuse(cluster: Cluster, osd: int, busy: str) -> Answer:
    if cluster.maps.osdmap.osds[osd].is_up:
        raise CommandError(errno.EBUSY, busy)
    raise CommandError(errno.EOPNOTSUPP, "embedded clusters keep the OSDs of their spec")


@COMMANDS.add("osd ls-tree name=name,type=CephString,req=true", "print the ids of the OSDs below a bucket")
def ls_tree(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd ls-tree BUCKET``."""
    crush = cluster.maps.crush
    number = next((known for known, name in crush.names.items() if name == arguments["name"]), None)
    if number is None:
        raise CommandError(errno.ENOENT, f'"{arguments["name"]}" does not exist')
    found: list[int] = []
    pending = [number]
    while pending:
        one = pending.pop()
        found += [one] if one >= 0 else []
        pending += crush.buckets[one].items if one < 0 else []
    return Answer(sorted(found), "".join(f"{osd}\n" for osd in sorted(found)))
