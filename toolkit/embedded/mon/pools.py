"""Replies to librados's own messages about pools and space (docs/protocol.md §6.2)."""

import errno

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
from toolkit.embedded.mon import pool_commands, snapshots
from toolkit.embedded.mon.answers import CommandError
from toolkit.embedded.mon.cluster import Cluster

_ANY_RULE = -1


def pool_operation(cluster: Cluster, request: MPoolOp) -> MPoolOpReply:
    """Create or delete a pool, a snapshot of a pool, or the id of a snapshot that clients manage.

    What exists already, or is gone already, is no error: the client checked it, and has sent the request again.
    """
    number, data = 0, None
    try:
        if request.op == PoolOpCode.CREATE:
            if request.crush_rule not in (_ANY_RULE, *cluster.maps.crush.rule_names):
                raise CommandError(errno.ENOENT, "no such CRUSH rule")
            pool_commands.create(cluster, request.name)
        elif request.pool not in cluster.maps.osdmap.pools:
            number = 0 if request.op == PoolOpCode.DELETE else errno.ENOENT
        elif request.op == PoolOpCode.DELETE:
            pool_commands.delete(cluster, request.pool)
        elif request.op == PoolOpCode.CREATE_SNAP:
            snapshots.create(cluster.maps, request.pool, request.name)
        elif request.op == PoolOpCode.DELETE_SNAP:
            snapshots.remove(cluster.maps, request.pool, request.name)
        elif request.op == PoolOpCode.CREATE_UNMANAGED_SNAP:
            data = snapshots.new_id(cluster.maps, request.pool).to_bytes(8, "little")
        elif request.op == PoolOpCode.DELETE_UNMANAGED_SNAP:
            snapshots.remove_id(cluster.maps, request.pool, request.snapid)
        else:
            number = errno.EOPNOTSUPP
    except CommandError as error:
        number = error.errno
    return MPoolOpReply(request.fsid, -number & 0xFFFFFFFF, cluster.maps.osdmap.epoch, data)


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
        counters = ObjectStats(
            num_bytes=use.size_bytes,
            num_objects=use.objects,
            num_object_clones=use.clones,
            num_object_copies=use.objects,
            num_rd=use.reads,
            num_rd_kb=use.read_kb,
            num_wr=use.writes,
            num_wr_kb=use.write_kb,
        )
        store = StoreStatfs(allocated=use.size_bytes, data_stored=use.size_bytes)
        found[name] = PoolStats(ObjectStatCollection(counters), store_stats=store, num_store_stats=1)
    return MGetPoolStatsReply(request.fsid, found, per_pool=True)
