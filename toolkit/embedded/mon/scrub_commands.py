"""Commands that request scrubs: the OSDs carry them out, and report their time and result."""

import errno
from collections.abc import Callable

from messenger.messages.osd_objects import ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_scrub import MOSDScrub2
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.osd_commands import named_osds
from toolkit.embedded.mon.pg_commands import require_group
from toolkit.embedded.mon.pool_commands import require_pool
from toolkit.rados.placement import NO_OSD

_WAYS = ("scrub", "deep-scrub", "repair")
"""A repair is a deep scrub that mends what it finds: with one copy of each object that is nothing."""


def _request(cluster: Cluster, osd: int, groups: list[PgId], way: str) -> bool:
    """Request a scrub of placement groups from their primary; returns False if it has no session."""
    sharded = [ShardedPgId(pgid) for pgid in groups]
    fsid, epoch = cluster.maps.fsid, cluster.maps.osdmap.epoch
    return cluster.send_to_osd(osd, MOSDScrub2(fsid, epoch, sharded, way == "repair", way != "scrub"))


def _scrub_group(cluster: Cluster, arguments: Arguments, way: str) -> Answer:
    pgid = require_group(cluster, arguments["pgid"])
    osd = cluster.maps.placement.mapping(pgid).acting_primary
    if osd == NO_OSD:
        raise CommandError(errno.EAGAIN, f"pg {pgid} has no primary osd")
    if not _request(cluster, osd, [pgid], way):
        raise CommandError(errno.EAGAIN, f"pg {pgid} primary osd.{osd} not currently connected")
    return Answer(status=f"instructing pg {pgid} on osd.{osd} to {way}")


def _scrub_osd(cluster: Cluster, arguments: Arguments, way: str) -> Answer:
    who = str(arguments["who"])
    osds = cluster.up_osds() if who in ("all", "any", "*") else named_osds(cluster, [who])
    for osd in osds:
        if osd not in cluster.up_osds():
            raise CommandError(errno.EAGAIN, f"osd.{osd} is not up")
    for osd in osds:
        _request(cluster, osd, [pgid for pgid, primary in cluster.groups() if primary == osd], way)
    return Answer(status=f"instructed osd(s) {','.join(map(str, osds))} to {way}")


def _scrub_pools(cluster: Cluster, arguments: Arguments, way: str) -> Answer:
    pools = {require_pool(cluster, str(name)) for name in arguments["who"]}
    for osd in cluster.up_osds():
        groups = [pgid for pgid, primary in cluster.groups() if primary == osd and pgid.pool in pools]
        if groups:
            _request(cluster, osd, groups, way)
    return Answer()


def _add(signature: str, of: str, carry_out: Callable[[Cluster, Arguments, str], Answer], way: str) -> None:
    def handler(cluster: Cluster, arguments: Arguments) -> Answer:
        return carry_out(cluster, arguments, way)

    words, parameter = signature.split(" name=")
    COMMANDS.add(f"{words} {way} name={parameter}", f"start a {way} of {of}", writes=True)(handler)


for _way in _WAYS:
    _add("pg name=pgid,type=CephPgid", "a placement group", _scrub_group, _way)
    _add("osd name=who,type=CephString", "the placement groups of an OSD, or of all", _scrub_osd, _way)
    _add("osd pool name=who,type=CephPoolname,n=N", "the placement groups of pools", _scrub_pools, _way)
