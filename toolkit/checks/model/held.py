"""Number of messages that a session holds for its peer: queued, or sent and not acknowledged."""

from bisect import bisect_left
from typing import Any

from toolkit.checks.records import EARLIER
from toolkit.checks.wires import Entry


class Held:
    """Bounds of the number of messages that a session holds.

    Applications send while a messenger carries out earlier decisions, so a message sent at the time of a state
    record may be counted in it or not.

    Args:
        sends: the session's ``send`` records.
    """

    __slots__ = ("_counted", "_least", "_most", "_places", "_sends", "_unsure")

    def __init__(self, sends: list[Entry]) -> None:
        self._sends = sends
        self._places = [position for position, _ in sends]
        self._counted = 0
        """Number of sends that are counted so far."""
        self._unsure: list[float] = []
        """Times of the last counted sends that the last state record may not include."""
        self._least = self._most = 0

    def drop(self, count: int) -> None:
        """Remove ``count`` messages that were acknowledged or not kept."""
        self._least -= count
        self._most -= count

    def clear(self, position: int, time_s: float) -> None:
        """Remove all messages, except perhaps those sent at ``time_s``."""
        self._least, self._most = 0, self._take(position, time_s)

    def forget(self) -> None:
        """Drop the lower bound, because the number of remaining messages is unknown."""
        self._least = -len(self._sends)

    def compare(self, position: int, fields: dict[str, Any], time_s: float) -> tuple[int, int] | None:
        """Compare with a state record; returns the bounds if its number of messages is outside them, else None."""
        now = self._take(position, time_s)
        least, most = max(0, self._least - now), self._most
        total = fields["queued"] + fields["sent"]
        if "folded" in fields:  # it was compared when the history had all messages that it counts
            least = most = total
        elif EARLIER in fields:
            least, most = total, total + now
        self._least, self._most = total, min(total + now, most)
        return None if least <= total <= most else (least, most)

    def _take(self, position: int, time_s: float) -> int:
        """Count the sends before a position; returns the number of those that the record there may not include."""
        until = bisect_left(self._places, position)
        if until > self._counted:
            self.drop(self._counted - until)
            self._unsure += [record.time_s for _, record in self._sends[self._counted : until]]
            self._counted = until
        self._unsure = [each for each in self._unsure if each >= time_s]
        return len(self._unsure)
