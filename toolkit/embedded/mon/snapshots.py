"""Snapshots of pools, and the ids of snapshots that clients manage; a pool has one kind or the other."""

import errno
from dataclasses import replace

from messenger.messages.pool import Pool, PoolFlag, PoolSnap
from toolkit.embedded.mon.answers import CommandError
from toolkit.embedded.mon.maps import Maps, now


def _pool(maps: Maps, pool_id: int, other_kind: PoolFlag) -> Pool:
    """Return a pool; raises CommandError, EINVAL if its snapshots are of the other kind."""
    pool = maps.osdmap.pools[pool_id]
    if pool.flags & other_kind:
        kind = "self-managed" if other_kind == PoolFlag.SELFMANAGED_SNAPS else "pool"
        raise CommandError(errno.EINVAL, f"pool {maps.osdmap.pool_names[pool_id]} is in {kind} snaps mode")
    return pool


def _changed(maps: Maps, pool_id: int, pool: Pool, removed: int | None = None) -> None:
    """Count a change of the pool's snapshots; OSDs drop the clones of a removed one, and clients forget it."""
    gone = {} if removed is None else {pool_id: {removed: 1}}
    epoch = maps.osdmap.epoch + 1
    pool = replace(pool, snap_seq=pool.snap_seq + 1, snap_epoch=epoch, last_change=epoch)
    maps.change(new_pools={pool_id: pool}, new_removed_snaps=gone)


def find(maps: Maps, pool_id: int, name: str) -> int | None:
    """Return the id of a pool's snapshot; None if it has none of that name."""
    return next((each.snapid for each in maps.osdmap.pools[pool_id].snaps.values() if each.name == name), None)


def create(maps: Maps, pool_id: int, name: str) -> bool:
    """Make a snapshot of a pool; returns False if it has one of that name, as after a request that is resent.

    Raises:
        CommandError: EINVAL: clients manage its snapshots.
    """
    pool = _pool(maps, pool_id, PoolFlag.SELFMANAGED_SNAPS)
    if find(maps, pool_id, name) is not None:
        return False
    snapid = pool.snap_seq + 1
    snaps = {**pool.snaps, snapid: PoolSnap(snapid, now(), name)}
    _changed(maps, pool_id, replace(pool, snaps=snaps, flags=pool.flags | PoolFlag.POOL_SNAPS))
    return True


def remove(maps: Maps, pool_id: int, name: str) -> bool:
    """Remove a snapshot of a pool; returns False if it has none of that name.

    Raises:
        CommandError: EINVAL: clients manage its snapshots.
    """
    pool = _pool(maps, pool_id, PoolFlag.SELFMANAGED_SNAPS)
    snapid = find(maps, pool_id, name)
    if snapid is None:
        return False
    kept = {known: snap for known, snap in pool.snaps.items() if known != snapid}
    _changed(maps, pool_id, replace(pool, snaps=kept), snapid)
    return True


def new_id(maps: Maps, pool_id: int) -> int:
    """Return a new id for a snapshot that clients manage.

    Raises:
        CommandError: EINVAL: the pool has snapshots of its own.
    """
    pool = _pool(maps, pool_id, PoolFlag.POOL_SNAPS)
    _changed(maps, pool_id, replace(pool, flags=pool.flags | PoolFlag.SELFMANAGED_SNAPS))
    return pool.snap_seq + 1


def remove_id(maps: Maps, pool_id: int, snapid: int) -> None:
    """Remove a snapshot that clients manage; no effect if it is removed already.

    Raises:
        CommandError: EINVAL: the pool has snapshots of its own; ENOENT: the id has never been given out.
    """
    pool = _pool(maps, pool_id, PoolFlag.POOL_SNAPS)
    if not 0 < snapid <= pool.snap_seq:
        raise CommandError(errno.ENOENT, f"there is no snapshot {snapid}")
    queue = maps.osdmap.removed_snaps_queue.get(pool_id, {})
    if not any(first <= snapid < first + count for first, count in queue.items()):
        _changed(maps, pool_id, pool, snapid)
