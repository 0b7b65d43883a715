"""Regular keepalives, and what their silence means: the rule of Ceph's monitor clients.

See docs/protocol.md §7.3, §9 item 20.
"""

from typing import TYPE_CHECKING

from messenger.denc.features import Feature, has_feature
from messenger.errors import Fault, FaultReason
from messenger.session.session import Session
from messenger.session.states import SessionState
from messenger.session.timers import Timer

if TYPE_CHECKING:
    from messenger.core import Core


class Keepalive:
    """Asks the peer of one session for a sign of life again and again, until the session ends.

    If the newest answer is older than the timeout, the link is broken: a lossless session dials again, a lossy one
    ends with a reset event.

    Args:
        core: the messenger.
        session: the session with the peer to ask.
        interval_s: pause between two questions.
        timeout_s: 0 = no answer is needed.
        now: the first question is one interval from here.
    """

    def __init__(self, core: "Core", session: Session, interval_s: float, timeout_s: float, now: float) -> None:
        self._core = core
        self._session = session
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._open_since_s: float | None = None
        self._timer: Timer
        self._schedule(now)

    def stop(self) -> None:
        """Ask no more."""
        self._timer.cancel()

    def _schedule(self, now: float) -> None:
        self._timer = self._core.timers.at(now + self._interval_s, self._tick)

    def _tick(self, now: float) -> None:
        self._schedule(now)
        if self._session.state is not SessionState.READY:
            self._open_since_s = None  # other timeouts watch over dials and handshakes
            return
        if self._open_since_s is None:
            self._open_since_s = now
        link = self._session.link
        read_since_s = 0.0 if link is None else link.read_since_s
        silence_s = now - max(self._open_since_s, self._session.keepalive_heard_s, read_since_s)
        # While the link is paused nothing of the peer is read: it is not silent, this side does not listen.
        is_read = link is None or not link.paused
        if self._is_watched and is_read and silence_s > self._timeout_s:
            self._open_since_s = None
            fault = Fault(FaultReason.KEEPALIVE_TIMEOUT, f"{silence_s:.3g} s")
            self._core.break_link(self._session, fault, now)
        else:
            self._core.send_keepalive(self._session, now)

    @property
    def _is_watched(self) -> bool:
        """Older peers by v1 do not answer keepalives."""
        return self._timeout_s > 0 and has_feature(self._session.features, Feature.MSGR_KEEPALIVE2)
