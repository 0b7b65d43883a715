"""Methods of the class ``rbd`` about the snapshots of an image, and about its properties in a snapshot."""

import errno
from dataclasses import dataclass, replace
from typing import ClassVar
from uuid import UUID

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import U8, U32, U64
from messenger.denc.utime import UTime
from messenger.messages.layout import Enveloped, RawEnvelope
from messenger.messages.osd_objects import NOSNAP
from toolkit.embedded.osd.classes import method, omap, rbd_features
from toolkit.embedded.osd.classes.lock import encoded
from toolkit.embedded.osd.classes.rbd_features import READ_INCOMPATIBLE, WRITE_INCOMPATIBLE, Operation
from toolkit.embedded.osd.work import OpError, Work

_PREFIX = "snapshot_"
_NO_LIMIT = (1 << 64) - 1
_USER, _TRASH = 0, 2
"""Namespaces of snapshots: made by users, and deleted while it has clones."""
_UNPROTECTED, _PROTECTED = 0, 2
_USER_NAMESPACE = bytes.fromhex("010104000000" + "00000000")


@dataclass(frozen=True, slots=True)
class ImageSnapshot(Enveloped):
    """A snapshot of an image, as the header keeps it."""

    VERSION: ClassVar = 1

    id: U64
    namespace: RawEnvelope
    name: str
    size_bytes: U64
    features: U64
    timestamp: UTime
    flags: U64 = 0
    protection: U8 = _UNPROTECTED
    """0 unprotected, 1 about to be, 2 protected."""
    child_count: U32 = 0
    """Number of clones that are attached to it."""
    parent_overlap: U64 | None = None
    """Number of bytes that come from the parent image; None without a parent."""

    @property
    def kind(self) -> int:
        """Type of its namespace."""
        return Decoder(self.namespace).versioned(1).u32()


def _key(snapid: int) -> str:
    return f"{_PREFIX}{snapid:016x}"


def snapshots(work: Work) -> list[ImageSnapshot]:
    """Return the snapshots of an image, the oldest first."""
    return [ImageSnapshot.decode(Decoder(each)) for each in omap.with_prefix(work, _PREFIX)]


def snapshot(work: Work, snapid: int) -> ImageSnapshot:
    """Return a snapshot; raises OpError, ENOENT."""
    return ImageSnapshot.decode(Decoder(omap.value(work, _key(snapid))))


def put_snapshot(work: Work, changed: ImageSnapshot) -> None:
    """Replace a snapshot."""
    omap.put(work, {_key(changed.id): encoded(changed)})


def named(work: Work, given: Decoder) -> ImageSnapshot | None:
    """Return the snapshot that a request names; None for the image itself. Raises OpError, ENOENT."""
    snapid = given.u64() if given.remaining else NOSNAP
    work.existing()
    return None if snapid == NOSNAP else snapshot(work, snapid)


# ---- properties of the image, or of one of its snapshots


@method("rbd", "get_size")
def get_size(work: Work, given: Decoder) -> bytes:
    """Return the order of the object size (object size is ``1 << order``), and the size of the image in bytes."""
    wanted = named(work, given)
    return omap.value(work, "order") + (omap.u64(wanted.size_bytes) if wanted else omap.value(work, "size"))


@method("rbd", "get_features")
def get_features(work: Work, given: Decoder) -> bytes:
    """Return the features, and those that a client must support to read the image, or to write it."""
    wanted = named(work, given)
    reads = bool(given.u8()) if given.remaining else False
    features = wanted.features if wanted else omap.number(work, "features")
    return omap.u64(features) + omap.u64(features & (READ_INCOMPATIBLE if reads else WRITE_INCOMPATIBLE))


@method("rbd", "get_flags")
def get_flags(work: Work, given: Decoder) -> bytes:
    """Return the flags, which mark an object map as invalid."""
    wanted = named(work, given)
    return omap.u64(wanted.flags if wanted else omap.number(work, "flags", 0))


@method("rbd", "set_flags", writes=True)
def set_flags(work: Work, given: Decoder) -> None:
    """Set or clear flags."""
    flags, mask = given.u64(), given.u64()
    wanted = named(work, given)
    if wanted is not None:
        put_snapshot(work, replace(wanted, flags=wanted.flags & ~mask | flags & mask))
    else:
        omap.put(work, {"flags": omap.u64(omap.number(work, "flags", 0) & ~mask | flags & mask)})


# ---- snapshots


@method("rbd", "get_snapcontext")
def get_snapcontext(work: Work, _given: Decoder) -> bytes:
    """Return the id of the newest snapshot so far, and the ids of all that exist, newest first."""
    ids = sorted((each.id for each in snapshots(work)), reverse=True)
    return omap.value(work, "snap_seq") + omap.encoded_by(lambda encoder: encoder.sequence(ids, encoder.u64))


@method("rbd", "snapshot_add", writes=True)
def snapshot_add(work: Work, given: Decoder) -> None:
    """Add a snapshot of the image as it is.

    Raises:
        OpError: ESTALE: there has been a newer one; EEXIST: its name is taken; EDQUOT: there are too many.
    """
    name, snapid = given.string(), given.u64()
    namespace = given.rest() if given.remaining else _USER_NAMESPACE
    known = snapshots(work)
    if snapid < omap.number(work, "snap_seq"):
        raise OpError(errno.ESTALE)
    if len(known) >= omap.number(work, "snap_limit", _NO_LIMIT):
        raise OpError(errno.EDQUOT)
    if any(each.id == snapid or (each.name, each.namespace) == (name, namespace) for each in known):
        raise OpError(errno.EEXIST)
    new = ImageSnapshot(
        id=snapid,
        namespace=namespace,
        name=name,
        size_bytes=omap.number(work, "size"),
        features=omap.number(work, "features"),
        flags=omap.number(work, "flags", 0),
        timestamp=work.request.mtime,
        parent_overlap=head_overlap(work),
    )
    omap.put(work, {_key(snapid): encoded(new), "snap_seq": omap.u64(snapid)})


def head_overlap(work: Work) -> int | None:
    """Return the number of bytes of the image that come from its parent; None without a parent."""
    return omap.number(work, "parent_overlap") if "parent_overlap" in work.existing().omap else None


@method("rbd", "snapshot_get")
def snapshot_get(work: Work, given: Decoder) -> bytes:
    """Return a snapshot."""
    wanted = snapshot(work, given.u64())

    def encode(encoder: Encoder) -> None:
        with encoder.versioned(1, 1):
            encoder.u64(wanted.id)
            encoder.raw(wanted.namespace)
            encoder.string(wanted.name)
            encoder.u64(wanted.size_bytes)
            wanted.timestamp.encode(encoder)
            encoder.u32(wanted.child_count)

    return omap.encoded_by(encode)


@method("rbd", "get_snapshot_name")
def get_snapshot_name(work: Work, given: Decoder) -> bytes:
    """Return the name of a snapshot."""
    return omap.string(snapshot(work, given.u64()).name)


@method("rbd", "get_snapshot_timestamp")
def get_snapshot_timestamp(work: Work, given: Decoder) -> bytes:
    """Return the time at which a snapshot was made."""
    return omap.time(snapshot(work, given.u64()).timestamp)


@method("rbd", "get_snapshot_namespace")
def get_snapshot_namespace(work: Work, given: Decoder) -> bytes:
    """Return the namespace of a snapshot."""
    return snapshot(work, given.u64()).namespace


@method("rbd", "snapshot_rename", writes=True)
def snapshot_rename(work: Work, given: Decoder) -> None:
    """Rename a snapshot; EEXIST: the name is taken; EINVAL: no user made the snapshot."""
    wanted, name = snapshot(work, given.u64()), given.string()
    if any((each.kind, each.name) == (wanted.kind, name) and each.id != wanted.id for each in snapshots(work)):
        raise OpError(errno.EEXIST)
    if wanted.kind != _USER:
        raise OpError(errno.EINVAL)
    put_snapshot(work, replace(wanted, name=name))


@method("rbd", "snapshot_remove", writes=True)
def snapshot_remove(work: Work, given: Decoder) -> None:
    """Remove a snapshot; EBUSY: it is protected, or has clones."""
    wanted = snapshot(work, given.u64())
    if wanted.protection != _UNPROTECTED or wanted.child_count:
        raise OpError(errno.EBUSY)
    omap.put(work, {}, (_key(wanted.id),))
    _mark_trash(work)


@method("rbd", "snapshot_trash_add", writes=True)
def snapshot_trash_add(work: Work, given: Decoder) -> None:
    """Delete a snapshot for users, until its clones are gone; EEXIST: it is deleted; EBUSY: it is protected."""
    wanted = snapshot(work, given.u64())
    if wanted.kind == _TRASH:
        raise OpError(errno.EEXIST)
    if wanted.protection != _UNPROTECTED:
        raise OpError(errno.EBUSY)

    def encode(encoder: Encoder) -> None:
        with encoder.versioned(1, 1):
            encoder.u32(_TRASH)
            encoder.string(wanted.name)
            encoder.u32(wanted.kind)

    unique = str(UUID(int=wanted.id))  # no user gives a snapshot such a name, and ids are not reused
    put_snapshot(work, replace(wanted, namespace=omap.encoded_by(encode), name=unique))
    _mark_trash(work)


def _mark_trash(work: Work) -> None:
    rbd_features.mark(work, Operation.SNAP_TRASH, active=any(each.kind == _TRASH for each in snapshots(work)))


@method("rbd", "get_protection_status")
def get_protection_status(work: Work, given: Decoder) -> bytes:
    """Return whether a snapshot is protected; EINVAL: no snapshot is named."""
    wanted = named(work, given)
    if wanted is None:
        raise OpError(errno.EINVAL)
    return bytes([wanted.protection])


@method("rbd", "set_protection_status", writes=True)
def set_protection_status(work: Work, given: Decoder) -> None:
    """Protect a snapshot from removal, or not; EINVAL: the status is unknown."""
    wanted, status = named(work, given), given.u8()
    if wanted is None or status > _PROTECTED:
        raise OpError(errno.EINVAL)
    put_snapshot(work, replace(wanted, protection=status))


@method("rbd", "snapshot_get_limit")
def snapshot_get_limit(work: Work, _given: Decoder) -> bytes:
    """Return the maximum number of snapshots."""
    return omap.u64(omap.number(work, "snap_limit", _NO_LIMIT))


@method("rbd", "snapshot_set_limit", writes=True)
def snapshot_set_limit(work: Work, given: Decoder) -> None:
    """Limit the number of snapshots; ERANGE: there are more."""
    limit = given.u64()
    if len(snapshots(work)) > limit:
        raise OpError(errno.ERANGE)
    if limit == _NO_LIMIT:
        omap.put(work, {}, ("snap_limit",))
    else:
        omap.put(work, {"snap_limit": omap.u64(limit)})
