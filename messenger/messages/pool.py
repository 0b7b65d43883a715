"""One pool of the OSD map (pg_pool_t, protocol.md §6.6)."""

from dataclasses import dataclass
from enum import IntEnum

from messenger.denc.codec import Decoder
from messenger.denc.utime import UTime
from messenger.errors import DecodeError

_NEWEST_VERSION = 32
_OLDEST_VERSION = 26
_ANY_VERSION = 255
_SNAP_SIZE = 14
_INTERVAL_SIZE = 16


class PoolType(IntEnum):
    """How a pool keeps its objects."""

    REPLICATED = 1
    ERASURE = 3


class PoolFlag(IntEnum):
    """Bits of :attr:`Pool.flags`."""

    HASHPSPOOL = 1 << 0
    FULL = 1 << 1
    EC_OVERWRITES = 1 << 2
    INCOMPLETE_CLONES = 1 << 3
    NODELETE = 1 << 4
    FULL_QUOTA = 1 << 10
    SELFMANAGED_SNAPS = 1 << 13
    POOL_SNAPS = 1 << 14
    CREATING = 1 << 15
    EIO = 1 << 16
    BULK = 1 << 17
    CRIMSON = 1 << 18
    EC_OPTIMIZATIONS = 1 << 19


@dataclass(frozen=True, slots=True)
class Pool:
    """What ``ceph osd pool ls detail`` shows of a pool. The name is in the map, not here."""

    type: int
    """A :class:`PoolType`."""
    size: int
    min_size: int
    crush_rule: int
    object_hash: int
    pg_num: int
    pgp_num: int
    last_change: int
    """Epoch."""
    flags: int
    """:class:`PoolFlag` bits."""
    snaps: tuple[str, ...]
    """Names of pool snapshots, oldest first."""
    quota_max_bytes: int
    quota_max_objects: int
    stripe_width: int
    erasure_code_profile: str
    application_metadata: dict[str, dict[str, str]]
    create_time: UTime
    """Zero where the sender did not know the receiver to be Mimic or newer."""
    read_tier: int
    """The pool that reads go to instead; -1 is none."""
    write_tier: int
    """The pool that writes go to instead; -1 is none."""
    last_force_op_resend: int
    """Epoch from which on requests that were sent before must be sent again."""

    @staticmethod
    def decode(decoder: Decoder) -> "Pool":
        """Read versions 26 (Luminous) and up; fields that are not kept are stepped over.

        Raises:
            DecodeError: cut short, malformed, or older.
        """
        body = decoder.versioned(_NEWEST_VERSION)
        if body.struct_v < _OLDEST_VERSION:
            raise DecodeError(f"pool of version {body.struct_v}, at least {_OLDEST_VERSION} is known")
        pool_type, size, crush_rule, object_hash = body.u8(), body.u8(), body.u8(), body.u8()
        pg_num, pgp_num = body.u32(), body.u32()
        body.skip(8)  # lpg_num, lpgp_num
        last_change = body.u32()
        body.skip(12)  # snap_seq, snap_epoch
        snaps = body.mapping(body.u64, lambda: _decode_snap(body), _SNAP_SIZE)
        body.skip(body.count(_INTERVAL_SIZE) * _INTERVAL_SIZE)  # removed_snaps
        body.skip(8)  # auid
        flags = body.u64()
        body.skip(4)
        min_size = body.u8()
        quota_max_bytes, quota_max_objects = body.u64(), body.u64()
        read_tier, write_tier = _skip_to_tiers(body)
        stripe_width = _skip_to_stripe_width(body)
        body.skip(32)  # target_max_bytes and the five cache fields behind it
        erasure_code_profile = body.string()
        force_resend = _skip_to_applications(body)
        applications = body.mapping(body.string, lambda: body.mapping(body.string, body.string, 8), 8)
        create_time = UTime.decode(body) if body.struct_v >= 27 else UTime()
        if body.struct_v >= 28:
            body.skip(20)  # pg_num_target to pg_num_pending, two retired fields
            force_resend = body.u32()
        return Pool(
            type=pool_type,
            size=size,
            min_size=min_size,
            crush_rule=crush_rule,
            object_hash=object_hash,
            pg_num=pg_num,
            pgp_num=pgp_num,
            last_change=last_change,
            flags=flags,
            snaps=tuple(snaps[snap_id] for snap_id in sorted(snaps)),
            quota_max_bytes=quota_max_bytes,
            quota_max_objects=quota_max_objects,
            stripe_width=stripe_width,
            erasure_code_profile=erasure_code_profile,
            application_metadata=applications,
            create_time=create_time,
            read_tier=read_tier,
            write_tier=write_tier,
            last_force_op_resend=force_resend,
        )


def _decode_snap(decoder: Decoder) -> str:
    """The name out of a pool_snap_info_t."""
    body = decoder.versioned(2)
    body.skip(16)  # snapid, stamp
    return body.string()


def _skip_to_tiers(body: Decoder) -> tuple[int, int]:
    """Cache tiering (version 9): read_tier and write_tier."""
    body.skip(body.count(8) * 8)  # tiers
    body.skip(9)  # tier_of, cache_mode
    return body.i64(), body.i64()


def _skip_to_stripe_width(body: Decoder) -> int:
    """Properties and hit sets (versions 10 and 11), then the stripe width in bytes."""
    body.mapping(body.string, body.string, 8)  # properties
    body.versioned(_ANY_VERSION)  # hit_set_params
    body.skip(8)  # hit_set_period, hit_set_count
    return body.u32()


def _skip_to_applications(body: Decoder) -> int:
    """Versions 15 to 25: cache tuning, options of the pool, and last_force_op_resend_prenautilus."""
    body.skip(26)  # last_force_op_resend_preluminous up to min_write_recency_for_promote, two bools
    body.skip(8)  # hit_set_grade_decay_rate, hit_set_search_last_n
    body.versioned(_ANY_VERSION)  # opts
    return body.u32()
