import struct
from dataclasses import replace

import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES
from messenger.errors import DecodeError
from messenger.messages.mdsmap import FileSystemName, MDSMap, MdsState, MFSMapUser, MMDSBeacon, MMDSMap
from tests.support.fronts import captured_payloads


def test_a_mounting_client_finds_the_active_mds():
    payload = captured_payloads(MMDSMap)[-1]
    mdsmap = MDSMap.decode(Decoder(payload.encoded))
    assert mdsmap.epoch == payload.epoch == 5
    (rank, info), *others = mdsmap.active().items()
    assert (rank, info.name, info.global_id, others) == (0, "m", 4127, [])
    assert [str(addr.host) for addr in info.addrs] == ["127.0.0.1", "127.0.0.1"]
    assert (mdsmap.session_timeout_s, mdsmap.session_autoclose_s, mdsmap.max_mds) == (60, 300, 1)
    assert mdsmap.max_file_size_bytes == 1 << 40
    assert mdsmap.data_pools == [3]


def test_a_map_without_daemons_has_none_active():
    assert MDSMap.decode(Decoder(captured_payloads(MMDSMap)[0].encoded)).active() == {}


@pytest.mark.parametrize("number", [0, 1])
def test_real_mdsmap_encodes_to_the_same_bytes(number):
    image = captured_payloads(MMDSMap)[number].encoded
    encoder = Encoder()
    MDSMap.decode(Decoder(image)).encode(encoder, CLIENT_FEATURES)
    assert encoder.getvalue() == image


def test_file_systems_by_name():
    (payload,) = captured_payloads(MFSMapUser)
    assert payload.epoch == payload.fsmap.epoch == 6
    assert payload.fsmap.legacy_client_fscid == 1
    assert payload.fsmap.filesystems == [FileSystemName(1, "fs")]


def test_beacons_introduce_themselves_in_state_boot():
    later, boot = captured_payloads(MMDSBeacon)
    assert (boot.state, boot.seq, boot.name, boot.sys_info["arch"]) == (MdsState.BOOT, 1, "m", "x86_64")
    assert boot.compat.incompat.names[2] == "client writeable ranges"
    assert (later.state, later.seq, later.sys_info) == (MdsState.ACTIVE, 16, {})
    talkative = Encoder()
    replace(later, sys_info={"never": "sent"}).encode(talkative, ALL_FEATURES)
    assert MMDSBeacon.decode(Decoder(talkative.getvalue()), 8, ALL_FEATURES) == later


def test_beacons_of_before_nautilus_are_refused():
    with pytest.raises(DecodeError, match="MMDSBeacon of version 5"):
        MMDSBeacon.decode(Decoder(bytes(200)), 5, ALL_FEATURES)


def test_beacons_of_nautilus_are_known():
    """Version 6 ends before standby_replay."""
    later, _ = captured_payloads(MMDSBeacon)
    encoder = Encoder()
    later.encode(encoder, ALL_FEATURES)
    whole = encoder.getvalue()
    cut = whole[: -len(struct.pack("<BI", 0, 0)) - len(later.fs)]
    found = MMDSBeacon.decode(Decoder(cut), 6, ALL_FEATURES)
    assert (found.name, found.standby_for_fscid) == (later.name, later.standby_for_fscid)
    assert (found.standby_replay, found.fs) == (False, "")
