import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import CLIENT_FEATURES
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.monmap import MonMap

DATA = Path(__file__).parent / "data"
IMAGE = (DATA / "monmap.bin").read_bytes()
PRINTED = (DATA / "monmap.txt").read_text()


def encoded(monmap: MonMap) -> bytes:
    encoder = Encoder()
    monmap.encode(encoder, CLIENT_FEATURES)
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


def test_reads_what_monmaptool_made():
    printed = [line for line in PRINTED.splitlines() if not line.startswith("monmaptool:")]
    assert as_monmaptool_prints(MonMap.decode(Decoder(IMAGE))) == printed


def test_writes_what_monmaptool_made():
    assert encoded(MonMap.decode(Decoder(IMAGE))) == IMAGE


def test_version_7_of_nautilus_ends_earlier():
    tail = 4 + 1 + 4 + 1 + 4 + 4
    monmap = MonMap.decode(Decoder(reenveloped(IMAGE, 7, IMAGE[6:-tail])))
    assert (monmap.min_mon_release, monmap.strategy, monmap.removed_ranks) == (16, 1, [])


def test_version_10_of_tentacle_adds_what_is_skipped():
    auth = bytes.fromhex("01000000" + "02000000" + "0100000002000000" + "02000000")
    monmap = MonMap.decode(Decoder(reenveloped(IMAGE, 10, IMAGE[6:] + auth)))
    assert monmap == MonMap.decode(Decoder(IMAGE))


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
    with pytest.raises(DecodeError, match="version 6"):
        MonMap.decode(Decoder(reenveloped(IMAGE, 6, IMAGE[6:])))


def test_a_rank_needs_a_monitor():
    monmap = MonMap.decode(Decoder(IMAGE))
    monmap.ranks.append("stranger")
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
    with contextlib.suppress(DecodeError):
        MonMap.decode(Decoder(image))
