"""Graceful shutdown of sessions: each one closes once its queue is drained and acknowledged (TM19 to TM24)."""

from typing import TYPE_CHECKING

from messenger.errors import Fault, FaultReason
from messenger.session.closing import all_said
from messenger.session.session import Session
from messenger.session.states import SessionState

if TYPE_CHECKING:
    from messenger.core import Core


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
        """Close the session once its queue is drained and acknowledged.

        While the io half is on another shard, that shard does it.
        """
        session = self._session
        if session.stint is None and session.state is not SessionState.CLOSED and all_said(session):
            self._end(now)

    def cancel(self) -> None:
        """The session has ended."""
        self._timer.cancel()

    def _end(self, now: float) -> None:
        self._core.end_session(self._session, Fault(FaultReason.SHUTDOWN), now)
