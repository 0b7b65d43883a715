"""Commands about OSDs and the OSD map."""

import errno
from dataclasses import replace
from typing import Any

from messenger.denc.address import AddressType, EntityAddr
from messenger.messages.osd_info import Osd
from messenger.messages.osdmap import MapFlag
from messenger.messages.pool import Pool, PoolFlag
from toolkit.embedded.mon import pool_opts
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, addrs_value, age, legacy_text
from toolkit.embedded.mon.cluster import FLAG_NAMES, POOL_FLAG_NAMES, Cluster
from toolkit.embedded.mon.crush import ROOT_ID, RULE_NAME, WEIGHT_ONE
from toolkit.rados.placement import object_hash

_SETTABLE = {
    "pause": MapFlag.PAUSERD | MapFlag.PAUSEWR,
    **{FLAG_NAMES[flag]: flag for flag in (MapFlag.NOUP, MapFlag.NODOWN, MapFlag.NOOUT, MapFlag.NOIN)},
    **{FLAG_NAMES[flag]: flag for flag in (MapFlag.NOBACKFILL, MapFlag.NORECOVER, MapFlag.NOREBALANCE)},
    **{FLAG_NAMES[flag]: flag for flag in (MapFlag.NOSCRUB, MapFlag.NODEEP_SCRUB)},
}
_KEY = f"name=key,type=CephChoices,strings={'|'.join(_SETTABLE)}"
_IDS = "name=ids,type=CephString,n=N"
_MOST_DIGITS = 10


@COMMANDS.add("osd dump name=epoch,type=CephInt,range=0,req=false", "print the OSD map")
def osd_dump(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd dump``: shows the newest map."""
    check_epoch(cluster, arguments)
    osdmap = cluster.maps.osdmap
    lines = [
        f"epoch {osdmap.epoch}",
        f"fsid {osdmap.fsid}",
        f"created {osdmap.created}",
        f"modified {osdmap.modified}",
        f"flags {','.join(_flags(osdmap.flags))}",
        f"crush_version {osdmap.crush_version}",
        f"full_ratio {osdmap.full_ratio:g}",
        f"backfillfull_ratio {osdmap.backfillfull_ratio:g}",
        f"nearfull_ratio {osdmap.nearfull_ratio:g}",
        f"require_min_compat_client {_oldest_client(cluster)}",
        "min_compat_client luminous",
        "require_osd_release pacific",
        *(pool_line(number, osdmap.pool_names[number], pool) for number, pool in sorted(osdmap.pools.items())),
        f"max_osd {len(osdmap.osds)}",
        *(osd_line(number, osdmap.osds[number]) for number in cluster.maps.hosts),
        *(f"blocklist {shown_client(addr)} expires {until}" for addr, until in osdmap.blocklist.items()),
    ]
    return Answer(_osdmap_value(cluster), "\n".join(lines) + "\n")


_RELEASES = (
    *("argonaut", "bobtail", "cuttlefish", "dumpling", "emperor", "firefly", "giant", "hammer", "infernalis"),
    *("jewel", "kraken", "luminous", "mimic", "nautilus", "octopus", "pacific"),
)
"""Releases of Ceph up to this one; the first has number 1 in maps."""


def _oldest_client(cluster: Cluster) -> str:
    return _RELEASES[cluster.maps.osdmap.require_min_compat_client - 1]


@COMMANDS.add("osd get-require-min-compat-client", "print the oldest release of clients that the map is for")
def get_oldest_client(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd get-require-min-compat-client``."""
    return Answer(data=f"{_oldest_client(cluster)}\n".encode())


@COMMANDS.add(
    "osd set-require-min-compat-client name=version,type=CephString"
    " name=yes_i_really_mean_it,type=CephBool,req=false",
    "set the oldest release of clients that the map is for",
    writes=True,
)
def set_oldest_client(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd set-require-min-compat-client RELEASE``: from mimic on, ``rbd`` makes clones of format 2."""
    release = str(arguments["version"])
    if release not in _RELEASES:
        raise CommandError(errno.EINVAL, f"version {release} is not recognized")
    cluster.maps.change(new_require_min_compat_client=_RELEASES.index(release) + 1)
    return Answer(status=f"set require_min_compat_client to {release}")


def check_epoch(cluster: Cluster, arguments: Arguments) -> None:
    """Check that a command is for the newest map, which is the only one here; raises CommandError, ENOENT."""
    newest = cluster.maps.osdmap.epoch
    if int(arguments.get("epoch", newest)) not in (0, newest):
        raise CommandError(
            errno.ENOENT, f"there is no map for epoch {arguments['epoch']}; only the newest is kept"
        )


def _flags(flags: int) -> list[str]:
    return [name for flag, name in FLAG_NAMES.items() if flags & flag]


def shown_client(addr: EntityAddr) -> str:
    """Return the address of a client on the blocklist, which has no type."""
    return str(replace(addr, type=AddressType.MSGR2)).removeprefix("v2:")


def _pool_flags(pool: Pool) -> list[str]:
    return [name for flag, name in POOL_FLAG_NAMES.items() if pool.flags & flag]


def pool_line(number: int, name: str, pool: Pool) -> str:
    """Return a pool as text, as ``ceph osd dump`` shows it."""
    applications = ",".join(pool.application_metadata)
    return (
        f"pool {number} {name!r} replicated size {pool.size} min_size {pool.min_size} crush_rule {pool.crush_rule}"
        f" object_hash rjenkins pg_num {pool.pg_num} pgp_num {pool.pgp_num} autoscale_mode off"
        f" last_change {pool.last_change} flags {','.join(_pool_flags(pool))}"
        + (f" max_bytes {pool.quota_max_bytes}" if pool.quota_max_bytes else "")
        + (f" max_objects {pool.quota_max_objects}" if pool.quota_max_objects else "")
        + " stripe_width 0"
        + "".join(
            f" {option} {pool_opts.shown(value)}" for option, value in sorted(pool_opts.read(pool.opts).items())
        )
        + (f" application {applications}" if applications else "")
    )


def osd_line(number: int, osd: Osd) -> str:
    """Return an OSD as text, as ``ceph osd dump`` shows it."""
    state = " ".join(["up  " if osd.is_up else "down", "in " if osd.is_in else "out"])
    info = osd.info
    times = f"up_from {info.up_from} up_thru {info.up_thru} down_at {info.down_at}"
    return f"osd.{number} {state} weight {osd.weight / WEIGHT_ONE:g} {times} {osd.client_addrs}"


def _osdmap_value(cluster: Cluster) -> dict[str, Any]:
    osdmap = cluster.maps.osdmap
    return {
        "epoch": osdmap.epoch,
        "fsid": str(osdmap.fsid),
        "created": str(osdmap.created),
        "modified": str(osdmap.modified),
        "flags": ",".join(_flags(osdmap.flags)),
        "flags_num": osdmap.flags,
        "flags_set": _flags(osdmap.flags),
        "crush_version": osdmap.crush_version,
        "full_ratio": osdmap.full_ratio,
        "backfillfull_ratio": osdmap.backfillfull_ratio,
        "nearfull_ratio": osdmap.nearfull_ratio,
        "cluster_snapshot": "",
        "pool_max": osdmap.pool_max,
        "max_osd": len(osdmap.osds),
        "require_min_compat_client": _oldest_client(cluster),
        "min_compat_client": "luminous",
        "require_osd_release": "pacific",
        "pools": [pool_value(number, cluster) for number in sorted(osdmap.pools)],
        "osds": [osd_value(number, osdmap.osds[number]) for number in cluster.maps.hosts],
        "pg_upmap": [],
        "pg_upmap_items": [],
        "pg_temp": [],
        "primary_temp": [],
        "blocklist": {shown_client(addr): str(until) for addr, until in osdmap.blocklist.items()},
        "erasure_code_profiles": {},
        "removed_snaps_queue": [],
        "new_removed_snaps": [],
        "new_purged_snaps": [],
        "crush_node_flags": {},
        "device_class_flags": {},
    }


def pool_value(number: int, cluster: Cluster) -> dict[str, Any]:
    """Return a pool as JSON, as ``ceph osd dump`` shows it."""
    pool = cluster.maps.osdmap.pools[number]
    return {
        "pool": number,
        "pool_name": cluster.maps.osdmap.pool_names[number],
        "create_time": str(pool.create_time),
        "flags": pool.flags,
        "flags_names": ",".join(_pool_flags(pool)),
        "type": pool.type,
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": pool.crush_rule,
        "object_hash": pool.object_hash,
        "pg_autoscale_mode": "off",
        "pg_num": pool.pg_num,
        "pg_placement_num": pool.pgp_num,
        "pg_placement_num_target": pool.pgp_num_target,
        "pg_num_target": pool.pg_num_target,
        "pg_num_pending": pool.pg_num_pending,
        "last_change": str(pool.last_change),
        "last_force_op_resend": str(pool.last_force_op_resend),
        "last_force_op_resend_prenautilus": str(pool.last_force_op_resend_prenautilus),
        "last_force_op_resend_preluminous": str(pool.last_force_op_resend_preluminous),
        "auid": pool.auid,
        "snap_mode": "pool" if pool.flags & PoolFlag.POOL_SNAPS else "selfmanaged",
        "snap_seq": pool.snap_seq,
        "snap_epoch": pool.snap_epoch,
        "pool_snaps": [
            {"snapid": snap.snapid, "stamp": str(snap.stamp), "name": snap.name} for snap in pool.snaps.values()
        ],
        "quota_max_bytes": pool.quota_max_bytes,
        "quota_max_objects": pool.quota_max_objects,
        "removed_snaps": "[]",
        **_tier_value(pool),
        "stripe_width": pool.stripe_width,
        "expected_num_objects": pool.expected_num_objects,
        "fast_read": pool.fast_read,
        "options": pool_opts.read(pool.opts),
        "application_metadata": pool.application_metadata,
    }


def _tier_value(pool: Pool) -> dict[str, Any]:
    """Return the fields of cache tiers and erasure coding, which pools here do not have."""
    return {
        "tiers": sorted(pool.tiers),
        "tier_of": pool.tier_of,
        "read_tier": pool.read_tier,
        "write_tier": pool.write_tier,
        "cache_mode": "none",
        "target_max_bytes": pool.target_max_bytes,
        "target_max_objects": pool.target_max_objects,
        "cache_target_dirty_ratio_micro": pool.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": pool.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": pool.cache_target_full_ratio_micro,
        "cache_min_flush_age": pool.cache_min_flush_age_s,
        "cache_min_evict_age": pool.cache_min_evict_age_s,
        "erasure_code_profile": pool.erasure_code_profile,
        "hit_set_params": {"type": "none"},
        "hit_set_period": pool.hit_set_period_s,
        "hit_set_count": pool.hit_set_count,
        "use_gmt_hitset": pool.use_gmt_hitset,
        "min_read_recency_for_promote": pool.min_read_recency_for_promote,
        "min_write_recency_for_promote": pool.min_write_recency_for_promote,
        "hit_set_grade_decay_rate": pool.hit_set_grade_decay_rate,
        "hit_set_search_last_n": pool.hit_set_search_last_n,
        "grade_table": [],
    }


def osd_value(number: int, osd: Osd) -> dict[str, Any]:
    """Return an OSD as JSON, as ``ceph osd dump`` shows it."""
    info = osd.info
    return {
        "osd": number,
        "uuid": str(osd.uuid),
        "up": int(osd.is_up),
        "in": int(osd.is_in),
        "weight": osd.weight / WEIGHT_ONE,
        "primary_affinity": 1.0,
        "last_clean_begin": info.last_clean_begin,
        "last_clean_end": info.last_clean_end,
        "up_from": info.up_from,
        "up_thru": info.up_thru,
        "down_at": info.down_at,
        "lost_at": info.lost_at,
        "public_addrs": addrs_value(osd.client_addrs),
        "cluster_addrs": addrs_value(osd.cluster_addrs),
        "heartbeat_back_addrs": addrs_value(osd.hb_back_addrs),
        "heartbeat_front_addrs": addrs_value(osd.hb_front_addrs),
        "public_addr": legacy_text(osd.client_addrs),
        "cluster_addr": legacy_text(osd.cluster_addrs),
        "heartbeat_back_addr": legacy_text(osd.hb_back_addrs),
        "heartbeat_front_addr": legacy_text(osd.hb_front_addrs),
        "state": (["exists"] if osd.exists else []) + (["up"] if osd.is_up else []),
    }


_STATES = ("up", "down", "in", "out", "destroyed")


def _has_states(osd: Osd, states: list[str]) -> bool:
    """True if an OSD has one of up and down that are asked for, and one of in and out."""
    pairs = ((osd.is_up, "up", "down"), (osd.is_in, "in", "out"))
    return "destroyed" not in states and all(
        {yes, no}.isdisjoint(states) or (yes if has else no) in states for has, yes, no in pairs
    )


@COMMANDS.add(
    "osd tree name=epoch,type=CephInt,range=0,req=false"
    f" name=states,type=CephChoices,strings={'|'.join(_STATES)},n=N,req=false",
    "print hosts and their OSDs as a tree",
)
def osd_tree(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd tree [STATE...]``."""
    check_epoch(cluster, arguments)
    states = list(arguments.get("states") or [])
    if unknown := set(states).difference(_STATES):
        raise CommandError(errno.EINVAL, f"invalid state '{min(unknown)}'")
    crush, osdmap = cluster.maps.crush, cluster.maps.osdmap

    def is_shown(number: int) -> bool:
        if number >= 0:
            return _has_states(osdmap.osds[number], states)
        return not states or any(map(is_shown, crush.buckets[number].items))

    rows = [["ID", "CLASS", "WEIGHT", "TYPE NAME", "STATUS", "REWEIGHT", "PRI-AFF"]]
    nodes: list[dict[str, Any]] = []

    def visit(number: int, depth: int) -> None:
        indent = "    " * depth
        if number >= 0:
            osd, name = osdmap.osds[number], crush.names[number]
            state, weight = ("up" if osd.is_up else "down"), osd.weight / WEIGHT_ONE
            rows.append([str(number), "", "1.00000", f"{indent}{name}", state, f"{weight:.5f}", "1.00000"])
            about = {"id": number, "name": name, "type": "osd", "type_id": 0, "crush_weight": 1.0, "depth": depth}
            about |= {"exists": 1, "status": state, "reweight": weight, "primary_affinity": 1.0}
            nodes.append({**about, "pool_weights": {}})
            return
        bucket, name = crush.buckets[number], crush.names[number]
        kind = crush.type_names[bucket.type]
        shown = f"{indent}{kind} {name}"
        rows.append([str(number), "", f"{bucket.weight / WEIGHT_ONE:.5f}", shown, "", "", ""])
        about = {"id": number, "name": name, "type": kind, "type_id": bucket.type}
        nodes.append({**about, "children": list(bucket.items)})
        for item in filter(is_shown, bucket.items):
            visit(item, depth + 1)

    if is_shown(ROOT_ID):
        visit(ROOT_ID, 0)
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    right = {0, 2, 4, 5, 6}
    lines = [
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return Answer({"nodes": nodes, "stray": []}, "\n".join(lines) + "\n")


@COMMANDS.add("osd stat", "count the OSDs that are up and in")
def osd_stat(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd stat``."""
    osdmap = cluster.maps.osdmap
    counts = [len(cluster.maps.hosts), len(cluster.up_osds()), len(cluster.in_osds())]
    value = dict(zip(("num_osds", "num_up_osds", "num_in_osds"), counts, strict=True))
    times = {"osd_up_since": osdmap.last_up_change.sec, "osd_in_since": osdmap.last_in_change.sec}
    up, inside = (f" (since {age(at)})" if at else "" for at in times.values())
    text = f"{counts[0]} osds: {counts[1]} up{up}, {counts[2]} in{inside}; epoch: e{osdmap.epoch}"
    return Answer({"epoch": osdmap.epoch, **value, **times, "num_remapped_pgs": 0}, text)


@COMMANDS.add("osd ls", "print the ids of the OSDs")
def osd_ls(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd ls``."""
    return Answer(list(cluster.maps.hosts), "".join(f"{osd}\n" for osd in cluster.maps.hosts))


@COMMANDS.add("osd getmaxosd", "print how many ids of OSDs the map has room for")
def osd_getmaxosd(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd getmaxosd``."""
    epoch, number = cluster.maps.osdmap.epoch, len(cluster.maps.osdmap.osds)
    return Answer({"epoch": epoch, "max_osd": number}, f"max_osd = {number} in epoch {epoch}")


@COMMANDS.add("fs ls", "list the file systems: there are none")
def fs_ls(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph fs ls``: there are none."""
    return Answer([], "No filesystems enabled")


@COMMANDS.add("osd getmap name=epoch,type=CephInt,range=0,req=false", "return the OSD map in its binary form")
def osd_getmap(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd getmap``: the newest map, encoded."""
    return Answer(data=cluster.maps.osdmap.encode(), status=f"got osdmap epoch {cluster.maps.osdmap.epoch}")


@COMMANDS.add(
    "osd getcrushmap name=epoch,type=CephInt,range=0,req=false", "return the CRUSH map in its binary form"
)
def osd_getcrushmap(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd getcrushmap``: the CRUSH map, encoded."""
    return Answer(data=cluster.maps.osdmap.crush, status=str(cluster.maps.osdmap.crush_version))


@COMMANDS.add("osd crush rule ls", "print the names of the CRUSH rules")
@COMMANDS.add("osd crush rule list", "print the names of the CRUSH rules")
def osd_crush_rule_ls(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd crush rule ls``."""
    return Answer([RULE_NAME], f"{RULE_NAME}\n")


@COMMANDS.add(
    "osd map name=pool,type=CephPoolname name=object,type=CephObjectname name=nspace,type=CephString,req=false",
    "print the placement group of an object and its OSDs",
)
def osd_map(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd map POOL OBJECT``: the placement of an object, which need not exist."""
    pool_id = cluster.maps.pool_id(arguments["pool"])
    if pool_id is None:
        raise CommandError(errno.ENOENT, f"pool {arguments['pool']} does not exist")
    raw = object_hash(arguments["object"], nspace=arguments.get("nspace", ""))
    pgid = cluster.maps.placement.pg_of(pool_id, raw)
    mapping = cluster.maps.placement.mapping(pgid)
    up = f"([{','.join(map(str, mapping.up))}], p{mapping.up_primary})"
    acting = f"([{','.join(map(str, mapping.acting))}], p{mapping.acting_primary})"
    text = (
        f"osdmap e{cluster.maps.osdmap.epoch} pool '{arguments['pool']}' ({pool_id})"
        f" object '{arguments['object']}' -> pg {pool_id}.{raw:x} ({pgid}) -> up {up} acting {acting}"
    )
    value = {
        "epoch": cluster.maps.osdmap.epoch,
        "pool": arguments["pool"],
        "pool_id": pool_id,
        "objname": arguments["object"],
        "raw_pgid": f"{pool_id}.{raw:x}",
        "pgid": str(pgid),
        "up": list(mapping.up),
        "up_primary": mapping.up_primary,
        "acting": list(mapping.acting),
        "acting_primary": mapping.acting_primary,
    }
    return Answer(value, text)


# ---- changes


@COMMANDS.add(f"osd set {_KEY}", "set a flag of the OSD map", writes=True)
def osd_set(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd set FLAG``."""
    flag = _flag(arguments)
    cluster.maps.change(new_flags=cluster.maps.osdmap.flags | flag)
    return Answer(status=f"{_shown_flags(arguments)} is set")


@COMMANDS.add(f"osd unset {_KEY}", "clear a flag of the OSD map", writes=True)
def osd_unset(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd unset FLAG``."""
    flag = _flag(arguments)
    cluster.maps.change(new_flags=cluster.maps.osdmap.flags & ~flag)
    return Answer(status=f"{_shown_flags(arguments)} is unset")


@COMMANDS.add("osd pause", "stop reads and writes of clients", writes=True)
def osd_pause(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd pause``."""
    return osd_set(cluster, {"key": "pause"})


@COMMANDS.add("osd unpause", "allow reads and writes of clients again", writes=True)
def osd_unpause(cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph osd unpause``."""
    return osd_unset(cluster, {"key": "pause"})


def _flag(arguments: Arguments) -> int:
    flag = _SETTABLE.get(arguments["key"])
    if flag is None:
        raise CommandError(errno.EINVAL, f"unrecognized flag '{arguments['key']}'; known: {', '.join(_SETTABLE)}")
    return flag


def _shown_flags(arguments: Arguments) -> str:
    return "pauserd,pausewr" if arguments["key"] == "pause" else str(arguments["key"])


@COMMANDS.add(f"osd in {_IDS}", "let OSDs take part in the placement again", writes=True)
def osd_in(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd in ID...``."""
    return _mark_osds(cluster, arguments, inside=True)


@COMMANDS.add(f"osd out {_IDS}", "exclude OSDs from the placement", writes=True)
def osd_out(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd out ID...``; the OSD keeps its objects, which are unavailable until it is in again."""
    return _mark_osds(cluster, arguments, inside=False)


def _mark_osds(cluster: Cluster, arguments: Arguments, *, inside: bool) -> Answer:
    words, state = [], "in" if inside else "out"
    for osd in named_osds(cluster, arguments["ids"]):
        if osd not in cluster.maps.hosts:
            words.append(f"osd.{osd} does not exist.")
        elif cluster.maps.osdmap.osds[osd].is_in == inside:
            words.append(f"osd.{osd} is already {state}.")
        else:
            cluster.maps.mark_in(osd, inside=inside)
            words.append(f"marked {state} osd.{osd}.")
    return Answer(status=" ".join(words))


def named_osds(cluster: Cluster, words: list[str]) -> list[int]:
    """Return the ids that a command names, of which some may not exist; raises CommandError, EINVAL."""
    return list(cluster.maps.hosts) if words in (["all"], ["any"], ["*"]) else [osd_number(word) for word in words]


def osd_number(word: object) -> int:
    """Return the id in ``3`` or ``osd.3``; raises CommandError, EINVAL."""
    text = str(word).removeprefix("osd.")
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise CommandError(errno.EINVAL, f"invalid osd id '{word}'")
    return int(text)


def require_osd(cluster: Cluster, word: object) -> int:
    """Return the OSD that a command names, as ``3`` or ``osd.3``; raises CommandError, ENOENT."""
    text = str(word).removeprefix("osd.")
    found = next((osd for osd in cluster.maps.hosts if str(osd) == text), None)
    if found is None:
        raise CommandError(errno.ENOENT, f"osd.{text} does not exist.")
    return found
