"""Deadlines of an open link: for any traffic, and for the rest of an incomplete frame."""

from typing import TYPE_CHECKING

from messenger.errors import FaultReason

if TYPE_CHECKING:
    from messenger.link import Link
    from messenger.session.timers import Timer


class IdleDeadline:
    """Closes a link that has no traffic for ``ms_connection_idle_timeout``.

    Activity does not touch the timer: when it fires, it is set again for the time that is left.
    """

    __slots__ = ("_link",)

    def __init__(self, link: "Link") -> None:
        self._link = link

    def set(self) -> None:
        """Set the link's timer to one timeout after its last activity."""
        link = self._link
        due_s = link.last_activity_s + link.host.config.ms_connection_idle_timeout
        link.idle_timer = link.host.timers.at(due_s, self._check)

    def _check(self, now: float) -> None:
        link = self._link
        timeout_s = link.host.config.ms_connection_idle_timeout
        if link.paused:
            link.last_activity_s = now  # bytes of the peer may be waiting unread
        elif link.last_activity_s + timeout_s <= now:
            link.fault(FaultReason.IDLE_TIMEOUT, f"{timeout_s:g} s", now)
            return
        self.set()


class FrameDeadline:
    """The deadline for the rest of one link's incomplete frame, which holds memory and throttles.

    The link faults if the frame is incomplete ``frame_timeout_s`` after its first byte, plus the time that the
    arrived bytes take at ``frame_min_bytes_per_s``. While other links wait for a throttle that messages in arrival
    fill, ``frame_timeout_contended_s`` applies instead.

    Frames change far more often than they time out, so there is at most one timer; when it fires it checks the
    frame that is incomplete then.
    """

    __slots__ = ("_link", "_offset", "_since_s", "timer")

    def __init__(self, link: "Link") -> None:
        self._link = link
        self._offset = -1
        """Offset of the frame in the received stream."""
        self._since_s = 0.0
        self.timer: Timer | None = None

    def await_rest(self, now: float) -> None:
        """Start or continue the deadline of the incomplete frame at the current position of the stream."""
        link = self._link
        if self._offset != link.rx_offset:
            self._offset = link.rx_offset
            self._since_s = now
        config = link.host.config
        if self.timer is None and config.frame_timeout_s:
            self.timer = link.host.timers.at(max(now, self._since_s + config.first_frame_check_s), self._check)

    def restart(self, waited_s: float | None) -> None:
        """Exclude the time for which reading was paused.

        Args:
            waited_s: length of the pause in seconds; None if unknown, which starts the deadline again.
        """
        if waited_s is None:
            self._offset = -1
        else:
            self._since_s += waited_s

    def cancel(self) -> None:
        """Cancel the timer, because the link is closed."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _check(self, now: float) -> None:
        self.timer = None
        link = self._link
        arrived_bytes = link.receive_buffer.pending_bytes
        if link.paused or not arrived_bytes or self._offset != link.rx_offset:
            return
        config = link.host.config
        transfer_s = arrived_bytes / config.frame_min_bytes_per_s
        due_s = self._since_s + config.frame_timeout_s + transfer_s
        pause_s = config.first_frame_check_s
        contended = now < due_s and link.host.is_blocked_by(link)
        if contended:
            due_s = self._since_s + pause_s + transfer_s
        if due_s <= now:
            waiting = ", and others wait for a throttle" if contended else ""
            detail = f"{arrived_bytes} bytes of it in {now - self._since_s:.3g} s{waiting}"
            link.fault(FaultReason.FRAME_TIMEOUT, detail, now)
        else:
            self.timer = link.host.timers.at(min(due_s, now + pause_s), self._check)
