"""The class ``rbd``, as far as images without snapshots, clones and mirroring need it."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import U8, Since
from messenger.denc.utime import UTime
from messenger.messages.layout import Enveloped
from messenger.messages.osd_objects import NOSNAP
from toolkit.embedded.osd.attribute_ops import in_order
from toolkit.embedded.osd.classes import method
from toolkit.embedded.osd.classes.lock import encoded
from toolkit.embedded.osd.work import OpError, Work

_NAME, _ID, _METADATA = "name_", "id_", "metadata_"
_NO_POOL = -1
_MOST_ENTRIES = 1024
_INCOMPATIBLE = 0x1 | 0x2 | 0x80
"""Features that a client must support to open an image: layering, striping, a data pool."""
_STRIPING = 0x2


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


def _encoded(encode: Callable[[Encoder], Any]) -> bytes:
    encoder = Encoder()
    encode(encoder)
    return encoder.getvalue()


def _u64(value: int) -> bytes:
    return _encoded(lambda encoder: encoder.u64(value))


def _string(text: str) -> bytes:
    return _encoded(lambda encoder: encoder.string(text))


def _time(moment: UTime) -> bytes:
    return _encoded(moment.encode)


def _value(work: Work, key: str) -> bytes:
    """Return the value of an omap key; raises OpError, ENOENT."""
    value = work.existing().omap.get(key)
    if value is None:
        raise OpError(errno.ENOENT)
    return value


def _put(work: Work, **values: bytes) -> None:
    known = work.draft.omap if work.draft is not None else {}
    work.change(omap={**known, **values})


def _put_keys(work: Work, values: dict[str, bytes], removed: tuple[str, ...] = ()) -> None:
    known = work.draft.omap if work.draft is not None else {}
    work.change(omap={key: value for key, value in {**known, **values}.items() if key not in removed})


def _page(work: Work, prefix: str, given: Decoder) -> dict[str, bytes]:
    """Return up to the requested number of entries with a prefix after a given key; keys lack the prefix."""
    start, most = given.string(), given.u64()
    omap = work.existing().omap
    keys = [key for key in in_order(omap) if key.startswith(prefix) and key > prefix + start]
    return {key.removeprefix(prefix): omap[key] for key in keys[: most or _MOST_ENTRIES]}


# ---- the directory of a pool's images


@method("rbd", "dir_add_image", writes=True)
def dir_add_image(work: Work, given: Decoder) -> None:
    """Add an image; EEXIST: its name is taken; EBADF: its id is taken."""
    name, image = given.string(), given.string()
    omap = work.draft.omap if work.draft is not None else {}
    if _NAME + name in omap:
        raise OpError(errno.EEXIST)
    if _ID + image in omap:
        raise OpError(errno.EBADF)
    _put_keys(work, {_NAME + name: _string(image), _ID + image: _string(name)})


@method("rbd", "dir_remove_image", writes=True)
def dir_remove_image(work: Work, given: Decoder) -> None:
    """Remove an image; ESTALE: name and id belong to different images."""
    name, image = given.string(), given.string()
    if _value(work, _NAME + name) != _string(image) or _value(work, _ID + image) != _string(name):
        raise OpError(errno.ESTALE)
    _put_keys(work, {}, (_NAME + name, _ID + image))


@method("rbd", "dir_rename_image", writes=True)
def dir_rename_image(work: Work, given: Decoder) -> None:
    """Rename an image; ESTALE: name and id belong to different images; EEXIST: the new name is taken."""
    old, new, image = given.string(), given.string(), given.string()
    if _value(work, _NAME + old) != _string(image):
        raise OpError(errno.ESTALE)
    if _NAME + new in work.existing().omap:
        raise OpError(errno.EEXIST)
    _put_keys(work, {_NAME + new: _string(image), _ID + image: _string(new)}, (_NAME + old,))


@method("rbd", "dir_list")
def dir_list(work: Work, given: Decoder) -> bytes:
    """Return names and ids of images, after a given name."""
    entries = _page(work, _NAME, given)
    return _encoded(lambda e: e.mapping(entries, e.string, e.raw))


@method("rbd", "dir_get_id")
def dir_get_id(work: Work, given: Decoder) -> bytes:
    """Return the id of the image with a name."""
    return _value(work, _NAME + given.string())


@method("rbd", "dir_get_name")
def dir_get_name(work: Work, given: Decoder) -> bytes:
    """Return the name of the image with an id."""
    return _value(work, _ID + given.string())


# ---- the id of an image


@method("rbd", "set_id", writes=True)
def set_id(work: Work, given: Decoder) -> None:
    """Write the image's id; EEXIST: it has one."""
    if work.draft is not None and work.draft.data:
        raise OpError(errno.EEXIST)
    work.change(data=_string(given.string()))


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
    """Create the header; EEXIST: it exists; EINVAL: the object prefix is empty."""
    size, order, features, prefix = given.u64(), given.u8(), given.u64(), given.string()
    data_pool = given.i64() if given.remaining else _NO_POOL
    if not prefix:
        raise OpError(errno.EINVAL)
    if work.draft is not None and "object_prefix" in work.draft.omap:
        raise OpError(errno.EEXIST)
    now = _time(work.request.mtime)
    values = {"size": _u64(size), "order": bytes([order]), "features": _u64(features), "snap_seq": _u64(0)}
    values |= {"object_prefix": _string(prefix), **dict.fromkeys(_TIMES, now)}
    if data_pool != _NO_POOL:
        values["data_pool_id"] = _encoded(lambda encoder: encoder.i64(data_pool))
    _put(work, **values)


_TIMES = ("create_timestamp", "access_timestamp", "modify_timestamp")


@method("rbd", "get_size")
def get_size(work: Work, given: Decoder) -> bytes:
    """Return the order of the object size (object size is ``1 << order``), and the size of the image in bytes."""
    _require_head(given)
    return _value(work, "order") + _value(work, "size")


@method("rbd", "set_size", writes=True)
def set_size(work: Work, given: Decoder) -> None:
    """Change the size of the image."""
    _value(work, "size")
    _put(work, size=_u64(given.u64()))


@method("rbd", "get_object_prefix")
def get_object_prefix(work: Work, _given: Decoder) -> bytes:
    """Return the prefix of the data objects' names."""
    return _value(work, "object_prefix")


@method("rbd", "get_features")
def get_features(work: Work, given: Decoder) -> bytes:
    """Return the features, and those that a client must support."""
    _require_head(given)
    features = int.from_bytes(_value(work, "features"), "little")
    return _u64(features) + _u64(features & _INCOMPATIBLE)


@method("rbd", "get_flags")
def get_flags(work: Work, given: Decoder) -> bytes:
    """Return the flags: none."""
    _require_head(given)
    work.existing()
    return _u64(0)


@method("rbd", "op_features_get")
def op_features_get(work: Work, _given: Decoder) -> bytes:
    """Return the features in use: none."""
    work.existing()
    return _u64(0)


@method("rbd", "get_stripe_unit_count")
def get_stripe_unit_count(work: Work, _given: Decoder) -> bytes:
    """Return stripe unit and count; ENOEXEC unless the image is striped."""
    if not int.from_bytes(_value(work, "features"), "little") & _STRIPING:
        raise OpError(errno.ENOEXEC)
    return _value(work, "stripe_unit") + _value(work, "stripe_count")


@method("rbd", "set_stripe_unit_count", writes=True)
def set_stripe_unit_count(work: Work, given: Decoder) -> None:
    """Set stripe unit and count."""
    _value(work, "features")
    _put(work, stripe_unit=_u64(given.u64()), stripe_count=_u64(given.u64()))


@method("rbd", "get_snapcontext")
def get_snapcontext(work: Work, _given: Decoder) -> bytes:
    """Return the snapshots: none."""
    return _value(work, "snap_seq") + bytes(4)


@method("rbd", "get_parent")
def get_parent(work: Work, given: Decoder) -> bytes:
    """Return the parent: none."""
    _require_head(given)
    work.existing()

    def encode(encoder: Encoder) -> None:
        encoder.i64(_NO_POOL)
        encoder.string("")
        encoder.u64(NOSNAP)
        encoder.u64(0)

    return _encoded(encode)


@method("rbd", "parent_get")
def parent_get(work: Work, _given: Decoder) -> bytes:
    """Return the parent, which is none, in the encoding since Nautilus."""
    work.existing()

    def encode(encoder: Encoder) -> None:
        with encoder.versioned(1, 1):
            encoder.i64(_NO_POOL)
            encoder.string("")
            encoder.string("")
            encoder.u64(NOSNAP)

    return _encoded(encode)


@method("rbd", "parent_overlap_get")
def parent_overlap_get(work: Work, given: Decoder) -> bytes:
    """Return the overlap with the parent: none."""
    _require_head(given)
    work.existing()
    return bytes(1)


@method("rbd", "get_data_pool")
def get_data_pool(work: Work, _given: Decoder) -> bytes:
    """Return the id of the data pool; -1 if data is in the image's own pool."""
    none = _encoded(lambda encoder: encoder.i64(_NO_POOL))
    return work.existing().omap.get("data_pool_id", none)


@method("rbd", "image_group_get")
def image_group_get(work: Work, _given: Decoder) -> bytes:
    """Return the group of the image: none."""
    work.existing()

    def encode(encoder: Encoder) -> None:
        with encoder.versioned(1, 1):
            encoder.i64(_NO_POOL)
            encoder.string("")

    return _encoded(encode)


def _time_methods(name: str) -> None:
    @method("rbd", f"get_{name}")
    def get(work: Work, _given: Decoder) -> bytes:
        return work.existing().omap.get(name, bytes(8))

    @method("rbd", f"set_{name}", writes=True)
    def put(work: Work, _given: Decoder) -> None:
        _value(work, "object_prefix")
        _put_keys(work, {name: _time(work.request.mtime)})


for _each in _TIMES:
    _time_methods(_each)


def _require_head(given: Decoder) -> None:
    """Raise OpError, ENOENT, if a request names a snapshot: there are none."""
    if given.remaining and given.u64() != NOSNAP:
        raise OpError(errno.ENOENT)


# ---- metadata of images and pools


@method("rbd", "metadata_list")
def metadata_list(work: Work, given: Decoder) -> bytes:
    """Return metadata, after a given key."""
    entries = _page(work, _METADATA, given)
    return _encoded(lambda e: e.mapping(entries, e.string, e.blob))


@method("rbd", "metadata_get")
def metadata_get(work: Work, given: Decoder) -> bytes:
    """Return one value."""
    value = _value(work, _METADATA + given.string())
    return _encoded(lambda encoder: encoder.blob(value))


@method("rbd", "metadata_set", writes=True)
def metadata_set(work: Work, given: Decoder) -> None:
    """Set values."""
    values = given.mapping(given.string, given.blob, 8)
    _put_keys(work, {_METADATA + key: value for key, value in values.items()})


@method("rbd", "metadata_remove", writes=True)
def metadata_remove(work: Work, given: Decoder) -> None:
    """Remove a value."""
    key = _METADATA + given.string()
    _value(work, key)
    _put_keys(work, {}, (key,))


# ---- the trash: ``rbd rm`` moves an image there before it deletes its objects


@method("rbd", "trash_add", writes=True)
def trash_add(work: Work, given: Decoder) -> None:
    """Add an image; EEXIST: it is there already."""
    key = _ID + given.string()
    if work.draft is not None and key in work.draft.omap:
        raise OpError(errno.EEXIST)
    _put_keys(work, {key: encoded(TrashImage.decode(given))})


@method("rbd", "trash_state_set", writes=True)
def trash_state_set(work: Work, given: Decoder) -> None:
    """Change the state of an image; ESTALE unless it has the new or the expected state."""
    key, wanted, expected = _ID + given.string(), given.u8(), given.u8()
    image = TrashImage.decode(Decoder(_value(work, key)))
    if image.state not in (wanted, expected):
        raise OpError(errno.ESTALE)
    _put_keys(work, {key: encoded(replace(image, state=wanted))})


@method("rbd", "trash_remove", writes=True)
def trash_remove(work: Work, given: Decoder) -> None:
    """Remove an image."""
    key = _ID + given.string()
    _value(work, key)
    _put_keys(work, {}, (key,))


@method("rbd", "trash_get")
def trash_get(work: Work, given: Decoder) -> bytes:
    """Return one image."""
    return _value(work, _ID + given.string())


@method("rbd", "trash_list")
def trash_list(work: Work, given: Decoder) -> bytes:
    """Return images, after a given id."""
    entries = _page(work, _ID, given)
    return _encoded(lambda e: e.mapping(entries, e.string, e.raw))


# ---- methods on objects that are never written: mirroring, groups and the like


def _nothing(work: Work, _given: Decoder) -> bytes:
    work.existing()
    raise OpError(errno.ENOENT)


for _name in (
    *("mirror_mode_get", "mirror_uuid_get", "mirror_image_get", "mirror_image_list"),
    *("mirror_peer_list", "group_dir_list", "get_children", "children_list", "namespace_list", "migration_get"),
):
    method("rbd", _name)(_nothing)
