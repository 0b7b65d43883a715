"""What an application hears of a session."""

from enum import StrEnum


class EventKind(StrEnum):
    """What happens to a session, in crimson's words."""

    CONNECT = "connect"
    """This side dialled and the session is open (again)."""
    ACCEPT = "accept"
    """The peer dialled and the session is open (again)."""
    RESET = "reset"
    """The session ended; what was queued is gone."""
    REMOTE_RESET = "remote_reset"
    """The peer lost its state: what was sent and queued is gone, the session goes on empty."""
    REFUSED = "refused"
    """The peer refused: the port is closed, or authentication or features are not accepted."""
