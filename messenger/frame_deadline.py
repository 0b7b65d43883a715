"""How long an open link waits for the rest of a frame: a peer may not hold memory and throttles by a trickle."""

from typing import TYPE_CHECKING

from messenger.errors import FaultReason

if TYPE_CHECKING:
    from messenger.link import Link
    from messenger.session.timers import Timer


class FrameDeadline:
    """The deadline of one link's incomplete frame.

    After ``frame_timeout_s`` the frame must have come at ``frame_min_bytes_per_s`` or faster, else the link
    faults. There is at most one timer, which looks at the frame that is incomplete when it fires: frames come and
    go far more often.
    """

    __slots__ = ("_link", "_offset", "_since_s", "timer")

    def __init__(self, link: "Link") -> None:
        self._link = link
        self._offset = -1
        """Where the frame begins in the received stream."""
        self._since_s = 0.0
        self.timer: Timer | None = None

    def await_rest(self, now: float) -> None:
        """The frame at the present position of the stream is incomplete."""
        link = self._link
        if self._offset != link.rx_offset:
            self._offset = link.rx_offset
            self._since_s = now
        timeout_s = link.host.config.frame_timeout_s
        if self.timer is None and timeout_s:
            self.timer = link.host.timers.at(now + timeout_s, self._check)

    def restart(self) -> None:
        """Reading was paused, and goes on: that time does not count."""
        self._offset = -1

    def cancel(self) -> None:
        """The link is closed."""
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
        due_s = self._since_s + config.frame_timeout_s + arrived_bytes / config.frame_min_bytes_per_s
        if due_s <= now:
            detail = f"{arrived_bytes} bytes of it in {now - self._since_s:.3g} s"
            link.fault(FaultReason.FRAME_TIMEOUT, detail, now)
        else:
            self.timer = link.host.timers.at(due_s, self._check)
