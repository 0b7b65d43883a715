import lzma
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.crc import crc32c
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError, LocalError
from messenger.messages.osd_info import OsdInfo, OsdXInfo
from messenger.messages.osdmap import Osd, OSDMap, OsdState
from messenger.messages.osdmap_apply import difference, union
from messenger.messages.osdmap_incremental import MAX_OSDS, Incremental
from messenger.messages.pg import PgId
from tests.support.refusals import read_or_refused

LIVE = Path(__file__).parent / "data" / "live"
HISTORY = Path(__file__).parent / "data" / "history"
FIRST = (HISTORY / "full-first.bin").read_bytes()
LAST = (HISTORY / "full-last.bin").read_bytes()
INCREMENTALS = {
    int(path.stem.removeprefix("incremental-")): path.read_bytes() for path in HISTORY.glob("incremental-*.bin")
}
FSID = UUID("6fb3a0c4-7d11-4d10-9b76-1c0b6c9d2e55")
ADDRS = AddrVec.parse("[v2:10.0.0.7:6800/77,v1:10.0.0.7:6801/77]")
OTHER_ADDRS = AddrVec.parse("[v2:10.0.0.8:6800/77,v1:10.0.0.8:6801/77]")
LUMINOUS = Feature.SERVER_LUMINOUS | Feature.MSG_ADDR2
MIMIC = LUMINOUS | Feature.SERVER_MIMIC
NAUTILUS = MIMIC | Feature.SERVER_NAUTILUS
EXISTS, UP, NEW, AUTOOUT, STOP = (
    OsdState.EXISTS,
    OsdState.UP,
    OsdState.NEW,
    OsdState.AUTOOUT,
    OsdState.STOP,
)


def incremental(**changes) -> Incremental:
    """One that follows the base map and changes only this."""
    return Incremental(**{"fsid": FSID, "epoch": 2, "modified": UTime(9)} | changes)


def base_map(*osds: Osd) -> OSDMap:
    pools = OSDMap.decode(LAST).pools
    return OSDMap(FSID, 1, UTime(1), UTime(1), pools, {1: "rbd", 3: "erasure"}, 3, 0x8000, list(osds))


def with_crc(image: bytes) -> bytes:
    """Fill in inc_crc, which covers what is before it and full_crc behind it."""
    crc = crc32c(image[-4:], crc32c(image[:-8], 0xFFFFFFFF))
    return image[:-8] + crc.to_bytes(4, "little") + image[-4:]


def live_incrementals() -> list[bytes]:
    """Return the incremental maps of a live cluster from epoch 2 on."""
    rest = lzma.decompress((LIVE / "incrementals.bin.xz").read_bytes())
    images = []
    while rest:
        size = 6 + int.from_bytes(rest[2:6], "little")
        images.append(rest[:size])
        rest = rest[size:]
    return images


HISTORIES = [
    pytest.param(FIRST, [image for _, image in sorted(INCREMENTALS.items())], LAST, id="history"),
    pytest.param(
        (LIVE / "full-first.bin").read_bytes(),
        live_incrementals(),
        (LIVE / "full-last.bin").read_bytes(),
        id="live",
    ),
]


@pytest.mark.parametrize(("first", "increments", "last"), HISTORIES)
def test_a_real_history_leads_from_the_first_map_to_the_last(first, increments, last):
    """Monitors send the crc of each next map, so every byte of every map is checked."""
    osdmap = OSDMap.decode(first)
    for image in increments:
        change = Incremental.decode(image)
        osdmap = osdmap.apply(change)
        assert int.from_bytes(osdmap.encode()[-4:], "little") == change.full_crc, f"epoch {osdmap.epoch}"
    assert osdmap == OSDMap.decode(last)
    assert osdmap.encode() == last


@pytest.mark.parametrize(("_first", "increments", "_last"), HISTORIES)
def test_real_increments_encode_to_the_same_bytes(_first, increments, _last):
    for image in increments:
        assert Incremental.decode(image).encode() == image
        assert Incremental.decode(image).encode(CLIENT_FEATURES) == image


@pytest.mark.parametrize(
    ("features", "client_version", "osd_version"),
    [(ALL_FEATURES, 9, 9), (NAUTILUS, 8, 9), (MIMIC, 6, 6), (LUMINOUS, 5, 6)],
)
def test_peers_get_the_version_they_read(features, client_version, osd_version):
    change = incremental(new_up_client={3: ADDRS}, new_up_cluster={3: ADDRS}, new_last_up_change=UTime(7))
    again = Incremental.decode(change.encode(features))
    assert (again.client_version, again.osd_version) == (client_version, osd_version)
    expected = ADDRS if client_version >= 8 else AddrVec((ADDRS.legacy_addr(),))
    assert (again.new_up_client, again.new_up_cluster) == ({3: expected}, {3: expected})
    assert again.encode(features) == change.encode(features)


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
        new_pg_temp={PgId(1, 2): [3, 4]},
        old_pg_upmap={PgId(1, 3)},
        new_removed_snaps={1: {5: 2}},
        old_blocklist=[EntityAddr.parse("v1:10.0.0.1:0/5")],
        new_last_clean_interval={1: (2, 3)},
        change_stretch_mode=True,
        new_stretch_mode_bucket=-7,
        new_range_blocklist={EntityAddr.parse("v2:10.0.0.0:0/24"): UTime(5)},
        client_tail=b"what a newer",
        osd_tail=b"monitor appends",
    )
    assert Incremental.decode(change.encode()) == change


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
def test_real_increments_have_the_expected_changes(epoch, expected):
    change = Incremental.decode(INCREMENTALS[epoch])
    untouched = incremental(
        epoch=epoch,
        modified=change.modified,
        new_last_up_change=change.new_last_up_change,
        new_last_in_change=change.new_last_in_change,
        new_xinfo=change.new_xinfo,
        new_uuid=change.new_uuid,
        encode_features=change.encode_features,
    )
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
    after = read_or_refused(
        lambda: osdmap.apply(Incremental.decode(with_crc(bytes(image)))), DecodeError, LocalError
    )
    assert after is None or OSDMap.decode(after.encode()) == after


def test_a_full_map_inside_replaces_everything():
    change = Incremental.decode(incremental(fullmap=LAST).encode())
    assert base_map(Osd()).apply(change) == OSDMap.decode(LAST)


def test_a_malformed_full_map_inside_is_refused():
    with pytest.raises(DecodeError):
        base_map().apply(incremental(fullmap=LAST[:-1]))


@pytest.mark.parametrize("changes", [{"epoch": 1}, {"epoch": 3}, {"fsid": UUID(int=1)}])
def test_only_the_next_epoch_of_the_same_cluster_applies(changes):
    with pytest.raises(LocalError, match="does not follow epoch 1 of 6fb3a0c4"):
        base_map().apply(incremental(**changes))


DOWN_INFO, UP_INFO = OsdInfo(down_at=2), OsdInfo(up_from=2)
DOWN_XINFO = OsdXInfo(down_stamp=UTime(9))


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        # rule 4: weight
        (Osd(AUTOOUT | NEW | UP, 0), {"new_weight": {0: 0x8000}}, Osd(EXISTS | UP, 0x8000)),
        (
            Osd(AUTOOUT, 0, xinfo=OsdXInfo(old_weight=5)),
            {"new_weight": {0: 5}},
            Osd(EXISTS, 5),
        ),
        (Osd(EXISTS | UP, 0x10000), {"new_weight": {0: 0}}, Osd(EXISTS | UP, 0)),
        # rule 6: state
        (
            Osd(EXISTS | UP, 1, ADDRS),
            {"new_state": {0: 0}},
            Osd(EXISTS, 1, ADDRS, info=DOWN_INFO, xinfo=DOWN_XINFO),
        ),
        (
            Osd(EXISTS | UP, 1, ADDRS),
            {"new_state": {0: UP | AUTOOUT}},
            Osd(EXISTS | AUTOOUT, 1, ADDRS, info=DOWN_INFO, xinfo=DOWN_XINFO),
        ),
        (Osd(0, 1), {"new_state": {0: EXISTS | NEW}}, Osd(EXISTS | NEW, 1)),
        (Osd(EXISTS | NEW, 1, ADDRS, ADDRS, uuid=FSID, info=UP_INFO), {"new_state": {0: EXISTS}}, Osd(0, 1)),
        # rule 7: up
        (
            Osd(STOP | NEW, 1, hb_back_addrs=ADDRS, hb_front_addrs=ADDRS),
            {"new_up_client": {0: ADDRS}, "new_up_cluster": {0: OTHER_ADDRS}, "new_hb_back_up": {0: OTHER_ADDRS}},
            Osd(EXISTS | UP | NEW, 1, ADDRS, OTHER_ADDRS, OTHER_ADDRS, AddrVec(), info=UP_INFO),
        ),
        # their order
        (
            Osd(EXISTS | UP, 1),
            {"new_weight": {0: 5}, "new_state": {0: EXISTS}, "new_up_client": {0: ADDRS}},
            Osd(EXISTS | UP, 5, ADDRS, info=UP_INFO),
        ),
        # what only monitors and OSDs look at
        (
            Osd(EXISTS, info=UP_INFO),
            {"new_up_thru": {0: 7}, "new_last_clean_interval": {0: (3, 4)}, "new_lost": {0: 6}},
            Osd(EXISTS, info=OsdInfo(1, 3, 4, 2, 7, 0, 6)),
        ),
        (
            Osd(EXISTS),
            {"new_xinfo": {0: DOWN_XINFO}, "new_uuid": {0: FSID}},
            Osd(EXISTS, uuid=FSID, xinfo=DOWN_XINFO),
        ),
    ],
)
def test_changes_of_an_osd(before, changes, after):
    bystander = Osd(EXISTS, 3)
    assert base_map(before, bystander).apply(incremental(**changes)).osds == [after, bystander]


PG = PgId(1, 5)


@pytest.mark.parametrize(
    ("name", "before", "changes", "after"),
    [
        ("pg_temp", {}, {"new_pg_temp": {PG: [1]}}, {PG: [1]}),
        ("pg_temp", {PG: [1]}, {"new_pg_temp": {PG: []}}, {}),
        ("primary_temp", {}, {"new_primary_temp": {PG: 0}}, {PG: 0}),
        ("primary_temp", {PG: 1}, {"new_primary_temp": {PG: -1}}, {}),
        ("pg_upmap", {PG: [1]}, {"new_pg_upmap": {PG: [2]}}, {PG: [2]}),
        ("pg_upmap", {PG: [1]}, {"old_pg_upmap": {PG}}, {}),
        ("pg_upmap_items", {}, {"new_pg_upmap_items": {PG: [(1, 2)]}}, {PG: [(1, 2)]}),
        ("pg_upmap_items", {PG: [(1, 2)]}, {"old_pg_upmap_items": {PG}}, {}),
        ("pg_upmap_primaries", {}, {"new_pg_upmap_primaries": {PG: 2}}, {PG: 2}),
        ("pg_upmap_primaries", {PG: 2}, {"old_pg_upmap_primaries": {PG}}, {}),
        ("osd_primary_affinity", [], {"new_primary_affinity": {1: 5}}, [0x10000, 5]),
        ("osd_primary_affinity", [1, 2], {"new_state": {0: EXISTS}}, [0x10000, 2]),
        ("osd_primary_affinity", [1, 2], {"new_max_osd": 3}, [1, 2, 0x10000]),
        ("erasure_code_profiles", {"a": {}}, {"old_erasure_code_profiles": ["a"]}, {}),
        (
            "erasure_code_profiles",
            {"a": {}},
            {"old_erasure_code_profiles": ["a"], "new_erasure_code_profiles": {"a": {"k": "2"}}},
            {"a": {"k": "2"}},
        ),
        ("crush", b"old", {"crush": b"new"}, b"new"),
        ("crush_version", 4, {"crush": b"new"}, 5),
        ("last_up_change", UTime(1), {"new_last_up_change": UTime(2)}, UTime(2)),
        ("new_removed_snaps", {1: {1: 1}}, {}, {}),
        ("removed_snaps_queue", {1: {1: 1}}, {"new_removed_snaps": {1: {2: 3}}}, {1: {1: 4}}),
        ("removed_snaps_queue", {1: {1: 9}}, {"new_purged_snaps": {1: {3: 2}}}, {1: {1: 2, 5: 5}}),
        ("removed_snaps_queue", {1: {1: 2}, 2: {4: 4}}, {"new_purged_snaps": {1: {1: 2}}}, {2: {4: 4}}),
        ("blocklist", {}, {"new_blocklist": {ADDRS.front: UTime(5)}}, {ADDRS.front: UTime(5)}),
        ("blocklist", {ADDRS.front: UTime(5)}, {"old_blocklist": [ADDRS.front]}, {}),
        ("range_blocklist", {ADDRS.front: UTime(5)}, {"old_range_blocklist": [ADDRS.front]}, {}),
        ("cluster_snapshot", "before", {}, ""),
        ("cluster_snapshot_epoch", 0, {"cluster_snapshot": "now"}, 2),
        ("nearfull_ratio", 0.5, {"new_nearfull_ratio": 0.25}, 0.25),
        ("require_osd_release", 15, {"new_require_osd_release": 16}, 16),
        ("crush_node_flags", {-3: 1, -4: 1}, {"new_crush_node_flags": {-3: 0}}, {-4: 1}),
        ("device_class_flags", {}, {"new_device_class_flags": {1: 8}}, {1: 8}),
        ("stretch_mode_bucket", 0, {"new_stretch_mode_bucket": 5}, 0),
        ("stretch_mode_bucket", 0, {"new_stretch_mode_bucket": 5, "change_stretch_mode": True}, 5),
        ("allow_crimson", False, {"new_allow_crimson": 1}, True),
    ],
)
def test_changes_of_the_rest(name, before, changes, after):
    osdmap = replace(base_map(Osd(EXISTS), Osd(EXISTS)), **{name: before})
    assert getattr(osdmap.apply(incremental(**changes)), name) == after
    untouched = getattr(osdmap.apply(incremental()), name)
    cleared = name.startswith(("new_", "cluster_snapshot"))
    assert cleared or untouched == before


ranges = st.dictionaries(st.integers(0, 40), st.integers(0, 6), max_size=6)


def members(intervals: dict[int, int]) -> set[int]:
    return {number for start, count in intervals.items() for number in range(start, start + count)}


@given(ranges, ranges)
def test_ranges_are_sets(first, second):
    first = union({}, first)
    assert members(union(first, second)) == members(first) | members(second)
    assert members(difference(first, second)) == members(first) - members(second)
    ends = [start + count for start, count in union(first, second).items()]
    assert all(end < start for end, start in zip(ends, list(union(first, second))[1:], strict=False))


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, [Osd(EXISTS)]), (3, [Osd(EXISTS), Osd(EXISTS), Osd()])]
)
def test_max_osd_shrinks_and_grows(count, expected):
    assert base_map(Osd(EXISTS), Osd(EXISTS)).apply(incremental(new_max_osd=count)).osds == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"new_weight": {2: 1}},
        {"new_state": {-1: 1}},
        {"new_up_client": {2: ADDRS}},
        {"new_primary_affinity": {2: 1}},
        {"new_up_thru": {2: 1}},
        {"new_uuid": {-1: FSID}},
    ],
)
def test_changes_of_osds_beyond_max_osd_are_refused(changes):
    with pytest.raises(DecodeError, match=r"max_osd is 2"):
        base_map(Osd(), Osd()).apply(incremental(**changes))


def test_a_hostile_max_osd_is_refused():
    assert Incremental.decode(incremental(new_max_osd=MAX_OSDS).encode()).new_max_osd == MAX_OSDS
    with pytest.raises(DecodeError, match="the limit is"):
        Incremental.decode(incremental(new_max_osd=MAX_OSDS + 1).encode())


@pytest.mark.parametrize("pool_max", [-2, 1 << 31])
def test_a_pool_max_that_no_map_can_carry_is_refused(pool_max):
    assert base_map().apply(incremental(new_pool_max=(1 << 31) - 1)).encode()
    with pytest.raises(DecodeError, match=f"pool_max {pool_max}"):
        base_map().apply(incremental(new_pool_max=pool_max))


def test_a_crush_version_that_no_map_can_carry_is_refused():
    last = replace(base_map(), crush_version=(1 << 31) - 1)
    assert last.apply(incremental()).encode()
    with pytest.raises(DecodeError, match=f"crush_version {1 << 31}"):
        last.apply(incremental(crush=b"another"))


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


def test_empty_increment_changes_epoch_and_time_only():
    before = base_map(Osd(EXISTS, 1, ADDRS))
    assert before.apply(incremental()) == replace(before, epoch=2, modified=UTime(9))


def test_flags_are_replaced():
    assert base_map().apply(incremental(new_flags=0)).flags == 0
