"""Operations on the attributes and the omap of an object."""

import errno
import operator
from collections.abc import Callable, Mapping
from typing import Any

from messenger.denc.codec import Encoder
from messenger.messages.osd_operations import OpCode, OsdOp
from toolkit.embedded.osd.omap import NO_OMAP, in_order
from toolkit.embedded.osd.work import OpError, Work, handles

MOST_ENTRIES = 1024
"""``osd_max_omap_entries_per_request``: longer replies are truncated and marked as such."""
ATTRIBUTE_NAME_BYTES = 100
"""Maximum length of an attribute's name, ``osd_max_attr_name_len``."""
_STRING, _NUMBER = 1, 2
_COMPARE: dict[int, Callable[[Any, Any], bool]] = {
    1: operator.eq,
    2: operator.ne,
    3: operator.gt,
    4: operator.ge,
    5: operator.lt,
    6: operator.le,
}
"""By ``cmp_op``: 1 equal, 2 unequal, 3 greater, 4 greater or equal, 5 less, 6 less or equal."""


# ---- attributes


@handles(OpCode.GETXATTR)
def getxattr(work: Work, _op: OsdOp, given: dict[str, Any]) -> bytes:
    """Return one attribute; ENODATA: it does not exist."""
    value = work.existing().xattrs.get(given["name"])
    if value is None:
        raise OpError(errno.ENODATA)
    return value


@handles(OpCode.GETXATTRS)
def getxattrs(work: Work, _op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return all attributes."""
    return _encoded(work.existing().xattrs)


@handles(OpCode.CMPXATTR)
def cmpxattr(work: Work, op: OsdOp, given: dict[str, Any]) -> None:
    """Compare the given value with an attribute, which is empty if it is missing; ECANCELED: ``cmp_op`` fails."""
    compare = _COMPARE.get(op.args["cmp_op"])
    mode, found, wanted = op.args["cmp_mode"], work.existing().xattrs.get(given["name"], b""), given["value"]
    if compare is None or mode not in (_STRING, _NUMBER):
        raise OpError(errno.EINVAL)
    if mode == _NUMBER:
        matches = compare(int.from_bytes(wanted[:8], "little"), _number(found))
    else:
        matches = compare(wanted, found)
    if not matches:
        raise OpError(errno.ECANCELED)
    work.return_value = 1


def _number(text: bytes) -> int:
    """Parse the decimal text of an attribute that is compared as a number."""
    try:
        return int(text or b"0")
    except ValueError:
        raise OpError(errno.EINVAL) from None


@handles(OpCode.SETXATTR)
def setxattr(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Set an attribute; ENAMETOOLONG: its name is longer than 100 bytes."""
    if len(given["name"].encode("utf-8", "surrogateescape")) > ATTRIBUTE_NAME_BYTES:
        raise OpError(errno.ENAMETOOLONG)
    known = work.draft.xattrs if work.draft is not None else {}
    work.change(xattrs={**known, given["name"]: given["value"]})


@handles(OpCode.RMXATTR)
def rmxattr(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Remove an attribute, which need not exist."""
    known = work.existing().xattrs
    work.change(xattrs={name: value for name, value in known.items() if name != given["name"]})


# ---- omap


@handles(OpCode.OMAPGETKEYS)
def omap_get_keys(work: Work, _op: OsdOp, given: dict[str, Any]) -> bytes:
    """Return the keys after ``start_after``."""
    keys, more = work.existing().omap.page(given["start_after"], "", min(given["max"], MOST_ENTRIES))
    encoder = Encoder()
    encoder.sequence(keys, encoder.string)
    encoder.boolean(more)
    return encoder.getvalue()


@handles(OpCode.OMAPGETVALS)
def omap_get_vals(work: Work, _op: OsdOp, given: dict[str, Any]) -> bytes:
    """Return the keys after ``start_after`` that have the prefix, with their values."""
    omap = work.existing().omap
    keys, more = omap.page(given["start_after"], given["filter_prefix"], min(given["max"], MOST_ENTRIES))
    return _encoded({key: omap[key] for key in keys}) + bytes([more])


@handles(OpCode.OMAPGETVALSBYKEYS)
def omap_get_vals_by_keys(work: Work, _op: OsdOp, given: dict[str, Any]) -> bytes:
    """Return those of the given keys that exist, with their values."""
    omap = work.existing().omap
    return _encoded({key: omap[key] for key in given["keys"] if key in omap})


@handles(OpCode.OMAPGETHEADER)
def omap_get_header(work: Work, _op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return the header."""
    return work.existing().omap_header


@handles(OpCode.OMAP_CMP)
def omap_cmp(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Compare values, which are empty for missing keys, with given ones; ECANCELED: a comparison fails."""
    omap = work.existing().omap
    for key, (wanted, number) in given["assertions"].items():
        compare = _COMPARE.get(number) if number in (1, 3, 5) else None
        if compare is None:
            raise OpError(errno.EINVAL)
        if not compare(omap.get(key, b""), wanted):
            raise OpError(errno.ECANCELED)


@handles(OpCode.OMAPSETVALS)
def omap_set_vals(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Set keys."""
    known = work.draft.omap if work.draft is not None else NO_OMAP
    work.change(omap=known.changed(given["values"]))


@handles(OpCode.OMAPSETHEADER)
def omap_set_header(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Set the header."""
    work.change(omap_header=given["header"])


@handles(OpCode.OMAPCLEAR)
def omap_clear(work: Work, _op: OsdOp, _given: dict[str, Any]) -> None:
    """Remove all keys, and the header."""
    work.existing()
    work.change(omap=NO_OMAP, omap_header=b"")


@handles(OpCode.OMAPRMKEYS)
def omap_rm_keys(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Remove keys."""
    work.change(omap=work.existing().omap.changed({}, given["keys"]))


@handles(OpCode.OMAPRMKEYRANGE)
def omap_rm_key_range(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Remove the keys from the first given one up to, but not including, the second."""
    omap = work.existing().omap
    work.change(omap=omap.changed({}, omap.between(given["begin"], given["end"])))


def _encoded(values: Mapping[str, bytes]) -> bytes:
    """Encode a map of names to values, sorted."""
    encoder = Encoder()
    encoder.mapping({key: values[key] for key in in_order(values)}, encoder.string, encoder.blob)
    return encoder.getvalue()
