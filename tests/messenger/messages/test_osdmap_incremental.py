import contextlib
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddrVec
from messenger.denc.utime import UTime
from messenger.errors import DecodeError, LocalError
from messenger.messages.osd_objects import PgId
from messenger.messages.osdmap import Osd, OSDMap, OsdState
from messenger.messages.osdmap_incremental import MAX_OSDS, Incremental
from messenger.messages.osdmap_pgs import PgChanges, PgExceptions
from tests.support.osdmaps import FSID, encoded, incremental, with_crc

HISTORY = Path(__file__).parent / "data" / "history"
FIRST = (HISTORY / "full-first.bin").read_bytes()
LAST = (HISTORY / "full-last.bin").read_bytes()
INCREMENTALS = {
    int(path.stem.removeprefix("incremental-")): path.read_bytes() for path in HISTORY.glob("incremental-*.bin")
}
ADDRS = AddrVec.parse("[v2:10.0.0.7:6800/77,v1:10.0.0.7:6801/77]")
EXISTS, UP, NEW, AUTOOUT, STOP = (
    OsdState.EXISTS,
    OsdState.UP,
    OsdState.NEW,
    OsdState.AUTOOUT,
    OsdState.STOP,
)


def base_map(*osds: Osd) -> OSDMap:
    pools = OSDMap.decode(LAST).pools
    return OSDMap(FSID, 1, UTime(1), UTime(1), pools, {1: "rbd", 3: "erasure"}, 3, 0x8000, list(osds))


A, B = PgId(1, 5), PgId(1, 6)
CHANGES = PgChanges(
    {A: (1, 2), B: ()},
    {A: 2, B: -1},
    {A: (3,), B: (4,)},
    (B,),
    {A: ((1, 2),), B: ((3, 4),)},
    (B,),
    {A: 9, B: 8},
    (B,),
)


def test_a_real_history_leads_from_the_first_map_to_the_last():
    osdmap = OSDMap.decode(FIRST)
    for _, image in sorted(INCREMENTALS.items()):
        osdmap = osdmap.apply(Incremental.decode(image))
    assert osdmap == OSDMap.decode(LAST)


def test_apply_leaves_the_old_map_alone():
    before = OSDMap.decode(FIRST)
    before.apply(Incremental.decode(INCREMENTALS[2]))
    assert before == OSDMap.decode(FIRST)


def test_decodes_every_field_kept():
    change = incremental(
        new_pool_max=7,
        new_flags=0x20,
        fullmap=b"not looked at yet",
        new_max_osd=12,
        new_pool_names={3: "three"},
        old_pools=[1, 2],
        new_up_client={0: ADDRS, 5: AddrVec()},
        new_state={1: 0, 2: 0x80000001},
        new_weight={3: 0x8000},
        crush=b"a crush map",
        new_primary_affinity={4: 0x4000},
        pg_changes=CHANGES,
    )
    assert Incremental.decode(encoded(change)) == change


def test_exceptions_of_placement_groups_come_change_and_go():
    before = base_map()
    after = before.apply(incremental(pg_changes=CHANGES, crush=b"new")).pg_exceptions
    assert after == PgExceptions({A: (1, 2)}, {A: 2}, {A: (3,)}, {A: ((1, 2),)}, {A: 9})
    full = replace(before, pg_exceptions=after)
    gone = PgChanges({A: ()}, {A: -1}, {}, (A,), {}, (A,), {}, (A,))
    assert full.apply(incremental(pg_changes=gone)).pg_exceptions == PgExceptions()


def test_the_crush_map_is_replaced_or_stays():
    before = replace(base_map(), crush=b"old")
    assert before.apply(incremental()).crush == b"old"
    assert before.apply(incremental(crush=b"new")).crush == b"new"


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (3, {"new_max_osd": 1, "new_state": {0: NEW}, "new_weight": {0: 0x10000}}),
        (18, {"old_pools": [2]}),
        (19, {"new_pool_names": {3: "erasure"}}),
        (22, {"new_flags": 5804032}),
        (27, {"new_state": {0: EXISTS | NEW}}),
    ],
)
def test_real_increments_say_what_was_done(epoch, expected):
    change = Incremental.decode(INCREMENTALS[epoch])
    untouched = incremental(epoch=epoch, modified=change.modified)
    assert change == replace(untouched, **expected)


def test_every_byte_is_covered_by_the_crc_or_the_envelope():
    image = INCREMENTALS[3]
    for position in range(len(image)):
        broken = bytearray(image)
        broken[position] ^= 0x10
        with pytest.raises(DecodeError):
            Incremental.decode(broken)


def test_truncated_anywhere():
    image = INCREMENTALS[8]
    for size in range(len(image)):
        with pytest.raises(DecodeError):
            Incremental.decode(image[:size])


@given(st.sampled_from(sorted(INCREMENTALS)), st.integers(0, 500), st.binary(min_size=1, max_size=4))
def test_mutations_with_a_fitting_crc_decode_and_apply_or_are_refused(epoch, position, patch):
    image = bytearray(INCREMENTALS[epoch])
    position %= len(image) - 12
    image[position : position + len(patch)] = patch
    osdmap = replace(base_map(*[Osd()] * 4), epoch=epoch - 1)
    with contextlib.suppress(DecodeError, LocalError):
        osdmap.apply(Incremental.decode(with_crc(bytes(image))))


def test_a_full_map_inside_replaces_everything():
    change = Incremental.decode(encoded(incremental(fullmap=LAST)))
    assert base_map(Osd()).apply(change) == OSDMap.decode(LAST)


def test_a_malformed_full_map_inside_is_refused():
    with pytest.raises(DecodeError):
        base_map().apply(incremental(fullmap=LAST[:-1]))


@pytest.mark.parametrize("changes", [{"epoch": 1}, {"epoch": 3}, {"fsid": UUID(int=1)}])
def test_only_the_next_epoch_of_the_same_cluster_applies(changes):
    with pytest.raises(LocalError, match="does not follow epoch 1 of 6fb3a0c4"):
        base_map().apply(incremental(**changes))


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        # rule 4: weight
        (Osd(AUTOOUT | NEW | UP, 0), {"new_weight": {0: 0x8000}}, Osd(EXISTS | UP, 0x8000)),
        (Osd(EXISTS | UP, 0x10000), {"new_weight": {0: 0}}, Osd(EXISTS | UP, 0)),
        # rule 5: primary affinity
        (Osd(EXISTS), {"new_primary_affinity": {0: 7}}, Osd(EXISTS, primary_affinity=7)),
        # rule 6: state
        (Osd(EXISTS | UP, 1, ADDRS), {"new_state": {0: 0}}, Osd(EXISTS, 1, ADDRS)),
        (Osd(EXISTS | UP, 1, ADDRS), {"new_state": {0: UP | AUTOOUT}}, Osd(EXISTS | AUTOOUT, 1, ADDRS)),
        (Osd(0, 1), {"new_state": {0: EXISTS | NEW}}, Osd(EXISTS | NEW, 1)),
        (Osd(EXISTS | NEW, 1, ADDRS, 7), {"new_state": {0: EXISTS}}, Osd(0, 1)),
        # rule 7: up
        (Osd(STOP | NEW, 1), {"new_up_client": {0: ADDRS}}, Osd(EXISTS | UP | NEW, 1, ADDRS)),
        # their order
        (
            Osd(EXISTS | UP, 1),
            {"new_weight": {0: 5}, "new_state": {0: EXISTS}, "new_up_client": {0: ADDRS}},
            Osd(EXISTS | UP, 5, ADDRS),
        ),
    ],
)
def test_changes_of_an_osd(before, changes, after):
    bystander = Osd(EXISTS, 3)
    assert base_map(before, bystander).apply(incremental(**changes)).osds == [after, bystander]


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, [Osd(EXISTS)]), (3, [Osd(EXISTS), Osd(EXISTS), Osd()])]
)
def test_max_osd_shrinks_and_grows(count, expected):
    assert base_map(Osd(EXISTS), Osd(EXISTS)).apply(incremental(new_max_osd=count)).osds == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"new_weight": {2: 1}},
        {"new_primary_affinity": {2: 1}},
        {"new_state": {-1: 1}},
        {"new_up_client": {2: ADDRS}},
    ],
)
def test_changes_of_osds_beyond_max_osd_are_refused(changes):
    with pytest.raises(DecodeError, match=r"max_osd is 2"):
        base_map(Osd(), Osd()).apply(incremental(**changes))


def test_a_hostile_max_osd_is_refused():
    assert Incremental.decode(encoded(incremental(new_max_osd=MAX_OSDS))).new_max_osd == MAX_OSDS
    with pytest.raises(DecodeError, match="the limit is"):
        Incremental.decode(encoded(incremental(new_max_osd=MAX_OSDS + 1)))


def test_pools_come_change_and_go():
    before = base_map()
    rbd = before.pools[1]
    change = incremental(
        new_pool_max=9,
        new_pools={1: replace(rbd, size=5), 9: rbd},
        new_pool_names={1: "renamed", 9: "nine"},
        old_pools=[3],
    )
    after = before.apply(change)
    assert after.pools == {1: replace(rbd, size=5, last_change=2), 9: replace(rbd, last_change=2)}
    assert after.pool_names == {1: "renamed", 9: "nine"}
    assert after.pool_max == 9


def test_what_is_not_mentioned_stays():
    before = base_map(Osd(EXISTS, 1, ADDRS))
    assert before.apply(incremental()) == replace(before, epoch=2, modified=UTime(9))


def test_flags_are_replaced():
    assert base_map().apply(incremental(new_flags=0)).flags == 0
