"""Space by placement rule: the OSD that fills up first limits it."""

import pytest

from messenger.messages.pg_stats import OsdStat, StoreStats
from toolkit.manager.capacity import available_by_rule, shares
from toolkit.rados.crush_map import Alg, Bucket, CrushMap, CrushStep, Rule, RuleOp

ONE = 1 << 16
"""Weight 1 in 16.16 fixed point."""


def bucket(number: int, items: dict[int, float], alg: Alg = Alg.STRAW2) -> Bucket:
    weights = tuple(int(weight * ONE) for weight in items.values())
    return Bucket(number, 1, alg, 0, sum(weights), tuple(items), weights)


def rule(*roots: int) -> Rule:
    return Rule(0, 1, 1, 10, tuple(CrushStep(RuleOp.TAKE, root) for root in roots))


def osd(total_bytes: int, available_bytes: int) -> OsdStat:
    return OsdStat(statfs=StoreStats(total_bytes=total_bytes, available_bytes=available_bytes))


TREE = {
    -1: bucket(-1, {-2: 3.0, -3: 1.0}),
    -2: bucket(-2, {0: 1.0, 1: 2.0}),
    -3: bucket(-3, {2: 1.0}),
}


def test_osds_share_the_data_of_a_rule_by_weight() -> None:
    crush = CrushMap(buckets=TREE)
    assert shares(crush, rule(-1)) == {0: 0.25, 1: 0.5, 2: 0.25}
    assert shares(crush, rule(-2)) == {0: pytest.approx(1 / 3), 1: pytest.approx(2 / 3)}
    assert shares(crush, rule(-3, 0)) == {2: 1.0, 0: 1.0}
    assert shares(crush, rule(-9)) == {}


def test_items_of_uniform_and_tree_buckets_have_their_weights() -> None:
    uniform = Bucket(-1, 1, Alg.UNIFORM, 0, 4 * ONE, (0, 1, 2, 3), (ONE,))
    assert shares(CrushMap(buckets={-1: uniform}), rule(-1)) == dict.fromkeys(range(4), 0.25)
    tree = Bucket(-1, 1, Alg.TREE, 0, 4 * ONE, (0, 1), (0, ONE, 4 * ONE, 3 * ONE))
    assert shares(CrushMap(buckets={-1: tree}), rule(-1)) == {0: 0.25, 1: 0.75}


def test_the_osd_that_fills_up_first_limits_a_rule() -> None:
    crush = CrushMap(buckets=TREE, rules={0: rule(-1), 4: rule(-3), 5: rule(-9)})
    osds = {0: osd(1000, 900), 1: osd(1000, 250), 2: osd(1000, 20)}
    assert available_by_rule(crush, osds, 0.9) == {0: 0, 4: 0, 5: 0}
    osds[2] = osd(1000, 900)
    assert available_by_rule(crush, osds, 0.9) == {0: 300, 4: 800, 5: 0}  # 250 less the last 100, for half of it


def test_osds_without_a_report_or_weight_do_not_count() -> None:
    crush = CrushMap(buckets={-1: bucket(-1, {0: 1.0, 1: 1.0, 2: 0.0})}, rules={0: rule(-1)})
    assert available_by_rule(crush, {0: osd(1000, 500), 1: OsdStat(), 2: osd(1000, 0)}, 1.0) == {0: 1000}
    assert available_by_rule(crush, {}, 0.95) == {0: 0}
