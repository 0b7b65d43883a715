"""Identifiers of objects, requests, and placement groups with their shards (docs/protocol.md §1.1)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, I64, U8, U32, U64, Since
from messenger.messages.layout import I8, Enveloped, plain
from messenger.messages.pg import PgId
from messenger.messages.pool import EVersion

NOSNAP = (1 << 64) - 2
"""Snapshot id of an object's current state, its head."""
NO_SHARD = -1
"""Shard id in replicated pools."""
MIN_POOL = -(1 << 63)
"""Pool of the object that sorts before all others."""
NO_VERSION = EVersion()
"""The version of an object that does not exist."""


def _skip_word(decoder: Decoder) -> int:
    decoder.skip(4)
    return 0


Preferred = Annotated[int, plain(lambda encoder, _: encoder.i32(-1), _skip_word, 4)]
"""A retired field, written as -1."""
Zero = Annotated[int, plain(lambda encoder, _: encoder.u32(0), _skip_word, 4)]
"""A retired field, written as 0."""


@dataclass(frozen=True, slots=True)
class ShardedPgId(Enveloped):
    """A placement group and, in an erasure-coded pool, one of its shards (spg_t)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "spg_t"

    pgid: PgId
    shard: I8 = NO_SHARD

    def __str__(self) -> str:
        return str(self.pgid) if self.shard == NO_SHARD else f"{self.pgid}s{self.shard}"


@dataclass(frozen=True, slots=True)
class ObjectLocator(Enveloped):
    """What determines the place of an object apart from its name (object_locator_t)."""

    VERSION: ClassVar = 6
    COMPAT: ClassVar = 3
    OLDEST: ClassVar = 5
    """Linux's client writes version 5."""
    WHAT: ClassVar = "object locator"

    pool: I64 = -1
    preferred: Preferred = 0
    key: str = ""
    """If not empty, the object is placed by this key instead of its name."""
    nspace: str = ""
    hash: Annotated[I64, Since(6)] = -1
    """If not -1, the object is placed by this hash instead of its key or name."""

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the envelope; a hash raises its compat version, because older readers would ignore it."""
        version = self.struct_v or self.VERSION
        has_hash = version == self.VERSION and self.hash != -1
        with encoder.versioned(version, version if has_hash else self.COMPAT):
            self.encode_body(encoder, version, features)
            encoder.raw(self.tail)


@dataclass(frozen=True, slots=True)
class HObject(Enveloped):
    """An object, in the order in which OSDs store them (hobject_t); by default the first of all."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 3
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "hobject_t"

    key: str = ""
    oid: str = ""
    snap: U64 = 0
    hash: U32 = 0
    """32-bit hash of the name, not bit-reversed."""
    max: bool = False
    """True for the object that sorts after all others."""
    nspace: str = ""
    pool: I64 = MIN_POOL

    def sort_key(self) -> tuple[bool, int, int, bytes, bytes, bytes, int]:
        """A key for the order of OSDs: by the bits of the hash from the lowest on, then by names."""
        nspace, key, oid = (text.encode("utf-8", "surrogateescape") for text in (self.nspace, self.key, self.oid))
        return self.max, self.pool, reversed_bits(self.hash), nspace, key or oid, oid, self.snap


def reversed_bits(value: int) -> int:
    """The 32 bits of ``value`` in reverse order."""
    return int(f"{value:032b}"[::-1], 2)


@dataclass(frozen=True, slots=True)
class RequestId(Enveloped):
    """Original requester (osd_reqid_t); clients send zeros, because the OSD knows its peer and the tid."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    WHAT: ClassVar = "osd_reqid_t"

    type: U8 = 0
    num: I64 = 0
    tid: U64 = 0
    incarnation: I32 = 0


NO_REQUEST_ID = RequestId()
"""The request id that clients send."""
_NO_LOCATOR = ObjectLocator()


@dataclass(frozen=True, slots=True)
class RequestRedirect(Enveloped):
    """The object to which a request is redirected (request_redirect_t)."""

    VERSION: ClassVar = 1
    WHAT: ClassVar = "request_redirect_t"

    locator: ObjectLocator = _NO_LOCATOR
    oid: str = ""
    """Name of the object; empty: the same name."""
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
