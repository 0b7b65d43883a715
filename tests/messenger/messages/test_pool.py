import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.pool import Pool


def pool_image(version: int) -> bytes:
    """pg_pool_t as protocol.md §6.6 lists it, with a value of its own in every field that is kept."""
    e = Encoder()
    with e.versioned(version, 5):
        e.raw(bytes([3, 6, 2, 2]))
        for value in (32, 16, 0, 0, 77):
            e.u32(value)
        e.raw(bytes(12))
        e.u32(2)
        for snap_id, name in ((5, "new"), (4, "old")):
            e.u64(snap_id)
            with e.versioned(2, 2):
                e.u64(snap_id)
                UTime(snap_id).encode(e)
                e.string(name)
        e.u32(1)
        e.raw(bytes(16))
        e.u64(0)
        e.u64(0x2001)
        e.u32(0)
        e.u8(4)
        e.u64(1 << 40)
        e.u64(1000)
        e.sequence([8, 9], e.u64)
        e.raw(bytes(9))
        e.i64(5)
        e.i64(6)
        e.mapping({"k": "v"}, e.string, e.string)
        with e.versioned(1, 1):
            e.raw(b"\x02bloom filter parameters")
        e.raw(bytes(8))
        e.u32(8192)
        e.raw(bytes(32))
        e.string("ec42")
        e.raw(bytes(26 + 8))
        with e.versioned(2, 1):
            e.raw(b"options")
        e.u32(88)
        e.mapping({"rbd": {"a": "b"}}, e.string, lambda metadata: e.mapping(metadata, e.string, e.string))
        if version >= 27:
            UTime(1700000000).encode(e)
        if version >= 28:
            for value in (32, 32, 32, 0, 0, 99):
                e.u32(value)
        e.raw(b"what later versions append")
    return e.getvalue()


@pytest.mark.parametrize(
    ("version", "create_time", "force_resend"),
    [(26, UTime(), 88), (27, UTime(1700000000), 88), (32, UTime(1700000000), 99)],
)
def test_every_field_kept(version, create_time, force_resend):
    decoder = Decoder(pool_image(version) + b"!")
    assert Pool.decode(decoder) == Pool(
        type=3,
        size=6,
        min_size=4,
        crush_rule=2,
        object_hash=2,
        pg_num=32,
        pgp_num=16,
        last_change=77,
        flags=0x2001,
        snaps=("old", "new"),
        quota_max_bytes=1 << 40,
        quota_max_objects=1000,
        stripe_width=8192,
        erasure_code_profile="ec42",
        application_metadata={"rbd": {"a": "b"}},
        create_time=create_time,
        read_tier=5,
        write_tier=6,
        last_force_op_resend=force_resend,
    )
    assert decoder.rest() == b"!"


def test_truncated_body():
    body = pool_image(27)[6:]
    for size in range(len(body) - len(b"what later versions append")):
        with pytest.raises(DecodeError):
            Pool.decode(Decoder(b"\x1b\x05" + size.to_bytes(4, "little") + body[:size]))


def test_pools_before_luminous_are_refused():
    with pytest.raises(DecodeError, match="version 25"):
        Pool.decode(Decoder(b"\x19" + pool_image(26)[1:]))
