"""Commands about space: of the cluster, of pools, of OSDs."""

import errno
from collections import Counter
from statistics import pstdev
from typing import Any

from messenger.messages.pool import Pool
from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError, size, table
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.crush import ROOT_ID, WEIGHT_ONE
from toolkit.embedded.release import CAPACITY_BYTES
from toolkit.embedded.usage import Usage


@COMMANDS.add(
    "df name=detail,type=CephChoices,strings=detail,req=false", "print what the cluster and its pools hold"
)
def df(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph df [detail]``."""
    use, capacity = cluster.total_use(), cluster.capacity_bytes
    free = capacity - use.size_bytes
    stats = {
        "total_bytes": capacity,
        "total_avail_bytes": free,
        "total_used_bytes": use.size_bytes,
        "total_used_raw_bytes": use.size_bytes,
        "total_used_raw_ratio": use.size_bytes / capacity if capacity else 0.0,
        "num_osds": len(cluster.maps.hosts),
        "num_per_pool_osds": len(cluster.up_osds()),
        "num_per_pool_omap_osds": len(cluster.up_osds()),
    }
    row = [size(capacity), size(free), size(use.size_bytes), size(use.size_bytes)]
    row.append(f"{100 * stats['total_used_raw_ratio']:.2f}")
    head = ["CLASS", "SIZE", "AVAIL", "USED", "RAW USED", "%RAW USED"]
    text = "--- RAW STORAGE ---\n" + table([head, ["mem", *row], ["TOTAL", *row]])
    detail = bool(arguments.get("detail"))
    pools = [["POOL", "ID", "PGS", "STORED", "OBJECTS", "USED", "%USED", "MAX AVAIL"]]
    pools[0] += ["QUOTA OBJECTS", "QUOTA BYTES", "DIRTY", "USED COMPR", "UNDER COMPR"] if detail else []
    described = []
    for pool_id, name in sorted(cluster.maps.osdmap.pool_names.items()):
        held, pool = cluster.pool_use(pool_id), cluster.maps.osdmap.pools[pool_id]
        ratio = held.size_bytes / capacity if capacity else 0.0
        stored = [size(held.size_bytes), str(held.objects), size(held.size_bytes), f"{100 * ratio:.2f}"]
        quotas = [
            str(pool.quota_max_objects or "N/A"),
            size(pool.quota_max_bytes) if pool.quota_max_bytes else "N/A",
        ]
        shown = [name, str(pool_id), str(pool.pg_num), *stored, size(free)]
        pools.append(shown + ([*quotas, "N/A", "0 B", "0 B"] if detail else []))
        described.append(
            {"name": name, "id": pool_id, "stats": _pool_stats(held, pool, free, ratio, detail=detail)}
        )
    value = {"stats": stats, "stats_by_class": {}, "pools": described}
    return Answer(value, f"{text} \n--- POOLS ---\n{table(pools)}")


def _pool_stats(held: Usage, pool: Pool, free: int, ratio: float, *, detail: bool) -> dict[str, float]:
    """Return the counters of a pool; what embedded OSDs do not count is 0."""
    found: dict[str, float] = {
        "stored": held.size_bytes,
        "objects": held.objects,
        "kb_used": -(-held.size_bytes // 1024),
        "bytes_used": held.size_bytes,
        "percent_used": ratio,
        "max_avail": free,
    }
    if not detail:
        return found
    found |= {"stored_data": held.size_bytes, "stored_raw": held.size_bytes, "data_bytes_used": held.size_bytes}
    found |= {"quota_objects": pool.quota_max_objects, "quota_bytes": pool.quota_max_bytes, "avail_raw": free}
    found |= {"stored_omap": held.omap_bytes, "omap_bytes_used": held.omap_bytes, "dirty": held.objects}
    found |= {"rd": held.reads, "rd_bytes": held.read_kb << 10, "wr": held.writes, "wr_bytes": held.write_kb << 10}
    return found | dict.fromkeys(("compress_bytes_used", "compress_under_bytes"), 0)


# ---- OSDs

_HEAD = (
    "ID",
    "CLASS",
    "WEIGHT",
    "REWEIGHT",
    "SIZE",
    "RAW USE",
    "DATA",
    "OMAP",
    "META",
    "AVAIL",
    "%USE",
    "VAR",
    "PGS",
)


@COMMANDS.add(
    "osd df name=output_method,type=CephChoices,strings=plain|tree,req=false"
    " name=filter_by,type=CephChoices,strings=class|name,req=false name=filter,type=CephString,req=false",
    "print what each OSD holds",
)
def osd_df(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd df [plain|tree [name BUCKET]]``."""
    as_tree = arguments.get("output_method") == "tree"
    shown = _filtered(cluster, arguments)
    groups = Counter(primary for _, primary in cluster.groups())
    average = cluster.total_use().size_bytes / (cluster.capacity_bytes or 1)
    rows = [[*_HEAD, "STATUS", *(["TYPE NAME"] if as_tree else [])]]
    nodes: list[dict[str, Any]] = []

    def visit(number: int, depth: int) -> set[int]:
        node = _node(cluster, number, depth, average, groups[number])
        place = len(nodes), len(rows)
        below: set[int] = {number} & shown if number >= 0 else set()
        nodes.append(node)
        rows.append([])
        for item in cluster.maps.crush.buckets[number].items if number < 0 else ():
            below |= visit(item, depth + 1)
        rows[place[1]] = _row(node, as_tree=as_tree)
        if not below or (number < 0 and not as_tree):
            del nodes[place[0]], rows[place[1]]
        return below

    visit(ROOT_ID, 0)
    total = _node(cluster, ROOT_ID, 0, average, 0)
    used = [size(total[name] << 10) for name in ("kb", "kb_used", "kb_used_data", "kb_used_omap", "kb_used_meta")]
    used += [size(total["kb_avail"] << 10), f"{total['utilization']:.2f}"]
    width = len(rows[0])
    rows.append(["", "", "", "TOTAL", *used, *[""] * (width - 11)])
    variations = [node["var"] for node in nodes if node["id"] >= 0] or [0.0]
    deviation = pstdev([node["utilization"] for node in nodes if node["id"] >= 0] or [0.0])
    summary = {f"total_{name}": total[name] for name in total if name.startswith("kb")}
    summary |= {
        "average_utilization": total["utilization"],
        "min_var": min(variations),
        "max_var": max(variations),
    }
    text = (
        table(rows, left=0)
        + f"MIN/MAX VAR: {min(variations):.2f}/{max(variations):.2f}  STDDEV: {deviation:.2f}\n"
    )
    return Answer({"nodes": nodes, "stray": [], "summary": {**summary, "dev": deviation}}, text)


@COMMANDS.add("osd status name=bucket,type=CephString,req=false", "print the state and the space of the OSDs")
def osd_status(cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph osd status [BUCKET]``: embedded OSDs count no operations."""
    osds = set(cluster.maps.hosts)
    if "bucket" in arguments:
        osds = _filtered(cluster, {"filter_by": "name", "filter": arguments["bucket"]})
    rows, value = [["ID", "HOST", "USED", "AVAIL", "WR OPS", "WR DATA", "RD OPS", "RD DATA", "STATE"]], []
    for osd in sorted(osds):
        use, known = cluster.osd_use(osd).size_bytes, cluster.maps.osdmap.osds[osd]
        states = ["exists", *(["up"] if known.is_up else [])]
        counts = dict.fromkeys(("write ops rate", "write byte rate", "read ops rate", "read byte rate"), 0)
        about: dict[str, Any] = {"id": osd, "host name": cluster.maps.hosts[osd], "kb used": use >> 10}
        value.append(about | {"kb available": CAPACITY_BYTES - use >> 10} | counts | {"state": states})
        space = [size(use), size(CAPACITY_BYTES - use)] if known.is_up else ["0 B", "0 B"]
        rows.append([str(osd), cluster.maps.hosts[osd], *space, "0", "0", "0", "0", ",".join(states)])
    return Answer({"OSDs": value}, table(rows, left=0))


def _filtered(cluster: Cluster, arguments: Arguments) -> set[int]:
    """Return the OSDs that a command shows; raises CommandError, EINVAL: there is no such class or bucket."""
    osds = set(cluster.maps.hosts)
    if "filter" not in arguments:
        return osds
    wanted = str(arguments["filter"])
    crush = cluster.maps.crush
    number = next((known for known, name in crush.names.items() if name == wanted), None)
    if arguments.get("filter_by") != "name" or (number is None and cluster.maps.pool_id(wanted) is None):
        raise CommandError(errno.EINVAL, f"'{wanted}' not a pool, crush node or device class name")
    if number is None or number == ROOT_ID:
        return osds
    return {number} if number >= 0 else set(crush.buckets[number].items)


def _osds_below(cluster: Cluster, number: int) -> list[int]:
    if number >= 0:
        return [number]
    return [osd for item in cluster.maps.crush.buckets[number].items for osd in _osds_below(cluster, item)]


def _node(cluster: Cluster, number: int, depth: int, average: float, groups: int) -> dict[str, Any]:
    """Return the space of an OSD, or of a bucket, as JSON."""
    crush, osds = cluster.maps.crush, _osds_below(cluster, number)
    used_bytes = sum(cluster.osd_use(osd).size_bytes for osd in osds)
    capacity = CAPACITY_BYTES * len(osds)
    ratio = used_bytes / capacity if capacity else 0.0
    kind = 0 if number >= 0 else crush.buckets[number].type
    weight = 1.0 if number >= 0 else crush.buckets[number].weight / WEIGHT_ONE
    about: dict[str, Any] = {"id": number, "name": crush.names[number], "type": crush.type_names[kind]}
    about |= {"type_id": kind, "crush_weight": weight, "depth": depth, "pool_weights": {}}
    about["reweight"] = cluster.maps.osdmap.osds[number].weight / WEIGHT_ONE if number >= 0 else -1.0
    about |= {"kb": capacity >> 10, "kb_used": used_bytes >> 10, "kb_used_data": used_bytes >> 10}
    about |= {"kb_used_omap": 0, "kb_used_meta": 0, "kb_avail": (capacity - used_bytes) >> 10}
    about |= {"utilization": 100 * ratio, "var": ratio / average if average else 1.0, "pgs": groups}
    if number >= 0:
        return {**about, "device_class": "", "status": "up" if cluster.maps.osdmap.osds[number].is_up else "down"}
    return {**about, "children": list(crush.buckets[number].items)}


def _row(node: dict[str, Any], *, as_tree: bool) -> list[str]:
    is_osd = node["id"] >= 0
    sizes = [size(node[name] << 10) for name in ("kb", "kb_used", "kb_used_data", "kb_used_omap", "kb_used_meta")]
    row = [
        str(node["id"]),
        "",
        f"{node['crush_weight']:.5f}",
        f"{node['reweight']:.5f}" if is_osd else "-",
        *sizes,
    ]
    row += [size(node["kb_avail"] << 10), f"{node['utilization']:.2f}", f"{node['var']:.2f}"]
    row += [str(node["pgs"]) if is_osd else "-", node.get("status", "")]
    shown = node["name"] if is_osd else f"{node['type']} {node['name']}"
    return [*row, "    " * node["depth"] + shown] if as_tree else row
