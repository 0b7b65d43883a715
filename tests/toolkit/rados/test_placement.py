"""From names to OSDs: a real map with every feature that moves a placement group, and each rule by itself."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from messenger.denc.codec import Encoder
from messenger.messages.osd_objects import PgId, ShardedPgId
from messenger.messages.osdmap import OSDMap, OsdState
from toolkit.rados.crush_map import ITEM_NONE, CrushMap
from toolkit.rados.placement import NO_OSD, PgMapping, Placement, object_hash, stable_mod

DATA = Path(__file__).parent / "data"
OSDMAP = OSDMap.decode((DATA / "osdmap.bin").read_bytes())
PG = re.compile(r"(\d+)\.(\w+) raw .* up \(\[(.*)\], p(-?\d+)\) acting \(\[(.*)\], p(-?\d+)\)")
TWO, THREE, CODED = 1, 2, 3
EXCEPTIONS = ("pg_temp", "primary_temp", "pg_upmap", "pg_upmap_items", "pg_upmap_primaries")
UP = OsdState.EXISTS | OsdState.UP


def osds(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def test_placement_equals_that_of_osdmaptool():
    placement = Placement(OSDMAP)
    shown = [PG.fullmatch(line).groups() for line in (DATA / "osdmap-pgs.txt").read_text().splitlines()]
    expected = {
        PgId(int(pool), int(seed, 16)): PgMapping(osds(up), int(up_primary), osds(acting), int(primary))
        for pool, seed, up, up_primary, acting, primary in shown
    }
    assert len(expected) == 13 + 32 + 12
    assert {pgid: placement.mapping(pgid) for pgid in expected} == expected


def everybody(unwilling: Collection[int] = ()) -> OSDMap:
    """The same map without exceptions, everybody up and in, and all alike but those unwilling to lead."""
    encoder = Encoder()
    replace(CrushMap.decode(OSDMAP.crush), choose_args={}).encode(encoder)
    healthy = [replace(osd, state=UP, weight=0x10000) for osd in OSDMAP.osds]
    crush = encoder.getvalue()
    affinity = [0 if number in unwilling else 0x10000 for number in range(len(healthy))]
    plain = {name: {} for name in EXCEPTIONS}
    return replace(OSDMAP, osds=healthy, crush=crush, osd_primary_affinity=affinity, **plain)


def with_exceptions(pgid: PgId, osdmap: OSDMap | None = None, **exceptions) -> PgMapping:
    by_pg = {name: {pgid: value} for name, value in exceptions.items()}
    return Placement(replace(osdmap or everybody(), **by_pg)).mapping(pgid)


def down(osdmap: OSDMap, *numbers: int, **changes) -> OSDMap:
    changed = [
        replace(osd, **{"state": OsdState.EXISTS, **changes}) if n in numbers else osd
        for n, osd in enumerate(osdmap.osds)
    ]
    return replace(osdmap, osds=changed)


PGID = PgId(THREE, 0)
PLAIN = Placement(everybody()).mapping(PGID)
FIRST, SECOND, THIRD = PLAIN.up


def test_mapping_without_overrides_is_up_and_acting():
    assert sorted(PLAIN.up) == [0, 1, 2]
    assert PgMapping(PLAIN.up, FIRST, PLAIN.up, FIRST) == PLAIN


def test_down_osds_do_not_count():
    assert Placement(down(everybody(), FIRST)).mapping(PGID) == PgMapping(
        (SECOND, THIRD), SECOND, (SECOND, THIRD), SECOND
    )
    assert Placement(down(everybody(), 0, 1, 2)).mapping(PGID) == PgMapping((), NO_OSD, (), NO_OSD)


def test_upmaps():
    assert with_exceptions(PGID, pg_upmap=(THIRD, FIRST)).up == (THIRD, FIRST)
    assert with_exceptions(PGID, pg_upmap=(THIRD,), pg_upmap_items=((THIRD, SECOND),)).up == (SECOND,)
    assert with_exceptions(PGID, pg_upmap_items=((FIRST, SECOND),)).up == PLAIN.up
    assert with_exceptions(PGID, pg_upmap_primaries=THIRD).up == (THIRD, SECOND, FIRST)
    assert with_exceptions(PGID, pg_upmap_primaries=FIRST).up == PLAIN.up


def test_upmaps_to_osds_that_are_out():
    out = down(everybody(), THIRD, state=UP, weight=0)
    usual = Placement(out).mapping(PGID).up
    assert THIRD not in usual
    assert with_exceptions(PGID, out, pg_upmap=(THIRD, FIRST), pg_upmap_items=((usual[0], 7),)).up == usual
    assert with_exceptions(PGID, out, pg_upmap_items=((usual[0], THIRD),)).up == usual


def test_temporary_mappings():
    assert with_exceptions(PGID, pg_temp=(THIRD, SECOND)) == replace_acting((THIRD, SECOND), THIRD)
    assert with_exceptions(PGID, primary_temp=SECOND) == replace_acting(PLAIN.up, SECOND)
    assert with_exceptions(PGID, pg_temp=(THIRD, SECOND), primary_temp=SECOND).acting_primary == SECOND
    lost = with_exceptions(PGID, down(everybody(), THIRD), pg_temp=(THIRD,))
    assert (lost.acting, lost.acting_primary) == (lost.up, lost.up_primary)


def replace_acting(acting: tuple[int, ...], primary: int) -> PgMapping:
    return PgMapping(PLAIN.up, PLAIN.up_primary, acting, primary)


def test_affinity():
    unwilling = everybody(unwilling={FIRST})
    assert Placement(unwilling).mapping(PGID).up == (SECOND, FIRST, THIRD)
    nobody = everybody(unwilling={0, 1, 2})
    assert Placement(nobody).mapping(PGID).up == PLAIN.up


def test_shards_keep_their_places():
    pgid = PgId(CODED, 1)
    whole = Placement(everybody())
    first, second, third = whole.mapping(pgid).up
    assert whole.sharded(pgid) == ShardedPgId(pgid, 0)
    part = Placement(down(everybody(), first))
    assert part.mapping(pgid).up == (ITEM_NONE, second, third)
    assert part.sharded(pgid) == ShardedPgId(pgid, 1)
    unwilling = Placement(everybody(unwilling={first}))
    assert unwilling.mapping(pgid).up == (first, second, third)
    assert unwilling.mapping(pgid).acting_primary == second
    assert Placement(down(everybody(), 0, 1, 2)).sharded(pgid) == ShardedPgId(pgid)
    assert whole.sharded(PGID) == ShardedPgId(PGID)


def test_pools_without_hashpspool_lie_on_top_of_each_other():
    """The seed is the group's plus the pool's number: group 7 of pool 2 is group 0 of pool 9."""
    osdmap = everybody()
    flat = replace(osdmap.pools[THREE], flags=0)
    placement = Placement(replace(osdmap, pools={THREE: flat, 9: flat}))
    groups = [placement.mapping(PgId(9, seed)).up for seed in range(8)]
    assert groups == [placement.mapping(PgId(THREE, seed + 7)).up for seed in range(8)]
    assert groups != [Placement(osdmap).mapping(PgId(THREE, seed + 7)).up for seed in range(8)]


def test_names():
    """docs/protocol.md §10."""
    assert object_hash("foo") == 0x7FC1F406
    assert object_hash("foo", nspace="ns") == 0xAC17F0B6
    assert object_hash("anything", key="foo") == 0x7FC1F406
    assert stable_mod(0x7FC1F406, 12) == 6
    assert [stable_mod(x, 12) for x in range(16)] == [*range(12), 4, 5, 6, 7]
    assert stable_mod(5, 1) == 0


def test_a_new_map_takes_over_an_unchanged_crush_map():
    before = Placement(OSDMAP)
    assert before.crush is Placement(replace(OSDMAP, epoch=99), before).crush
    other = Placement(replace(OSDMAP, crush=b"another"), before)
    assert "crush" not in other.__dict__
