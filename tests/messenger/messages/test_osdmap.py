import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.crc import crc32c
from messenger.errors import DecodeError
from messenger.messages.osdmap import MapFlag, OSDMap, OsdState
from messenger.messages.pool import PoolFlag, PoolType

DATA = Path(__file__).parent / "data"
SIMPLE = (DATA / "osdmap-simple.bin").read_bytes()
LAST = (DATA / "history" / "full-last.bin").read_bytes()


def as_osdmaptool_dumps(osdmap: OSDMap) -> dict:
    """The part of ``osdmaptool --dump json`` that an OSDMap holds."""
    return {
        "epoch": osdmap.epoch,
        "fsid": str(osdmap.fsid),
        "created": str(osdmap.created),
        "modified": str(osdmap.modified),
        "flags_num": osdmap.flags,
        "pool_max": osdmap.pool_max,
        "max_osd": len(osdmap.osds),
        "pools": [
            {
                "pool": pool_id,
                "pool_name": osdmap.pool_names[pool_id],
                "create_time": str(pool.create_time),
                "flags": pool.flags,
                "type": pool.type,
                "size": pool.size,
                "min_size": pool.min_size,
                "crush_rule": pool.crush_rule,
                "object_hash": pool.object_hash,
                "pg_num": pool.pg_num,
                "pg_placement_num": pool.pgp_num,
                "last_change": str(pool.last_change),
                "last_force_op_resend": str(pool.last_force_op_resend),
                "read_tier": pool.read_tier,
                "write_tier": pool.write_tier,
                "quota_max_bytes": pool.quota_max_bytes,
                "quota_max_objects": pool.quota_max_objects,
                "erasure_code_profile": pool.erasure_code_profile,
                "stripe_width": pool.stripe_width,
                "application_metadata": pool.application_metadata,
            }
            for pool_id, pool in osdmap.pools.items()
        ],
        "osds": [
            {
                "osd": osd_id,
                "up": int(osd.is_up),
                "in": int(osd.is_in),
                "weight": osd.weight / 0x10000,
                "primary_affinity": osd.primary_affinity / 0x10000,
            }
            for osd_id, osd in enumerate(osdmap.osds)
            if osd.exists
        ],
    }


def upmaps(osdmap: OSDMap) -> list[dict]:
    """As osdmaptool dumps pg_upmap_items."""
    return [
        {"pgid": str(pg), "mappings": [{"from": was, "to": now} for was, now in swaps]}
        for pg, swaps in osdmap.pg_exceptions.pg_upmap_items.items()
    ]


def common_part(dumped: dict, like: dict) -> dict:
    """Those entries of a dump that the other one has, pools and OSDs included."""
    part = {key: dumped[key] for key in like}
    for listed in ("pools", "osds"):
        part[listed] = [
            {key: entry[key] for key in example}
            for entry, example in zip(dumped[listed], like[listed], strict=True)
        ]
    return part


def with_crc(image: bytes) -> bytes:
    """A full map whose crc, its last four bytes, fits the rest."""
    return image[:-4] + crc32c(image[:-4], 0xFFFFFFFF).to_bytes(4, "little")


@pytest.mark.parametrize("stem", ["osdmap-simple", "history/full-last"])
def test_reads_what_osdmaptool_reads(stem):
    ours = as_osdmaptool_dumps(OSDMap.decode((DATA / f"{stem}.bin").read_bytes()))
    theirs = json.loads((DATA / f"{stem}.json").read_text())
    assert ours == common_part(theirs, ours)
    assert upmaps(OSDMap.decode((DATA / f"{stem}.bin").read_bytes())) == theirs["pg_upmap_items"]


def test_meaning_of_numbers():
    osdmap = OSDMap.decode(LAST)
    rbd, erasure = osdmap.pools.values()
    assert (rbd.type, erasure.type) == (PoolType.REPLICATED, PoolType.ERASURE)
    assert rbd.snaps == ("snap1",)
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
    with contextlib.suppress(DecodeError):
        OSDMap.decode(with_crc(bytes(image[: len(LAST)])))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_refused(data):
    for prefix in (b"", b"\x08\x07"):
        with contextlib.suppress(DecodeError):
            OSDMap.decode(prefix + data)


def test_older_frames_and_sections_are_refused():
    with pytest.raises(DecodeError, match="OSD map of version 7"):
        OSDMap.decode(b"\x07" + SIMPLE[1:])
    with pytest.raises(DecodeError, match="client section of version 4"):
        OSDMap.decode(with_crc(SIMPLE[:6] + b"\x04" + SIMPLE[7:]))


def test_osd_vectors_must_be_as_long_as_max_osd():
    at = SIMPLE.index(bytes.fromhex("03000000" + "03000000") + bytes(12))
    with pytest.raises(DecodeError, match="max_osd 4 has 3 states"):
        OSDMap.decode(with_crc(SIMPLE[:at] + b"\x04" + SIMPLE[at + 1 :]))
