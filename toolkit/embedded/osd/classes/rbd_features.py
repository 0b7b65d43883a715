"""Methods of the class ``rbd`` about the features of an image, and the operations that it is part of."""

import errno
from enum import IntFlag

from messenger.denc.codec import Decoder
from toolkit.embedded.osd.classes import method, omap
from toolkit.embedded.osd.work import OpError, Work


class Feature(IntFlag):
    """Features of images."""

    LAYERING = 0x1
    STRIPING = 0x2
    EXCLUSIVE_LOCK = 0x4
    OBJECT_MAP = 0x8
    FAST_DIFF = 0x10
    DEEP_FLATTEN = 0x20
    JOURNALING = 0x40
    DATA_POOL = 0x80
    OPERATIONS = 0x100
    """Set while the image has operation features; clients do not set it themselves."""
    MIGRATING = 0x200
    NON_PRIMARY = 0x400


class Operation(IntFlag):
    """Operations that an image is part of, and that a client must know to change it."""

    CLONE_PARENT = 0x1
    CLONE_CHILD = 0x2
    GROUP = 0x4
    SNAP_TRASH = 0x8


READ_INCOMPATIBLE = Feature.LAYERING | Feature.STRIPING | Feature.DATA_POOL
"""Features that a client must support to read an image."""
WRITE_INCOMPATIBLE = ~Feature(0)
"""Features that a client must support to write an image: all of them."""
UNSUPPORTED = Feature.OBJECT_MAP | Feature.FAST_DIFF | Feature.JOURNALING
"""Features whose objects need methods that are not supported."""
_ENABLED_BY_CLIENTS = Feature.LAYERING | Feature.EXCLUSIVE_LOCK | Feature.DEEP_FLATTEN | Feature.NON_PRIMARY
_INTERNAL = Feature.OPERATIONS | Feature.MIGRATING


def require_supported(features: int) -> None:
    """Raise OpError, EOPNOTSUPP, if an image cannot have these features here."""
    if features & UNSUPPORTED:
        raise OpError(errno.EOPNOTSUPP)


@method("rbd", "set_features", writes=True)
def set_features(work: Work, given: Decoder) -> None:
    """Enable or disable features; EINVAL: clients cannot change one of them; EOPNOTSUPP: it is not supported."""
    features, mask = given.u64(), given.u64()
    before = omap.number(work, "features")
    after = before & ~mask | features & mask
    require_supported(after & ~before)
    if mask & _INTERNAL or (after & ~before) & ~_ENABLED_BY_CLIENTS:
        raise OpError(errno.EINVAL)
    omap.put(work, {"features": omap.u64(after)})


@method("rbd", "op_features_get")
def op_features_get(work: Work, _given: Decoder) -> bytes:
    """Return the operations that the image is part of."""
    return omap.u64(omap.number(work, "op_features", 0))


@method("rbd", "op_features_set", writes=True)
def op_features_set(work: Work, given: Decoder) -> None:
    """Set or clear operations; EINVAL: one is unknown."""
    operations, mask = given.u64(), given.u64()
    if mask & ~sum(Operation):
        raise OpError(errno.EINVAL)
    _set_operations(work, omap.number(work, "op_features", 0) & ~mask | operations & mask)


def mark(work: Work, operation: Operation, *, active: bool) -> None:
    """Set or clear an operation that the image is part of."""
    before = omap.number(work, "op_features", 0)
    _set_operations(work, before | operation if active else before & ~operation)


def _set_operations(work: Work, operations: int) -> None:
    features = omap.number(work, "features") & ~Feature.OPERATIONS
    features |= Feature.OPERATIONS if operations else 0
    omap.put(work, {"op_features": omap.u64(operations), "features": omap.u64(features)})
