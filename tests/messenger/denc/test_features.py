import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.features import (
    ALL_FEATURES,
    CLIENT_FEATURES,
    MSG_ADDR2,
    MSGR2_REQUIRED,
    MSGR2_SUPPORTED,
    Feature,
    Msgr2Feature,
    feature_names,
    has_feature,
)

NAUTILUS_14_2_21 = 0x3FFDDFF8FFECFFFF
RESERVED = 1 << 62


# docs/protocol.md §2.2; one of each incarnation, and aliases
@pytest.mark.parametrize(
    ("feature", "mask"),
    [
        (Feature.UID, 0x0000000000000001),
        (Feature.SERVER_NAUTILUS, 0x0200000010000004),
        (Feature.SERVER_KRAKEN, 0x0200000000004000),
        (Feature.OSD_REPOP_MLCOD, 0x0200000010010000),
        (Feature.RADOS_BACKOFF, 0x0200000000200000),
        (Feature.SERVER_MIMIC, 0x0200000010000000),
        (Feature.SERVER_REEF, 0x0200000090000000),
        (Feature.RANGE_BLOCKLIST, 0x0200000410000000),
        (Feature.CRUSH_MSR, 0x0200004000000000),
        (Feature.NVMEOFHAMAP, 0x0200200000000000),
        (Feature.SERVER_TENTACLE, 0x0204000000000000),
        (Feature.MON_STATEFUL_SUB, 0x0200000000000000),
        (Feature.MSG_ADDR2, 0x0800000000000000),
        (Feature.CEPHX_V2, 0x2000000000000000),
    ],
)
def test_masks(feature, mask):
    assert feature == mask


def test_mask_of_20_2_has_every_feature_but_os_perf_stat_ns():
    every = 0
    for feature in Feature:
        if feature is not Feature.OS_PERF_STAT_NS:
            every |= feature
    assert every == ALL_FEATURES
    assert not ALL_FEATURES & RESERVED


def test_default_client_mask_meets_the_requirements_seen_of_daemons():
    for required in (0x0C01020002040000, 0x0C01020042040000, 0x2E01020002044000):
        assert CLIENT_FEATURES & required == required
    assert has_feature(CLIENT_FEATURES, MSG_ADDR2)
    assert not has_feature(CLIENT_FEATURES, Feature.SERVER_SQUID)


def test_a_reused_bit_needs_its_markers():
    bit = 1 << 2
    assert not has_feature(bit, Feature.SERVER_NAUTILUS)
    assert not has_feature(bit | 1 << 57, Feature.SERVER_NAUTILUS)
    assert has_feature(bit | 1 << 57 | 1 << 28, Feature.SERVER_NAUTILUS)


def test_names_of_a_mask():
    assert feature_names(0) == []
    assert feature_names(1 << 2) == ["bit 2"]
    assert feature_names(1 << 57 | 1 << 28 | 1 << 2) == ["SERVER_NAUTILUS", "SERVER_MIMIC", "SERVER_JEWEL"]
    nautilus = feature_names(NAUTILUS_14_2_21)
    assert {"SERVER_NAUTILUS", "MSG_ADDR2", "SERVER_REEF", "bit 51", "bit 55"} <= set(nautilus)
    assert not {"SERVER_OCTOPUS", "SERVER_QUINCY"} & set(nautilus)


@given(st.integers(0, 2**64 - 1))
def test_every_bit_gets_exactly_one_name(features):
    names = feature_names(features)
    assert len(names) == len(set(names)) == features.bit_count()


def test_banner_offers_revision_1_and_compression():
    """As Ceph 20.2 does; nothing is required, so that a peer of any age may answer."""
    assert MSGR2_SUPPORTED == Msgr2Feature.REVISION_1 | Msgr2Feature.COMPRESSION
    assert MSGR2_REQUIRED == 0
