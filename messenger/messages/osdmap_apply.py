"""The rules by which an incremental changes the OSD map, in their order (docs/protocol.md §6.6)."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from messenger.denc.address import AddrVec
from messenger.denc.utime import EPOCH
from messenger.errors import DecodeError
from messenger.messages.osd_info import DEFAULT_PRIMARY_AFFINITY, Osd, OsdState
from messenger.messages.osdmap_incremental import UNCHANGED_RELEASE, Incremental
from messenger.messages.pool import Intervals, Pool

if TYPE_CHECKING:
    from messenger.messages.osdmap import OSDMap

K = TypeVar("K")
V = TypeVar("V")

_STRETCH_FIELDS = {
    "stretch_mode_enabled": "stretch_mode_enabled",
    "stretch_bucket_count": "new_stretch_bucket_count",
    "degraded_stretch_mode": "new_degraded_stretch_mode",
    "recovering_stretch_mode": "new_recovering_stretch_mode",
    "stretch_mode_bucket": "new_stretch_mode_bucket",
}
"""Fields of the map, and the corresponding fields of the incremental."""
_LUMINOUS = 12
_I32_LIMIT = 1 << 31
"""These fields have 32 bits in the map, although pool_max has 64 in an incremental."""
_RECOVERY_DELETES = 1 << 19


def next_values(old: "OSDMap", inc: Incremental) -> dict[str, Any]:
    """The fields of the map that follows ``old``.

    Raises:
        DecodeError: the incremental refers to OSDs that do not exist, or a number does not fit into the map.
    """
    crush_version = old.crush_version + bool(inc.crush)
    if not -1 <= inc.new_pool_max < _I32_LIMIT or crush_version >= _I32_LIMIT:
        raise DecodeError(f"next OSD map has pool_max {inc.new_pool_max}, crush_version {crush_version}")
    values: dict[str, Any] = {name: getattr(old, name) for name in old.__slots__}
    values |= {
        "epoch": inc.epoch,
        "modified": inc.modified,
        "flags": old.flags if inc.new_flags < 0 else inc.new_flags,
        "pool_max": old.pool_max if inc.new_pool_max == -1 else inc.new_pool_max,
        "pools": _next_pools(old.pools, inc),
        "pool_names": _changed(old.pool_names, inc.new_pool_names, inc.old_pools),
        "erasure_code_profiles": _changed(
            _changed(old.erasure_code_profiles, {}, inc.old_erasure_code_profiles), inc.new_erasure_code_profiles
        ),
        "osds": _next_osds(old.osds, inc),
        "osd_primary_affinity": _next_affinity(old, inc),
        "crush": inc.crush or old.crush,
        "crush_version": crush_version,
    }
    return values | _next_placement(old, inc) | _next_snaps(old, inc) | _next_cluster(old, inc)


def _changed(items: dict[K, V], new: dict[K, V], old: Iterable[K] = ()) -> dict[K, V]:
    """The items with those of ``new`` added, then without the keys of ``old``."""
    merged = items | new
    for key in old:
        merged.pop(key, None)
    return merged


def _next_pools(pools: dict[int, Pool], inc: Incremental) -> dict[int, Pool]:
    new = {pool_id: replace(pool, last_change=inc.epoch) for pool_id, pool in inc.new_pools.items()}
    return _changed(pools, new, inc.old_pools)


def _next_osds(old: list[Osd], inc: Incremental) -> list[Osd]:
    """Apply the changes of OSDs in order: an OSD may be reweighted, marked down and up again in one step."""
    osds = _resized(old, inc.new_max_osd, Osd())
    _require_known(osds, inc)
    for osd_id, weight in inc.new_weight.items():
        osds[osd_id] = _reweighted(osds[osd_id], weight)
    for osd_id, bits in inc.new_state.items():
        osds[osd_id] = _flipped(osds[osd_id], bits or OsdState.UP, inc)
    for osd_id, addrs in inc.new_up_client.items():
        osds[osd_id] = _up(osds[osd_id], addrs, osd_id, inc)
    for osd_id, addrs in inc.new_up_cluster.items():
        osds[osd_id] = replace(osds[osd_id], cluster_addrs=addrs)
    _apply_info(osds, inc)
    for osd_id, xinfo in inc.new_xinfo.items():
        osds[osd_id] = replace(osds[osd_id], xinfo=xinfo)
    for osd_id, uuid in inc.new_uuid.items():
        osds[osd_id] = replace(osds[osd_id], uuid=uuid)
    return osds


def _resized(items: list[V], size: int, filler: V) -> list[V]:
    """A copy with ``size`` items; a negative size keeps the length."""
    if size < 0:
        return list(items)
    return items[:size] + [filler] * (size - len(items))


def _require_known(osds: list[Osd], inc: Incremental) -> None:
    """Refuse changes of OSDs whose ids the map does not have."""
    changes: tuple[Collection[int], ...] = (
        inc.new_weight,
        inc.new_primary_affinity,
        inc.new_state,
        inc.new_up_client,
        inc.new_up_cluster,
        inc.new_up_thru,
        inc.new_last_clean_interval,
        inc.new_lost,
        inc.new_xinfo,
        inc.new_uuid,
    )
    strangers = [osd_id for change in changes for osd_id in change if not 0 <= osd_id < len(osds)]
    if strangers:
        raise DecodeError(f"incremental OSD map changes osd.{strangers[0]}, max_osd is {len(osds)}")


def _reweighted(osd: Osd, weight: int) -> Osd:
    """Set the weight; an OSD that is in exists, and is no longer new or marked out automatically."""
    if not weight:
        return replace(osd, weight=0)
    state = (osd.state | OsdState.EXISTS) & ~(OsdState.AUTOOUT | OsdState.NEW)
    xinfo = replace(osd.xinfo, old_weight=0) if osd.state & OsdState.AUTOOUT else osd.xinfo
    return replace(osd, weight=weight, state=state, xinfo=xinfo)


def _flipped(osd: Osd, bits: int, inc: Incremental) -> Osd:
    """Flip state bits; clearing EXISTS destroys the OSD, of which only the weight remains."""
    if osd.state & bits & OsdState.EXISTS:
        return Osd(weight=osd.weight)
    if osd.state & bits & OsdState.UP:
        info = replace(osd.info, down_at=inc.epoch)
        osd = replace(osd, info=info, xinfo=replace(osd.xinfo, down_stamp=inc.modified))
    return replace(osd, state=osd.state ^ bits)


def _up(osd: Osd, addrs: AddrVec, osd_id: int, inc: Incremental) -> Osd:
    return replace(
        osd,
        state=(osd.state | OsdState.EXISTS | OsdState.UP) & ~OsdState.STOP,
        client_addrs=addrs,
        hb_back_addrs=inc.new_hb_back_up.get(osd_id, AddrVec()),
        hb_front_addrs=inc.new_hb_front_up.get(osd_id, AddrVec()),
        info=replace(osd.info, up_from=inc.epoch),
    )


def _apply_info(osds: list[Osd], inc: Incremental) -> None:
    changes: dict[int, dict[str, int]] = {}
    for osd_id, epoch in inc.new_up_thru.items():
        changes.setdefault(osd_id, {})["up_thru"] = epoch
    for osd_id, (begin, end) in inc.new_last_clean_interval.items():
        changes.setdefault(osd_id, {}).update(last_clean_begin=begin, last_clean_end=end)
    for osd_id, epoch in inc.new_lost.items():
        changes.setdefault(osd_id, {})["lost_at"] = epoch
    for osd_id, fields in changes.items():
        osds[osd_id] = replace(osds[osd_id], info=replace(osds[osd_id].info, **fields))


def _next_affinity(old: "OSDMap", inc: Incremental) -> list[int]:
    """The affinities; once one OSD has differed from the default, the map has a list."""
    affinities = old.osd_primary_affinity
    if not affinities and not inc.new_primary_affinity:
        return []
    size = len(old.osds) if inc.new_max_osd < 0 else inc.new_max_osd
    affinities = _resized(affinities, size, DEFAULT_PRIMARY_AFFINITY)
    for osd_id, affinity in inc.new_primary_affinity.items():
        affinities[osd_id] = affinity
    for osd_id, bits in inc.new_state.items():
        if osd_id < len(old.osds) and old.osds[osd_id].state & bits & OsdState.EXISTS:
            affinities[osd_id] = DEFAULT_PRIMARY_AFFINITY
    return affinities


def _next_placement(old: "OSDMap", inc: Incremental) -> dict[str, Any]:
    no_temp = [pg_id for pg_id, osds in inc.new_pg_temp.items() if not osds]
    no_primary = [pg_id for pg_id, osd_id in inc.new_primary_temp.items() if osd_id == -1]
    return {
        "pg_temp": _changed(old.pg_temp, inc.new_pg_temp, no_temp),
        "primary_temp": _changed(old.primary_temp, inc.new_primary_temp, no_primary),
        "pg_upmap": _changed(old.pg_upmap, inc.new_pg_upmap, inc.old_pg_upmap),
        "pg_upmap_items": _changed(old.pg_upmap_items, inc.new_pg_upmap_items, inc.old_pg_upmap_items),
        "pg_upmap_primaries": _changed(
            old.pg_upmap_primaries, inc.new_pg_upmap_primaries, inc.old_pg_upmap_primaries
        ),
    }


def _next_snaps(old: "OSDMap", inc: Incremental) -> dict[str, Any]:
    queue = dict(old.removed_snaps_queue)
    for pool_id, removed in inc.new_removed_snaps.items():
        queue[pool_id] = union(queue.get(pool_id, {}), removed)
    for pool_id, purged in inc.new_purged_snaps.items():
        queue[pool_id] = difference(queue.get(pool_id, {}), purged)
    return {
        "new_removed_snaps": inc.new_removed_snaps,
        "new_purged_snaps": inc.new_purged_snaps,
        "removed_snaps_queue": {pool_id: snaps for pool_id, snaps in queue.items() if snaps},
    }


def union(first: Intervals, second: Intervals) -> Intervals:
    """The numbers of both sets, as ranges that do not touch."""
    merged: Intervals = {}
    last = None
    for start, count in sorted([*first.items(), *second.items()]):
        if last is not None and start <= last + merged[last]:
            merged[last] = max(merged[last], start + count - last)
        else:
            merged[start] = count
            last = start
    return merged


def difference(first: Intervals, second: Intervals) -> Intervals:
    """The numbers of the first set that are not in the second."""
    left: Intervals = {}
    cuts = list(union({}, second).items())
    passed = 0
    for own, count in sorted(first.items()):
        start, end = own, own + count
        while passed < len(cuts) and sum(cuts[passed]) <= start:
            passed += 1
        at = passed
        while at < len(cuts) and cuts[at][0] < end:
            cut, cut_count = cuts[at]
            if cut > start:
                left[start] = cut - start
            start = cut + cut_count
            at += 1
        if start < end:
            left[start] = end - start
    return left


def _next_cluster(old: "OSDMap", inc: Incremental) -> dict[str, Any]:
    values: dict[str, Any] = {
        "blocklist": _changed(old.blocklist, inc.new_blocklist, inc.old_blocklist),
        "range_blocklist": _changed(old.range_blocklist, inc.new_range_blocklist, inc.old_range_blocklist),
        "crush_node_flags": _flags(old.crush_node_flags, inc.new_crush_node_flags),
        "device_class_flags": _flags(old.device_class_flags, inc.new_device_class_flags),
        "cluster_snapshot": inc.cluster_snapshot,
        "cluster_snapshot_epoch": inc.epoch if inc.cluster_snapshot else 0,
        "allow_crimson": old.allow_crimson or bool(inc.new_allow_crimson),
    }
    for name in ("nearfull_ratio", "full_ratio", "backfillfull_ratio"):
        ratio = getattr(inc, f"new_{name}")
        if ratio >= 0:
            values[name] = ratio
    for name in ("last_up_change", "last_in_change"):
        moment = getattr(inc, f"new_{name}")
        if moment != EPOCH:
            values[name] = moment
    for name in ("require_min_compat_client", "require_osd_release"):
        release = getattr(inc, f"new_{name}")
        if release != UNCHANGED_RELEASE:
            values[name] = release
    if inc.change_stretch_mode:
        values |= {name: getattr(inc, source) for name, source in _STRETCH_FIELDS.items()}
    return values


def _flags(flags: dict[int, int], new: dict[int, int]) -> dict[int, int]:
    return _changed(flags, new, [key for key, bits in new.items() if not bits])
