"""The maps of an embedded cluster, read back as a client does."""

from uuid import UUID

import pytest

from messenger.denc.address import AddrVec
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental
from toolkit.embedded.mon.maps import Maps
from toolkit.rados.placement import NO_OSD, Placement

FSID = UUID("6f3f2a54-3c0c-4a9e-9f55-0d3ac0a9b001")
FEATURES = (1 << 64) - 1
ADDRS = AddrVec.parse("v2:127.0.0.1:6800/1001")


@pytest.fixture
def maps() -> Maps:
    """Three OSDs that are up, and a pool."""
    made = Maps(FSID, {"a": AddrVec.parse("v2:127.0.0.1:3300/0")}, {0: "x", 1: "y", 2: "z"})
    for osd in range(3):
        made.mark_up(osd, ADDRS)
    made.create_pool("objects", 32)
    return made


def test_subscribers_from_the_beginning_get_the_newest_map_in_full(maps: Maps) -> None:
    message = maps.osdmap_message(0, FEATURES)
    assert message is not None
    (encoded,) = message.maps.values()
    assert OSDMap.decode(encoded) == maps.osdmap
    assert maps.osdmap_message(1, FEATURES).maps  # no increment leads to the first epoch


def test_increments_lead_to_the_same_map(maps: Maps) -> None:
    (encoded,) = maps.osdmap_message(0, FEATURES).maps.values()
    known = OSDMap.decode(encoded)
    maps.mark_down(1)
    maps.create_pool("more", 8)
    maps.change(old_pools=[1])
    message = maps.osdmap_message(known.epoch + 1, FEATURES)
    assert not message.maps
    for increment in message.incremental_maps.values():
        known = known.apply(Incremental.decode(increment))
    assert known == maps.osdmap
    assert maps.osdmap_message(known.epoch + 1, FEATURES) is None


def test_down_and_out_osds_lead_no_placement_group(maps: Maps) -> None:
    def primaries() -> list[int]:
        placement = Placement(OSDMap.decode(maps.osdmap.encode()))
        return [placement.mapping(placement.pg_of(1, seed)).acting_primary for seed in range(32)]

    before = primaries()
    assert set(before) == {0, 1, 2}
    maps.mark_down(2)
    assert primaries() == [NO_OSD if osd == 2 else osd for osd in before]
    maps.mark_up(2, ADDRS)
    assert primaries() == before
    maps.mark_in(2, inside=False)
    assert set(primaries()) == {0, 1}


def test_an_increment_names_all_four_addresses_of_an_osd_that_came_up(maps: Maps) -> None:
    # clients since Reef abort where an OSD that is up lacks one in the increment
    maps.mark_down(2)
    maps.mark_up(2, ADDRS)
    message = maps.osdmap_message(maps.osdmap.epoch, FEATURES)
    assert message is not None
    increment = Incremental.decode(message.incremental_maps[maps.osdmap.epoch])
    named = (
        increment.new_up_client,
        increment.new_up_cluster,
        increment.new_hb_back_up,
        increment.new_hb_front_up,
    )
    assert named == ({2: ADDRS},) * 4
