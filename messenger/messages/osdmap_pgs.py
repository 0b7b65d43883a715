"""Placement groups that are not where CRUSH puts them: the exceptions in an OSD map (protocol.md §6.6, §6.8)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from messenger.denc.codec import Decoder
from messenger.messages.osd_objects import PgId

V = TypeVar("V")
Osds = tuple[int, ...]
Swaps = tuple[tuple[int, int], ...]

_PG_SIZE = 17
_PRIMARIES_VERSION = 10
_NO_OSD = -1


@dataclass(frozen=True, slots=True)
class PgExceptions:
    """By placement group, after splits."""

    pg_temp: dict[PgId, Osds] = field(default_factory=dict)
    """Acting while the OSDs that are up fill themselves."""
    primary_temp: dict[PgId, int] = field(default_factory=dict)
    pg_upmap: dict[PgId, Osds] = field(default_factory=dict)
    """Instead of what CRUSH says."""
    pg_upmap_items: dict[PgId, Swaps] = field(default_factory=dict)
    """Pairs of OSDs: the second instead of the first."""
    pg_upmap_primaries: dict[PgId, int] = field(default_factory=dict)

    def apply(self, changes: "PgChanges") -> "PgExceptions":
        """The next epoch's exceptions."""
        temp = self.pg_temp | changes.new_pg_temp
        primaries = self.primary_temp | changes.new_primary_temp
        return PgExceptions(
            {pg: osds for pg, osds in temp.items() if osds},
            {pg: osd for pg, osd in primaries.items() if osd != _NO_OSD},
            _changed(self.pg_upmap, changes.new_pg_upmap, changes.old_pg_upmap),
            _changed(self.pg_upmap_items, changes.new_pg_upmap_items, changes.old_pg_upmap_items),
            _changed(self.pg_upmap_primaries, changes.new_pg_upmap_primaries, changes.old_pg_upmap_primaries),
        )


@dataclass(frozen=True, slots=True)
class PgChanges:
    """What an incremental map changes of them."""

    new_pg_temp: dict[PgId, Osds] = field(default_factory=dict)
    """No OSDs: the exception ends."""
    new_primary_temp: dict[PgId, int] = field(default_factory=dict)
    """-1: the exception ends."""
    new_pg_upmap: dict[PgId, Osds] = field(default_factory=dict)
    old_pg_upmap: tuple[PgId, ...] = ()
    new_pg_upmap_items: dict[PgId, Swaps] = field(default_factory=dict)
    old_pg_upmap_items: tuple[PgId, ...] = ()
    new_pg_upmap_primaries: dict[PgId, int] = field(default_factory=dict)
    old_pg_upmap_primaries: tuple[PgId, ...] = ()

    @classmethod
    def decode(cls, body: Decoder, temp: dict[PgId, Osds], primary_temp: dict[PgId, int]) -> Self:
        """Read the upmaps, which lie behind the two that are read already; raises DecodeError."""
        upmap, old_upmap = decode_osds(body), _decode_set(body)
        items, old_items = decode_swaps(body), _decode_set(body)
        primaries: dict[PgId, int] = {}
        old_primaries: tuple[PgId, ...] = ()
        if body.struct_v >= _PRIMARIES_VERSION - 1:  # incrementals are a version behind
            skip_snaps(body)
            body.skip(16)  # new_last_up_change, new_last_in_change
            primaries, old_primaries = decode_primaries(body), _decode_set(body)
        return cls(temp, primary_temp, upmap, old_upmap, items, old_items, primaries, old_primaries)


def decode_exceptions(body: Decoder, temp: dict[PgId, Osds], primary_temp: dict[PgId, int]) -> PgExceptions:
    """Read the upmaps of a full map, which lie behind the two that are read already; raises DecodeError."""
    upmap, items = decode_osds(body), decode_swaps(body)
    primaries: dict[PgId, int] = {}
    if body.struct_v >= _PRIMARIES_VERSION:
        body.skip(4)  # crush_version
        skip_snaps(body)
        body.skip(16)  # last_up_change, last_in_change
        primaries = decode_primaries(body)
    return PgExceptions(temp, primary_temp, upmap, items, primaries)


def decode_osds(body: Decoder) -> dict[PgId, Osds]:
    """OSDs by placement group; raises DecodeError."""
    return _decode_map(body, lambda: tuple(body.sequence(body.i32, 4)))


def decode_swaps(body: Decoder) -> dict[PgId, Swaps]:
    """Pairs of OSDs by placement group; raises DecodeError."""
    return _decode_map(body, lambda: tuple(body.sequence(lambda: (body.i32(), body.i32()), 8)))


def decode_primaries(body: Decoder) -> dict[PgId, int]:
    """One OSD by placement group; raises DecodeError."""
    return _decode_map(body, body.i32)


def skip_snaps(body: Decoder) -> None:
    """Step over new_removed_snaps and new_purged_snaps."""
    for _ in range(2):
        body.mapping(body.i64, lambda: body.skip(body.count(16) * 16), 12)


def skip_profiles(body: Decoder) -> None:
    """Step over erasure-code profiles."""
    body.mapping(body.string, lambda: body.mapping(body.string, body.string, 8), 8)


def _decode_map(body: Decoder, value: Callable[[], V]) -> dict[PgId, V]:
    return body.mapping(lambda: PgId.decode(body), value, _PG_SIZE + 4)


def _decode_set(body: Decoder) -> tuple[PgId, ...]:
    return tuple(body.sequence(lambda: PgId.decode(body), _PG_SIZE))


def _changed(now: dict[PgId, V], new: dict[PgId, V], old: tuple[PgId, ...]) -> dict[PgId, V]:
    gone = set(old)
    return {pg: value for pg, value in (now | new).items() if pg not in gone}
