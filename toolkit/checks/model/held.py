"""Number of messages that a session holds for its peer: queued, and sent without an ack."""

from bisect import bisect_left
from typing import Any

from toolkit.checks.wires import Entry


class Held:
    """Between how many and how many messages the session holds.

    Applications send while a messenger carries out what it has decided before, so a message that is sent at the
    time of a state record may be counted in it or not.

    Args:
        sends: what the application hands over.
    """

    __slots__ = ("_counted", "_least", "_most", "_places", "_sends", "_unsure")

    def __init__(self, sends: list[Entry]) -> None:
        self._sends = sends
        self._places = [position for position, _ in sends]
        self._counted = 0
        """So many of them are counted."""
        self._unsure: list[float] = []
        """Times of those counted last that may have come too late for the last state."""
        self._least = self._most = 0

    def drop(self, count: int) -> None:
        """So many are acknowledged, or not kept."""
        self._least -= count
        self._most -= count

    def clear(self, position: int, time_s: float) -> None:
        """All are dropped, but perhaps not those that are handed over now."""
        self._least, self._most = 0, self._take(position, time_s)

    def forget(self) -> None:
        """How many are left is not known: at worst none, whatever is not counted yet."""
        self._least = -len(self._sends)

    def compare(self, position: int, fields: dict[str, Any], time_s: float) -> tuple[int, int] | None:
        """A state record: between what it should be, if it holds another number of messages."""
        now = self._take(position, time_s)
        least, most = max(0, self._least - now), self._most
        total = fields["queued"] + fields["sent"]
        self._least, self._most = total, min(total + now, most)
        return None if least <= total <= most else (least, most)

    def _take(self, position: int, time_s: float) -> int:
        """Count what was handed over up to a place; returns how many of it may have come too late for it."""
        until = bisect_left(self._places, position)
        if until > self._counted:
            self.drop(self._counted - until)
            self._unsure += [record.time_s for _, record in self._sends[self._counted : until]]
            self._counted = until
        self._unsure = [each for each in self._unsure if each >= time_s]
        return len(self._unsure)
