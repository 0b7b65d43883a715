"""The summary for the monitors: newest states, sums, and groups that nobody has reported."""

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES
from messenger.messages.mgr_digest import OsdPgCount, PgMapDigest
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgStat
from messenger.messages.pg_stats import OsdStat, StoreStats
from messenger.messages.pools import ObjectStatCollection, ObjectStats
from toolkit.manager.digest import digest_of, newest

CLEAN = 2 | 4
"""active+clean."""


def group(
    state: int = CLEAN, epoch: int = 5, seq: int = 1, objects: int = 0, acting: tuple[int, ...] = (0,)
) -> PgStat:
    stats = ObjectStatCollection(ObjectStats(num_objects=objects, num_bytes=100 * objects))
    members = list(acting)
    return PgStat(
        reported_epoch=epoch, reported_seq=seq, state=state, stats=stats, acting=members, up=members,
        acting_primary=members[0],
    )  # fmt: skip


def test_the_newest_report_of_a_group_counts() -> None:
    old, new, newer = group(epoch=5, seq=9), group(epoch=6, seq=1), group(epoch=6, seq=2)
    assert newest([{PgId(1, 0): new}, {PgId(1, 0): old, PgId(1, 1): old}]) == {PgId(1, 0): new, PgId(1, 1): old}
    assert newest([{PgId(1, 0): new}, {PgId(1, 0): newer}]) == {PgId(1, 0): newer}


def test_digest_sums_up_the_cluster() -> None:
    groups = {
        PgId(1, 0): group(objects=3, acting=(0, 1)),
        PgId(1, 1): group(objects=4, acting=(1, 0)),
        PgId(2, 0): group(state=0x40, objects=1, acting=(1,)),
        PgId(9, 0): group(),  # of a pool that was deleted
        PgId(2, 7): group(),  # merged since
    }
    osds = {
        0: OsdStat(kb=10, kb_avail=8, num_osds=1, seq=70, statfs=StoreStats(total_bytes=10240)),
        2: OsdStat(kb=20, kb_avail=5, num_osds=1, seq=72, statfs=StoreStats(total_bytes=20480)),
    }
    digest = digest_of({1: 2, 2: 3}, groups, osds, {0: 4096})
    assert (digest.num_pg, digest.num_pg_active, digest.num_pg_unknown, digest.num_osd) == (5, 2, 2, 2)
    assert digest.num_pg_by_state == {CLEAN: 2, 0x40: 1, 0: 2}
    assert digest.num_pg_by_pool == {1: 2, 2: 3}
    assert digest.avail_space_by_rule == {0: 4096}
    assert digest.num_pg_by_osd == {0: OsdPgCount(acting=2, primary=1), 1: OsdPgCount(acting=3, primary=2)}
    assert digest.pg_sum.stats.sum.num_objects == 8
    assert {pool: each.stats.sum.num_bytes for pool, each in digest.pg_pool_sum.items()} == {1: 700, 2: 100}
    assert (digest.osd_sum.kb, digest.osd_sum.kb_avail, digest.osd_sum.statfs.total_bytes) == (30, 13, 30720)
    assert digest.osd_last_seq == [70, 0, 72]
    encoder = Encoder()
    digest.encode(encoder, ALL_FEATURES)
    assert PgMapDigest.decode(Decoder(encoder.getvalue()), ALL_FEATURES) == digest


def test_a_cluster_that_nobody_has_reported_is_unknown() -> None:
    digest = digest_of({1: 8}, {}, {}, {})
    assert digest.num_pg_by_state == {0: 8}
    assert digest.osd_last_seq == []
