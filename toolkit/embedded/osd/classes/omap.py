"""Values that methods of classes keep in the omap of an object."""

import errno
from collections.abc import Callable
from typing import Any

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.utime import UTime
from toolkit.embedded.osd.omap import NO_OMAP
from toolkit.embedded.osd.work import OpError, Work

_MOST_ENTRIES = 1024


def encoded_by(encode: Callable[[Encoder], Any]) -> bytes:
    """Return what a function encodes."""
    encoder = Encoder()
    encode(encoder)
    return encoder.getvalue()


def u64(value: int) -> bytes:
    """Encode a number."""
    return encoded_by(lambda encoder: encoder.u64(value))


def string(text: str) -> bytes:
    """Encode a text."""
    return encoded_by(lambda encoder: encoder.string(text))


def time(moment: UTime) -> bytes:
    """Encode a time."""
    return encoded_by(moment.encode)


def value(work: Work, key: str) -> bytes:
    """Return the value of an omap key; raises OpError, ENOENT."""
    found = work.existing().omap.get(key)
    if found is None:
        raise OpError(errno.ENOENT)
    return found


def number(work: Work, key: str, default: int | None = None) -> int:
    """Return the number that is the value of an omap key.

    Raises:
        OpError: ENOENT: there is no such key, and no default.
        DecodeError: the value is no number, since a client has set it by another operation.
    """
    if default is not None and key not in work.existing().omap:
        return default
    return Decoder(value(work, key)).u64()


def put(work: Work, values: dict[str, bytes], removed: tuple[str, ...] = ()) -> None:
    """Set keys of the omap, and remove some; creates the object if it does not exist."""
    known = work.draft.omap if work.draft is not None else NO_OMAP
    work.change(omap=known.changed(values, removed))


def with_prefix(work: Work, prefix: str) -> list[bytes]:
    """Return the values of all keys with a prefix, in the order of the keys."""
    omap = work.existing().omap
    return [omap[key] for key in omap.page("", prefix, len(omap))[0]]


def page(work: Work, prefix: str, given: Decoder) -> dict[str, bytes]:
    """Return up to the requested number of entries with a prefix after a given key; keys lack the prefix."""
    start, most = given.string(), given.u64()
    omap = work.existing().omap
    keys, _ = omap.page(prefix + start, prefix, most or _MOST_ENTRIES)
    return {key.removeprefix(prefix): omap[key] for key in keys}
