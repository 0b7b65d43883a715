"""Commands about the options, quotas, applications and snapshots of pools."""

import errno
from dataclasses import replace

from messenger.messages.pool import PoolFlag
from toolkit.embedded.known_options import KIBI, THOUSANDS, parse_count
from toolkit.embedded.mon import pool_opts, snapshots
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, size
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.pool_commands import POOL_FLAGS, require_pool, require_rule

_POOL = "name=pool,type=CephPoolname"
_FIXED = ("size", "min_size", "pg_num", "pgp_num")
"""Options that can only be set to the value that they have."""
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@COMMANDS.add(
    f"osd pool set {_POOL} name=var,type=CephChoices,"
    f"strings={'|'.join((*_FIXED, *POOL_FLAGS, 'pg_autoscale_mode', 'crush_rule', *pool_opts.OPTIONS))}"
    " name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
    "change a parameter of a pool",
    writes=True,
)
def pool_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool set POOL VARIABLE VALUE``."""
    pool_id = require_pool(cluster, arguments["pool"])
    pool, name, wanted = cluster.maps.osdmap.pools[pool_id], str(arguments["var"]), str(arguments["val"])
    if name in POOL_FLAGS:
        if wanted not in _TRUE + _FALSE:
            raise CommandError(errno.EINVAL, f"expecting value 'true', 'false', '0', or '1', not {wanted!r}")
        flag = POOL_FLAGS[name]
        cluster.maps.change_pool(pool_id, flags=pool.flags | flag if wanted in _TRUE else pool.flags & ~flag)
    elif name in pool_opts.OPTIONS:
        _set_option(cluster, pool_id, name, wanted)
    elif name == "crush_rule":
        require_rule(cluster, wanted)  # there is one
    elif name == "size" and wanted == "1" and not arguments.get("yes_i_really_mean_it"):
        raise CommandError(
            errno.EPERM,
            "WARNING: with size 1 data can be lost; pass the flag --yes-i-really-mean-it for this size",
        )
    elif name == "min_size" and wanted.isdecimal() and wanted != "1":
        raise CommandError(errno.EINVAL, f"min_size is from 1 to the size of the pool, which is {pool.size}")
    elif name in _FIXED or name == "pg_autoscale_mode":
        fixed = "off" if name == "pg_autoscale_mode" else str(getattr(pool, name))
        if name in ("pg_num", "pgp_num") and not wanted.isdecimal():
            raise CommandError(errno.EINVAL, f"error parsing integer value '{wanted}'")
        if name in ("pg_num", "pgp_num") and not wanted.strip("0"):
            raise CommandError(errno.ERANGE, f"'{name}' must be greater than 0")
        if wanted != fixed:
            raise CommandError(
                errno.EOPNOTSUPP, f"embedded OSDs move and replicate no objects: {name} is {fixed} for ever"
            )
    else:
        raise CommandError(errno.EINVAL, f"unrecognized variable '{name}'")
    return Answer(status=f"set pool {pool_id} {name} to {wanted}")


def _set_option(cluster: Cluster, pool_id: int, name: str, text: str) -> None:
    pool = cluster.maps.osdmap.pools[pool_id]
    try:
        value = pool_opts.parse(name, text)
    except ValueError as error:
        raise CommandError(errno.EINVAL, str(error)) from None
    if name == "pg_num_min" and value is not None and int(value) > pool.pg_num:
        raise CommandError(errno.EINVAL, f"specified pg_num_min {value} > pg_num {pool.pg_num}")
    others = {known: each for known, each in pool_opts.read(pool.opts).items() if known != name}
    cluster.maps.change_pool(pool_id, opts=pool_opts.write(others if value is None else {**others, name: value}))


# ---- quotas


@COMMANDS.add(
    f"osd pool set-quota {_POOL} name=field,type=CephChoices,strings=max_objects|max_bytes"
    " name=val,type=CephString",
    "limit the bytes or the objects of a pool",
    writes=True,
)
def set_quota(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool set-quota POOL max_objects|max_bytes VALUE``; 0 removes the quota."""
    pool_id, name = require_pool(cluster, arguments["pool"]), str(arguments["field"])
    if name not in ("max_objects", "max_bytes"):
        raise CommandError(errno.EINVAL, f"unrecognized option: '{name}'")
    try:
        most = parse_count(str(arguments["val"]), THOUSANDS if name == "max_objects" else KIBI)
    except ValueError:
        raise CommandError(errno.EINVAL, f"error parsing value '{arguments['val']}'") from None
    cluster.maps.change_pool(pool_id, **{f"quota_{name}": most})
    apply_quotas(cluster)
    return Answer(status=f"set-quota {name} = {most} for pool {arguments['pool']}")


@COMMANDS.add(f"osd pool get-quota {_POOL}", "print the limits of a pool, and what it has")
def get_quota(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool get-quota POOL``."""
    pool_id = require_pool(cluster, arguments["pool"])
    pool, use = cluster.maps.osdmap.pools[pool_id], cluster.pool_use(pool_id)
    objects, most_bytes = pool.quota_max_objects, pool.quota_max_bytes
    value = {"pool_name": arguments["pool"], "pool_id": pool_id}
    value |= {"quota_max_objects": objects, "current_num_objects": use.objects}
    value |= {"quota_max_bytes": most_bytes, "current_num_bytes": use.size_bytes}
    of_objects = f"{objects} objects  (current num objects: {use.objects} objects)" if objects else "N/A"
    of_bytes = f"{size(most_bytes)}  (current num bytes: {use.size_bytes} bytes)" if most_bytes else "N/A"
    lines = [
        f"quotas for pool '{arguments['pool']}':",
        f"  max objects: {of_objects}",
        f"  max bytes  : {of_bytes}",
    ]
    return Answer(value, "\n".join(lines))


def apply_quotas(cluster: Cluster) -> None:
    """Mark the pools full that have reached a quota, and no others; clients then stop writing."""
    mark = PoolFlag.FULL | PoolFlag.FULL_QUOTA
    changed = {}
    for pool_id, pool in cluster.maps.osdmap.pools.items():
        use = cluster.pool_use(pool_id)
        is_full = 0 < pool.quota_max_objects <= use.objects or 0 < pool.quota_max_bytes <= use.size_bytes
        flags = pool.flags | mark if is_full else pool.flags & ~mark
        if flags != pool.flags:
            changed[pool_id] = replace(pool, flags=flags, last_change=cluster.maps.osdmap.epoch + 1)
    if changed:
        cluster.maps.change(new_pools=changed)


# ---- applications

_APP_AND_KEY = f"{_POOL} name=app,type=CephString name=key,type=CephString"


def _metadata(cluster: Cluster, arguments: Arguments) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the pool's id, and a copy of its applications; raises CommandError if one is not enabled."""
    pool_id = require_pool(cluster, arguments["pool"])
    known = {app: dict(keys) for app, keys in cluster.maps.osdmap.pools[pool_id].application_metadata.items()}
    if arguments["app"] not in known:
        raise CommandError(
            errno.ENOENT, f"application '{arguments['app']}' is not enabled on pool '{arguments['pool']}'"
        )
    return pool_id, known


@COMMANDS.add(
    f"osd pool application set {_APP_AND_KEY} name=value,type=CephString",
    "keep a value for an application of a pool",
    writes=True,
)
def application_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool application set POOL APP KEY VALUE``."""
    pool_id, known = _metadata(cluster, arguments)
    app, key, value, pool = (str(arguments[name]) for name in ("app", "key", "value", "pool"))
    known[app][key] = value
    cluster.maps.change_pool(pool_id, application_metadata=known)
    return Answer(status=f"set application '{app}' key '{key}' to '{value}' on pool '{pool}'")


@COMMANDS.add(
    f"osd pool application rm {_APP_AND_KEY}",
    "remove a value of an application of a pool",
    writes=True,
)
def application_rm(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool application rm POOL APP KEY``."""
    pool_id, known = _metadata(cluster, arguments)
    app, key, pool = (str(arguments[name]) for name in ("app", "key", "pool"))
    if key not in known[app]:
        return Answer(status=f"application '{app}' on pool '{pool}' does not have key '{key}'")
    del known[app][key]
    cluster.maps.change_pool(pool_id, application_metadata=known)
    return Answer(status=f"removed application '{app}' key '{key}' on pool '{pool}'")


@COMMANDS.add(
    f"osd pool application disable {_POOL} name=app,type=CephString"
    " name=yes_i_really_mean_it,type=CephBool,req=false",
    "remove an application from a pool",
    writes=True,
)
def application_disable(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool application disable POOL APP --yes-i-really-mean-it``."""
    require_pool(cluster, arguments["pool"])
    if not arguments.get("yes_i_really_mean_it"):
        raise CommandError(
            errno.EPERM,
            f"Are you SURE? Disabling application '{arguments['app']}' may leave its data unreadable; pass"
            " --yes-i-really-mean-it to proceed anyway.",
        )
    try:
        pool_id, known = _metadata(cluster, arguments)
    except CommandError as error:
        return Answer(status=str(error))  # no error, as in Ceph: it can be done again
    del known[arguments["app"]]
    cluster.maps.change_pool(pool_id, application_metadata=known)
    return Answer(status=f"disable application '{arguments['app']}' on pool '{arguments['pool']}'")


# ---- snapshots

_POOL_AND_SNAP = f"{_POOL} name=snap,type=CephString"


@COMMANDS.add(f"osd pool mksnap {_POOL_AND_SNAP}", "take a snapshot of a pool", writes=True)
def mksnap(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool mksnap POOL SNAP``."""
    what = f"pool {arguments['pool']} snap {arguments['snap']}"
    made = snapshots.create(cluster.maps, require_pool(cluster, arguments["pool"]), str(arguments["snap"]))
    return Answer(status=f"created {what}" if made else f"{what} already exists")


@COMMANDS.add(f"osd pool rmsnap {_POOL} name=snap,type=CephString", "remove a snapshot of a pool", writes=True)
def rmsnap(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool rmsnap POOL SNAP``."""
    what = f"pool {arguments['pool']} snap {arguments['snap']}"
    removed = snapshots.remove(cluster.maps, require_pool(cluster, arguments["pool"]), str(arguments["snap"]))
    return Answer(status=f"removed {what}" if removed else f"{what} does not exist")


@COMMANDS.add(
    "osd pool stats name=pool_name,type=CephPoolname,req=false",
    "print the rates of operations of one pool, or of all",
)
def pool_stats(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd pool stats [POOL]``: rates of clients are not counted."""
    names = {name: number for number, name in cluster.maps.osdmap.pool_names.items()}
    if "pool_name" in arguments:
        wanted = str(arguments["pool_name"])
        names = {wanted: require_pool(cluster, wanted)}
    value = [
        {"pool_name": name, "pool_id": number, "recovery": {}, "recovery_rate": {}, "client_io_rate": {}}
        for name, number in names.items()
    ]
    return Answer(
        value, "".join(f"pool {name} id {number}\n  nothing is going on\n\n" for name, number in names.items())
    )
