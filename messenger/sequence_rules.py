"""What becomes of messages and acks that are out of order, unknown or too many (docs/protocol.md §3.6)."""

from messenger.config import Config
from messenger.denc.features import Feature, has_feature
from messenger.errors import DieError, Fault, FaultReason, PeerError
from messenger.messages.message import Message
from messenger.perf import Counters
from messenger.session.session import Session

_QUEUE_CHECKS = 16
"""A session's queue is measured each time that this part of its limit was sent."""


class SequenceRules:
    """The disputed rules of the data phase, as the options of one host set them.

    Args:
        config: options; may change.
        counters: of the host.
    """

    __slots__ = ("_config", "_counters")

    def __init__(self, config: Config, counters: Counters) -> None:
        self._config = config
        self._counters = counters

    def message_skipped(self, session: Session, seq: int) -> None:
        """A message came, but not the one before it.

        Raises:
            DieError: by ``ms_die_on_skipped_message``.
            PeerError: SKIPPED_SEQ, by ``skipped_seq``.
        """
        session.skipped_messages += 1
        self._counters.skipped_messages += 1
        if self._config.ms_die_on_skipped_message:
            raise DieError("ms_die_on_skipped_message", f"{session!r}: seq {seq} after {session.in_seq}")
        if self._config.skipped_seq == "fault":
            raise PeerError(FaultReason.SKIPPED_SEQ, f"seq {seq} after {session.in_seq}")

    def message_old(self, session: Session, seq: int) -> None:
        """A message came that was here already; reading goes on, unlike with Ceph's own reader (SQ-02).

        Raises:
            DieError: by ``ms_die_on_old_message``.
        """
        session.old_messages += 1
        self._counters.old_messages += 1
        if self._config.ms_die_on_old_message and has_feature(session.features, Feature.RECONNECT_SEQ):
            raise DieError("ms_die_on_old_message", f"{session!r}: seq {seq} after {session.in_seq}")

    def unsent_acknowledged(self, session: Session, seq: int) -> None:
        """An ack came for more than was ever sent.

        Raises:
            PeerError: UNSENT_SEQ, by ``ack_beyond_sent``.
        """
        if self._config.ack_beyond_sent == "fault":
            raise PeerError(FaultReason.UNSENT_SEQ, f"ack {seq}, {session.out_seq} was the last one sent")

    def takes_unknown(self, session: Session, message: Message) -> bool:
        """True if a message of an unknown type is delivered; otherwise it only counts as received.

        Raises:
            PeerError: UNKNOWN_MESSAGE, by ``unknown_message``.
        """
        rule = self._config.unknown_message
        if rule == "fault":
            raise PeerError(FaultReason.UNKNOWN_MESSAGE, f"type {message.type} seq {message.seq}")
        if rule == "drop" and not session.lossy:
            session.ack_due += 1
        return rule == "deliver"

    def queue_fault(self, session: Session, message: Message) -> Fault | None:
        """Why a session may queue no more, if it may not; looks at the queue only now and then."""
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
