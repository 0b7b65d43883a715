"""utime_t: unix time, or a duration, as two u32 (docs/protocol.md §1.1)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import LocalError

_NSEC_PER_SEC = 1_000_000_000
_DURATION_LIMIT_S = 10 * 365 * 86400
_EPOCH_DATE = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class UTime:
    """Seconds and nanoseconds, stored separately so that encoding returns exactly the decoded bytes."""

    sec: int = 0
    nsec: int = 0

    def __str__(self) -> str:
        """As Ceph prints it: ISO 8601 in UTC, or plain seconds if the value can only be a duration."""
        if self.sec < _DURATION_LIMIT_S:
            return f"{self.sec}.{self.nsec // 1000:06d}"
        moment = _EPOCH_DATE + timedelta(seconds=self.sec, microseconds=self.nsec // 1000)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%f%z")

    @classmethod
    def from_seconds(cls, value_s: float) -> Self:
        """The nearest value that can be represented.

        Raises:
            LocalError: ``value_s`` is negative, not a number, or beyond 32 bits of seconds.
        """
        if not 0 <= value_s < 1 << 32:
            raise LocalError(f"time of {value_s} s is not between 0 and 2**32 s")
        sec = int(value_s)
        return cls(sec, min(round((value_s - sec) * _NSEC_PER_SEC), _NSEC_PER_SEC - 1))

    def to_seconds(self) -> float:
        """As a float, accurate to about a microsecond for current times."""
        return self.sec + self.nsec / _NSEC_PER_SEC

    def encode(self, encoder: Encoder) -> None:
        """Append 8 bytes."""
        encoder.u32(self.sec)
        encoder.u32(self.nsec)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Read 8 bytes."""
        return cls(decoder.u32(), decoder.u32())


EPOCH = UTime()
"""The beginning of unix time; the value of times that were never set."""
