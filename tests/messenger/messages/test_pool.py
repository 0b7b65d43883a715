from dataclasses import replace

import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.pg import PgId
from messenger.messages.pool import EVersion, MergeMeta, PeeringCrush, Pool, PoolSnap


def envelope(version: int, compat: int, body: bytes) -> bytes:
    return bytes([version, compat]) + len(body).to_bytes(4, "little") + body


def luminous_fields() -> Encoder:
    """Return the fields that every version has."""
    e = Encoder()
    e.raw(bytes([3, 6, 2, 7]))
    for value in (32, 16, 101, 102, 77):
        e.u32(value)
    e.u64(5)
    e.u32(76)
    e.u32(2)
    for snap_id, name in ((4, "old"), (5, "new")):
        e.u64(snap_id)
        with e.versioned(2, 2):
            e.u64(snap_id)
            UTime(snap_id).encode(e)
            e.string(name)
    e.mapping({1: 3}, e.u64, e.u64)
    e.u64(103)
    e.u64(0x2001)
    e.u32(104)
    e.u8(4)
    e.u64(1 << 40)
    e.u64(1000)
    e.sequence([8, 9], e.u64)
    e.i64(-2)
    e.u8(1)
    e.i64(-3)
    e.i64(-4)
    e.mapping({"k": "v"}, e.string, e.string)
    e.raw(HIT_SET)
    e.u32(105)
    e.u32(106)
    e.u32(8192)
    e.u64(107)
    e.u64(108)
    for value in (109, 110, 111, 112):
        e.u32(value)
    e.string("ec42")
    e.u32(113)
    e.u32(114)
    e.u64(115)
    e.u32(116)
    e.u32(117)
    e.u8(0)
    e.u8(1)
    e.u32(118)
    e.u32(119)
    e.raw(OPTIONS)
    e.u32(120)
    e.mapping({"rbd": {"a": "b"}}, e.string, lambda metadata: e.mapping(metadata, e.string, e.string))
    return e


def pool_image(version: int) -> bytes:
    """pg_pool_t as docs/protocol.md §6.6 lists it, with a value of its own in every field."""
    e = luminous_fields()
    if version >= 27:
        UTime(1700000000).encode(e)
    if version >= 28:
        for value in (121, 122, 123, 124, 125, 126):
            e.u32(value)
        e.u8(2)
    if version >= 29:
        with e.versioned(1, 1):
            e.raw(bytes.fromhex("01" + "0900000000000000" + "08000000" + "ffffffff"))
            for value in (127, 128, 129):
                e.u32(value)
            for number, epoch in ((130, 131), (132, 133)):
                e.u64(number)
                e.u32(epoch)
    if version >= 31:
        e.u8(1)
    if version >= 30:
        for value in (2, 3, 4):
            e.u32(value)
        e.i32(-5)
    if version >= 32:
        e.raw(bytes.fromhex("8102" + "01"))
    e.raw(NEWS)
    return envelope(version, 5, e.getvalue())


HIT_SET = envelope(1, 1, b"\x02bloom filter parameters")
OPTIONS = envelope(2, 1, b"options")
NEWS = b"what later versions append"
POOL = Pool(
    type=3,
    size=6,
    crush_rule=2,
    object_hash=7,
    pg_num=32,
    pgp_num=16,
    lpg_num=101,
    lpgp_num=102,
    last_change=77,
    snap_seq=5,
    snap_epoch=76,
    snaps={4: PoolSnap(4, UTime(4), "old"), 5: PoolSnap(5, UTime(5), "new")},
    removed_snaps={1: 3},
    auid=103,
    flags=0x2001,
    crash_replay_interval_s=104,
    min_size=4,
    quota_max_bytes=1 << 40,
    quota_max_objects=1000,
    tiers={8, 9},
    tier_of=-2,
    cache_mode=1,
    read_tier=-3,
    write_tier=-4,
    properties={"k": "v"},
    hit_set_params=HIT_SET,
    hit_set_period_s=105,
    hit_set_count=106,
    stripe_width=8192,
    target_max_bytes=107,
    target_max_objects=108,
    cache_target_dirty_ratio_micro=109,
    cache_target_full_ratio_micro=110,
    cache_min_flush_age_s=111,
    cache_min_evict_age_s=112,
    erasure_code_profile="ec42",
    last_force_op_resend_preluminous=113,
    min_read_recency_for_promote=114,
    expected_num_objects=115,
    cache_target_dirty_high_ratio_micro=116,
    min_write_recency_for_promote=117,
    use_gmt_hitset=False,
    fast_read=True,
    hit_set_grade_decay_rate=118,
    hit_set_search_last_n=119,
    opts=OPTIONS,
    last_force_op_resend_prenautilus=120,
    application_metadata={"rbd": {"a": "b"}},
    tail=NEWS,
)
SINCE = {
    27: {"create_time": UTime(1700000000)},
    28: {
        "pg_num_target": 121,
        "pgp_num_target": 122,
        "pg_num_pending": 123,
        "pg_num_dec_last_epoch_started": 124,
        "pg_num_dec_last_epoch_clean": 125,
        "last_force_op_resend": 126,
        "pg_autoscale_mode": 2,
    },
    29: {"last_pg_merge_meta": MergeMeta(PgId(9, 8), 127, 128, 129, EVersion(130, 131), EVersion(132, 133))},
    30: {"peering_crush": PeeringCrush(2, 3, 4, -5)},
    32: {"nonprimary_shards": {0, 8, 64}},
}


def pool_of(version: int) -> Pool:
    later = {name: value for since, values in SINCE.items() if version >= since for name, value in values.items()}
    return replace(POOL, **later)


@pytest.mark.parametrize("version", range(26, 33))
def test_every_field_of_every_version(version):
    image = pool_image(version)
    decoder = Decoder(image + b"!")
    pool = Pool.decode(decoder)
    assert pool == pool_of(version)
    assert decoder.rest() == b"!"
    assert encoded(pool) == image


def encoded(pool: Pool, features: int = ALL_FEATURES) -> bytes:
    encoder = Encoder()
    pool.encode(encoder, features)
    return encoder.getvalue()


@pytest.mark.parametrize(
    ("features", "version"),
    [
        (ALL_FEATURES, 32),
        (CLIENT_FEATURES, 30),
        (Feature.SERVER_NAUTILUS, 30),
        (Feature.SERVER_MIMIC, 27),
        (0, 26),
    ],
)
def test_peers_get_the_version_they_read(features, version):
    image = encoded(pool_of(32), features)
    assert image[0] == version
    assert image == encoded(replace(pool_of(version), struct_v=version, tail=NEWS if version == 32 else b""))


def test_only_pools_of_stretched_clusters_need_version_30():
    assert encoded(replace(pool_of(32), peering_crush=None), CLIENT_FEATURES)[0] == 29


def test_a_varint_of_too_many_bits_is_refused():
    body = pool_image(32)[6 : -len(NEWS) - 3] + b"\xff" * 9 + b"\x7f" + b"\0"
    with pytest.raises(DecodeError, match="varint"):
        Pool.decode(Decoder(envelope(32, 5, body)))


def test_truncated_body():
    body = pool_image(27)[6:]
    for size in range(len(body) - len(b"what later versions append")):
        with pytest.raises(DecodeError):
            Pool.decode(Decoder(b"\x1b\x05" + size.to_bytes(4, "little") + body[:size]))


def test_pools_before_luminous_are_refused():
    with pytest.raises(DecodeError, match="version 25"):
        Pool.decode(Decoder(b"\x19" + pool_image(26)[1:]))
