"""The class ``rbd``: directories, headers and metadata of images, and the trash."""

import errno
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import U8, Since
from messenger.denc.utime import UTime
from messenger.messages.layout import Enveloped
from toolkit.embedded.osd.classes import method, omap
from toolkit.embedded.osd.classes.lock import encoded
from toolkit.embedded.osd.classes.rbd_features import Feature, require_supported
from toolkit.embedded.osd.classes.rbd_namespaces import require_open
from toolkit.embedded.osd.classes.rbd_snapshots import head_overlap
from toolkit.embedded.osd.work import OpError, Work

_NAME, _ID, _METADATA = "name_", "id_", "metadata_"
_NO_POOL = -1


@dataclass(frozen=True, slots=True)
class TrashImage(Enveloped):
    """An image in the trash."""

    VERSION: ClassVar = 2

    source: U8
    """0 if a user moved it there; other values are for mirroring, migration and removal."""
    name: str
    deleted: UTime
    deferred_until: UTime
    state: Annotated[U8, Since(2)] = 0
    """0 normal, 1 moving, 2 removing, 3 restoring."""


# ---- the directory of a pool's images


@method("rbd", "dir_add_image", writes=True)
def dir_add_image(work: Work, given: Decoder) -> None:
    """Add an image; EEXIST: its name is taken; EBADF: its id is taken."""
    name, image = given.string(), given.string()
    require_open(work)
    known = work.draft.omap if work.draft is not None else {}
    if _NAME + name in known:
        raise OpError(errno.EEXIST)
    if _ID + image in known:
        raise OpError(errno.EBADF)
    omap.put(work, {_NAME + name: omap.string(image), _ID + image: omap.string(name)})


@method("rbd", "dir_remove_image", writes=True)
def dir_remove_image(work: Work, given: Decoder) -> None:
    """Remove an image; ESTALE: name and id belong to different images."""
    name, image = given.string(), given.string()
    if omap.value(work, _NAME + name) != omap.string(image) or omap.value(work, _ID + image) != omap.string(name):
        raise OpError(errno.ESTALE)
    omap.put(work, {}, (_NAME + name, _ID + image))


@method("rbd", "dir_rename_image", writes=True)
def dir_rename_image(work: Work, given: Decoder) -> None:
    """Rename an image; ESTALE: name and id belong to different images; EEXIST: the new name is taken."""
    old, new, image = given.string(), given.string(), given.string()
    if omap.value(work, _NAME + old) != omap.string(image):
        raise OpError(errno.ESTALE)
    if _NAME + new in work.existing().omap:
        raise OpError(errno.EEXIST)
    omap.put(work, {_NAME + new: omap.string(image), _ID + image: omap.string(new)}, (_NAME + old,))


@method("rbd", "dir_list")
def dir_list(work: Work, given: Decoder) -> bytes:
    """Return names and ids of images, after a given name."""
    entries = omap.page(work, _NAME, given)
    return omap.encoded_by(lambda e: e.mapping(entries, e.string, e.raw))


@method("rbd", "dir_get_id")
def dir_get_id(work: Work, given: Decoder) -> bytes:
    """Return the id of the image with a name."""
    return omap.value(work, _NAME + given.string())


@method("rbd", "dir_get_name")
def dir_get_name(work: Work, given: Decoder) -> bytes:
    """Return the name of the image with an id."""
    return omap.value(work, _ID + given.string())


# ---- the id of an image


@method("rbd", "set_id", writes=True)
def set_id(work: Work, given: Decoder) -> None:
    """Write the image's id; EEXIST: it has one."""
    if work.draft is not None and work.draft.data:
        raise OpError(errno.EEXIST)
    work.change(data=omap.string(given.string()))


@method("rbd", "get_id")
def get_id(work: Work, _given: Decoder) -> bytes:
    """Return the image's id; ENOENT: it has none."""
    data = work.existing().data
    if not data:
        raise OpError(errno.ENOENT)
    return data


# ---- the header of an image


@method("rbd", "create", writes=True)
def create(work: Work, given: Decoder) -> None:
    """Create the header.

    Raises:
        OpError: EEXIST: it exists; EINVAL: the object prefix is empty; EOPNOTSUPP: a feature is not supported.
    """
    size, order, features, prefix = given.u64(), given.u8(), given.u64(), given.string()
    data_pool = given.i64() if given.remaining else _NO_POOL
    if not prefix:
        raise OpError(errno.EINVAL)
    require_supported(features)
    if work.draft is not None and "object_prefix" in work.draft.omap:
        raise OpError(errno.EEXIST)
    now = omap.time(work.request.mtime)
    values = {
        "size": omap.u64(size),
        "order": bytes([order]),
        "features": omap.u64(features),
        "snap_seq": omap.u64(0),
    }
    values |= {"object_prefix": omap.string(prefix), **dict.fromkeys(_TIMES, now)}
    if data_pool != _NO_POOL:
        values["data_pool_id"] = omap.encoded_by(lambda encoder: encoder.i64(data_pool))
    omap.put(work, values)


_TIMES = ("create_timestamp", "access_timestamp", "modify_timestamp")


@method("rbd", "set_size", writes=True)
def set_size(work: Work, given: Decoder) -> None:
    """Change the size of the image; it shares no more than that with its parent."""
    size_bytes, overlap = given.u64(), head_overlap(work)
    omap.value(work, "size")
    shared = {} if overlap is None else {"parent_overlap": omap.u64(min(overlap, size_bytes))}
    omap.put(work, {"size": omap.u64(size_bytes), **shared})


@method("rbd", "get_object_prefix")
def get_object_prefix(work: Work, _given: Decoder) -> bytes:
    """Return the prefix of the data objects' names."""
    return omap.value(work, "object_prefix")


@method("rbd", "get_stripe_unit_count")
def get_stripe_unit_count(work: Work, _given: Decoder) -> bytes:
    """Return stripe unit and count; ENOEXEC unless the image is striped."""
    if not omap.number(work, "features") & Feature.STRIPING:
        raise OpError(errno.ENOEXEC)
    return omap.value(work, "stripe_unit") + omap.value(work, "stripe_count")


@method("rbd", "set_stripe_unit_count", writes=True)
def set_stripe_unit_count(work: Work, given: Decoder) -> None:
    """Set stripe unit and count."""
    omap.value(work, "features")
    omap.put(work, {"stripe_unit": omap.u64(given.u64()), "stripe_count": omap.u64(given.u64())})


@method("rbd", "get_data_pool")
def get_data_pool(work: Work, _given: Decoder) -> bytes:
    """Return the id of the data pool; -1 if data is in the image's own pool."""
    none = omap.encoded_by(lambda encoder: encoder.i64(_NO_POOL))
    return work.existing().omap.get("data_pool_id", none)


@method("rbd", "image_group_get")
def image_group_get(work: Work, _given: Decoder) -> bytes:
    """Return the group of the image: none."""
    work.existing()

    def encode(encoder: Encoder) -> None:
        with encoder.versioned(1, 1):
            encoder.i64(_NO_POOL)
            encoder.string("")

    return omap.encoded_by(encode)


def _time_methods(name: str) -> None:
    @method("rbd", f"get_{name}")
    def get(work: Work, _given: Decoder) -> bytes:
        return work.existing().omap.get(name, bytes(8))

    @method("rbd", f"set_{name}", writes=True)
    def put(work: Work, _given: Decoder) -> None:
        omap.value(work, "object_prefix")
        omap.put(work, {name: omap.time(work.request.mtime)})


for _each in _TIMES:
    _time_methods(_each)


# ---- metadata of images and pools


@method("rbd", "metadata_list")
def metadata_list(work: Work, given: Decoder) -> bytes:
    """Return metadata, after a given key."""
    entries = omap.page(work, _METADATA, given)
    return omap.encoded_by(lambda e: e.mapping(entries, e.string, e.blob))


@method("rbd", "metadata_get")
def metadata_get(work: Work, given: Decoder) -> bytes:
    """Return one value."""
    value = omap.value(work, _METADATA + given.string())
    return omap.encoded_by(lambda encoder: encoder.blob(value))


@method("rbd", "metadata_set", writes=True)
def metadata_set(work: Work, given: Decoder) -> None:
    """Set values."""
    values = given.mapping(given.string, given.blob, 8)
    omap.put(work, {_METADATA + key: value for key, value in values.items()})


@method("rbd", "metadata_remove", writes=True)
def metadata_remove(work: Work, given: Decoder) -> None:
    """Remove a value."""
    key = _METADATA + given.string()
    omap.value(work, key)
    omap.put(work, {}, (key,))


# ---- the trash: ``rbd rm`` moves an image there before it deletes its objects


@method("rbd", "trash_add", writes=True)
def trash_add(work: Work, given: Decoder) -> None:
    """Add an image; EEXIST: it is there already."""
    key = _ID + given.string()
    if work.draft is not None and key in work.draft.omap:
        raise OpError(errno.EEXIST)
    omap.put(work, {key: encoded(TrashImage.decode(given))})


@method("rbd", "trash_state_set", writes=True)
def trash_state_set(work: Work, given: Decoder) -> None:
    """Change the state of an image; ESTALE unless it has the new or the expected state."""
    key, wanted, expected = _ID + given.string(), given.u8(), given.u8()
    image = TrashImage.decode(Decoder(omap.value(work, key)))
    if image.state not in (wanted, expected):
        raise OpError(errno.ESTALE)
    omap.put(work, {key: encoded(replace(image, state=wanted))})


@method("rbd", "trash_remove", writes=True)
def trash_remove(work: Work, given: Decoder) -> None:
    """Remove an image."""
    key = _ID + given.string()
    omap.value(work, key)
    omap.put(work, {}, (key,))


@method("rbd", "trash_get")
def trash_get(work: Work, given: Decoder) -> bytes:
    """Return one image."""
    return omap.value(work, _ID + given.string())


@method("rbd", "trash_list")
def trash_list(work: Work, given: Decoder) -> bytes:
    """Return images, after a given id."""
    entries = omap.page(work, _ID, given)
    return omap.encoded_by(lambda e: e.mapping(entries, e.string, e.raw))


# ---- methods on objects that are never written: mirroring, groups and the like


def _nothing(work: Work, _given: Decoder) -> bytes:
    work.existing()
    raise OpError(errno.ENOENT)


for _name in (
    *("mirror_mode_get", "mirror_uuid_get", "mirror_image_get", "mirror_image_list"),
    *("mirror_peer_list", "group_dir_list", "migration_get"),
):
    method("rbd", _name)(_nothing)
