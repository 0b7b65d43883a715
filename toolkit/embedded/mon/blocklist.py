"""Clients that OSDs serve no longer, by address: ``rbd`` adds the owner of a lock before it breaks the lock."""

import errno
import time
from dataclasses import replace

from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.utime import UTime
from messenger.errors import LocalError
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.osd_commands import shown_client

_DEFAULT_S = 3600.0
"""``mon_osd_blocklist_default_expire``."""
_PARAMETERS = "name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false"
_ADD_OR_RM = "type=CephChoices,strings=add|rm"


def expire(cluster: Cluster) -> float | None:
    """Remove the addresses whose time is over; returns the seconds until the next one's is, None without any."""
    now_s, maps = time.time(), cluster.maps
    over = [addr for addr, until in maps.osdmap.blocklist.items() if until.to_seconds() <= now_s]
    if over:
        maps.change(old_blocklist=over)
    return min((until.to_seconds() - now_s for until in maps.osdmap.blocklist.values()), default=None)


@COMMANDS.add("osd blocklist ls", "print the addresses of the blocklist, and until when")
@COMMANDS.add("osd blacklist ls", "show blacklisted clients (deprecated)")
def blocklist_ls(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd blocklist ls``."""
    known = cluster.maps.osdmap.blocklist
    value = [{"addr": shown_client(addr), "until": str(until)} for addr, until in known.items()]
    text = "".join(f"{each['addr']} {each['until']}\n" for each in value)
    return Answer(value, text, f"listed {len(value)} entries")


@COMMANDS.add("osd blocklist clear", "empty the blocklist", writes=True)
@COMMANDS.add("osd blacklist clear", "clear all blacklisted clients (deprecated)", writes=True)
def blocklist_clear(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd blocklist clear``."""
    cluster.maps.change(old_blocklist=list(cluster.maps.osdmap.blocklist))
    return Answer(status=" removed all blocklist entries")


@COMMANDS.add(
    f"osd blocklist name=blocklistop,{_ADD_OR_RM} {_PARAMETERS}",
    "add or remove <addr> from blocklist",
    writes=True,
)
@COMMANDS.add(
    f"osd blacklist name=blacklistop,{_ADD_OR_RM} {_PARAMETERS}",
    "add or remove <addr> from blacklist (deprecated)",
    writes=True,
)
def blocklist_change(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd blocklist add ADDR [SECONDS]``, ``ceph osd blocklist rm ADDR``."""
    addr = _parsed(str(arguments["addr"]))
    known, maps = cluster.maps.osdmap.blocklist, cluster.maps
    if arguments.get("blocklistop", arguments.get("blacklistop")) == "rm":
        if addr not in known:
            return Answer(status=f"{shown_client(addr)} isn't blocklisted")
        maps.change(old_blocklist=[addr])
        return Answer(status=f"un-blocklisting {shown_client(addr)}")
    length_s = float(arguments.get("expire") or _DEFAULT_S)
    try:
        until = UTime.from_seconds(time.time() + length_s)
    except LocalError as error:
        raise CommandError(errno.EINVAL, f"expire: {error}") from None
    maps.change(new_blocklist={addr: until})
    return Answer(status=f"blocklisting {shown_client(addr)} until {until} ({length_s:g} sec)")


def _parsed(text: str) -> EntityAddr:
    """Parse an address, which is blocklisted whatever its protocol."""
    try:
        return replace(EntityAddr.parse(text), type=AddressType.ANY)
    except LocalError as error:
        raise CommandError(errno.EINVAL, f"unable to parse address {text}: {error}") from None
