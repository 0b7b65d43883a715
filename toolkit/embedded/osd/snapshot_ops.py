"""Operations on the snapshots of an object (docs/protocol.md §6.4.1)."""

from typing import Any

from messenger.denc.codec import Encoder
from messenger.messages.osd_objects import NOSNAP
from messenger.messages.osd_operations import OpCode, OsdOp
from toolkit.embedded.osd.snapsets import SnapSet, overlap
from toolkit.embedded.osd.work import Work, handles


@handles(OpCode.LIST_SNAPS)
def list_snaps(work: Work, _op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return the clones, the snapshots that each is for, and the parts that the next state shares with it."""
    head, known = work.draft, work.group.snapsets.get(work.key, SnapSet())
    if not known.clones:
        work.existing()
    states = [clone.stored.data for clone in known.clones] + ([head.data] if head is not None else [b""])
    rows = [
        (clone.snapid, sorted(clone.snaps), overlap(states[place], states[place + 1]), len(clone.stored.data))
        for place, clone in enumerate(known.clones)
    ]
    if head is not None:
        rows.append((NOSNAP, [], [], len(head.data)))
    encoder = Encoder()
    with encoder.versioned(2, 1):
        encoder.sequence(rows, lambda row: _encode_row(encoder, *row))
        encoder.u64(known.seq)
    return encoder.getvalue()


def _encode_row(encoder: Encoder, snapid: int, snaps: list[int], shared: list[tuple[int, int]], size: int) -> None:
    def extent(pair: tuple[int, int]) -> None:
        encoder.u64(pair[0])
        encoder.u64(pair[1])

    with encoder.versioned(1, 1):
        encoder.u64(snapid)
        encoder.sequence(snaps, encoder.u64)
        encoder.sequence(shared, extent)
        encoder.u64(size)


@handles(OpCode.ROLLBACK)
def rollback(work: Work, op: OsdOp, _given: dict[str, Any]) -> None:
    """Restore the state in a snapshot; if there was no object, remove it."""
    known = work.group.snapsets.get(work.key, SnapSet())
    state = known.at(op.args["snapid"], work.draft)
    if state is work.draft:
        return
    if state is None:
        work.remove()
    else:
        work.change(data=state.data, xattrs=state.xattrs, omap=state.omap, omap_header=state.omap_header)
