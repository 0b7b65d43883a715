"""Backoffs cover their range of objects, in the order in which OSDs store objects."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES
from messenger.errors import DecodeError
from messenger.messages.layout import codec_of
from messenger.messages.osd_client import BackoffOp, MOSDBackoff, MWatchNotify
from messenger.messages.osd_objects import (
    EVersion,
    HObject,
    ObjectLocator,
    PgId,
    RequestRedirect,
    ShardedPgId,
    reversed_bits,
)
from tests.support import osd_payloads as some


def backoff(begin: HObject, end: HObject) -> MOSDBackoff:
    return MOSDBackoff(ShardedPgId(PgId(1, 0)), 5, BackoffOp.BLOCK, 1, begin, end)


def obj(name_hash: int, oid: str = "a", **more) -> HObject:
    return HObject(pool=1, hash=name_hash, oid=oid, snap=2, **more)


def test_bits_are_reversed():
    assert [reversed_bits(value) for value in (0, 1, 0x80000000, 0xF0)] == [0, 0x80000000, 1, 0x0F000000]


@pytest.mark.parametrize(
    ("begin", "end", "target", "covered"),
    [
        (HObject(), HObject(max=True), obj(7), True),
        (obj(4), obj(6), obj(4), True),
        (obj(4), obj(6), obj(6), False),
        # reversed, 2 comes between 4 and 6; 5 lies beyond both
        (obj(4), obj(6), obj(2), True),
        (obj(4), obj(6), obj(5), False),
        (obj(4), obj(4), obj(4), True),
        (obj(4), obj(4), obj(4, "b"), False),
        (obj(4, "a"), obj(4, "c"), obj(4, "b"), True),
        (obj(4, "a"), obj(4, "c"), obj(4, "b", nspace="n"), False),
        (obj(4, "a"), obj(4, "c"), obj(4, "x", key="b"), True),
        (HObject(), HObject(pool=1), obj(0), False),
    ],
)
def test_backoff_covers_the_objects_of_its_range(begin, end, target, covered):
    assert backoff(begin, end).covers(target) == covered


STRUCTURES = {
    PgId: some.pg_ids,
    ShardedPgId: some.sharded_pg_ids,
    ObjectLocator: some.locators,
    HObject: some.hobjects,
    EVersion: some.eversions,
    RequestRedirect: some.redirects,
}


def image(value) -> bytes:
    encoder = Encoder()
    codec_of(type(value)).encode(encoder, value, ALL_FEATURES)
    return encoder.getvalue()


def read(structure, encoded: bytes):
    return codec_of(structure).decode(Decoder(encoded), ALL_FEATURES)


@pytest.mark.parametrize("structure", STRUCTURES)
@given(data=st.data())
def test_structures_roundtrip_and_truncate(structure, data):
    value = data.draw(STRUCTURES[structure])
    encoded = image(value)
    assert read(structure, encoded) == value
    with pytest.raises(DecodeError):
        read(structure, encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ShardedPgId(PgId(3, 6)), "010112000000" + "01" + "0300000000000000" + "06000000" + "ffffffff" + "ff"),
        (EVersion(version=1, epoch=2), "0100000000000000" + "02000000"),
        (
            HObject(),
            "040321000000" + "00" * 8 + "00" * 8 + "00000000" + "00" + "00000000" + "0000000000000080",
        ),
        (ObjectLocator(1), "06031c000000" + "0100000000000000" + "ffffffff" + "00" * 8 + "ff" * 8),
        (ObjectLocator(1, hash=5), "06061c000000" + "0100000000000000" + "ffffffff" + "00" * 8 + "05" + "00" * 7),
        (RequestRedirect(ObjectLocator(1)), "01012a000000" + image(ObjectLocator(1)).hex() + "00" * 8),
    ],
)
def test_layouts_of_protocol_section_1_1(value, expected):
    assert image(value).hex() == expected


@pytest.mark.parametrize(("structure", "version"), [(HObject, 3), (ObjectLocator, 4)])
def test_older_structures_are_refused(structure, version):
    with pytest.raises(DecodeError, match="at least"):
        read(structure, bytes([version]) + image(structure())[1:])


def test_the_locator_of_a_kernel_has_no_hash():
    encoded = bytes.fromhex("050414000000" + "0200000000000000" + "ffffffff" + "00000000" + "00000000")
    assert read(ObjectLocator, encoded) == ObjectLocator(2)


def test_notifications_of_older_versions():
    notify = MWatchNotify(1, 1, 2, 0, 3, b"x", -110, 4)
    front = image(notify)
    assert MWatchNotify.decode(Decoder(front[:-8]), 2, 0) == replace(notify, notifier_gid=0)
    assert MWatchNotify.decode(Decoder(front[:-12]), 1, 0) == replace(notify, notifier_gid=0, return_code=0)


def test_names():
    assert str(ShardedPgId(PgId(3, 10))) == "3.a"
    assert str(ShardedPgId(PgId(3, 10), 2)) == "3.as2"
