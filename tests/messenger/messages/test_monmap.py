from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.monmap import MonInfo, MonMap
from tests.support.refusals import read_or_refused

DATA = Path(__file__).parent / "data"
IMAGE = (DATA / "monmap.bin").read_bytes()
PRINTED = (DATA / "monmap.txt").read_text()


def encoded(monmap: MonMap, features: int = CLIENT_FEATURES) -> bytes:
    encoder = Encoder()
    monmap.encode(encoder, features)
    return encoder.getvalue()


def reenveloped(image: bytes, version: int, body: bytes) -> bytes:
    return bytes([version, image[1]]) + len(body).to_bytes(4, "little") + body


def as_monmaptool_prints(monmap: MonMap) -> list[str]:
    return [
        f"epoch {monmap.epoch}",
        f"fsid {monmap.fsid}",
        f"last_changed {monmap.last_changed}",
        f"created {monmap.created}",
        f"min_mon_release {monmap.min_mon_release} (pacific)",
        f"election_strategy: {monmap.strategy}",
        *(f"{rank}: {info.public_addrs} mon.{info.name}" for rank, info in enumerate(monmap.ranked)),
    ]


def test_decoded_monmap_prints_like_monmaptool():
    printed = [line for line in PRINTED.splitlines() if not line.startswith("monmaptool:")]
    assert as_monmaptool_prints(MonMap.decode(Decoder(IMAGE))) == printed


def test_monmap_of_monmaptool_encodes_to_the_same_bytes():
    assert encoded(MonMap.decode(Decoder(IMAGE))) == IMAGE


def test_version_7_of_nautilus_ends_earlier():
    tail = 4 + 1 + 4 + 1 + 4 + 4
    image = reenveloped(IMAGE, 7, IMAGE[6:-tail])
    monmap = MonMap.decode(Decoder(image))
    assert (monmap.min_mon_release, monmap.strategy, monmap.removed_ranks) == (16, 1, set())
    assert encoded(monmap) == image


def test_version_10_of_tentacle_has_the_settings_of_keys():
    auth = bytes.fromhex("01000000" + "02000000" + "02000000" + "0100000002000000" + "02000000")
    image = reenveloped(IMAGE, 10, IMAGE[6:] + auth)
    monmap = MonMap.decode(Decoder(image))
    assert monmap == replace(
        MonMap.decode(Decoder(IMAGE)),
        auth_epoch=1,
        auth_service_cipher=2,
        auth_allowed_ciphers=[1, 2],
        auth_preferred_cipher=2,
    )
    assert encoded(monmap) == image


def test_tail_of_a_newer_monmap_is_kept():
    auth = bytes.fromhex("01000000" + "02000000" + "00000000" + "02000000")
    image = reenveloped(IMAGE, 11, IMAGE[6:] + auth + b"news")
    monmap = MonMap.decode(Decoder(image))
    assert monmap.tail == b"news"
    assert encoded(monmap) == image


@pytest.mark.parametrize("features", [Feature.MSG_ADDR2, 0])
def test_peers_before_nautilus_get_one_address_of_each_monitor(features):
    """In version 5, addresses by name precede the times, and monitors have version 2 (docs/protocol.md §6.5)."""
    monmap = MonMap.decode(Decoder(IMAGE))
    encoder = Encoder()
    encoder.raw(monmap.fsid.bytes)
    encoder.u32(monmap.epoch)
    legacy = {name: info.public_addrs.legacy_addr() for name, info in monmap.mon_info.items()}
    encoder.mapping(legacy, encoder.string, lambda addr: addr.encode(encoder, features))
    monmap.last_changed.encode(encoder)
    monmap.created.encode(encoder)
    for mon_features in (monmap.persistent_features, monmap.optional_features):
        with encoder.versioned(1, 1):
            encoder.u64(mon_features)
    encoder.u32(3)
    for name, addr in legacy.items():
        encoder.string(name)
        with encoder.versioned(2, 1):
            encoder.string(name)
            addr.encode(encoder, features)
            encoder.u16(0)
    image = reenveloped(b"\x05\x03", 5, encoder.getvalue())
    assert encoded(monmap, features) == image
    again = MonMap.decode(Decoder(image))
    assert [str(info.public_addrs) for info in again.ranked] == [
        "v1:10.1.2.3:6789/0",
        "v1:10.1.2.5:6789/0",
        "v1:[fd00::1]:6789/0",
    ]
    assert encoded(again, features) == image
    assert encoded(again) == encoded(monmap, Feature.MSG_ADDR2)


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_of_a_monitor(version):
    info = MonInfo(
        "a", AddrVec.parse("v1:10.0.0.1:6789/0"), 1, 2, {"root": "default"}, UTime(5, 6), struct_v=version
    )
    encoder = Encoder()
    info.encode(encoder, CLIENT_FEATURES)
    image = encoder.getvalue()
    again = MonInfo.decode(Decoder(image))
    marker = image[6 + 5]  # behind the envelope's head and the name
    assert (image[0], marker) == (version, 2 if version >= 3 else 1)  # a vector of addresses, or a single one
    assert again.public_addrs == info.public_addrs
    assert (again.priority == 1, again.weight == 2) == (version >= 2, version >= 4)
    assert (bool(again.crush_loc), again.time_added == UTime(5, 6)) == (version >= 5, version >= 6)


def test_monitor_of_tentacle_has_a_time():
    one = MonMap.decode(Decoder(IMAGE))
    info = one.mon_info["a"]
    encoder = Encoder()
    with encoder.versioned(6, 1):
        encoder.string(info.name)
        info.public_addrs.encode(encoder)
        encoder.u16(1)
        encoder.u16(2)
        encoder.mapping({"root": "default"}, encoder.string, encoder.string)
        UTime(5, 6).encode(encoder)
    back = type(info).decode(Decoder(encoder.getvalue()))
    assert (back.priority, back.weight, back.crush_loc, back.time_added) == (
        1,
        2,
        {"root": "default"},
        UTime(5, 6),
    )


def test_monitor_of_mimic_has_one_address_only():
    image = bytes.fromhex("0201" + "93000000" + "0100000061")
    addr = AddrVec.parse("v1:10.0.0.1:6789").front
    info_type = type(MonMap.decode(Decoder(IMAGE)).mon_info["a"])
    back = info_type.decode(
        Decoder(image[:2] + (143).to_bytes(4, "little") + image[6:] + addr.legacy_image() + b"\x07\0")
    )
    assert (back.name, back.public_addrs, back.priority) == ("a", AddrVec((addr,)), 7)


def test_older_maps_are_refused():
    with pytest.raises(DecodeError, match="monmap of version 4, at least 5 is known"):
        MonMap.decode(Decoder(reenveloped(IMAGE[:1] + b"\x03", 4, IMAGE[6:])))


def test_a_rank_needs_a_monitor():
    monmap = MonMap.decode(Decoder(IMAGE))
    monmap = replace(monmap, ranks=[*monmap.ranks, "stranger"])
    with pytest.raises(DecodeError, match="ranks stranger"):
        MonMap.decode(Decoder(encoded(monmap)))


def test_truncated_body():
    for size in range(len(IMAGE) - 6):
        with pytest.raises(DecodeError):
            MonMap.decode(Decoder(reenveloped(IMAGE, 9, IMAGE[6 : 6 + size])))


@given(st.integers(0, len(IMAGE) - 1), st.integers(0, 255))
def test_mutations_decode_or_are_refused(position, byte):
    image = bytearray(IMAGE)
    image[position] = byte
    monmap = read_or_refused(lambda: MonMap.decode(Decoder(image)), DecodeError)
    assert monmap is None or MonMap.decode(Decoder(encoded(monmap))) == monmap
