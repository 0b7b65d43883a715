"""Listing the objects of a placement group (docs/protocol.md §6.4.1)."""

from typing import Any

from messenger.denc.codec import Encoder
from messenger.messages.osd_objects import NOSNAP, HObject, reversed_bits
from messenger.messages.osd_op_data import ListEntry, Listing
from messenger.messages.osd_operations import OpCode, OsdOp
from messenger.messages.pg import PgId
from toolkit.embedded.osd.store import SortKey
from toolkit.embedded.osd.work import Work, handles

MOST_ENTRIES = 1024
"""Maximum number of entries in a reply, as in ``osd_max_pgls``."""
ALL_NAMESPACES = "\x01"
"""The namespace of a request for the objects of all namespaces."""
_HASH_LIMIT = 1 << 32
_LAST = HObject(max=True)


@handles(OpCode.PGNLS)
def list_objects(work: Work, op: OsdOp, given: dict[str, Any]) -> bytes:
    """Return names from a cursor on, and the cursor of the next name or of the group's end."""
    pg_num = work.pg_num
    wanted = work.request.locator.nspace
    begin: SortKey = given["cursor"].sort_key()
    most = min(op.args["count"], MOST_ENTRIES)
    entries: list[ListEntry] = []
    cursor = end_of(work.pgid, pg_num)
    for _, hobject, key in work.group.ordered(work.pgid, work.request.snapid, begin):
        if wanted not in (key.nspace, ALL_NAMESPACES):
            continue
        if len(entries) == most:
            cursor = hobject
            break
        entries.append(ListEntry(key.nspace, key.oid, key.locator))
    encoder = Encoder()
    Listing(cursor, entries).encode(encoder)
    return encoder.getvalue()


def end_of(pgid: PgId, pg_num: int) -> HObject:
    """Return the cursor after a placement group, or after all names for the last group.

    A placement group has the names whose bit-reversed hash begins with the group's bit-reversed seed.
    """
    end = (reversed_bits(pgid.seed) | 0xFFFFFFFF >> _split_bits(pgid.seed, pg_num)) + 1
    if end >= _HASH_LIMIT:
        return _LAST
    return HObject(snap=NOSNAP, hash=reversed_bits(end), pool=pgid.pool)


def _split_bits(seed: int, pg_num: int) -> int:
    """Return the number of hash bits that select the placement group."""
    if pg_num == 1:
        return 0
    bits = pg_num.bit_length()
    half = 1 << bits - 1
    return bits if seed % half < pg_num % half else bits - 1
