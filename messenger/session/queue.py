"""Messages on their way out: by priority while they wait, by seq while they are unacknowledged.

Message objects are never changed by being sent: a seq belongs to one transmission on one session, so the same
object may be sent twice or on two connections (docs/protocol.md §3.6, §6.1).
"""

from collections import deque
from collections.abc import Iterator

from messenger.messages.message import PRIORITY_DEFAULT, Message


def _size_bytes(entries: deque[tuple[int, Message]]) -> int:
    # A copy, which is made in one step: a shard's thread may change the queue meanwhile.
    return sum(message.size_bytes for _, message in list(entries))


class OutQueue:
    """The outgoing messages of a session: those to write, and those to replay until they are acknowledged."""

    __slots__ = ("_by_priority", "requeued", "sent", "unchecked_bytes")

    def __init__(self) -> None:
        self._by_priority: dict[int, deque[Message]] = {}
        self.requeued: deque[tuple[int, Message]] = deque()
        """Sent once on an earlier link, unacknowledged, with their seq; they leave before anything else."""
        self.sent: deque[tuple[int, Message]] = deque()
        """On the wire of the present link, unacknowledged, with their seq."""
        self.unchecked_bytes = 0
        """Bytes pushed since the queue's size was last checked, if an option limits it."""

    def push(self, message: Message) -> None:
        """Queue a new message behind those of its priority."""
        queue = self._by_priority.get(message.priority)
        if queue is None:
            priority = message.priority
            if not isinstance(priority, int):  # changed since it was sent: the link will drop the message
                priority = PRIORITY_DEFAULT
            queue = self._by_priority.setdefault(priority, deque())
        queue.append(message)

    def __bool__(self) -> bool:
        return bool(self.requeued or self._by_priority)

    def __len__(self) -> int:
        return len(self.requeued) + sum(map(len, self._by_priority.values()))

    @property
    def queued_bytes(self) -> int:
        """Size of the messages that are not on the wire."""
        waiting = [message for queue in list(self._by_priority.values()) for message in list(queue)]
        return sum(message.size_bytes for message in waiting) + _size_bytes(self.requeued)

    @property
    def unacknowledged_bytes(self) -> int:
        """Size of the messages on the wire that are kept for replay."""
        return _size_bytes(self.sent)

    def popped(self) -> Iterator[Message]:
        """Messages to write, each taken out as it is handed on: requeued ones first, then by priority and age.

        One iterator for a batch costs less than a call for each message. Push nothing while it is in use.
        """
        requeued, by_priority = self.requeued, self._by_priority
        while requeued:
            yield requeued.popleft()[1]
        while by_priority:
            priority = max(by_priority)
            queue = by_priority[priority]
            while queue:
                message = queue.popleft()
                if not queue:
                    del by_priority[priority]
                yield message

    def acknowledge(self, seq: int) -> None:
        """Forget sent messages up to ``seq``."""
        sent = self.sent
        while sent and sent[0][0] <= seq:
            sent.popleft()

    def requeue_sent(self) -> int:
        """Move unacknowledged messages to the front of the queue; returns how many."""
        count = len(self.sent)
        self.requeued.extendleft(reversed(self.sent))
        self.sent.clear()
        return count

    def discard_requeued_up_to(self, seq: int) -> None:
        """Drop requeued messages that the peer has; the others are numbered from ``seq`` + 1 on (§3.6).

        The numbers change only if the peer has less than it acknowledged, because it lost the session: a message
        with its old number would leave a gap.
        """
        requeued = self.requeued
        while requeued and requeued[0][0] <= seq:
            requeued.popleft()
        if requeued and requeued[0][0] != seq + 1:
            self.requeued = deque(enumerate((message for _, message in requeued), seq + 1))

    def clear(self) -> int:
        """Drop everything; returns how many messages that were."""
        count = len(self) + len(self.sent)
        self.requeued.clear()
        self.sent.clear()
        self._by_priority.clear()
        return count
