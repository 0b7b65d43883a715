"""Rules for messages and acks that are out of order, unknown or too many (docs/protocol.md §3.6)."""

from messenger.config import Config
from messenger.denc.features import Feature, has_feature
from messenger.errors import DieError, Fault, FaultReason, PeerError
from messenger.messages.message import Message
from messenger.perf import Counters
from messenger.session.session import Session

_QUEUE_CHECKS = 16
"""A session's queue is checked whenever this fraction (one in 16) of its limit was sent."""


class SequenceRules:
    """The disputed rules of the data phase, with the options of one host.

    Args:
        config: options; they may change later.
        counters: counters of the host.
    """

    __slots__ = ("_config", "_counters")

    def __init__(self, config: Config, counters: Counters) -> None:
        self._config = config
        self._counters = counters

    def message_skipped(self, session: Session, seq: int) -> None:
        """Count a message that arrived without its predecessor.

        Raises:
            DieError: the option ``ms_die_on_skipped_message`` is set.
            PeerError: SKIPPED_SEQ: the option ``skipped_seq`` is ``fault``.
        """
        session.skipped_messages += 1
        self._counters.skipped_messages += 1
        if self._config.ms_die_on_skipped_message:
            raise DieError("ms_die_on_skipped_message", f"{session!r}: seq {seq} after {session.in_seq}")
        if self._config.skipped_seq == "fault":
            raise PeerError(FaultReason.SKIPPED_SEQ, f"seq {seq} after {session.in_seq}")

    def message_old(self, session: Session, seq: int) -> None:
        """Count a message that arrived before and is dropped; unlike Ceph's own reader, continue reading (SQ-02).

        Raises:
            DieError: the option ``ms_die_on_old_message`` is set.
        """
        session.old_messages += 1
        self._counters.old_messages += 1
        if self._config.ms_die_on_old_message and has_feature(session.features, Feature.RECONNECT_SEQ):
            raise DieError("ms_die_on_old_message", f"{session!r}: seq {seq} after {session.in_seq}")

    def unsent_acknowledged(self, session: Session, seq: int) -> None:
        """Check an ack for more than was ever sent.

        Raises:
            PeerError: UNSENT_SEQ: the option ``ack_beyond_sent`` is ``fault``.
        """
        if self._config.ack_beyond_sent == "fault":
            raise PeerError(FaultReason.UNSENT_SEQ, f"ack {seq}, {session.out_seq} was the last one sent")

    def accepts_unknown(self, session: Session, message: Message) -> bool:
        """True if a message of an unknown type is delivered; otherwise it only counts as received.

        Raises:
            PeerError: UNKNOWN_MESSAGE: the option ``unknown_message`` is ``fault``.
        """
        rule = self._config.unknown_message
        if rule == "fault":
            raise PeerError(FaultReason.UNKNOWN_MESSAGE, f"type {message.type} seq {message.seq}")
        if rule == "drop" and not session.lossy:
            session.ack_due += 1
        return rule == "deliver"

    def queue_fault(self, session: Session, message: Message) -> Fault | None:
        """A fault if the session's queue exceeds ``max_queued_bytes``, else None; not checked at each message."""
        limit_bytes = self._config.max_queued_bytes
        if not limit_bytes:
            return None
        session.queue.unchecked_bytes += message.size_bytes
        if session.queue.unchecked_bytes <= limit_bytes // _QUEUE_CHECKS:
            return None
        session.queue.unchecked_bytes = 0
        queued_bytes = session.queue.queued_bytes + session.queue.unacknowledged_bytes
        if queued_bytes <= limit_bytes:
            return None
        return Fault(FaultReason.QUEUE_LIMIT, f"{queued_bytes} bytes, the limit is {limit_bytes}")
