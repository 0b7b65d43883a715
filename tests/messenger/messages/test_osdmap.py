import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.crc import crc32c
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.osd_info import DEFAULT_PRIMARY_AFFINITY
from messenger.messages.osdmap import MapFlag, Osd, OSDMap, OsdState
from messenger.messages.pool import PoolFlag, PoolType
from tests.support.refusals import read_or_refused

DATA = Path(__file__).parent / "data"
SIMPLE = (DATA / "osdmap-simple.bin").read_bytes()
LAST = (DATA / "history" / "full-last.bin").read_bytes()
LIVE = (DATA / "live" / "full-last.bin").read_bytes()
REAL = [pytest.param(SIMPLE, id="simple"), pytest.param(LAST, id="history"), pytest.param(LIVE, id="live")]
LUMINOUS = Feature.SERVER_LUMINOUS | Feature.MSG_ADDR2
MIMIC = LUMINOUS | Feature.SERVER_MIMIC
NAUTILUS = MIMIC | Feature.SERVER_NAUTILUS


def as_osdmaptool_dumps(osdmap: OSDMap) -> dict:
    """Return an OSDMap's contents in the form of ``osdmaptool --dump json``."""
    affinities = osdmap.osd_primary_affinity or [DEFAULT_PRIMARY_AFFINITY] * len(osdmap.osds)
    return {
        "epoch": osdmap.epoch,
        "fsid": str(osdmap.fsid),
        "created": str(osdmap.created),
        "modified": str(osdmap.modified),
        "last_up_change": str(osdmap.last_up_change),
        "last_in_change": str(osdmap.last_in_change),
        "flags_num": osdmap.flags,
        "crush_version": osdmap.crush_version,
        "full_ratio": osdmap.full_ratio,
        "backfillfull_ratio": osdmap.backfillfull_ratio,
        "nearfull_ratio": osdmap.nearfull_ratio,
        "cluster_snapshot": osdmap.cluster_snapshot,
        "pool_max": osdmap.pool_max,
        "max_osd": len(osdmap.osds),
        "pools": [dumped_pool(osdmap, pool_id) for pool_id in osdmap.pools],
        "osds": [
            dumped_osd(osd_id, osd) | {"primary_affinity": affinity / 0x10000}
            for osd_id, (osd, affinity) in enumerate(zip(osdmap.osds, affinities, strict=True))
            if osd.exists
        ],
        "osd_xinfo": [
            {
                "osd": osd_id,
                "down_stamp": str(osd.xinfo.down_stamp),
                "laggy_probability": pytest.approx(osd.xinfo.laggy_probability / 0xFFFFFFFF),
                "laggy_interval": osd.xinfo.laggy_interval_s,
                "features": osd.xinfo.features,
                "old_weight": osd.xinfo.old_weight,
                "last_purged_snaps_scrub": str(osd.xinfo.last_purged_snaps_scrub),
                "dead_epoch": osd.xinfo.dead_epoch,
            }
            for osd_id, osd in enumerate(osdmap.osds)
            if osd.exists
        ],
        "pg_upmap": [{"pgid": str(pg_id), "osds": osds} for pg_id, osds in osdmap.pg_upmap.items()],
        "pg_upmap_items": [
            {"pgid": str(pg_id), "mappings": [{"from": old, "to": new} for old, new in moves]}
            for pg_id, moves in osdmap.pg_upmap_items.items()
        ],
        "pg_temp": [{"pgid": str(pg_id), "osds": osds} for pg_id, osds in osdmap.pg_temp.items()],
        "primary_temp": [{"pgid": str(pg_id), "osd": osd} for pg_id, osd in osdmap.primary_temp.items()],
        "blocklist": {str(addr): str(until) for addr, until in osdmap.blocklist.items()},
        "erasure_code_profiles": osdmap.erasure_code_profiles,
        "removed_snaps_queue": dumped_snaps(osdmap.removed_snaps_queue),
        "new_removed_snaps": dumped_snaps(osdmap.new_removed_snaps),
        "new_purged_snaps": dumped_snaps(osdmap.new_purged_snaps),
    }


def dumped_pool(osdmap: OSDMap, pool_id: int) -> dict:
    pool = osdmap.pools[pool_id]
    alike = (
        *("flags", "type", "size", "min_size", "crush_rule", "object_hash", "pg_num", "pg_num_target"),
        *("pg_num_pending", "auid", "snap_seq", "snap_epoch", "quota_max_bytes", "quota_max_objects"),
        *("tier_of", "read_tier", "write_tier", "target_max_bytes", "target_max_objects"),
        *("cache_target_dirty_ratio_micro", "cache_target_dirty_high_ratio_micro"),
        *("cache_target_full_ratio_micro", "erasure_code_profile", "hit_set_count", "use_gmt_hitset"),
        *("min_read_recency_for_promote", "min_write_recency_for_promote", "hit_set_grade_decay_rate"),
        *("hit_set_search_last_n", "stripe_width", "expected_num_objects", "fast_read", "application_metadata"),
    )
    return {name: getattr(pool, name) for name in alike} | {
        "pool": pool_id,
        "pool_name": osdmap.pool_names[pool_id],
        "create_time": str(pool.create_time),
        "pg_placement_num": pool.pgp_num,
        "last_change": str(pool.last_change),
        "last_force_op_resend": str(pool.last_force_op_resend),
        "cache_min_flush_age": pool.cache_min_flush_age_s,
        "hit_set_period": pool.hit_set_period_s,
        "tiers": sorted(pool.tiers),
        "pool_snaps": [
            {"snapid": snap.snapid, "stamp": str(snap.stamp), "name": snap.name} for snap in pool.snaps.values()
        ],
    }


def dumped_osd(osd_id: int, osd: Osd) -> dict:
    return {
        "osd": osd_id,
        "uuid": str(osd.uuid),
        "up": int(osd.is_up),
        "in": int(osd.is_in),
        "weight": osd.weight / 0x10000,
        "last_clean_begin": osd.info.last_clean_begin,
        "last_clean_end": osd.info.last_clean_end,
        "up_from": osd.info.up_from,
        "up_thru": osd.info.up_thru,
        "down_at": osd.info.down_at,
        "lost_at": osd.info.lost_at,
        "public_addrs": dumped_addrs(osd.client_addrs),
        "cluster_addrs": dumped_addrs(osd.cluster_addrs),
        "heartbeat_back_addrs": dumped_addrs(osd.hb_back_addrs),
        "heartbeat_front_addrs": dumped_addrs(osd.hb_front_addrs),
    }


def dumped_addrs(addrs: AddrVec) -> dict:
    return {
        "addrvec": [
            {
                "type": "v2" if addr.type is AddressType.MSGR2 else "v1",
                "addr": f"{addr.host}:{addr.port}",
                "nonce": addr.nonce,
            }
            for addr in addrs
        ]
    }


def dumped_snaps(queue: dict[int, dict[int, int]]) -> list[dict]:
    return [
        {"pool": pool_id, "snaps": [{"begin": begin, "length": length} for begin, length in snaps.items()]}
        for pool_id, snaps in queue.items()
    ]


def common_part(dumped: dict, like: dict) -> dict:
    """Those entries of a dump that the other one has, pools and OSDs included."""
    part = {key: dumped[key] for key in like}
    for listed in ("pools", "osds", "osd_xinfo"):
        part[listed] = [
            {key: entry[key] for key in example}
            for entry, example in zip(dumped[listed], like[listed], strict=True)
        ]
    return part


def with_crc(image: bytes) -> bytes:
    """A full map whose crc, its last four bytes, fits the rest."""
    return image[:-4] + crc32c(image[:-4], 0xFFFFFFFF).to_bytes(4, "little")


@pytest.mark.parametrize("stem", ["osdmap-simple", "history/full-last", "live/full-last"])
def test_decoded_osdmap_equals_the_dump_of_osdmaptool(stem):
    ours = as_osdmaptool_dumps(OSDMap.decode((DATA / f"{stem}.bin").read_bytes()))
    theirs = json.loads((DATA / f"{stem}.json").read_text())
    assert ours == common_part(theirs, ours)


def test_meaning_of_numbers():
    osdmap = OSDMap.decode(LAST)
    rbd, erasure = osdmap.pools.values()
    assert (rbd.type, erasure.type) == (PoolType.REPLICATED, PoolType.ERASURE)
    assert [snap.name for snap in rbd.snaps.values()] == ["snap1"]
    assert rbd.flags == PoolFlag.HASHPSPOOL | PoolFlag.POOL_SNAPS | PoolFlag.CREATING
    assert osdmap.flags & MapFlag.NODEEP_SCRUB
    assert not osdmap.flags & MapFlag.NOOUT
    assert osdmap.osds[1].state == OsdState.EXISTS | OsdState.NEW
    assert not osdmap.osds[0].exists


@pytest.mark.parametrize("image", [SIMPLE, LAST])
def test_every_byte_is_covered_by_the_crc_or_the_envelope(image):
    for position in range(0, len(image), 7):
        broken = bytearray(image)
        broken[position] ^= 0x10
        with pytest.raises(DecodeError):
            OSDMap.decode(broken)


def test_crc_is_named():
    with pytest.raises(DecodeError, match="crc of the OSD map is 0x"):
        OSDMap.decode(SIMPLE[:-1] + bytes([SIMPLE[-1] ^ 1]))


def test_truncated_anywhere():
    for size in range(len(SIMPLE)):
        with pytest.raises(DecodeError):
            OSDMap.decode(SIMPLE[:size])


@given(st.integers(0, len(LAST) - 5), st.binary(min_size=1, max_size=4))
def test_mutations_with_a_fitting_crc_decode_or_are_refused(position, patch):
    image = bytearray(LAST)
    image[position : position + len(patch)] = patch
    raw = with_crc(bytes(image[: len(LAST)]))
    osdmap = read_or_refused(lambda: OSDMap.decode(raw), DecodeError)
    assert osdmap is None or OSDMap.decode(osdmap.encode()) == osdmap


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_refused(data):
    for prefix in (b"", b"\x08\x07"):
        assert read_or_refused(lambda raw=prefix + data: OSDMap.decode(raw), DecodeError) is None


def test_older_frames_and_sections_are_refused():
    with pytest.raises(DecodeError, match="OSD map of version 7"):
        OSDMap.decode(b"\x07" + SIMPLE[1:])
    with pytest.raises(DecodeError, match="client section of version 4"):
        OSDMap.decode(with_crc(SIMPLE[:6] + b"\x04" + SIMPLE[7:]))


@pytest.mark.parametrize("image", REAL)
def test_real_osdmap_encodes_to_the_same_bytes(image):
    osdmap = OSDMap.decode(image)
    assert osdmap.encode() == image
    assert osdmap.encode(CLIENT_FEATURES) == image


def test_tails_of_newer_osdmap_sections_are_kept():
    before = replace(OSDMap.decode(LIVE), client_version=77, osd_version=78, client_tail=b"new", osd_tail=b"er")
    image = before.encode()
    after = OSDMap.decode(image)
    assert after == before
    assert (after.client_version, after.osd_version) == (77, 78)
    assert after.encode() == image


@pytest.mark.parametrize(
    ("features", "client_version", "osd_version"),
    [(ALL_FEATURES, 10, 9), (NAUTILUS, 9, 9), (MIMIC, 7, 6), (LUMINOUS, 6, 5)],
)
def test_peers_get_the_version_they_read(features, client_version, osd_version):
    osdmap = replace(OSDMap.decode(LIVE), client_version=10)
    again = OSDMap.decode(osdmap.encode(features))
    assert (again.client_version, again.osd_version) == (client_version, osd_version)
    assert again.pool_names == osdmap.pool_names
    assert again.encode(features) == osdmap.encode(features)
    for old, new in zip(osdmap.osds, again.osds, strict=True):
        legacy = AddrVec((old.client_addrs.legacy_addr(),))
        assert new.client_addrs == (old.client_addrs if client_version >= 9 else legacy)
        assert (new.state, new.weight, new.uuid, new.info) == (old.state, old.weight, old.uuid, old.info)


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({}, 9),
        ({"stretch_mode_enabled": True, "stretch_mode_bucket": -3}, 10),
        ({"range_blocklist": {EntityAddr.parse("v2:10.0.0.0:0/24"): UTime(5)}}, 11),
        ({"allow_crimson": True}, 12),
    ],
)
def test_version_of_the_osd_section_depends_on_the_content(changes, version):
    osdmap = replace(OSDMap.decode(LIVE), **changes)
    again = OSDMap.decode(osdmap.encode())
    assert again == osdmap
    assert again.osd_version == version


def test_lists_must_be_as_long_as_max_osd():
    at = SIMPLE.index(bytes.fromhex("03000000" + "03000000") + bytes(12))
    with pytest.raises(DecodeError, match="max_osd 4 has 3 osd_state"):
        OSDMap.decode(with_crc(SIMPLE[:at] + b"\x04" + SIMPLE[at + 1 :]))


def test_there_are_primary_affinities_of_all_osds_or_of_none():
    one_too_few = replace(OSDMap.decode(SIMPLE), osd_primary_affinity=[0x10000, 0]).encode()
    with pytest.raises(DecodeError, match="max_osd 3 has 2 primary affinities"):
        OSDMap.decode(one_too_few)
