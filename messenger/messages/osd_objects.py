"""Names of placement groups, objects and object versions (protocol.md §1.1)."""

from dataclasses import dataclass
from typing import Self

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError

NOSNAP = (1 << 64) - 2
"""The snapshot id of an object's present state, its head."""
NO_SHARD = -1
"""The shard of a placement group of a replicated pool."""
MIN_POOL = -(1 << 63)
"""Pool of the object that sorts before all others."""

_PG_VERSION = 1
_PREFERRED = -1
_HOBJECT_VERSION = 4
_LOCATOR_VERSION = 6
_LOCATOR_COMPAT = 3


@dataclass(frozen=True, slots=True, order=True)
class PgId:
    """One placement group (pg_t, 17 bytes)."""

    pool: int
    seed: int

    def __str__(self) -> str:
        return f"{self.pool}.{self.seed:x}"

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        encoder.u8(_PG_VERSION)
        encoder.u64(self.pool)
        encoder.u32(self.seed)
        encoder.i32(_PREFERRED)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read one; raises DecodeError."""
        version = decoder.u8()
        if version != _PG_VERSION:
            raise DecodeError(f"pg_t of version {version}, only {_PG_VERSION} is known")
        pool, seed = decoder.u64(), decoder.u32()
        decoder.skip(4)
        return cls(pool, seed)


@dataclass(frozen=True, slots=True, order=True)
class ShardedPgId:
    """A placement group and, in an erasure-coded pool, which shard of it (spg_t)."""

    pgid: PgId
    shard: int = NO_SHARD

    def __str__(self) -> str:
        return str(self.pgid) if self.shard == NO_SHARD else f"{self.pgid}s{self.shard}"

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        with encoder.versioned(1, 1):
            self.pgid.encode(encoder)
            encoder.i8(self.shard)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read one; raises DecodeError."""
        body = decoder.versioned(1)
        return cls(PgId.decode(body), body.i8())


@dataclass(frozen=True, slots=True)
class ObjectLocator:
    """Where an object lives apart from its name (object_locator_t)."""

    pool: int = -1
    nspace: str = ""
    key: str = ""
    """Placed by this instead of by the name, if not empty."""
    hash: int = -1
    """Placed by this instead of by key or name, unless -1."""

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding; old readers cannot do without the key."""
        with encoder.versioned(_LOCATOR_VERSION, _LOCATOR_COMPAT if self.hash == -1 else _LOCATOR_VERSION):
            encoder.i64(self.pool)
            encoder.i32(_PREFERRED)
            encoder.string(self.key)
            encoder.string(self.nspace)
            encoder.i64(self.hash)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read versions 6 and up; raises DecodeError."""
        body = decoder.versioned(_LOCATOR_VERSION)
        if body.struct_v < _LOCATOR_VERSION:
            raise DecodeError(f"object locator of version {body.struct_v}, at least {_LOCATOR_VERSION} is known")
        pool = body.i64()
        body.skip(4)
        key, nspace = body.string(), body.string()
        return cls(pool, nspace, key, body.i64())


@dataclass(frozen=True, slots=True)
class HObject:
    """An object in the order in which OSDs keep them (hobject_t); by default the first of all."""

    pool: int = MIN_POOL
    nspace: str = ""
    oid: str = ""
    key: str = ""
    snap: int = 0
    hash: int = 0
    """Of the name, 32 bits, not reversed."""
    max: bool = False
    """Sorts behind all others."""

    def sort_key(self) -> tuple[bool, int, int, bytes, bytes, bytes, int]:
        """Sorts as OSDs do: by the bits of the hash from the lowest on, then by names."""
        nspace, key, oid = (text.encode("utf-8", "surrogateescape") for text in (self.nspace, self.key, self.oid))
        return self.max, self.pool, reversed_bits(self.hash), nspace, key or oid, oid, self.snap

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        with encoder.versioned(_HOBJECT_VERSION, 3):
            encoder.string(self.key)
            encoder.string(self.oid)
            encoder.u64(self.snap)
            encoder.u32(self.hash)
            encoder.boolean(self.max)
            encoder.string(self.nspace)
            encoder.i64(self.pool)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read versions 4 and up; raises DecodeError."""
        body = decoder.versioned(_HOBJECT_VERSION)
        if body.struct_v < _HOBJECT_VERSION:
            raise DecodeError(f"hobject_t of version {body.struct_v}, at least {_HOBJECT_VERSION} is known")
        key, oid, snap, name_hash, is_max = body.string(), body.string(), body.u64(), body.u32(), body.boolean()
        nspace = body.string()
        return cls(body.i64(), nspace, oid, key, snap, name_hash, is_max)


def reversed_bits(value: int) -> int:
    """The 32 bits of ``value`` from the lowest to the highest."""
    return int(f"{value:032b}"[::-1], 2)


@dataclass(frozen=True, slots=True, order=True)
class EVersion:
    """A version of an object or of a placement group's log (eversion_t, 12 bytes)."""

    epoch: int = 0
    version: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}'{self.version}"

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding, which has the version first."""
        encoder.u64(self.version)
        encoder.u32(self.epoch)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read one; raises DecodeError."""
        version = decoder.u64()
        return cls(decoder.u32(), version)


NO_VERSION = EVersion()
"""That of an object that does not exist."""


@dataclass(frozen=True, slots=True)
class RequestId:
    """Who asked first (osd_reqid_t); clients leave it zero, as the OSD knows its peer and the tid."""

    type: int = 0
    num: int = 0
    tid: int = 0
    incarnation: int = 0

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        with encoder.versioned(2, 2):
            encoder.u8(self.type)
            encoder.i64(self.num)
            encoder.u64(self.tid)
            encoder.i32(self.incarnation)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read one; raises DecodeError."""
        body = decoder.versioned(2)
        return cls(body.u8(), body.i64(), body.u64(), body.i32())


NO_REQUEST_ID = RequestId()
"""What clients send."""


@dataclass(frozen=True, slots=True)
class RequestRedirect:
    """Where to ask instead (request_redirect_t)."""

    locator: ObjectLocator = ObjectLocator()
    oid: str = ""
    """The object to ask for instead; empty: the same name."""

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding."""
        with encoder.versioned(1, 1):
            self.locator.encode(encoder)
            encoder.string(self.oid)
            encoder.u32(0)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read one; raises DecodeError."""
        body = decoder.versioned(1)
        return cls(ObjectLocator.decode(body), body.string())
