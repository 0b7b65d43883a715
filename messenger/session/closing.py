"""When a session that is being shut down gracefully may close (TM19 to TM24)."""

from typing import Protocol

from messenger.session.session import Session


class Closing(Protocol):
    """A session that ends soon; hosts look after it whenever they have nothing else to do."""

    def check(self, now: float) -> None:
        """Close the session once its queue is drained and acknowledged."""


def all_said(session: Session) -> bool:
    """True if the queue is empty, all is written and, on a lossless session, acknowledged."""
    link = session.link
    written = link is None or not link.unwritten_bytes
    return written and not session.queue and (session.lossy or not session.queue.sent)
