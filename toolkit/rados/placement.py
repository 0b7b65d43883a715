"""Placement of objects by one OSD map: from a name to a placement group to OSDs (docs/protocol.md §6.8)."""

from dataclasses import dataclass
from functools import cached_property

from messenger.messages.osd_info import DEFAULT_PRIMARY_AFFINITY
from messenger.messages.osd_objects import NO_SHARD, PgId, ShardedPgId
from messenger.messages.osdmap import OSDMap
from messenger.messages.pool import Pool, PoolFlag, PoolType
from toolkit.rados.crush import do_rule
from toolkit.rados.crush_map import ITEM_NONE, CrushMap
from toolkit.rados.hashes import crush_hash32_2, rjenkins_str

NO_OSD = -1
"""Stands for the primary of a placement group without OSDs."""

_NSPACE_SEPARATOR = b"\x1f"


@dataclass(frozen=True, slots=True)
class PgMapping:
    """The OSDs of a placement group. In erasure-coded pools ``ITEM_NONE`` stands for shards without an OSD."""

    up: tuple[int, ...]
    """OSDs that should store it."""
    up_primary: int
    acting: tuple[int, ...]
    """OSDs that serve it now."""
    acting_primary: int
    """OSD that requests go to; ``NO_OSD`` if there is none."""


def object_hash(oid: str, key: str = "", nspace: str = "") -> int:
    """The 32-bit hash that places an object: of its locator key if it has one, else of its name."""
    text = (key or oid).encode("utf-8", "surrogateescape")
    if nspace:
        text = nspace.encode("utf-8", "surrogateescape") + _NSPACE_SEPARATOR + text
    return rjenkins_str(text)


def stable_mod(x: int, count: int) -> int:
    """Return ``x`` modulo ``count``, such that few values change when ``count`` grows."""
    mask = (1 << (count - 1).bit_length()) - 1
    return x & mask if x & mask < count else x & mask >> 1


class Placement:
    """Placement by one epoch of the map; results are cached.

    Args:
        osdmap: the map, which must not change.
        like: an older placement, whose decoded CRUSH map is reused if it is the same.
    """

    def __init__(self, osdmap: OSDMap, like: "Placement | None" = None) -> None:
        self.osdmap = osdmap
        self._weights = [osd.weight for osd in osdmap.osds]
        self._mappings: dict[PgId, PgMapping] = {}
        if like is not None and like.osdmap.crush == osdmap.crush and "crush" in like.__dict__:
            self.__dict__["crush"] = like.crush

    @cached_property
    def crush(self) -> CrushMap:
        """The decoded CRUSH map; raises DecodeError."""
        return CrushMap.decode(self.osdmap.crush)

    def pg_of(self, pool_id: int, name_hash: int) -> PgId:
        """The placement group of a hash, as many as the pool has now; raises KeyError for no such pool."""
        return PgId(pool_id, stable_mod(name_hash, self.osdmap.pools[pool_id].pg_num))

    def mapping(self, pgid: PgId) -> PgMapping:
        """Return the OSDs of a placement group.

        Raises:
            KeyError: there is no such pool.
            LocalError: its CRUSH rule is of an unsupported type.
            DecodeError: the CRUSH map is malformed.
        """
        found = self._mappings.get(pgid)
        if found is None:
            found = self._mappings[pgid] = self._compute(pgid)
        return found

    def sharded(self, pgid: PgId) -> ShardedPgId:
        """The placement group with the primary's shard, which requests to erasure-coded pools require."""
        if self.osdmap.pools[pgid.pool].type != PoolType.ERASURE:
            return ShardedPgId(pgid)
        mapping = self.mapping(pgid)
        held = mapping.acting_primary in mapping.acting
        return ShardedPgId(pgid, mapping.acting.index(mapping.acting_primary) if held else NO_SHARD)

    def _compute(self, pgid: PgId) -> PgMapping:
        pool = self.osdmap.pools[pgid.pool]
        seed = self._placement_seed(pool, pgid)
        raw = do_rule(self.crush, pool.crush_rule, seed, pool.size, self._weights, pgid.pool)
        raw = self._filtered(pool, raw, up=False)
        up = self._filtered(pool, self._upmapped(pgid, raw), up=True)
        up, up_primary = self._by_affinity(pool, seed, up)
        temp = self._filtered(pool, self.osdmap.pg_temp.get(pgid, []), up=True)
        acting = temp or up
        acting_primary = self.osdmap.primary_temp.get(pgid, _first(temp) if temp else up_primary)
        return PgMapping(tuple(up), up_primary, tuple(acting), acting_primary)

    @staticmethod
    def _placement_seed(pool: Pool, pgid: PgId) -> int:
        seed = stable_mod(pgid.seed, pool.pgp_num)
        # the flag keeps the groups of different pools from being placed on the same OSDs
        return crush_hash32_2(seed, pgid.pool) if pool.flags & PoolFlag.HASHPSPOOL else seed + pgid.pool

    def _filtered(self, pool: Pool, osds: list[int], *, up: bool) -> list[int]:
        """Remove OSDs that do not exist or, with ``up``, are down; erasure-coded shards keep their positions."""
        known = self.osdmap.osds
        good = [0 <= osd < len(known) and (known[osd].is_up if up else known[osd].exists) for osd in osds]
        if pool.type == PoolType.ERASURE:
            return [osd if fine else ITEM_NONE for osd, fine in zip(osds, good, strict=True)]
        return [osd for osd, fine in zip(osds, good, strict=True) if fine]

    def _upmapped(self, pgid: PgId, raw: list[int]) -> list[int]:
        """Apply explicit mappings of operators and the balancer, unless their targets are out."""
        explicit = self.osdmap.pg_upmap.get(pgid)
        if explicit is not None:
            if any(map(self._marked_out, explicit)):
                return raw
            raw = list(explicit)
        for old, new in self.osdmap.pg_upmap_items.get(pgid, ()):
            if new not in raw and old in raw and not self._marked_out(new):
                raw[raw.index(old)] = new
        primary = self.osdmap.pg_upmap_primaries.get(pgid)
        if primary is not None and primary in raw[1:] and not self._marked_out(primary):
            at = raw.index(primary)
            raw[0], raw[at] = raw[at], raw[0]
        return raw

    def _marked_out(self, osd: int) -> bool:
        return 0 <= osd < len(self._weights) and not self._weights[osd]

    def _by_affinity(self, pool: Pool, seed: int, osds: list[int]) -> tuple[list[int], int]:
        """Return the OSDs and their primary: the first one that its primary affinity does not exclude."""
        known = self.osdmap.osd_primary_affinity
        if not known:
            return osds, _first(osds)
        affinity = {osd: known[osd] for osd in osds if osd != ITEM_NONE}
        if all(value == DEFAULT_PRIMARY_AFFINITY for value in affinity.values()):
            return osds, _first(osds)
        willing = (
            osd
            for osd, value in affinity.items()
            if value >= DEFAULT_PRIMARY_AFFINITY or crush_hash32_2(seed, osd) >> 16 < value
        )
        primary = next(willing, _first(osds))
        if pool.type != PoolType.ERASURE:
            osds = [primary, *(osd for osd in osds if osd != primary)]
        return osds, primary


def _first(osds: list[int]) -> int:
    return next((osd for osd in osds if osd != ITEM_NONE), NO_OSD)
