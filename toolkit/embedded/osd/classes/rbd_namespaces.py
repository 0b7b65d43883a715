"""Methods of the class ``rbd`` about the namespaces of a pool, and the state of their directories of images."""

import errno

from messenger.denc.codec import Decoder
from toolkit.embedded.osd.classes import method, omap
from toolkit.embedded.osd.work import OpError, Work

_NAME = "name_"
_READY, _CLOSED = 0, 1
"""States of a directory: images can be added, or not because it is about to be removed."""


@method("rbd", "namespace_add", writes=True)
def namespace_add(work: Work, given: Decoder) -> None:
    """Add a namespace; EEXIST: it exists."""
    key = _NAME + given.string()
    if work.draft is not None and key in work.draft.omap:
        raise OpError(errno.EEXIST)
    omap.put(work, {key: b""})


@method("rbd", "namespace_remove", writes=True)
def namespace_remove(work: Work, given: Decoder) -> None:
    """Remove a namespace."""
    key = _NAME + given.string()
    omap.value(work, key)
    omap.put(work, {}, (key,))


@method("rbd", "namespace_list")
def namespace_list(work: Work, given: Decoder) -> bytes:
    """Return namespaces, after a given one."""
    names = list(omap.page(work, _NAME, given))
    return omap.encoded_by(lambda encoder: encoder.sequence(names, encoder.string))


def _state(work: Work) -> int:
    kept = work.draft is not None and "state" in work.draft.omap
    return Decoder(omap.value(work, "state")).u8() if kept else _READY


def require_open(work: Work) -> None:
    """Raise OpError, EBUSY, if no images can be added to the directory."""
    if _state(work) == _CLOSED:
        raise OpError(errno.EBUSY)


@method("rbd", "dir_state_assert")
def dir_state_assert(work: Work, given: Decoder) -> None:
    """Check the state of a directory; EBUSY: it has another one."""
    work.existing()
    if _state(work) != given.u8():
        raise OpError(errno.EBUSY)


@method("rbd", "dir_state_set", writes=True)
def dir_state_set(work: Work, given: Decoder) -> None:
    """Open or close a directory, which is made if it does not exist; EBUSY: one with images is not closed."""
    state = given.u8()
    if state not in (_READY, _CLOSED):
        raise OpError(errno.EINVAL)
    if state == _CLOSED and omap.with_prefix(work, _NAME):
        raise OpError(errno.EBUSY)
    omap.put(work, {"state": bytes([state])})
