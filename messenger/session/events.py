"""The session events that an application receives."""

from enum import StrEnum


class EventKind(StrEnum):
    """Kind of a session event, with crimson's names."""

    CONNECT = "connect"
    """A dialled session became ready, either new or reconnected."""
    ACCEPT = "accept"
    """An accepted session became ready, either new or reconnected."""
    RESET = "reset"
    """The session ended; its queue is dropped."""
    REMOTE_RESET = "remote_reset"
    """The peer lost the session: sent and queued messages are dropped, and the session starts again."""
    REFUSED = "refused"
    """The peer refused: its port is closed, or it does not accept our authentication or features."""
