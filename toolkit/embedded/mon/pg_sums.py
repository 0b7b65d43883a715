"""Sums of space and objects, of pools and of OSDs, as ``ceph pg dump`` has them in JSON."""

from collections import Counter
from typing import Any

from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.pg_stats import stat_sum
from toolkit.embedded.release import CAPACITY_BYTES


def _statfs(size_bytes: int, used_bytes: int) -> dict[str, int]:
    return {
        "total": size_bytes,
        "available": size_bytes - used_bytes,
        "allocated": used_bytes,
        "data_stored": used_bytes,
    }


def pg_stats_sum(cluster: Cluster) -> dict[str, Any]:
    """Return the sum of all placement groups."""
    use, count = cluster.total_use(), sum(cluster.pg_states().values())
    return {"stat_sum": stat_sum(use), "store_stats": _statfs(0, 0), "up": count, "acting": count}


def pool_stats(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the sum of each pool."""
    return [
        {
            "poolid": number,
            "num_pg": pool.pg_num,
            "stat_sum": stat_sum(cluster.pool_use(number)),
            "store_stats": _statfs(0, 0) | {"allocated": cluster.pool_use(number).size_bytes},
            "up": pool.pg_num,
            "acting": pool.pg_num,
        }
        for number, pool in sorted(cluster.maps.osdmap.pools.items())
    ]


def osd_stats(cluster: Cluster) -> list[dict[str, Any]]:
    """Return space and number of placement groups of each OSD that is up."""
    groups = Counter(primary for _, primary in cluster.groups())
    return [
        {
            "osd": osd,
            "up_from": cluster.maps.osdmap.osds[osd].info.up_from,
            "num_pgs": groups[osd],
            **_space(CAPACITY_BYTES, cluster.osd_use(osd).size_bytes),
        }
        for osd in cluster.up_osds()
    ]


def osd_stats_sum(cluster: Cluster) -> dict[str, Any]:
    """Return the sum of all OSDs that are up."""
    use, count = cluster.total_use(), len(cluster.up_osds())
    groups = cluster.pg_states()["active+clean"]
    return {"num_pgs": groups, "num_osds": count, **_space(cluster.capacity_bytes, use.size_bytes)}


def _space(size_bytes: int, used_bytes: int) -> dict[str, Any]:
    found: dict[str, Any] = {"kb": size_bytes >> 10, "kb_used": used_bytes >> 10, "kb_used_data": used_bytes >> 10}
    found |= {"kb_used_omap": 0, "kb_used_meta": 0, "kb_avail": (size_bytes - used_bytes) >> 10}
    latencies = {"commit_latency_ms": 0, "apply_latency_ms": 0}
    return {
        **found,
        "statfs": _statfs(size_bytes, used_bytes),
        "hb_peers": [],
        "perf_stat": latencies,
        "alerts": [],
    }
