"""Names of objects, of requests, and of placement groups with their shards (docs/protocol.md §1.1)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, I64, U8, U32, U64, Since
from messenger.messages.layout import I8, Enveloped, plain
from messenger.messages.pg import PgId
from messenger.messages.pool import EVersion

NOSNAP = (1 << 64) - 2
"""The snapshot id of an object's present state, its head."""
NO_SHARD = -1
"""The shard of a placement group of a replicated pool."""
MIN_POOL = -(1 << 63)
"""Pool of the object that sorts before all others."""
NO_VERSION = EVersion()
"""That of an object that does not exist."""


def _skip_word(decoder: Decoder) -> int:
    decoder.skip(4)
    return 0


Preferred = Annotated[int, plain(lambda encoder, _: encoder.i32(-1), _skip_word, 4)]
"""A retired field."""
Zero = Annotated[int, plain(lambda encoder, _: encoder.u32(0), _skip_word, 4)]
"""Another one."""


@dataclass(frozen=True, slots=True)
class ShardedPgId(Enveloped):
    """A placement group and, in an erasure-coded pool, which shard of it (spg_t)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "spg_t"

    pgid: PgId
    shard: I8 = NO_SHARD

    def __str__(self) -> str:
        return str(self.pgid) if self.shard == NO_SHARD else f"{self.pgid}s{self.shard}"


@dataclass(frozen=True, slots=True)
class ObjectLocator(Enveloped):
    """Where an object lives apart from its name (object_locator_t)."""

    VERSION: ClassVar = 6
    COMPAT: ClassVar = 3
    OLDEST: ClassVar = 5
    """Linux's client writes version 5."""
    WHAT: ClassVar = "object locator"

    pool: I64 = -1
    preferred: Preferred = 0
    key: str = ""
    """Placed by this instead of by the name, if not empty."""
    nspace: str = ""
    hash: Annotated[I64, Since(6)] = -1
    """Placed by this instead of by key or name, unless -1."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the envelope; readers that know only the key cannot do with a hash."""
        version = self.struct_v or self.VERSION
        has_hash = version == self.VERSION and self.hash != -1
        with encoder.versioned(version, version if has_hash else self.COMPAT):
            self.encode_body(encoder, version, features)
            encoder.raw(self.tail)


@dataclass(frozen=True, slots=True)
class HObject(Enveloped):
    """An object in the order in which OSDs keep them (hobject_t); by default the first of all."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 3
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "hobject_t"

    key: str = ""
    oid: str = ""
    snap: U64 = 0
    hash: U32 = 0
    """Of the name, 32 bits, not reversed."""
    max: bool = False
    """Sorts behind all others."""
    nspace: str = ""
    pool: I64 = MIN_POOL

    def sort_key(self) -> tuple[bool, int, int, bytes, bytes, bytes, int]:
        """Sorts as OSDs do: by the bits of the hash from the lowest on, then by names."""
        nspace, key, oid = (text.encode("utf-8", "surrogateescape") for text in (self.nspace, self.key, self.oid))
        return self.max, self.pool, reversed_bits(self.hash), nspace, key or oid, oid, self.snap


def reversed_bits(value: int) -> int:
    """The 32 bits of ``value`` from the lowest to the highest."""
    return int(f"{value:032b}"[::-1], 2)


@dataclass(frozen=True, slots=True)
class RequestId(Enveloped):
    """Original requester (osd_reqid_t); clients leave it zero, because the OSD knows its peer and the tid."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    WHAT: ClassVar = "osd_reqid_t"

    type: U8 = 0
    num: I64 = 0
    tid: U64 = 0
    incarnation: I32 = 0


NO_REQUEST_ID = RequestId()
"""What clients send."""
_NO_LOCATOR = ObjectLocator()


@dataclass(frozen=True, slots=True)
class RequestRedirect(Enveloped):
    """Where to ask instead (request_redirect_t)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "request_redirect_t"

    locator: ObjectLocator = _NO_LOCATOR
    oid: str = ""
    """The object to ask for instead; empty: the same name."""
    instructions: Zero = 0


__all__ = [
    "MIN_POOL",
    "NOSNAP",
    "NO_REQUEST_ID",
    "NO_SHARD",
    "NO_VERSION",
    "EVersion",
    "HObject",
    "ObjectLocator",
    "PgId",
    "RequestId",
    "RequestRedirect",
    "ShardedPgId",
    "reversed_bits",
]
