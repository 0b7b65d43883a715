"""The CRUSH map of an embedded cluster: a root, a host for each OSD, one rule."""

from collections.abc import Mapping

from messenger.denc.codec import Encoder
from toolkit.rados.crush_map import Alg, Bucket, CrushMap, CrushStep, Rule, RuleOp, Tunables

RULE_NAME = "replicated_rule"
ROOT_NAME = "default"
ROOT_ID = -1

WEIGHT_ONE = 0x10000
"""16.16 fixed point."""
TYPES = {
    0: "osd",
    1: "host",
    2: "chassis",
    3: "rack",
    4: "row",
    5: "pdu",
    6: "pod",
    7: "room",
    8: "datacenter",
    9: "zone",
    10: "region",
    11: "root",
}
_HOST, _ROOT = 1, 11
_REPLICATED = 1
_JEWEL = Tunables(
    choose_local_tries=0,
    choose_local_fallback_tries=0,
    choose_total_tries=50,
    chooseleaf_descend_once=1,
    chooseleaf_vary_r=1,
    straw_calc_version=1,
    allowed_bucket_algs=1 << Alg.UNIFORM | 1 << Alg.LIST | 1 << Alg.STRAW | 1 << Alg.STRAW2,
    chooseleaf_stable=1,
)


def host_id(position: int) -> int:
    """Return the bucket id of the host at ``position`` in the list of hosts."""
    return ROOT_ID - 1 - position


def new_crush(hosts: Mapping[int, str]) -> CrushMap:
    """Return the map of OSDs that are each on a host of their own.

    Args:
        hosts: host names by OSD id.
    """
    items = tuple(host_id(position) for position in range(len(hosts)))
    buckets = {ROOT_ID: _bucket(ROOT_ID, _ROOT, items)}
    names = {ROOT_ID: ROOT_NAME}
    for position, (osd, host) in enumerate(sorted(hosts.items())):
        buckets[host_id(position)] = _bucket(host_id(position), _HOST, (osd,))
        names |= {host_id(position): host, osd: f"osd.{osd}"}
    steps = (
        CrushStep(RuleOp.TAKE, ROOT_ID),
        CrushStep(RuleOp.CHOOSELEAF_FIRSTN, 0, _HOST),
        CrushStep(RuleOp.EMIT),
    )
    return CrushMap(
        max_devices=max(hosts, default=-1) + 1,
        buckets=buckets,
        max_buckets=len(buckets),
        rules={0: Rule(0, _REPLICATED, 1, 10, steps)},
        max_rules=1,
        type_names=TYPES,
        names=names,
        rule_names={0: RULE_NAME},
        tunables=_JEWEL,
    )


def encoded_crush(crush: CrushMap) -> bytes:
    """Return the map as encoded in the OSD map."""
    encoder = Encoder()
    crush.encode(encoder)
    return encoder.getvalue()


def _bucket(number: int, kind: int, items: tuple[int, ...]) -> Bucket:
    weights = (WEIGHT_ONE,) * len(items)
    return Bucket(number, kind, Alg.STRAW2, 0, sum(weights), items, weights)
