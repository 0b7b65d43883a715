"""Objects in memory, by placement group."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from messenger.denc.utime import EPOCH, UTime
from messenger.messages.osd_objects import NOSNAP, HObject
from messenger.messages.pg import PgId
from toolkit.rados.placement import object_hash

OBJECT_BYTES = 128 << 20
"""Maximum size of an object, ``osd_max_object_size``."""
_OVERHEAD_BYTES = 64
"""Overhead of an attribute or an omap key in bytes, added to its content."""


class ObjectKey(NamedTuple):
    """Identifies an object within its pool."""

    nspace: str
    locator: str
    """Locator key; empty if the object is placed by its name."""
    oid: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An immutable state of an object: a change makes a new state, so that requests are atomic."""

    data: bytes = b""
    xattrs: dict[str, bytes] = field(default_factory=dict)
    omap: dict[str, bytes] = field(default_factory=dict)
    omap_header: bytes = b""
    mtime: UTime = EPOCH
    user_version: int = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that count against the capacity of its OSD."""
        pairs = [*self.xattrs.items(), *self.omap.items()]
        held = sum(len(name) + len(value) + _OVERHEAD_BYTES for name, value in pairs)
        return len(self.data) + held + len(self.omap_header)


@dataclass(slots=True)
class PlacementGroup:
    """The objects of a placement group."""

    objects: dict[ObjectKey, StoredObject] = field(default_factory=dict)
    version: int = 0
    """Number of changes so far."""

    def ordered(self, pgid: PgId) -> list[tuple[HObject, ObjectKey]]:
        """Return the names in the order in which OSDs list them."""
        named = ((_hobject(key, pgid), key) for key in self.objects)
        return sorted(named, key=lambda pair: pair[0].sort_key())


class Store:
    """The placement groups of one OSD."""

    def __init__(self) -> None:
        self.groups: dict[PgId, PlacementGroup] = {}
        self.held_bytes = 0

    def group(self, pgid: PgId) -> PlacementGroup:
        """Return a placement group; creates it if it does not exist."""
        return self.groups.setdefault(pgid, PlacementGroup())

    def put(self, pgid: PgId, key: ObjectKey, stored: StoredObject | None) -> None:
        """Replace an object; None removes it."""
        objects = self.group(pgid).objects
        before = objects.get(key)
        self.held_bytes -= before.held_bytes if before is not None else 0
        if stored is not None:
            self.held_bytes += stored.held_bytes
            objects[key] = stored
        else:
            objects.pop(key, None)

    def keep_pools(self, pools: Iterable[int]) -> None:
        """Drop the objects of all pools except ``pools``."""
        for pgid in [pgid for pgid in self.groups if pgid.pool not in set(pools)]:
            for key in list(self.groups[pgid].objects):
                self.put(pgid, key, None)
            del self.groups[pgid]

    def use(self) -> dict[int, tuple[int, int]]:
        """Return the number of objects and their size in bytes, by pool id."""
        found: dict[int, tuple[int, int]] = {}
        for pgid, group in self.groups.items():
            objects, size_bytes = found.get(pgid.pool, (0, 0))
            size_bytes += sum(len(stored.data) for stored in group.objects.values())
            found[pgid.pool] = (objects + len(group.objects), size_bytes)
        return found


def _hobject(key: ObjectKey, pgid: PgId) -> HObject:
    raw = object_hash(key.oid, key.locator, key.nspace)
    return HObject(key.locator, key.oid, NOSNAP, raw, nspace=key.nspace, pool=pgid.pool)
