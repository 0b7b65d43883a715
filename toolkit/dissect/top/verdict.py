"""Checks of a session that need one frame at a time, in a few bytes of memory.

``crc`` and ``auth``: checksums, authentication tags and signatures. ``order``: the seqs of messages on a link grow
by one (docs/protocol.md §3.6). ``acknowledged``: no acknowledgement is above what the other side has sent. After
bytes that were not captured a direction starts anew. All other invariants need the whole history: ``msgrlab
analyze`` judges them.
"""

from collections import Counter

from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import GAP, NO_FRAMES, DecodedFrame, Verdict

OK = "ok"
NO_KEY = "not judged: no key"
_MOST_KINDS = 64
_PATIENCE_NS = 1_000_000_000
"""A capture of several queues may have an acknowledgement shortly before the message it acknowledges."""
_ACKS = frozenset({"ACK", "SEQ"})
_IN_SEQ = frozenset({"SESSION_RECONNECT", "SESSION_RECONNECT_OK"})


class LinkSeqs:
    """By direction of a link, the end of the last good frame, and the last seq."""

    __slots__ = ("ends", "last")

    def __init__(self) -> None:
        self.ends: dict[Direction, int] = {}
        self.last: dict[Direction, int] = {}

    def follows(self, frame: DecodedFrame) -> bool:
        """Add a good frame; False if bytes between it and the previous one are missing or unreadable."""
        direction = frame.direction
        follows = self.ends.get(direction) == frame.offset
        self.ends[direction] = frame.offset + frame.length
        if not follows:
            self.last.pop(direction, None)
        return follows


class Judge:
    """The verdict on one session."""

    __slots__ = ("_above", "_sent", "_violations", "acked", "gap_bytes", "judged", "no_key")

    def __init__(self) -> None:
        self._sent = [0, 0]
        """Highest seq that each party sent; 0 if none is known."""
        self._above: list[tuple[int, int] | None] = [None, None]
        """By party, an acknowledgement above its seqs, and the time: the message may not be captured, or come
        later."""
        self.acked = [0, 0]
        """Highest seq of each party that the peer acknowledged."""
        self.judged = 0
        """Number of judged frames."""
        self.gap_bytes = 0
        self.no_key = False
        self._violations: Counter[str] = Counter()

    def in_flight(self, party: int) -> int | None:
        """Return the number of a party's unacknowledged messages; None if none is known or acknowledged."""
        if not self._sent[party] or not self.acked[party]:
            return None
        return max(self._sent[party] - self.acked[party], 0)

    @property
    def text(self) -> str:
        """The verdict in a few words."""
        if self._violations:
            first, *others = self._violations.items()
            shown = first[0] if first[1] == 1 else f"{first[0]} ({first[1]} x)"
            return f"{shown}, {len(others)} more" if others else shown
        if self.no_key:
            return NO_KEY
        if not self.judged:
            return "not judged"
        return OK if not self.gap_bytes else f"{OK}, {self.gap_bytes} bytes not captured"

    def absorb(self, other: "Judge", *, swapped: bool) -> None:
        """Add the results of a link that proves to belong to this session."""
        self.judged += other.judged
        self.gap_bytes += other.gap_bytes
        self.no_key |= other.no_key
        self._violations.update(other._violations)  # noqa: SLF001 - of this class
        for party in range(2):
            self.acked[party] = max(self.acked[party], other.acked[1 - party if swapped else party])

    def frame(self, frame: DecodedFrame, party: int, seqs: LinkSeqs) -> str:
        """Judge a frame of the session; returns what it violates, empty if nothing.

        Args:
            frame: the decoded frame.
            party: index of its sender, 0 or 1.
            seqs: seqs of its link.
        """
        if frame.tag in NO_FRAMES:
            self.gap_bytes += frame.length if frame.tag == GAP else 0
            self.no_key |= frame.auth is Verdict.NO_KEY
            return ""
        self.judged += 1
        if frame.is_bad:
            rule = "crc" if frame.crc is Verdict.BAD else "auth"
            return self._violate(f"{rule}: {frame.tag} is wrong")
        follows = seqs.follows(frame)
        wrong = self._order(frame, party, seqs) or self._late(frame, party, follows=follows)
        self._acknowledge(frame, party)
        return wrong

    def _order(self, frame: DecodedFrame, party: int, seqs: LinkSeqs) -> str:
        message = frame.message
        if message is None:
            return ""
        before = seqs.last.get(frame.direction)
        seqs.last[frame.direction] = message.seq
        self._sent[party] = max(self._sent[party], message.seq)
        if before is not None and message.seq != before + 1:
            kind = "order: seq does not follow the one before"
            return self._violate(kind, f"order: seq {message.seq} after {before}")
        return ""

    def _late(self, frame: DecodedFrame, party: int, *, follows: bool) -> str:
        """Judge an acknowledgement above what its receiver had sent, once the receiver's next frame is there."""
        above = self._above[party]
        if above is None:
            return ""
        seq, time_ns = above
        if not follows or self._sent[party] >= seq:
            self._above[party] = None
        elif frame.time_ns - time_ns > _PATIENCE_NS:
            self._above[party] = None
            kind = "acknowledged: more than was sent"
            return self._violate(kind, f"acknowledged: {seq}, sent were {self._sent[party]}")
        return ""

    def _acknowledge(self, frame: DecodedFrame, party: int) -> None:
        seq: object = 0
        if frame.message is not None:
            seq = frame.message.ack_seq
        elif frame.tag in _ACKS:
            seq = frame.fields.get("seq")
        elif frame.tag in _IN_SEQ:
            seq = frame.fields.get("msg_seq")
        if not isinstance(seq, int) or not seq:
            return
        other = 1 - party
        self.acked[other] = max(self.acked[other], seq)
        if self._sent[other] and seq > self._sent[other] and self._above[other] is None:
            self._above[other] = seq, frame.time_ns

    def _violate(self, kind: str, text: str = "") -> str:
        if kind in self._violations or len(self._violations) < _MOST_KINDS:
            self._violations[kind] += 1
        return text or kind
