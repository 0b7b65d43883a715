"""The numbers of a session's messages: in_seq, out_seq, acked_seq (docs/protocol.md §3.6)."""

from typing import Any

from messenger.errors import FaultReason
from messenger.session.session import SessionState
from toolkit.checks.model.held import Held
from toolkit.checks.model.problems import About, Problems
from toolkit.checks.records import Record
from toolkit.checks.wires import Entry, LinkLog

_REJECTED = frozenset(
    reason.name
    for reason in (
        FaultReason.BAD_MESSAGE,
        FaultReason.MALFORMED,
        FaultReason.SKIPPED_SEQ,
        FaultReason.UNKNOWN_MESSAGE,
        FaultReason.UNSENT_SEQ,
    )
)
"""Faults of a message that does not count as received."""
_WAITING = frozenset({SessionState.CONNECTING, SessionState.STANDBY, SessionState.WAIT})
"""States without a link: unacknowledged messages will be sent again, and out_seq is back at acked_seq."""


_SEQ_LIMIT = 1 << 63
"""Larger numbers from a peer are ignored, so that seqs stay within 64 bits."""


class Counts:
    """The message numbers of one session; None until the next state record gives them.

    Args:
        problems: collects the problems.
        held: number of messages that the session holds; None if its application does not record its sends.
        lossy: True if nothing is kept for replay.
        is_v1: True for msgr v1, where an ACK may cover fewer messages than were received.
    """

    def __init__(self, problems: Problems, held: Held | None, *, lossy: bool, is_v1: bool) -> None:
        self._problems = problems
        self._lossy = lossy
        self._is_v1 = is_v1
        self.in_seq: int | None = 0
        self._or_in_seq: int | None = None
        """The other possible in_seq: without the last message, if that broke its link."""
        self.out_seq: int | None = 0
        self.acked_seq: int | None = 0
        self._top_seq: int | None = 0
        """Seq of the last message that is not acknowledged, on the wire or to be replayed."""
        self.held = held

    # ---- frames

    def sent(self, position: int, fields: dict[str, Any]) -> None:
        """Process a message that was written."""
        seq = fields["seq"]
        if self.out_seq is not None and seq != self.out_seq + 1:
            self._problems.add(position, About.SEQ, f"seq {seq} is written, {self.out_seq + 1} is due")
        if self._lossy:
            self._drop(1)
        self.out_seq = seq
        if self._top_seq is None or seq > self._top_seq:
            self._top_seq = seq
        if "ack_seq" in fields and fields["ack_seq"] != self.in_seq:
            self.check_acknowledged(position, fields["ack_seq"], "a message")

    def unsent(self) -> None:
        """Process a message that cannot be encoded and is dropped."""
        self._drop(1)

    def received(self, fields: dict[str, Any], *, doubtful: bool) -> bool:
        """Process a received message; returns True if it is new. A doubtful one may not count as received."""
        if "ack_seq" in fields and fields["ack_seq"] != self.acked_seq:
            self.acknowledged(fields["ack_seq"])
        seq: int = fields["seq"]
        if self.in_seq is not None and seq <= self.in_seq:
            return False
        if doubtful:
            self._or_in_seq = self.in_seq
        self.in_seq = seq
        return True

    def acknowledged(self, seq: int) -> None:
        """Process an acknowledgement by the peer; if its seq was never sent, it may break the link."""
        if self.acked_seq is None or self.out_seq is None or seq > self.out_seq:
            self.acked_seq = None
            self._forget_held()
        elif seq > self.acked_seq:
            if not self._lossy:
                self._drop(seq - self.acked_seq)
            self.acked_seq = seq

    def _drop(self, count: int) -> None:
        if self.held is not None:
            self.held.drop(count)

    def _forget_held(self) -> None:
        if self.held is not None:
            self.held.forget()

    def acknowledges(self, position: int, seq: int) -> None:
        """Process an ACK that was written."""
        if seq != self.in_seq:
            self.check_acknowledged(position, seq, "an ACK")

    def check_acknowledged(self, position: int, acked_seq: int, by: str) -> None:
        """Report an in_seq that this side announces, if it differs from the highest seq received."""
        has = self.in_seq
        if (
            has is None
            or acked_seq in {has, self._or_in_seq}
            or (self._is_v1 and by == "an ACK" and acked_seq < has)
        ):
            return
        what = "which was not received" if acked_seq > has else f"but seq {has} was received"
        self._problems.add(position, About.ACK, f"{by} acknowledges seq {acked_seq}, {what}")

    # ---- handshakes

    def requeue(self) -> None:
        """Process the loss of the link: unacknowledged messages will be sent again."""
        if not self._lossy:
            self.out_seq = self.acked_seq

    def discard_up_to(self, seq: int) -> None:
        """Process the in_seq that the peer announces in a handshake: numbering continues after it."""
        self.requeue()
        if self.out_seq is None or self._top_seq is None:
            self.out_seq = self.acked_seq = self._top_seq = None
            self._forget_held()
            return
        kept = 0 if self._lossy else self._top_seq - self.out_seq
        dropped = max(0, min(seq - self.out_seq, kept))
        self._drop(dropped)
        self.out_seq = self.acked_seq = min(seq, _SEQ_LIMIT)
        self._top_seq = self.out_seq + kept - dropped

    def forget_received(self) -> None:
        """Process a peer that counts from 1 again."""
        self.in_seq, self._or_in_seq = 0, None

    def forget_sent(self) -> None:
        """Count from 1 again; messages to be replayed get new numbers."""
        self.discard_up_to(0)

    def reset(self) -> None:
        """Process a new session of both sides; on v1 its seqs may start at any number."""
        self.forget_received()
        self._top_seq = 0
        self.out_seq = self.acked_seq = None if self._is_v1 else 0

    def forget(self) -> None:
        """Forget all numbers, because the history does not show their changes."""
        self.in_seq = self.out_seq = self.acked_seq = self._top_seq = self._or_in_seq = None
        self._forget_held()

    # ---- states

    def compare(self, position: int, record: Record) -> None:
        """Compare the numbers with a state record, and take over those of the record."""
        fields = record.fields
        in_seq, out_seq, acked = fields["in_seq"], fields["out_seq"], fields["acked_seq"]
        if in_seq != self.in_seq and self.in_seq is not None and in_seq != self._or_in_seq:
            self._wrong(position, "in_seq", in_seq, self.in_seq)
        if self.acked_seq is not None and acked != self.acked_seq:
            self._wrong(position, "acked_seq", acked, self.acked_seq)
        requeued = not self._lossy and (fields["state"] in _WAITING or fields["state"] == SessionState.CLOSED)
        if requeued and out_seq == acked:
            pass
        elif fields["state"] in _WAITING and not self._lossy:
            self._wrong(position, "out_seq", out_seq, acked)
        elif self.out_seq is not None and out_seq != self.out_seq:
            self._wrong(position, "out_seq", out_seq, self.out_seq)
        allowed = None if self.held is None else self.held.compare(position, fields, record.time_s)
        if allowed is not None:
            text = f"{fields['queued']} messages are queued and {fields['sent']} are kept for replay"
            self._problems.add(position, About.SEQ, f"{text}, by its records it holds {_range(*allowed)}")
        self.in_seq, self.out_seq, self.acked_seq, self._or_in_seq = in_seq, out_seq, acked, None
        if self._top_seq is not None and self._top_seq < out_seq:
            self._top_seq = out_seq

    def _wrong(self, position: int, name: str, value: int, expected: int) -> None:
        self._problems.add(position, About.SEQ, f"{name} is {value}, by its frames it is {expected}")

    @property
    def unacknowledged(self) -> int | None:
        """Number of messages that are not acknowledged; None if it is unknown."""
        if self.out_seq is None or self.acked_seq is None:
            return None
        return 0 if self._lossy else self.out_seq - self.acked_seq


def is_doubtful(entry: Entry, link: LinkLog) -> bool:
    """True if a message may not count as received, since it broke its link."""
    return link.rx[-1] is entry and any(fault["reason"] in _REJECTED for _, fault in link.faults)


def _range(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"
