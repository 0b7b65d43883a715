"""Snapshots of objects: the clones that preserve earlier states, and the snapshots that each clone is for.

A write names the snapshots that exist (its snapshot context). If one is newer than the last clone of the object,
the state before the write becomes a clone. A read of a snapshot then finds the clone that preserves it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from messenger.messages.osd_objects import NOSNAP
from messenger.messages.pool import Pool, PoolFlag

if TYPE_CHECKING:
    from toolkit.embedded.osd.store import StoredObject

SNAPDIR = NOSNAP + 1
"""The snapid with which a client reads the list of an object's snapshots."""
_BLOCK_BYTES = 512


class SnapContext(NamedTuple):
    """The newest snapid, and the snapids of the snapshots that exist, newest first."""

    seq: int = 0
    snaps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolSnaps:
    """What the OSD map has about the snapshots of a pool."""

    context: SnapContext | None = None
    """The context of all writes to a pool with snapshots of its own; None: clients send theirs."""
    seq: int = 0
    removed: Mapping[int, int] = field(default_factory=dict)
    """Removed snapshots of clients, as ranges: first snapid to count."""

    @classmethod
    def of(cls, pool: Pool, removed: Mapping[int, int]) -> "PoolSnaps":
        """Return the snapshots of a pool, of which clients have removed some."""
        if not pool.flags & PoolFlag.POOL_SNAPS:
            return cls(None, pool.snap_seq, removed)
        return cls(SnapContext(pool.snap_seq, tuple(sorted(pool.snaps, reverse=True))), pool.snap_seq)

    def is_removed(self, snapid: int) -> bool:
        """True if there was such a snapshot, and is no more."""
        if self.context is not None:
            return snapid <= self.seq and snapid not in self.context.snaps
        return any(first <= snapid < first + count for first, count in self.removed.items())

    def context_of(self, seq: int, snaps: list[int]) -> SnapContext:
        """Return the context of a write with which the client sent ``seq`` and ``snaps``."""
        if self.context is not None:
            return self.context
        return SnapContext(seq, tuple(snapid for snapid in snaps if not self.is_removed(snapid)))


@dataclass(frozen=True, slots=True)
class Clone:
    """An earlier state of an object."""

    snapid: int
    """The newest snapid when the clone was made."""
    snaps: tuple[int, ...]
    """The snapshots that it is for, newest first."""
    stored: "StoredObject"


@dataclass(frozen=True, slots=True)
class SnapSet:
    """The clones of an object, oldest first."""

    seq: int = 0
    """The newest snapid of any write so far."""
    clones: tuple[Clone, ...] = ()

    @property
    def is_consistent(self) -> bool:
        """True if the clones are in order, each for snapshots up to its own and later than the clone before."""
        earlier = 0
        for clone in self.clones:
            if clone.snapid > self.seq or not all(earlier < snapid <= clone.snapid for snapid in clone.snaps):
                return False
            earlier = clone.snapid
        return all(clone.snaps for clone in self.clones)

    @property
    def held_bytes(self) -> int:
        """Bytes of all clones that count against the capacity of the OSD."""
        return sum(clone.stored.held_bytes for clone in self.clones)

    def at(self, snapid: int, head: "StoredObject | None") -> "StoredObject | None":
        """Return the state in a snapshot; None if there was no object. ``head`` is the newest state."""
        if snapid > self.seq:
            return head
        clone = next((clone for clone in self.clones if clone.snapid >= snapid), None)
        return clone.stored if clone is not None and clone.snaps[-1] <= snapid else None

    def needs_clone(self, context: SnapContext, head: "StoredObject | None") -> bool:
        """True if a write makes a clone of the state before it."""
        return head is not None and bool(context.snaps) and context.snaps[0] > self.seq

    def written(self, context: SnapContext, head: "StoredObject | None") -> "SnapSet":
        """Return the clones after a write to the object, whose state before it was ``head``."""
        clones = self.clones
        if head is not None and self.needs_clone(context, head):
            preserved = tuple(snapid for snapid in context.snaps if snapid > self.seq)
            clones = (*clones, Clone(context.seq, preserved, head))
        return SnapSet(max(self.seq, context.seq), clones)

    def trimmed(self, is_removed: Callable[[int], bool]) -> "SnapSet":
        """Return it without the clones whose snapshots are all removed."""
        kept = ((clone, tuple(each for each in clone.snaps if not is_removed(each))) for clone in self.clones)
        return SnapSet(self.seq, tuple(replace(clone, snaps=snaps) for clone, snaps in kept if snaps))


def overlap(old: bytes, new: bytes) -> list[tuple[int, int]]:
    """Return offset and length of the parts that two states have in common, in whole blocks."""
    found: list[tuple[int, int]] = []
    common = min(len(old), len(new))
    if old[:common] == new[:common]:
        return [(0, common)] if common else []
    for start in range(0, common, _BLOCK_BYTES):
        end = min(start + _BLOCK_BYTES, common)
        if old[start:end] != new[start:end]:
            continue
        if found and sum(found[-1]) == start:
            found[-1] = (found[-1][0], end - found[-1][0])
        else:
            found.append((start, end - start))
    return found
