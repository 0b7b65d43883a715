"""Regular keepalives and their timeout, as Ceph's monitor clients do it (docs/protocol.md §7.3, §9 item 20)."""

from typing import TYPE_CHECKING

from messenger.denc.features import Feature, has_feature
from messenger.errors import Fault, FaultReason
from messenger.session.session import Session
from messenger.session.states import SessionState
from messenger.session.timers import Timer

if TYPE_CHECKING:
    from messenger.core import Core


class Keepalive:
    """Sends keepalives on one session at regular intervals until the session ends.

    If the newest acknowledged keepalive is older than the timeout, the link is broken: a lossless session dials
    again, a lossy one ends with a reset event. Time for which this messenger itself did not run, because the
    application blocked it or its process was stopped, does not count: it has sent no keepalive meanwhile.

    Args:
        core: the messenger.
        session: the session with the peer that shall answer.
        interval_s: seconds between two keepalives.
        timeout_s: seconds; 0 = no answer is required.
        now: the time; the first keepalive is sent one interval later.
    """

    def __init__(self, core: "Core", session: Session, interval_s: float, timeout_s: float, now: float) -> None:
        self._core = core
        self._session = session
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._open_since_s: float | None = None
        self._due_s: float
        self._timer: Timer
        self._schedule(now)

    def stop(self) -> None:
        """Send no more keepalives."""
        self._timer.cancel()

    def _schedule(self, now: float) -> None:
        self._due_s = now + self._interval_s
        self._timer = self._core.timers.at(self._due_s, self._tick)

    def _tick(self, now: float) -> None:
        late_s = now - self._due_s
        self._schedule(now)
        if self._session.state is not SessionState.READY:
            self._open_since_s = None  # dials and handshakes have timeouts of their own
            return
        if self._open_since_s is None:
            self._open_since_s = now
        link = self._session.link
        read_since_s = 0.0 if link is None else link.read_since_s
        since_s = max(self._open_since_s, self._session.acked_keepalive_sent_s, read_since_s)
        self._open_since_s = since_s = min(since_s + late_s, now)
        silence_s = now - since_s
        # While the link is paused, answers of the peer are not read, so silence proves nothing.
        is_read = link is None or not link.paused
        if self._is_watched and is_read and silence_s > self._timeout_s:
            self._open_since_s = None
            fault = Fault(FaultReason.KEEPALIVE_TIMEOUT, f"{silence_s:.3g} s")
            self._core.break_link(self._session, fault, now)
        else:
            self._core.send_keepalive(self._session, now)

    @property
    def _is_watched(self) -> bool:
        """True if an answer is required; v1 peers without MSGR_KEEPALIVE2 do not answer keepalives."""
        return self._timeout_s > 0 and has_feature(self._session.features, Feature.MSGR_KEEPALIVE2)
