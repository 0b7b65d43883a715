"""Commands that count daemons, hosts, versions and services, and the monitors' maps as files."""

import errno
from collections import Counter
from typing import Any

from messenger.denc.codec import Encoder
from messenger.denc.features import ALL_FEATURES
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.daemon_commands import about_daemon, osd_about
from toolkit.embedded.mon.maps import now
from toolkit.embedded.release import VERSION

_KINDS = ("all", "osd", "mon", "mds", "mgr")
_PROPERTY = "name=property,type=CephString"


@COMMANDS.add(
    f"node ls name=type,type=CephChoices,strings={'|'.join(_KINDS)},req=false", "print the daemons of each host"
)
def node_ls(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph node ls [TYPE]``: the daemons on each host."""
    osds: dict[str, list[int]] = {}
    for osd, host in cluster.maps.hosts.items():
        osds.setdefault(host, []).append(osd)
    mgr = cluster.maps.mgrmap
    found: dict[str, Any] = {"mon": {cluster.name: [cluster.name]}, "osd": osds, "mds": {}}
    found["mgr"] = {cluster.name: [mgr.active_name]} if mgr.available else {}
    kind = arguments.get("type", "all")
    if kind not in _KINDS:
        raise CommandError(errno.EINVAL, f"unknown type '{kind}'")
    return Answer(found if kind == "all" else found[kind])


@COMMANDS.add("time-sync-status", "print the offsets between the clocks of the monitors")
def time_sync_status(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph time-sync-status``: a monitor alone compares its clock with none."""
    return Answer({"timechecks": {"epoch": 1, "round": 0, "round_status": "finished"}})


@COMMANDS.add("mon getmap name=epoch,type=CephInt,range=0,req=false", "return the monitor map in its binary form")
def mon_getmap(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mon getmap``: the monitor map, encoded."""
    monmap = cluster.maps.monmap
    if int(arguments.get("epoch", monmap.epoch)) not in (0, monmap.epoch):
        raise CommandError(errno.ENOENT, f"there is no monmap of epoch {arguments['epoch']}")
    encoder = Encoder()
    monmap.encode(encoder, ALL_FEATURES)
    return Answer(data=encoder.getvalue(), status=f"got monmap epoch {monmap.epoch}")


@COMMANDS.add(f"mon count-metadata {_PROPERTY}", "count the monitors by the value of a field of their metadata")
def mon_count(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mon count-metadata PROPERTY``."""
    (info,) = cluster.maps.monmap.ranked
    return _counted([about_daemon(info.public_addrs, info.name)], arguments)


@COMMANDS.add(f"osd count-metadata {_PROPERTY}", "count the OSDs by the value of a field of their metadata")
def osd_count(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd count-metadata PROPERTY``."""
    return _counted([osd_about(cluster, osd) for osd in cluster.maps.hosts], arguments)


def _counted(daemons: list[dict[str, Any]], arguments: Arguments) -> Answer:
    return Answer(dict(Counter(str(about.get(arguments["property"], "unknown")) for about in daemons)))


@COMMANDS.add("mgr versions", "count the managers by version")
def mgr_versions(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mgr versions``."""
    return Answer({VERSION: 1} if cluster.maps.mgrmap.available else {})


@COMMANDS.add(
    "mgr metadata name=who,type=CephString,req=false", "print version and address of a manager, or of all"
)
def mgr_metadata(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mgr metadata [NAME]``."""
    mgr = cluster.maps.mgrmap
    if arguments.get("who", mgr.active_name) != mgr.active_name:
        raise CommandError(errno.ENOENT, f"there is no manager {arguments['who']}")
    about = {"name": mgr.active_name, "addrs": str(mgr.active_addrs)}
    about |= about_daemon(mgr.active_addrs, cluster.name)
    return Answer(about if "who" in arguments else [about])


@COMMANDS.add("service dump", "print the registered services")
def service_dump(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph service dump``: services register, but this manager keeps no list of them."""
    return Answer({"epoch": 1, "modified": str(now()), "services": {}})


@COMMANDS.add("service status", "print the states of the registered services")
def service_status(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph service status``."""
    return Answer({})


@COMMANDS.add(
    "mon ok-to-stop name=ids,type=CephString,n=N",
    "check if a quorum remains without these monitors",
)
def mon_ok_to_stop(_cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mon ok-to-stop NAME``: EBUSY, there is one monitor."""
    shown = ",".join(arguments["ids"])
    raise CommandError(errno.EBUSY, f"not enough monitors would be available () after stopping mons [{shown}]")


@COMMANDS.add("mon ok-to-rm name=id,type=CephString", "check if a quorum remains after the removal of a monitor")
def mon_ok_to_rm(_cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mon ok-to-rm NAME``: EBUSY, there is one monitor."""
    raise CommandError(errno.EBUSY, f"removing mon.{arguments['id']} would break quorum")


@COMMANDS.add("config generate-minimal-conf", "print a configuration file with what clients need")
def minimal_conf(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph config generate-minimal-conf``."""
    fsid = cluster.maps.fsid
    hosts = " ".join(str(info.public_addrs) for info in cluster.maps.monmap.ranked)
    text = f"# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {hosts}\n"
    return Answer(data=text.encode())
