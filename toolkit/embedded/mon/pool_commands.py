"""Commands about pools."""

import errno
from typing import Any

from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.osd_commands import pool_line, pool_value

DEFAULT_PG_NUM = 8
MOST_PG_NUM = 256

_POOL = "name=pool,type=CephPoolname"
_READABLE = ("size", "min_size", "pg_num", "pgp_num", "crush_rule", "hashpspool", "pg_autoscale_mode")
_APP = "name=app,type=CephString,goodchars=[A-Za-z0-9-_.]"


def require_pool(cluster: Cluster, name: str) -> int:
    """Return the id of a pool.

    Raises:
        CommandError: ENOENT, no pool has this name.
    """
    pool_id = cluster.maps.pool_id(name)
    if pool_id is None:
        raise CommandError(errno.ENOENT, f"unrecognized pool '{name}'")
    return pool_id


def create(cluster: Cluster, name: str, pg_num: int = DEFAULT_PG_NUM) -> bool:
    """Create a pool; returns False if a pool has this name already.

    Raises:
        CommandError: the name is empty, or the number of placement groups is out of range.
    """
    if not name:
        raise CommandError(errno.EINVAL, "a pool needs a name")
    if not 1 <= pg_num <= MOST_PG_NUM:
        raise CommandError(
            errno.ERANGE, f"'pg_num' must be greater than 0 and at most {MOST_PG_NUM}, not {pg_num}"
        )
    if cluster.maps.pool_id(name) is not None:
        return False
    cluster.maps.create_pool(name, pg_num)
    return True


def delete(cluster: Cluster, pool_id: int) -> None:
    """Delete a pool; OSDs drop its objects when they see the map."""
    cluster.maps.change(old_pools=[pool_id])


@COMMANDS.add(
    f"osd pool create {_POOL} name=pg_num,type=CephInt,range=0,req=false"
    " name=pgp_num,type=CephInt,range=0,req=false"
    " name=pool_type,type=CephChoices,strings=replicated|erasure,req=false"
    " name=size,type=CephInt,range=0,req=false",
    "create pool",
    writes=True,
)
def pool_create(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool create NAME [PG_NUM]``."""
    name = str(arguments["pool"])
    if arguments.get("pool_type", "replicated") != "replicated":
        raise CommandError(errno.EOPNOTSUPP, "embedded OSDs have no erasure-coded pools")
    if arguments.get("size", 1) not in (0, 1):
        raise CommandError(errno.EINVAL, f"size {arguments['size']}: embedded OSDs keep one copy of an object")
    made = create(cluster, name, int(arguments.get("pg_num") or DEFAULT_PG_NUM))
    return Answer(status=f"pool '{name}' {'created' if made else 'already exists'}")


_SURE = (
    "name=pool2,type=CephPoolname,req=false"
    " name=yes_i_really_really_mean_it,type=CephBool,req=false"
    " name=yes_i_really_really_mean_it_not,type=CephBool,req=false"
)


@COMMANDS.add(
    f"osd pool delete {_POOL} name=pool2,type=CephPoolname,req=false {_SURE}", "delete pool", writes=True
)
@COMMANDS.add(f"osd pool rm {_POOL} name=pool2,type=CephPoolname,req=false {_SURE}", "remove pool", writes=True)
def pool_delete(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool delete NAME NAME --yes-i-really-really-mean-it``."""
    name = arguments["pool"]
    pool_id = cluster.maps.pool_id(name)
    if pool_id is None:
        return Answer(status=f"pool '{name}' does not exist")
    sure = arguments.get("yes_i_really_really_mean_it") or arguments.get("sure") == "--yes-i-really-really-mean-it"
    if arguments.get("pool2") != name or not sure:
        raise CommandError(
            errno.EPERM,
            f"WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}. Give its name twice,"
            " followed by --yes-i-really-really-mean-it.",
        )
    delete(cluster, pool_id)
    return Answer(status=f"pool '{name}' removed")


@COMMANDS.add(
    "osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname", "rename pool", writes=True
)
def pool_rename(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool rename OLD NEW``."""
    old, new = arguments["srcpool"], arguments["destpool"]
    pool_id = require_pool(cluster, old)
    if cluster.maps.pool_id(new) is not None:
        raise CommandError(errno.EEXIST, f"pool '{new}' already exists")
    cluster.maps.change(new_pool_names={pool_id: new})
    return Answer(status=f"pool '{old}' renamed to '{new}'")


@COMMANDS.add("osd pool ls name=detail,type=CephChoices,strings=detail,req=false", "list pools")
def pool_ls(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool ls``; with ``detail`` each pool's line of ``ceph osd dump``."""
    names = dict(sorted(cluster.maps.osdmap.pool_names.items()))
    if not arguments.get("detail"):
        return Answer(list(names.values()), "".join(f"{name}\n" for name in names.values()))
    pools = cluster.maps.osdmap.pools
    text = "".join(f"{pool_line(number, name, pools[number])}\n" for number, name in names.items())
    return Answer([pool_value(number, cluster) for number in names], f"{text}\n")


@COMMANDS.add("osd lspools", "list pools")
def lspools(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd lspools``."""
    names = sorted(cluster.maps.osdmap.pool_names.items())
    value = [{"poolnum": number, "poolname": name} for number, name in names]
    return Answer(value, "".join(f"{number} {name}\n" for number, name in names))


@COMMANDS.add(
    f"osd pool get {_POOL} name=var,type=CephChoices,strings={'|'.join((*_READABLE, 'all'))}",
    "get pool parameter <var>",
)
def pool_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool get NAME VARIABLE``."""
    pool_id = require_pool(cluster, arguments["pool"])
    pool, wanted = cluster.maps.osdmap.pools[pool_id], arguments["var"]
    if wanted not in (*_READABLE, "all"):
        raise CommandError(errno.EINVAL, f"pool_get: no variable {wanted!r}; known: {', '.join(_READABLE)}")
    values: dict[str, Any] = {
        "size": pool.size,
        "min_size": pool.min_size,
        "pg_num": pool.pg_num,
        "pgp_num": pool.pgp_num,
        "crush_rule": cluster.maps.crush.rule_names[pool.crush_rule],
        "hashpspool": True,
        "pg_autoscale_mode": "off",
    }
    chosen = values if wanted == "all" else {wanted: values[wanted]}
    text = "".join(f"{name}: {str(value).lower()}\n" for name, value in chosen.items())
    return Answer({"pool": arguments["pool"], "pool_id": pool_id, **chosen}, text)


@COMMANDS.add(
    f"osd pool application enable {_POOL} {_APP} name=yes_i_really_mean_it,type=CephBool,req=false",
    "enable use of an application <app> on pool <poolname>",
    writes=True,
)
def application_enable(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool application enable POOL APP``."""
    pool_id = require_pool(cluster, arguments["pool"])
    known = cluster.maps.osdmap.pools[pool_id].application_metadata
    if arguments["app"] not in known:
        cluster.maps.change_pool(pool_id, application_metadata={**known, arguments["app"]: {}})
    return Answer(status=f"enabled application '{arguments['app']}' on pool '{arguments['pool']}'")


@COMMANDS.add(f"osd pool application get {_POOL.replace('pool,', 'pool,req=false,')}", "get pool applications")
def application_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool application get [POOL]``."""
    osdmap = cluster.maps.osdmap
    if "pool" in arguments:
        return Answer(osdmap.pools[require_pool(cluster, arguments["pool"])].application_metadata)
    return Answer({name: osdmap.pools[number].application_metadata for number, name in osdmap.pool_names.items()})
