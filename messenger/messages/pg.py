"""Identifiers of placement groups (pg_t, docs/protocol.md §1.1)."""

from dataclasses import dataclass
from typing import Self

from messenger.denc.codec import Decoder, Encoder

_VERSION = 1
_NO_PREFERRED_OSD = -1


@dataclass(frozen=True, slots=True, order=True)
class PgId:
    """One placement group of a pool; sorts in Ceph's order."""

    pool: int
    seed: int
    """Number of the group within the pool: the placement seed, below pg_num."""

    def __str__(self) -> str:
        return f"{self.pool}.{self.seed:x}"

    def encode(self, encoder: Encoder) -> None:
        """Append the 17-byte form."""
        encoder.u8(_VERSION)
        encoder.u64(self.pool)
        encoder.u32(self.seed)
        encoder.i32(_NO_PREFERRED_OSD)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read the 17-byte form."""
        decoder.skip(1)
        pg_id = cls(decoder.u64(), decoder.u32())
        decoder.skip(4)
        return pg_id
