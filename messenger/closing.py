"""Sessions on their way to a graceful end: all that is queued is said first (TM19 to TM24)."""

from typing import TYPE_CHECKING, Protocol

from messenger.errors import Fault, FaultReason
from messenger.session.session import Session, SessionState

if TYPE_CHECKING:
    from messenger.core import Core


class Closing(Protocol):
    """A session that ends soon; hosts look after it whenever they have nothing else to do."""

    def check(self, now: float) -> None:
        """End it if all is said."""


def all_said(session: Session) -> bool:
    """Whether nothing is queued, all has left, and of a lossless session all is acknowledged."""
    link = session.link
    written = link is None or not link.unwritten_bytes
    return written and not session.queue and (session.lossy or not session.queue.sent)


class HomeClosing:
    """One whose io half is on the home shard, at least for now.

    Args:
        core: the home shard.
        session: nothing more is queued on it.
        now: from here on ``ms_shutdown_timeout`` runs.
    """

    def __init__(self, core: "Core", session: Session, now: float) -> None:
        self._core = core
        self._session = session
        self._timer = core.timers.at(now + core.config.ms_shutdown_timeout, self._end)
        if session.stint is not None:
            core.shards.finish(session.stint)

    def check(self, now: float) -> None:
        """See :meth:`Closing.check`; while the io half is away, its shard looks after it."""
        session = self._session
        if session.stint is None and session.state is not SessionState.CLOSED and all_said(session):
            self._end(now)

    def cancel(self) -> None:
        """The session has ended."""
        self._timer.cancel()

    def _end(self, now: float) -> None:
        self._core.end_session(self._session, Fault(FaultReason.SHUTDOWN), now)
