"""Messages on their way to dispatchers where that is not simply the order of arrival: queued by priority, or fast.

Used only if the application asks for the queue (``dispatch_by_priority``) or one of its dispatchers dispatches
fast; otherwise the driver hands a batch to the dispatcher as it comes.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from messenger.messages.message import Message
from messenger.prioritized import PrioritizedQueue

if TYPE_CHECKING:
    from messenger.config import Config
    from messenger.connection import Connection
    from messenger.dispatch import Dispatchers

Handler = Callable[["Connection", Message], bool | None]
Give = Callable[["Connection", Iterator[Message], Handler], None]
"""Gives messages to what handles them, and releases those that are done."""


class DispatchQueue:
    """What has arrived and is not dispatched yet.

    Args:
        config: options; ``ms_pq_*`` are those of the queue.
        dispatchers: whom to ask.
        give: dispatches messages.
    """

    def __init__(self, config: "Config", dispatchers: "Dispatchers", give: Give) -> None:
        self._dispatchers = dispatchers
        self._give = give
        self._waiting: PrioritizedQueue[tuple[Connection, Message]] | None = None
        if config.dispatch_by_priority:
            self._waiting = PrioritizedQueue(config.ms_pq_max_tokens_per_priority, config.ms_pq_min_cost)

    def __len__(self) -> int:
        return len(self._waiting or ())

    def arrive(self, connection: "Connection", messages: Iterator[Message]) -> None:
        """Messages have come: those that can be are dispatched fast, the others when their turn comes."""
        for message in messages:
            fast = self._dispatchers.fast(message)
            if fast is not None:
                self._give(connection, iter((message,)), fast)
            elif self._waiting is None:
                self._give(connection, iter((message,)), self._dispatchers.dispatch)
            else:
                self._push(connection, message)

    def _push(self, connection: "Connection", message: Message) -> None:
        assert self._waiting is not None
        # As in Ceph the data alone is the cost.
        cost_bytes = len(message.data)
        self._waiting.push(connection.session.id, message.priority, cost_bytes, (connection, message))

    def run(self) -> bool:
        """Dispatch all that waits, in its order; whether that was anything."""
        waiting = self._waiting
        if not waiting:
            return False
        while waiting:
            connection, message = waiting.pop()
            self._give(connection, iter((message,)), self._dispatchers.dispatch)
        return True

    def run_session(self, session_id: int) -> None:
        """Dispatch the waiting messages of one session before its later event."""
        if not self._waiting:
            return
        items = iter(self._waiting.pop_class(session_id))
        try:
            for connection, message in items:
                self._give(connection, iter((message,)), self._dispatchers.dispatch)
        except BaseException:
            for connection, message in items:  # for the next time
                self._push(connection, message)
            raise
