"""Commands about pools."""

import errno
from typing import Any

from messenger.messages.pool import PoolFlag
from toolkit.embedded.mon import pool_opts
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import POOL_FLAG_NAMES, Cluster
from toolkit.embedded.mon.osd_commands import pool_line, pool_value

DEFAULT_PG_NUM = 8
MOST_PG_NUM = 256

_POOL = "name=pool,type=CephPoolname"
POOL_FLAGS = {name: flag for flag, name in POOL_FLAG_NAMES.items() if name.startswith(("no", "bulk", "write"))}
"""Options of a pool that are bits of its flags."""
_READABLE = (
    *("size", "min_size", "pg_num", "pgp_num", "crush_rule", "hashpspool", "use_gmt_hitset", "fast_read"),
    *("pg_autoscale_mode", "eio", *POOL_FLAGS),
)
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
    """Delete a pool; OSDs drop its objects when they see the map.

    Raises:
        CommandError: EPERM: its option ``nodelete`` is set.
    """
    if cluster.maps.osdmap.pools[pool_id].flags & PoolFlag.NODELETE:
        raise CommandError(errno.EPERM, "the pool has the flag nodelete: set nodelete to false first")
    cluster.maps.change(old_pools=[pool_id])


@COMMANDS.add(
    f"osd pool create {_POOL} name=pg_num,type=CephInt,range=0,req=false"
    " name=pgp_num,type=CephInt,range=0,req=false"
    " name=pool_type,type=CephChoices,strings=replicated|erasure,req=false"
    " name=erasure_code_profile,type=CephString,req=false"
    " name=rule,type=CephString,req=false"
    " name=expected_num_objects,type=CephInt,range=0,req=false"
    " name=size,type=CephInt,range=0,req=false"
    " name=pg_num_min,type=CephInt,range=0,req=false"
    " name=pg_num_max,type=CephInt,range=0,req=false"
    " name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false"
    " name=bulk,type=CephBool,req=false"
    " name=target_size_bytes,type=CephInt,range=0,req=false"
    " name=target_size_ratio,type=CephFloat,range=0.0,req=false"
    " name=yes_i_really_mean_it,type=CephBool,req=false",
    "make a pool",
    writes=True,
)
def pool_create(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool create NAME [PG_NUM [PGP_NUM [replicated [RULE]]]]``; sizes and limits have no effect."""
    name = str(arguments["pool"])
    if name.startswith(".") and name != ".mgr" and not arguments.get("yes_i_really_mean_it"):
        return Answer(status="pool names beginning with . are not allowed")  # no error, as in Ceph
    if arguments.get("pool_type", "replicated") != "replicated":
        raise CommandError(errno.EOPNOTSUPP, "embedded OSDs have no erasure-coded pools")
    if arguments.get("size", 1) not in (0, 1):
        raise CommandError(errno.EINVAL, f"size {arguments['size']}: embedded OSDs keep one copy of an object")
    for rule in rules_named(arguments):
        require_rule(cluster, rule)
    pg_num = int(arguments.get("pg_num") or DEFAULT_PG_NUM)
    if int(arguments.get("pgp_num") or pg_num) > pg_num:
        raise CommandError(errno.ERANGE, f"'pgp_num' must be greater than 0 and at most 'pg_num', {pg_num}")
    made = create(cluster, name, pg_num)
    if made and arguments.get("bulk"):
        pool_id = require_pool(cluster, name)
        cluster.maps.change_pool(pool_id, flags=cluster.maps.osdmap.pools[pool_id].flags | PoolFlag.BULK)
    return Answer(status=f"pool '{name}' {'created' if made else 'already exists'}")


def rules_named(arguments: Arguments) -> list[str]:
    """Return the names of CRUSH rules of a new pool: one of a replicated pool may be where profiles are."""
    return [str(arguments[name]) for name in ("erasure_code_profile", "rule") if arguments.get(name)]


def require_rule(cluster: Cluster, name: str) -> int:
    """Return the number of a CRUSH rule; raises CommandError, ENOENT."""
    found = next((number for number, known in cluster.maps.crush.rule_names.items() if known == name), None)
    if found is None:
        raise CommandError(errno.ENOENT, f"specified rule {name} doesn't exist")
    return found


_SURE = (
    "name=pool2,type=CephPoolname,req=false"
    " name=yes_i_really_really_mean_it,type=CephBool,req=false"
    " name=yes_i_really_really_mean_it_not,type=CephBool,req=false"
)


@COMMANDS.add(
    f"osd pool delete {_POOL} name=pool2,type=CephPoolname,req=false {_SURE}",
    "remove a pool and its objects",
    writes=True,
)
@COMMANDS.add(
    f"osd pool rm {_POOL} name=pool2,type=CephPoolname,req=false {_SURE}",
    "remove a pool and its objects",
    writes=True,
)
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
            f"this removes pool {name} with all its objects for ever: give its name twice, and then"
            " --yes-i-really-really-mean-it",
        )
    delete(cluster, pool_id)
    return Answer(status=f"pool '{name}' removed")


@COMMANDS.add(
    "osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname",
    "give a pool another name",
    writes=True,
)
def pool_rename(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool rename OLD NEW``."""
    old, new = arguments["srcpool"], arguments["destpool"]
    if cluster.maps.pool_id(old) is None and cluster.maps.pool_id(new) is not None:
        return Answer(status=f"pool '{old}' has the name '{new}' already")
    pool_id = require_pool(cluster, old)
    if cluster.maps.pool_id(new) is not None:
        raise CommandError(errno.EEXIST, f"pool '{new}' already exists")
    cluster.maps.change(new_pool_names={pool_id: new})
    return Answer(status=f"pool '{old}' renamed to '{new}'")


@COMMANDS.add("osd pool ls name=detail,type=CephChoices,strings=detail,req=false", "print the names of the pools")
def pool_ls(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool ls``; with ``detail`` each pool's line of ``ceph osd dump``."""
    names = dict(sorted(cluster.maps.osdmap.pool_names.items()))
    if not arguments.get("detail"):
        return Answer(list(names.values()), "".join(f"{name}\n" for name in names.values()))
    pools = cluster.maps.osdmap.pools
    text = "".join(f"{pool_line(number, name, pools[number])}\n" for number, name in names.items())
    value = [{"pool_id": number, **pool_value(number, cluster)} for number in names]
    return Answer(value, f"{text}\n")


@COMMANDS.add("osd lspools", "print the names of the pools")
def lspools(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd lspools``."""
    names = sorted(cluster.maps.osdmap.pool_names.items())
    value = [{"poolnum": number, "poolname": name} for number, name in names]
    return Answer(value, "".join(f"{number} {name}\n" for number, name in names))


@COMMANDS.add(
    f"osd pool get {_POOL} name=var,type=CephChoices,strings={'|'.join((*_READABLE, *pool_opts.OPTIONS, 'all'))}",
    "print a parameter of a pool",
)
def pool_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool get NAME VARIABLE``."""
    pool_id = require_pool(cluster, arguments["pool"])
    pool, wanted = cluster.maps.osdmap.pools[pool_id], arguments["var"]
    if wanted not in (*_READABLE, *pool_opts.OPTIONS, "all"):
        raise CommandError(errno.EINVAL, f"pool_get: no variable {wanted!r}; known: {', '.join(_READABLE)}")
    values: dict[str, Any] = {
        "size": pool.size,
        "min_size": pool.min_size,
        "pg_num": pool.pg_num,
        "pgp_num": pool.pgp_num,
        "crush_rule": cluster.maps.crush.rule_names[pool.crush_rule],
        "hashpspool": True,
        "use_gmt_hitset": True,
        "fast_read": 0,
        "pg_autoscale_mode": "off",
        "eio": False,
        **{name: bool(pool.flags & flag) for name, flag in POOL_FLAGS.items()},
        **pool_opts.named(pool_opts.read(pool.opts)),
    }
    if wanted not in (*values, "all"):
        raise CommandError(errno.ENOENT, f"option '{wanted}' is not set on pool '{arguments['pool']}'")
    chosen = values if wanted == "all" else {wanted: values[wanted]}
    text = "".join(f"{name}: {pool_opts.shown(value)}\n" for name, value in chosen.items())
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
    if known and arguments["app"] not in known and not arguments.get("yes_i_really_mean_it"):
        raise CommandError(
            errno.EPERM,
            f"pool '{arguments['pool']}' has another application: --yes-i-really-mean-it adds this one, too",
        )
    if arguments["app"] not in known:
        cluster.maps.change_pool(pool_id, application_metadata={**known, arguments["app"]: {}})
    return Answer(status=f"enabled application '{arguments['app']}' on pool '{arguments['pool']}'")


@COMMANDS.add(
    f"osd pool application get {_POOL.replace('pool,', 'pool,req=false,')} {_APP},req=false"
    " name=key,type=CephString,req=false",
    "get value of key of application on pool",
)
def application_get(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool application get [POOL [APP [KEY]]]``."""
    osdmap = cluster.maps.osdmap
    if "pool" not in arguments:
        return Answer(
            {name: osdmap.pools[number].application_metadata for number, name in osdmap.pool_names.items()}
        )
    known, name = osdmap.pools[require_pool(cluster, arguments["pool"])].application_metadata, arguments["pool"]
    if "app" not in arguments:
        return Answer(known)
    app = str(arguments["app"])
    if app not in known:
        raise CommandError(errno.ENOENT, f"pool '{name}' has no application '{app}'")
    if "key" not in arguments:
        return Answer(known[app])
    if arguments["key"] not in known[app]:
        raise CommandError(
            errno.ENOENT, f"application '{app}' on pool '{name}' does not have key '{arguments['key']}'"
        )
    return Answer(known[app][arguments["key"]], known[app][arguments["key"]])
