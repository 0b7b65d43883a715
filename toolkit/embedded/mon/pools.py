"""Replies to librados's own messages about pools and space (docs/protocol.md §6.2)."""

import errno

from messenger.messages.pool import PoolFlag
from messenger.messages.pools import (
    MGetPoolStats,
    MGetPoolStatsReply,
    MPoolOp,
    MPoolOpReply,
    MStatfs,
    MStatfsReply,
    ObjectStatCollection,
    ObjectStats,
    PoolOpCode,
    PoolStats,
    StoreStatfs,
)
from toolkit.embedded.mon import pool_commands
from toolkit.embedded.mon.answers import CommandError
from toolkit.embedded.mon.cluster import Cluster


def pool_operation(cluster: Cluster, request: MPoolOp) -> MPoolOpReply:
    """Create or delete a pool or a self-managed snapshot id; pool snapshots are rejected."""
    number, data = 0, None
    try:
        if request.op == PoolOpCode.CREATE:
            number = 0 if pool_commands.create(cluster, request.name) else errno.EEXIST
        elif request.op == PoolOpCode.DELETE:
            if request.pool in cluster.maps.osdmap.pools:
                pool_commands.delete(cluster, request.pool)
        elif request.op in (PoolOpCode.CREATE_UNMANAGED_SNAP, PoolOpCode.DELETE_UNMANAGED_SNAP):
            if request.pool in cluster.maps.osdmap.pools:
                data = _unmanaged_snap(cluster, request)
            else:
                number = errno.ENOENT
        else:
            number = errno.EOPNOTSUPP
    except CommandError as error:
        number = error.errno
    return MPoolOpReply(request.fsid, -number & 0xFFFFFFFF, cluster.maps.osdmap.epoch, data)


def _unmanaged_snap(cluster: Cluster, request: MPoolOp) -> bytes | None:
    """Return a new id for a self-managed snapshot; None when an id is deleted.

    ``rbd`` requests one to check that it may use a pool. OSDs reject reads of snapshots.
    """
    if request.op == PoolOpCode.DELETE_UNMANAGED_SNAP:
        return None
    pool = cluster.maps.osdmap.pools[request.pool]
    snapid = pool.snap_seq + 1
    flags = pool.flags | PoolFlag.SELFMANAGED_SNAPS
    epoch = cluster.maps.osdmap.epoch + 1
    cluster.maps.change_pool(request.pool, snap_seq=snapid, snap_epoch=epoch, flags=flags)
    return snapid.to_bytes(8, "little")


def statfs(cluster: Cluster, request: MStatfs) -> MStatfsReply:
    """Return the space usage of the cluster, or of one pool."""
    use = cluster.total_use() if request.data_pool is None else cluster.pool_use(request.data_pool)
    free_bytes = cluster.capacity_bytes - cluster.total_use().size_bytes
    total_kb = cluster.capacity_bytes >> 10
    return MStatfsReply(
        request.fsid, cluster.maps.osdmap.epoch, total_kb, use.size_bytes >> 10, free_bytes >> 10, use.objects
    )


def pool_stats(cluster: Cluster, request: MGetPoolStats) -> MGetPoolStatsReply:
    """Return the space usage of some pools; unknown names are omitted."""
    found = {}
    for name in request.pools:
        pool_id = cluster.maps.pool_id(name)
        if pool_id is None:
            continue
        use = cluster.pool_use(pool_id)
        counters = ObjectStats(num_bytes=use.size_bytes, num_objects=use.objects, num_object_copies=use.objects)
        store = StoreStatfs(allocated=use.size_bytes, data_stored=use.size_bytes)
        found[name] = PoolStats(ObjectStatCollection(counters), store_stats=store, num_store_stats=1)
    return MGetPoolStatsReply(request.fsid, found, per_pool=True)
