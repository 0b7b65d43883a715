from dataclasses import replace

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature, has_feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.mgrmap import MgrMap, MMgrMap, ModuleInfo, MServiceMap, StandbyInfo
from tests.support.fronts import captured_payloads

ADDRS = AddrVec.parse("[v2:10.0.0.7:6800/77,v1:10.0.0.7:6801/77]")
MAP = MgrMap(
    epoch=7,
    active_addrs=ADDRS,
    active_gid=4098,
    available=True,
    active_name="x",
    standbys={4099: StandbyInfo(4099, "y", {"balancer"}, [ModuleInfo("balancer")], 5)},
    modules={"restful", "iostat"},
    services={"dashboard": "https://x:8443/"},
    available_modules=[ModuleInfo("restful"), ModuleInfo("iostat", can_run=False, error_string="no")],
    active_change=UTime(9),
    always_on_modules={16: {"status"}},
    active_mgr_features=ALL_FEATURES,
    last_failure_osd_epoch=3,
    clients_addrs=[ADDRS],
    clients_names=["devicehealth"],
    flags=1,
    force_disabled_modules={"status"},
)


def encoded(mgrmap: MgrMap, features: int = ALL_FEATURES) -> bytes:
    encoder = Encoder()
    mgrmap.encode(encoder, features)
    return encoder.getvalue()


def test_real_mgrmap_of_pacific_is_decoded():
    mgrmap = captured_payloads(MMgrMap)[-1].mgrmap
    assert (mgrmap.epoch, mgrmap.available, mgrmap.active_name, mgrmap.active_gid) == (4, True, "x", 4098)
    assert str(mgrmap.active_addrs) == "[v2:127.0.0.1:6832/11018,v1:127.0.0.1:6833/11018]"
    assert has_feature(mgrmap.active_mgr_features, Feature.SERVER_OCTOPUS)
    assert mgrmap.struct_v == 12
    balancer = next(module for module in mgrmap.available_modules if module.name == "balancer")
    assert balancer.module_options["upmap_max_optimizations"].default_value == "10"


@pytest.mark.parametrize("version", range(6, 15))
def test_every_version_from_nautilus_on(version):
    image = encoded(replace(MAP, struct_v=version))
    again = MgrMap.decode(Decoder(image))
    assert image[:2] == bytes([version, 6])
    assert again.available_modules == MAP.available_modules
    assert (again.active_change == MAP.active_change) == (version >= 7)
    assert (again.clients_names == MAP.clients_names) == (version >= 12)
    assert (again == MAP) == (version == 14)
    assert encoded(again) == image


@pytest.mark.parametrize("features", [Feature.MSG_ADDR2, 0])
def test_peers_before_nautilus_get_a_form_of_their_own(features):
    """Version 5 of docs/protocol.md §6.7: one address, and the names of the modules once more."""
    image = encoded(MAP, features)
    assert image[:2] == bytes([5, 1])
    body = Decoder(image).versioned(5)
    assert body.u32() == MAP.epoch
    assert AddrVec.decode(body) == AddrVec((ADDRS.legacy_addr(),))
    again = MgrMap.decode(Decoder(image))
    kept = replace(MAP, active_addrs=AddrVec((ADDRS.legacy_addr(),)), **LATER)
    assert again == kept
    assert encoded(again, features) == image
    assert encoded(again, CLIENT_FEATURES) == encoded(MAP, Feature.MSG_ADDR2)


LATER = {
    name: getattr(MgrMap(), name)
    for name in (
        *("active_change", "always_on_modules", "active_mgr_features", "last_failure_osd_epoch"),
        *("clients_addrs", "clients_names", "flags", "force_disabled_modules"),
    )
}


def test_older_maps_are_refused():
    with pytest.raises(DecodeError, match="manager map of version 4, at least 5 is known"):
        MgrMap.decode(Decoder(b"\x04\x01\0\0\0\0"))


def test_a_service_map_keeps_its_services():
    empty, one = (payload.service_map for payload in captured_payloads(MServiceMap))
    assert (empty.epoch, empty.services) == (1, bytes(4))
    assert one.epoch == 2
    assert one.services.startswith(bytes.fromhex("01000000" + "03000000") + b"mds")
