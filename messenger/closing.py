"""Graceful shutdown of sessions: each one closes once its queue is drained and acknowledged (TM19 to TM24)."""

from typing import TYPE_CHECKING

from messenger.errors import Fault, FaultReason
from messenger.session.closing import is_drained
from messenger.session.session import Session
from messenger.session.states import SessionState

if TYPE_CHECKING:
    from messenger.core import Core


class HomeClosing:
    """A closing session, as the home shard sees it.

    Args:
        core: the home shard.
        session: the session to close; it accepts no further messages.
        now: start of ``ms_shutdown_timeout``.
    """

    def __init__(self, core: "Core", session: Session, now: float) -> None:
        self._core = core
        self._session = session
        self._timer = core.timers.at(now + core.config.ms_shutdown_timeout, self._end)
        if session.stint is not None:
            core.shards.finish(session.stint)

    def check(self, now: float) -> None:
        """Close the session if its queue is drained and acknowledged.

        While the io half is on another shard, that shard checks this.
        """
        session = self._session
        if session.stint is None and session.state is not SessionState.CLOSED and is_drained(session):
            self._end(now)

    def cancel(self) -> None:
        """Cancel the timeout, because the session has ended."""
        self._timer.cancel()

    def _end(self, now: float) -> None:
        self._core.end_session(self._session, Fault(FaultReason.SHUTDOWN), now)
