"""Incremental OSD maps, as monitors would send them."""

from uuid import UUID

from messenger.crc import crc32c
from messenger.denc.codec import Encoder
from messenger.denc.utime import UTime
from messenger.messages.osdmap_incremental import Incremental

FSID = UUID("6fb3a0c4-7d11-4d10-9b76-1c0b6c9d2e55")


def incremental(**changes) -> Incremental:
    """One for epoch 2, unless told otherwise, that changes only this."""
    fields = {"fsid": FSID, "epoch": 2, "modified": UTime(9), "new_pool_max": -1, "new_flags": -1}
    fields |= {"fullmap": b"", "new_max_osd": -1, "new_pools": {}, "new_pool_names": {}, "old_pools": []}
    fields |= {"new_up_client": {}, "new_state": {}, "new_weight": {}}
    return Incremental(**fields | changes)


def encoded(change: Incremental) -> bytes:
    """As a Nautilus to Quincy monitor would send it to a client, for all but pools."""
    encoder = Encoder()
    with encoder.versioned(8, 7):
        with encoder.versioned(9 if change.pg_changes.new_pg_upmap_primaries else 8, 1):
            encoder.raw(change.fsid.bytes)
            encoder.u32(change.epoch)
            change.modified.encode(encoder)
            encoder.i64(change.new_pool_max)
            encoder.i32(change.new_flags)
            encoder.blob(change.fullmap)
            encoder.blob(change.crush)
            encoder.i32(change.new_max_osd)
            encoder.u32(0)
            encoder.mapping(change.new_pool_names, encoder.i64, encoder.string)
            encoder.sequence(change.old_pools, encoder.i64)
            encoder.mapping(change.new_up_client, encoder.i32, lambda addrs: addrs.encode(encoder))
            encoder.mapping(change.new_state, encoder.i32, encoder.u32)
            encoder.mapping(change.new_weight, encoder.i32, encoder.u32)
            encode_exceptions(encoder, change)
            encoder.raw(b"what later versions append")
        with encoder.versioned(9, 1):
            encoder.raw(b"osd section")
        encoder.raw(bytes(4) + b"full")
    return with_crc(encoder.getvalue())


def encode_exceptions(e: Encoder, change: Incremental) -> None:
    """The fields from new_pg_temp to old_pg_upmap_items."""

    def pgs(items, value) -> None:
        e.mapping(items, lambda pg: pg.encode(e), value)

    def osds(value) -> None:
        e.sequence(value, e.i32)

    def swaps(value) -> None:
        e.sequence(value, lambda swap: (e.i32(swap[0]), e.i32(swap[1])))

    def removed(value) -> None:
        e.sequence(value, lambda pg: pg.encode(e))

    pg = change.pg_changes
    pgs(pg.new_pg_temp, osds)
    pgs(pg.new_primary_temp, e.i32)
    e.mapping(change.new_primary_affinity, e.i32, e.u32)
    e.mapping({"p": {"k": "2"}}, e.string, lambda profile: e.mapping(profile, e.string, e.string))
    e.sequence(["old"], e.string)
    pgs(pg.new_pg_upmap, osds)
    removed(pg.old_pg_upmap)
    pgs(pg.new_pg_upmap_items, swaps)
    removed(pg.old_pg_upmap_items)
    if change.pg_changes.new_pg_upmap_primaries or change.pg_changes.old_pg_upmap_primaries:
        for _ in range(2):
            e.mapping(
                {1: [(5, 6)]}, e.i64, lambda ranges: e.sequence(ranges, lambda r: (e.u64(r[0]), e.u64(r[1])))
            )
        e.raw(bytes(16))
        pgs(pg.new_pg_upmap_primaries, e.i32)
        removed(pg.old_pg_upmap_primaries)


def with_crc(image: bytes) -> bytes:
    """Fill in inc_crc, which covers what is before it and full_crc behind it."""
    crc = crc32c(image[-4:], crc32c(image[:-8], 0xFFFFFFFF))
    return image[:-8] + crc.to_bytes(4, "little") + image[-4:]
