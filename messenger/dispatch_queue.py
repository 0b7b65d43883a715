"""Dispatch in an order other than arrival: by priority, or fast.

Used only if the option ``dispatch_by_priority`` is set or a dispatcher fast-dispatches; otherwise the driver
passes each batch to the dispatcher as it arrives.
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
"""Passes messages to a handler, and releases those that the application does not keep."""


class DispatchQueue:
    """Messages that have arrived but are not dispatched yet.

    Args:
        config: options; ``ms_pq_*`` configure the queue.
        dispatchers: the messenger's dispatchers.
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
        """Dispatch messages that a dispatcher takes fast, and queue the others by priority."""
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
        # As in Ceph, only the length of the data segment counts as the cost.
        cost_bytes = len(message.data)
        self._waiting.push(connection.session.id, message.priority, cost_bytes, (connection, message))

    def run(self) -> bool:
        """Dispatch all queued messages in order of the queue; False if there were none."""
        waiting = self._waiting
        if not waiting:
            return False
        while waiting:
            connection, message = waiting.pop()
            self._give(connection, iter((message,)), self._dispatchers.dispatch)
        return True

    def run_session(self, session_id: int) -> None:
        """Dispatch a session's queued messages, which arrived before an event that is about to be raised."""
        if not self._waiting:
            return
        items = iter(self._waiting.pop_class(session_id))
        try:
            for connection, message in items:
                self._give(connection, iter((message,)), self._dispatchers.dispatch)
        except BaseException:
            for connection, message in items:  # dispatched by the next call
                self._push(connection, message)
            raise
