"""The condition under which a graceful shutdown of a session is complete (TM19 to TM24)."""

from typing import Protocol

from messenger.session.session import Session


class Closing(Protocol):
    """A session in graceful shutdown; its host calls :meth:`check` whenever it has nothing else to do."""

    def check(self, now: float) -> None:
        """Close the session once its queue is drained and acknowledged."""


def is_drained(session: Session) -> bool:
    """True if the queue is empty, all is written and, on a lossless session, acknowledged."""
    link = session.link
    written = link is None or not link.unwritten_bytes
    return written and not session.queue and (session.lossy or not session.queue.sent)
