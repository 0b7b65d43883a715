"""The space that new data can take by each placement rule, which ``ceph df`` shows as MAX AVAIL."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from messenger.messages.pg_stats import OsdStat
from toolkit.rados.crush_map import Alg, Bucket, CrushMap, Rule, RuleOp


def available_by_rule(crush: CrushMap, osds: Mapping[int, OsdStat], full_ratio: float) -> dict[int, int]:
    """Return the available bytes by rule number, of all copies together.

    The OSD that fills up first limits a rule: its free space up to ``full_ratio`` of its size, divided by its
    share of the data. OSDs that have reported no size, or have weight 0, do not count.
    """
    available = {}
    for number, rule in crush.rules.items():
        limits = [
            _free_bytes(osds[osd], full_ratio) / share
            for osd, share in shares(crush, rule).items()
            if share and osd in osds and osds[osd].statfs.total_bytes
        ]
        available[number] = int(min(limits, default=0.0))
    return available


def shares(crush: CrushMap, rule: Rule) -> dict[int, float]:
    """Return the share of a rule's data that each OSD gets by its weight; the shares of one TAKE step sum to 1."""
    result: dict[int, float] = defaultdict(float)
    for step in rule.steps:
        if step.op != RuleOp.TAKE:
            continue
        weights = dict(_devices(crush, step.arg1))
        total = sum(weights.values())
        for osd, weight in weights.items():
            result[osd] += weight / total if total else 0.0
    return dict(result)


def _free_bytes(osd: OsdStat, full_ratio: float) -> float:
    """Bytes that an OSD can take before it is full."""
    space = osd.statfs
    return max(0.0, space.available_bytes - space.total_bytes * (1.0 - full_ratio))


def _devices(crush: CrushMap, item: int) -> Iterator[tuple[int, int]]:
    """Yield the OSDs below an item with their weights, in 16.16 fixed point."""
    if item >= 0:
        yield item, 1 << 16
        return
    bucket = crush.buckets.get(item)
    if bucket is None:
        return
    for child, weight in zip(bucket.items, _weights(bucket), strict=True):
        if child >= 0:
            yield child, weight
        else:
            yield from _devices(crush, child)


def _weights(bucket: Bucket) -> tuple[int, ...]:
    """Return the weight of each item of a bucket."""
    if bucket.alg == Alg.UNIFORM:
        return bucket.weights[:1] * len(bucket.items)
    if bucket.alg == Alg.TREE:  # of its nodes, those with odd numbers are the items
        return bucket.weights[1::2][: len(bucket.items)]
    return bucket.weights
