"""Objects in memory, by placement group."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from messenger.denc.utime import EPOCH, UTime
from messenger.messages.osd_objects import NOSNAP, HObject
from messenger.messages.pg import PgId
from toolkit.embedded.osd.omap import NO_OMAP, OVERHEAD_BYTES, Omap
from toolkit.embedded.osd.snapsets import PoolSnaps, SnapSet
from toolkit.rados.placement import object_hash

OBJECT_BYTES = 128 << 20
"""Maximum size of an object, ``osd_max_object_size``."""
OBJECT_OVERHEAD_BYTES = 1 << 10
"""Overhead of an object in bytes, its name included: so empty objects fill an OSD, too."""
NAME_BYTES = 2048
"""Maximum length of an object's name and of its locator key, ``osd_max_object_name_len``."""
NAMESPACE_BYTES = 256
"""Maximum length of a namespace, ``osd_max_object_namespace_len``."""


class ObjectKey(NamedTuple):
    """Identifies an object within its pool."""

    nspace: str
    locator: str
    """Locator key; empty if the object is placed by its name."""
    oid: str

    @property
    def is_too_long(self) -> bool:
        """True if one of the names exceeds its limit."""
        names = ((self.oid, NAME_BYTES), (self.locator, NAME_BYTES), (self.nspace, NAMESPACE_BYTES))
        return any(len(name.encode(errors="surrogateescape")) > most_bytes for name, most_bytes in names)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An immutable state of an object: a change makes a new state, so that requests are atomic."""

    data: bytes = b""
    xattrs: dict[str, bytes] = field(default_factory=dict)
    omap: Omap = field(default_factory=lambda: NO_OMAP)
    omap_header: bytes = b""
    mtime: UTime = EPOCH
    user_version: int = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that count against the capacity of its OSD."""
        held = sum(len(name) + len(value) + OVERHEAD_BYTES for name, value in self.xattrs.items())
        return len(self.data) + held + self.omap.held_bytes + len(self.omap_header) + OBJECT_OVERHEAD_BYTES


SortKey = tuple[bool, int, int, bytes, bytes, bytes, int]
"""Place of a name in the order of OSDs, see :meth:`.HObject.sort_key`."""


class Named(NamedTuple):
    """The name of an object, with its place in the order of OSDs."""

    sort_key: SortKey
    hobject: HObject
    key: ObjectKey


@dataclass(slots=True)
class PlacementGroup:
    """The objects of a placement group."""

    objects: dict[ObjectKey, StoredObject] = field(default_factory=dict)
    snapsets: dict[ObjectKey, SnapSet] = field(default_factory=dict)
    """The snapshots of those objects that have been written with a snapshot context, or have clones."""
    version: int = 0
    """Number of changes so far."""
    order: "list[Named] | None" = None
    """The names of all objects in the order of OSDs; None if one has been added or removed since."""

    def at(self, key: ObjectKey, snapid: int) -> StoredObject | None:
        """Return the state of an object in a snapshot, or the newest; None if there is none."""
        head = self.objects.get(key)
        return head if snapid >= NOSNAP else self.snapsets.get(key, SnapSet()).at(snapid, head)

    def ordered(self, pgid: PgId, snapid: int = NOSNAP, begin: SortKey | None = None) -> Iterator[Named]:
        """Yield the names of the objects, in a snapshot or now, in the order in which OSDs list them.

        Like Ceph's, the list of those that exist now has also those that only snapshots have.

        Args:
            pgid: the group.
            snapid: the snapshot.
            begin: the first name that is wanted; None: from the first on.
        """
        if self.order is None:
            clones = (key for key, known in self.snapsets.items() if known.clones)
            hobjects = ((_hobject(key, pgid), key) for key in dict.fromkeys([*self.objects, *clones]))
            self.order = sorted(Named(hobject.sort_key(), hobject, key) for hobject, key in hobjects)
        start = bisect_left(self.order, begin, key=lambda named: named.sort_key) if begin is not None else 0
        for named in islice(self.order, start, None):
            if snapid >= NOSNAP or self.at(named.key, snapid) is not None:
                yield named


class Store:
    """The placement groups of one OSD."""

    def __init__(self) -> None:
        self.groups: dict[PgId, PlacementGroup] = {}
        self.held_bytes = 0
        self._trimmed: dict[int, PoolSnaps] = {}
        """The snapshots of each pool when its clones were last trimmed."""

    def group(self, pgid: PgId) -> PlacementGroup:
        """Return a placement group; creates it if it does not exist."""
        return self.groups.setdefault(pgid, PlacementGroup())

    def put(self, pgid: PgId, key: ObjectKey, stored: StoredObject | None) -> None:
        """Replace an object; None removes it."""
        group = self.group(pgid)
        objects = group.objects
        before = objects.get(key)
        if (before is None) != (stored is None):
            group.order = None
        self.held_bytes -= before.held_bytes if before is not None else 0
        if stored is not None:
            self.held_bytes += stored.held_bytes
            objects[key] = stored
        else:
            objects.pop(key, None)

    def put_snapset(self, pgid: PgId, key: ObjectKey, snapset: SnapSet) -> None:
        """Replace the clones of an object; an object that is gone and has no clones is forgotten."""
        group = self.group(pgid)
        before = group.snapsets.get(key, SnapSet())
        if bool(snapset.clones) != bool(before.clones):
            group.order = None
        self.held_bytes += snapset.held_bytes - before.held_bytes
        if snapset.clones or (snapset.seq and key in group.objects):
            group.snapsets[key] = snapset
        else:
            group.snapsets.pop(key, None)

    def keep_pools(self, pools: Mapping[int, PoolSnaps]) -> None:
        """Drop the objects of all pools except ``pools``, and the clones for snapshots that have been removed."""
        for pgid, group in list(self.groups.items()):
            snaps = pools.get(pgid.pool)
            if snaps is not None and snaps == self._trimmed.get(pgid.pool):
                continue
            for key, known in list(group.snapsets.items()):
                self.put_snapset(pgid, key, known.trimmed(snaps.is_removed) if snaps is not None else SnapSet())
            if snaps is None:
                for key in list(group.objects):
                    self.put(pgid, key, None)
                del self.groups[pgid]
        self._trimmed = dict(pools)

    def use(self) -> dict[int, tuple[int, int, int]]:
        """Return the number of objects with clones, their size in bytes, and the number of clones, by pool id."""
        found: dict[int, tuple[int, int, int]] = {}
        for pgid, group in self.groups.items():
            objects, size_bytes, clones = found.get(pgid.pool, (0, 0, 0))
            states = [clone.stored for known in group.snapsets.values() for clone in known.clones]
            clones += len(states)
            states += group.objects.values()
            size_bytes += sum(len(stored.data) for stored in states)
            found[pgid.pool] = (objects + len(states), size_bytes, clones)
        return found


def _hobject(key: ObjectKey, pgid: PgId) -> HObject:
    raw = object_hash(key.oid, key.locator, key.nspace)
    return HObject(key.locator, key.oid, NOSNAP, raw, nspace=key.nspace, pool=pgid.pool)
