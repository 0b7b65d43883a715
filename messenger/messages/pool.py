"""One pool of the OSD map (pg_pool_t, docs/protocol.md §6.6)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import I32, I64, U8, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import (
    ANY_VERSION,
    Enveloped,
    Fields,
    RawEnvelope,
    decode_fields,
    encode_fields,
    plain,
)
from messenger.messages.pg import PgId

Intervals = dict[U64, U64]
"""A set of numbers as ranges: first number to count (interval_set)."""

_OLDEST_VERSION = 26
_MIMIC_VERSION = 27
_NAUTILUS_VERSION = 29
_STRETCH_VERSION = 30
_NEWEST_VERSION = 32
_NO_HIT_SET = bytes.fromhex("010101000000" + "00")
_NO_OPTIONS = bytes.fromhex("020104000000" + "00000000")
_NO_PG = PgId(0, 0)
_WORD_BITS = 64
_VARINT_BITS = 7
_VARINT_MORE = 1 << _VARINT_BITS


class PoolType(IntEnum):
    """Redundancy of a pool."""

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
class PoolSnap(Enveloped):
    """A snapshot of a whole pool."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "pool snapshot"

    snapid: U64
    stamp: UTime
    name: str


@dataclass(frozen=True, slots=True)
class EVersion(Fields):
    """A version in the history of a placement group (eversion_t)."""

    version: U64 = 0
    epoch: U32 = 0


@dataclass(frozen=True, slots=True)
class MergeMeta(Enveloped):
    """The last merge of placement groups (pg_merge_meta_t)."""

    VERSION: ClassVar = 1

    source_pgid: PgId = _NO_PG
    ready_epoch: U32 = 0
    last_epoch_started: U32 = 0
    last_epoch_clean: U32 = 0
    source_version: EVersion = EVersion()
    target_version: EVersion = EVersion()


@dataclass(frozen=True, slots=True)
class PeeringCrush(Fields):
    """Number of buckets over which a placement group must spread to become active; for stretched clusters."""

    bucket_count: U32 = 0
    bucket_target: U32 = 0
    bucket_barrier: U32 = 0
    mandatory_member: I32 = 0x7FFFFFFF
    """A bucket that must be among them; by default none."""


def _encode_shards(encoder: Encoder, shards: set[int]) -> None:
    """Encode a set of 128 bits as two words, each as a varint: seven bits in each byte, lowest first."""
    mask = sum(1 << shard for shard in shards)
    for word in (mask & (1 << _WORD_BITS) - 1, mask >> _WORD_BITS):
        rest = word
        while rest >= _VARINT_MORE:
            encoder.u8(rest & _VARINT_MORE - 1 | _VARINT_MORE)
            rest >>= _VARINT_BITS
        encoder.u8(rest)


def _decode_shards(decoder: Decoder) -> set[int]:
    mask = _decode_varint(decoder) | _decode_varint(decoder) << _WORD_BITS
    return {shard for shard in range(2 * _WORD_BITS) if mask >> shard & 1}


def _decode_varint(decoder: Decoder) -> int:
    value = 0
    for shift in range(0, _WORD_BITS, _VARINT_BITS):
        byte = decoder.u8()
        value |= (byte & _VARINT_MORE - 1) << shift
        if byte < _VARINT_MORE:
            break
    if value >> _WORD_BITS:
        raise DecodeError(f"varint of more than {_WORD_BITS} bits")
    return value


ShardSet = Annotated[set[int], plain(_encode_shards, _decode_shards, 2)]


@dataclass(frozen=True, slots=True)
class Pool(Enveloped):
    """The properties that ``ceph osd pool ls detail`` shows. The name of the pool is in the map, not here."""

    VERSION: ClassVar = _NEWEST_VERSION
    COMPAT: ClassVar = 5
    OLDEST: ClassVar = _OLDEST_VERSION
    WHAT: ClassVar = "pool"

    type: U8 = PoolType.REPLICATED
    """A :class:`PoolType`."""
    size: U8 = 3
    crush_rule: U8 = 0
    object_hash: U8 = 2
    """2 stands for rjenkins."""
    pg_num: U32 = 0
    pgp_num: U32 = 0
    lpg_num: U32 = 0
    """Retired, as is the next field."""
    lpgp_num: U32 = 0
    last_change: U32 = 0
    """Epoch of the last change."""
    snap_seq: U64 = 0
    snap_epoch: U32 = 0
    snaps: dict[U64, PoolSnap] = field(default_factory=dict)
    """Snapshots by snapid."""
    removed_snaps: Intervals = field(default_factory=dict)
    auid: U64 = 0
    """Retired."""
    flags: U64 = 0
    """:class:`PoolFlag` bits."""
    crash_replay_interval_s: U32 = 0
    """Retired."""
    min_size: U8 = 0
    quota_max_bytes: U64 = 0
    quota_max_objects: U64 = 0
    tiers: set[U64] = field(default_factory=set)
    tier_of: I64 = -1
    cache_mode: U8 = 0
    read_tier: I64 = -1
    write_tier: I64 = -1
    properties: dict[str, str] = field(default_factory=dict)
    hit_set_params: RawEnvelope = _NO_HIT_SET
    hit_set_period_s: U32 = 0
    hit_set_count: U32 = 0
    stripe_width: U32 = 0
    """In bytes."""
    target_max_bytes: U64 = 0
    target_max_objects: U64 = 0
    cache_target_dirty_ratio_micro: U32 = 0
    cache_target_full_ratio_micro: U32 = 0
    cache_min_flush_age_s: U32 = 0
    cache_min_evict_age_s: U32 = 0
    erasure_code_profile: str = ""
    last_force_op_resend_preluminous: U32 = 0
    min_read_recency_for_promote: U32 = 0
    expected_num_objects: U64 = 0
    cache_target_dirty_high_ratio_micro: U32 = 0
    min_write_recency_for_promote: U32 = 0
    use_gmt_hitset: bool = True
    fast_read: bool = False
    hit_set_grade_decay_rate: U32 = 0
    hit_set_search_last_n: U32 = 0
    opts: RawEnvelope = _NO_OPTIONS
    """Options that only some pools have, uninterpreted."""
    last_force_op_resend_prenautilus: U32 = 0
    application_metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    create_time: Annotated[UTime, Since(27)] = EPOCH
    """Zero if the sender did not know that the receiver is Mimic or newer."""
    pg_num_target: Annotated[U32, Since(28)] = 0
    pgp_num_target: Annotated[U32, Since(28)] = 0
    pg_num_pending: Annotated[U32, Since(28)] = 0
    pg_num_dec_last_epoch_started: Annotated[U32, Since(28)] = 0
    """Retired, as is the next field."""
    pg_num_dec_last_epoch_clean: Annotated[U32, Since(28)] = 0
    last_force_op_resend: Annotated[U32, Since(28)] = 0
    pg_autoscale_mode: Annotated[U8, Since(28)] = 0
    """0 off, 1 warn, 2 on."""
    last_pg_merge_meta: Annotated[MergeMeta, Since(29)] = MergeMeta()
    peering_crush: Annotated[PeeringCrush | None, Since(31)] = None
    """Version 30, only for pools with this field, encodes it without the flag of an optional."""
    nonprimary_shards: Annotated[ShardSet, Since(32)] = field(default_factory=set)
    """Shards below 128 that cannot be primary."""

    def version_for(self, features: int) -> int:
        """Version for the peer's features; before Tentacle, version 30 is only for stretched pools."""
        if has_feature(features, Feature.SERVER_TENTACLE):
            return ANY_VERSION
        if has_feature(features, Feature.SERVER_NAUTILUS):
            return _STRETCH_VERSION if self.peering_crush else _NAUTILUS_VERSION
        return _MIMIC_VERSION if has_feature(features, Feature.SERVER_MIMIC) else _OLDEST_VERSION

    def encode_body(self, encoder: Encoder, version: int, features: int) -> None:
        """Append the fields of ``version``."""
        encode_fields(self, encoder, version, features)
        if version == _STRETCH_VERSION:
            (self.peering_crush or PeeringCrush()).encode(encoder, features)

    @classmethod
    def decode_body(cls, body: Decoder, features: int) -> dict[str, Any]:
        """The values of the fields that the envelope's version has."""
        values = decode_fields(cls, body, body.struct_v, features)
        if body.struct_v == _STRETCH_VERSION:
            values["peering_crush"] = PeeringCrush.decode(body, _STRETCH_VERSION, features)
        return values
