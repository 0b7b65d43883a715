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
from toolkit.embedded.usage import GroupState, Scrub, Usage
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
    epoch: int = 0
    """Epoch of the OSD's map at the last change."""
    reads: int = 0
    read_kb: int = 0
    writes: int = 0
    write_kb: int = 0
    """Operations so far, see :class:`.Usage`."""
    scrub: Scrub | None = None
    """The last scrub."""
    deep_scrub: Scrub | None = None
    """The last deep scrub."""
    errors: int = 0
    """Errors that the last scrub found."""
    order: "list[Named] | None" = None
    """The names of all objects in the order of OSDs; None if one has been added or removed since."""

    def state(self) -> GroupState:
        """Return what the group holds now, and what has been done with it."""
        clones = [clone.stored for known in self.snapsets.values() for clone in known.clones]
        states = [*clones, *self.objects.values()]
        omaps = [stored.omap for stored in states if stored.omap]
        counted = Usage(
            objects=len(states),
            size_bytes=sum(len(stored.data) for stored in states),
            clones=len(clones),
            omap_objects=len(omaps),
            omap_keys=sum(map(len, omaps)),
            omap_bytes=sum(omap.held_bytes - OVERHEAD_BYTES * len(omap) for omap in omaps),
            reads=self.reads,
            read_kb=self.read_kb,
            writes=self.writes,
            write_kb=self.write_kb,
        )
        return GroupState(counted, self.version, self.epoch, self.scrub, self.deep_scrub, self.errors)

    def run_scrub(self, at_s: float, *, deep: bool) -> None:
        """Check the group for contradictions; there are no other copies to compare it with.

        A deep scrub counts as a scrub, too.

        Args:
            at_s: the time, a Unix time.
            deep: also compare the sizes that omaps keep with their content.
        """
        self.errors = sum(not known.is_consistent for known in self.snapsets.values())
        if deep:
            omaps = [stored.omap for stored in self.objects.values()]
            self.errors += sum(omap.held_bytes != Omap(dict(omap)).held_bytes for omap in omaps)
        self.scrub = Scrub(self.version, self.epoch, at_s)
        if deep:
            self.deep_scrub = self.scrub

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

    def states(self) -> dict[PgId, GroupState]:
        """Return the state of each placement group."""
        return {pgid: group.state() for pgid, group in self.groups.items()}


def _hobject(key: ObjectKey, pgid: PgId) -> HObject:
    raw = object_hash(key.oid, key.locator, key.nspace)
    return HObject(key.locator, key.oid, NOSNAP, raw, nspace=key.nspace, pool=pgid.pool)
