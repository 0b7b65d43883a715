"""The class ``hello``, Ceph's example of an object class; the tests of client libraries call it."""

import errno

from messenger.denc.codec import Decoder
from toolkit.embedded.osd.classes import method
from toolkit.embedded.osd.work import OpError, Work

_LONGEST_BYTES = 100


@method("hello", "say_hello")
def say_hello(_work: Work, given: Decoder) -> bytes:
    """Return a greeting; EINVAL: the name is longer than 100 bytes."""
    return _greeting(given)


def _greeting(given: Decoder) -> bytes:
    if given.remaining > _LONGEST_BYTES:
        raise OpError(errno.EINVAL)
    return b"Hello, " + (given.rest() or b"world") + b"!"


@method("hello", "record_hello", writes=True)
def record_hello(work: Work, given: Decoder) -> None:
    """Write a greeting to a new object; EEXIST: the object exists; EINVAL: the name is longer than 100 bytes."""
    if work.draft is not None:
        raise OpError(errno.EEXIST)
    work.change(data=_greeting(given))


@method("hello", "replay")
def replay(work: Work, _given: Decoder) -> bytes:
    """Return the greeting that was written."""
    return work.existing().data
