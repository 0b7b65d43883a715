"""Commands that describe the daemons and the CRUSH map."""

import errno
from dataclasses import asdict
from typing import Any

from messenger.denc.address import AddrVec
from messenger.denc.features import CLIENT_FEATURES
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, addrs_value
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.crush import ROOT_ID, RULE_NAME, WEIGHT_ONE
from toolkit.embedded.mon.osd_commands import require_osd
from toolkit.embedded.release import CAPACITY_BYTES, VERSION

_ID = "name=id,type=CephOsdName"


def about_daemon(addrs: AddrVec, host: str) -> dict[str, str]:
    """Return version, address and host of a daemon, as in its metadata."""
    number = VERSION.split()[2]
    about = {"ceph_release": "pacific", "ceph_version": VERSION, "ceph_version_short": number}
    return about | {"front_addr": str(addrs), "hostname": host}


def osd_about(cluster: Cluster, osd: int) -> dict[str, Any]:
    """Return the metadata of an OSD."""
    about = about_daemon(cluster.maps.osdmap.osds[osd].client_addrs, cluster.maps.hosts[osd])
    store = {"osd_objectstore": "memory", "memory_bytes": str(CAPACITY_BYTES), "osd_data": ""}
    return {"id": osd, **about, **store}


@COMMANDS.add(f"osd metadata {_ID},req=false", "print version, address and host of an OSD, or of all")
def osd_metadata(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd metadata [ID]``."""
    if "id" in arguments:
        return Answer(osd_about(cluster, require_osd(cluster, arguments["id"])))
    return Answer([osd_about(cluster, osd) for osd in cluster.maps.hosts])


@COMMANDS.add(f"osd find {_ID}", "print the host and the address of an OSD")
def osd_find(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd find ID``."""
    osd = require_osd(cluster, arguments["id"])
    known, host = cluster.maps.osdmap.osds[osd], cluster.maps.hosts[osd]
    about = {"osd": osd, "addrs": addrs_value(known.client_addrs), "osd_fsid": str(known.uuid), "host": host}
    return Answer({**about, "crush_location": {"host": host, "root": cluster.maps.crush.names[ROOT_ID]}})


@COMMANDS.add("osd versions", "count the OSDs by version")
def osd_versions(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd versions``."""
    count = len(cluster.up_osds())
    return Answer({VERSION: count} if count else {})


@COMMANDS.add("mon versions", "count the monitors by version")
def mon_versions(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mon versions``."""
    return Answer({VERSION: 1})


@COMMANDS.add("mon metadata name=id,type=CephString,req=false", "print version and address of a monitor")
def mon_metadata(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mon metadata [NAME]``."""
    (info,) = cluster.maps.monmap.ranked
    about = {"name": info.name, "addrs": str(info.public_addrs), **about_daemon(info.public_addrs, info.name)}
    if arguments.get("id", info.name) != info.name:
        raise CommandError(errno.ENOENT, f"there is no monitor {arguments['id']}")
    return Answer(about if "id" in arguments else [about])


@COMMANDS.add("features", "count daemons and clients by their features")
def features(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph features``: of the daemons, which have those of Pacific; clients are not counted."""
    counts = {"mon": 1, "osd": len(cluster.up_osds()), "mgr": int(cluster.maps.mgrmap.available)}
    about = {"features": f"{CLIENT_FEATURES:#x}", "release": "luminous"}
    return Answer({kind: [{**about, "num": count}] for kind, count in counts.items() if count})


@COMMANDS.add(
    "osd crush rule dump name=name,type=CephString,req=false", "print a CRUSH rule, or all, with their steps"
)
def crush_rule_dump(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd crush rule dump [NAME]``."""
    steps = [
        {"op": "take", "item": ROOT_ID, "item_name": cluster.maps.crush.names[ROOT_ID]},
        {"op": "chooseleaf_firstn", "num": 0, "type": "host"},
        {"op": "emit"},
    ]
    rule: dict[str, Any] = {"rule_id": 0, "rule_name": RULE_NAME, "ruleset": 0, "type": 1}
    rule |= {"min_size": 1, "max_size": 10, "steps": steps}
    if arguments.get("name", RULE_NAME) != RULE_NAME:
        raise CommandError(errno.ENOENT, f"unknown crush rule '{arguments['name']}'")
    return Answer(rule if "name" in arguments else [rule])


@COMMANDS.add("osd crush tree", "print the buckets of the CRUSH map as a tree")
def crush_tree(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd crush tree``."""
    crush = cluster.maps.crush
    lines, nodes = ["ID  CLASS  WEIGHT   TYPE NAME"], list[dict[str, Any]]()

    def visit(number: int, depth: int) -> None:
        bucket = crush.buckets.get(number)
        kind = "osd" if bucket is None else crush.type_names[bucket.type]
        weight = 1.0 if bucket is None else bucket.weight / WEIGHT_ONE
        name = crush.names[number]
        shown = name if bucket is None else f"{kind} {name}"
        lines.append(f"{number:2}         {weight:.5f}  {'    ' * depth}{shown}")
        items = [] if bucket is None else list(bucket.items)
        about = {"id": number, "name": name, "type": kind, "type_id": 0 if bucket is None else bucket.type}
        about |= {"crush_weight": weight, "depth": depth, "pool_weights": {}, "children": items}
        nodes.append(about)
        for item in items:
            visit(item, depth + 1)

    visit(ROOT_ID, 0)
    return Answer({"nodes": nodes, "stray": []}, "\n".join(lines))


_NO_FILES = {"epoch": 1, "default_fscid": -1, "standbys": [], "filesystems": []}
"""The map of file systems, which ``ceph tell mds.*`` reads."""


@COMMANDS.add("mds stat", "count the MDSs: there are none")
def mds_stat(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mds stat``: there are no MDS daemons."""
    return Answer({"fsmap": _NO_FILES}, "\n")


@COMMANDS.add("fs dump name=epoch,type=CephInt,range=0,req=false", "print the map of the file systems")
def fs_dump(_cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph fs dump``: there are no file systems."""
    if int(arguments.get("epoch") or 1) != 1:
        raise CommandError(errno.ENOENT, f"there is no map of the file systems with epoch {arguments['epoch']}")
    return Answer(_NO_FILES, "e1\nNo filesystems configured\n", "dumped fsmap epoch 1")


@COMMANDS.add("osd crush dump", "print the CRUSH map")
def crush_dump(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd crush dump``."""
    crush = cluster.maps.crush
    buckets = []
    for number, bucket in sorted(crush.buckets.items(), reverse=True):
        items = [
            {"id": item, "weight": weight, "pos": place}
            for place, (item, weight) in enumerate(zip(bucket.items, bucket.weights, strict=True))
        ]
        about = {"id": number, "name": crush.names[number], "type_id": bucket.type}
        about |= {"type_name": crush.type_names[bucket.type], "weight": bucket.weight}
        buckets.append({**about, "alg": "straw2", "hash": "rjenkins1", "items": items})
    return Answer(
        {
            "devices": [{"id": osd, "name": f"osd.{osd}"} for osd in cluster.maps.hosts],
            "types": [{"type_id": number, "name": name} for number, name in sorted(crush.type_names.items())],
            "buckets": buckets,
            "rules": crush_rule_dump(cluster, {}).value,
            "tunables": tunables(cluster, {}).value,
            "choose_args": {},
        }
    )


@COMMANDS.add("osd crush show-tunables", "print the tunables of the CRUSH map")
def tunables(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd crush show-tunables``."""
    known = cluster.maps.crush.tunables
    return Answer({**asdict(known), "profile": "jewel", "optimal_tunables": 1, "legacy_tunables": 0})


@COMMANDS.add("osd crush class ls", "print the device classes: there are none")
def class_ls(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd crush class ls``: embedded OSDs have no device classes."""
    return Answer([])


@COMMANDS.add("osd erasure-code-profile ls", "print the profiles of erasure codes: there are none")
def profile_ls(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd erasure-code-profile ls``: there are none, and no pools that need one."""
    return Answer([])
