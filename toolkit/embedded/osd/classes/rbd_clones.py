"""Methods of the class ``rbd`` that join an image to its parent, and a snapshot to its clones.

Since Mimic the header of a snapshot's image has its clones (``child_attach``); before, an object of the pool had
them (``add_child``).
"""

import errno
from dataclasses import dataclass, replace
from typing import ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I64, U64
from messenger.messages.layout import Enveloped
from messenger.messages.osd_objects import NOSNAP
from toolkit.embedded.osd.classes import method, omap, rbd_features
from toolkit.embedded.osd.classes.lock import encoded
from toolkit.embedded.osd.classes.rbd_features import Operation
from toolkit.embedded.osd.classes.rbd_snapshots import head_overlap, named, put_snapshot, snapshot, snapshots
from toolkit.embedded.osd.store import OBJECT_BYTES
from toolkit.embedded.osd.work import OpError, Work

_CHILDREN = "snap_children_"
_NO_POOL = -1


@dataclass(frozen=True, slots=True)
class ParentImage(Enveloped):
    """The snapshot that an image is a clone of."""

    VERSION: ClassVar = 1

    pool: I64 = _NO_POOL
    """Id of the pool; -1 without a parent."""
    namespace: str = ""
    image: str = ""
    """Id of the image."""
    snapid: U64 = NOSNAP


@dataclass(frozen=True, slots=True, order=True)
class ChildImage(Enveloped):
    """A clone of a snapshot."""

    VERSION: ClassVar = 2

    pool: I64
    image: str
    namespace: str = ""


# ---- the parent of an image


def _parent(work: Work) -> ParentImage:
    known = work.existing().omap.get("parent")
    return ParentImage() if known is None else ParentImage.decode(Decoder(known))


@method("rbd", "get_parent")
def get_parent(work: Work, given: Decoder) -> bytes:
    """Return the parent of the image or of a snapshot, and the overlap with it, as clients before Nautilus do."""
    overlap = _overlap(work, given)
    parent = _parent(work) if overlap is not None else ParentImage()

    def encode(encoder: Encoder) -> None:
        encoder.i64(parent.pool)
        encoder.string(parent.image)
        encoder.u64(parent.snapid)
        encoder.u64(overlap or 0)

    return omap.encoded_by(encode)


def _overlap(work: Work, given: Decoder) -> int | None:
    wanted = named(work, given)
    return head_overlap(work) if wanted is None else wanted.parent_overlap


@method("rbd", "parent_get")
def parent_get(work: Work, _given: Decoder) -> bytes:
    """Return the parent of the image."""
    return encoded(_parent(work))


@method("rbd", "parent_overlap_get")
def parent_overlap_get(work: Work, given: Decoder) -> bytes:
    """Return the number of bytes of the image or of a snapshot that come from the parent, if there is one."""
    overlap = _overlap(work, given)
    return b"\0" if overlap is None else b"\1" + omap.u64(overlap)


@method("rbd", "parent_attach", writes=True)
def parent_attach(work: Work, given: Decoder) -> None:
    """Make the image a clone; EEXIST: it is one of another snapshot, or at all unless it is attached again."""
    parent, overlap = ParentImage.decode(given), given.u64()
    again = bool(given.u8()) if given.remaining else False
    if parent.pool < 0 or not parent.image or parent.snapid == NOSNAP or not overlap:
        raise OpError(errno.EINVAL)
    known = _parent(work)
    if known.pool != _NO_POOL and (not again or known != parent):
        raise OpError(errno.EEXIST)
    omap.put(work, {"parent": encoded(parent), "parent_overlap": omap.u64(overlap)})


@method("rbd", "parent_detach", writes=True)
def parent_detach(work: Work, _given: Decoder) -> None:
    """Make the image independent; its snapshots keep the parent unless the image has deep-flatten."""
    omap.value(work, "parent")
    deep = bool(omap.number(work, "features") & rbd_features.Feature.DEEP_FLATTEN)
    for each in snapshots(work):
        if deep and each.parent_overlap is not None:
            put_snapshot(work, replace(each, parent_overlap=None))
    needed = any(each.parent_overlap is not None for each in snapshots(work))
    omap.put(work, {}, ("parent_overlap",) if needed else ("parent", "parent_overlap"))


# ---- the clones of a snapshot, which the snapshot's image keeps


def _children(work: Work, snapid: int) -> set[ChildImage]:
    known = work.existing().omap.get(f"{_CHILDREN}{snapid:016x}", bytes(4))
    decoder = Decoder(known)
    return set(decoder.sequence(lambda: ChildImage.decode(decoder), 6))


def _put_children(work: Work, snapid: int, children: set[ChildImage]) -> None:
    key = f"{_CHILDREN}{snapid:016x}"
    omap.put(work, {key: _encoded_children(children)}, () if children else (key,))
    put_snapshot(work, replace(snapshot(work, snapid), child_count=len(children)))
    has_clones = any(each.child_count for each in snapshots(work))
    rbd_features.mark(work, Operation.CLONE_PARENT, active=has_clones)


def _encoded_children(children: set[ChildImage]) -> bytes:
    return omap.encoded_by(
        lambda encoder: encoder.sequence(sorted(children), lambda each: each.encode(encoder, 0))
    )


@method("rbd", "child_attach", writes=True)
def child_attach(work: Work, given: Decoder) -> None:
    """Add a clone of a snapshot; EEXIST: it is known."""
    snapid, child = given.u64(), ChildImage.decode(given)
    snapshot(work, snapid)
    known = _children(work, snapid)
    if child in known:
        raise OpError(errno.EEXIST)
    _put_children(work, snapid, known | {child})


@method("rbd", "child_detach", writes=True)
def child_detach(work: Work, given: Decoder) -> None:
    """Remove a clone of a snapshot."""
    snapid, child = given.u64(), ChildImage.decode(given)
    snapshot(work, snapid)
    known = _children(work, snapid)
    if child not in known:
        raise OpError(errno.ENOENT)
    _put_children(work, snapid, known - {child})


@method("rbd", "children_list")
def children_list(work: Work, given: Decoder) -> bytes:
    """Return the clones of a snapshot; ENOENT: it has none."""
    children = _children(work, given.u64())
    if not children:
        raise OpError(errno.ENOENT)
    return _encoded_children(children)


# ---- the clones of all snapshots of a pool's images, which one object keeps


def _parent_key(given: Decoder) -> str:
    pool, image, snapid = given.i64(), given.string(), given.u64()
    return f"{pool & (1 << 64) - 1:016x}_{image}_{snapid:016x}"


def _images(work: Work, key: str) -> list[str]:
    decoder = Decoder(work.draft.omap.get(key, bytes(4)) if work.draft is not None else bytes(4))
    return decoder.sequence(decoder.string, 4)


def _put_images(work: Work, key: str, images: list[str]) -> None:
    kept = omap.encoded_by(lambda encoder: encoder.sequence(sorted(images), encoder.string))
    omap.put(work, {key: kept}, () if images else (key,))


@method("rbd", "add_child", writes=True)
def add_child(work: Work, given: Decoder) -> None:
    """Add a clone of a snapshot; EEXIST: it is known."""
    key, image = _parent_key(given), given.string()
    known = _images(work, key)
    if image in known:
        raise OpError(errno.EEXIST)
    _put_images(work, key, [*known, image])


@method("rbd", "remove_child", writes=True)
def remove_child(work: Work, given: Decoder) -> None:
    """Remove a clone of a snapshot."""
    key, image = _parent_key(given), given.string()
    known = _images(work, key)
    if image not in known:
        raise OpError(errno.ENOENT)
    _put_images(work, key, [each for each in known if each != image])


@method("rbd", "get_children")
def get_children(work: Work, given: Decoder) -> bytes:
    """Return the clones of a snapshot; ENOENT: it has none."""
    return omap.value(work, _parent_key(given))


# ---- data objects, which a clone copies from its parent before it changes them


@method("rbd", "copyup", writes=True)
def copyup(work: Work, given: Decoder) -> None:
    """Write the parent's data; no effect if the object exists."""
    if work.draft is None:
        work.change(data=bytes(given.rest()))


@method("rbd", "sparse_copyup", writes=True)
def sparse_copyup(work: Work, given: Decoder) -> None:
    """Write extents of the parent's data; no effect if the object exists; EINVAL: they do not fit the data."""
    extents, data = given.mapping(given.u64, given.u64, 16), given.blob()
    if work.draft is not None:
        return
    if sum(extents.values()) != len(data):
        raise OpError(errno.EINVAL)
    made, position = b"", 0
    for offset, length in sorted(extents.items()):
        if offset + length > OBJECT_BYTES:
            raise OpError(errno.EFBIG)
        made = made.ljust(offset, b"\0") + data[position : position + length]
        position += length
    work.change(data=made)


@method("rbd", "assert_snapc_seq")
def assert_snapc_seq(work: Work, given: Decoder) -> None:
    """Check the newest snapid of the writes to the object; ERANGE: the given one is not above, or is."""
    seq, below = given.u64(), given.u8()
    known = work.group.snapsets.get(work.key)
    is_above = work.draft is None or known is None or seq > known.seq
    if is_above == bool(below):
        raise OpError(errno.ERANGE)
