"""Performance counters of a daemon, as its MMgrReport messages declare and encode them (docs/protocol.md §6.3)."""

from dataclasses import dataclass
from enum import IntFlag

from messenger.denc.codec import Decoder
from messenger.errors import DecodeError
from messenger.messages.mgr import MMgrReport, PerfCounterType

MOST_COUNTERS = 50_000
"""Maximum number of counters that a daemon may declare in one session; an OSD declares about 1,000."""
_PACKED_VERSION = 1


class CounterFlag(IntFlag):
    """Bits of ``PerfCounterType.type``."""

    TIME = 0x01
    """The value is a time in nanoseconds."""
    U64 = 0x02
    AVERAGE = 0x04
    """The value is a sum of samples, and the number of samples follows it."""
    COUNTER = 0x08
    """The value only grows."""
    HISTOGRAM = 0x10


@dataclass(frozen=True, slots=True)
class Counter:
    """The newest value of a counter."""

    declaration: PerfCounterType
    value: int
    """A number, or a time in nanoseconds; for an average, the sum of the samples."""
    samples: int | None = None
    """For an average, the number of samples."""


class Counters:
    """Counters of one daemon in its current session."""

    def __init__(self) -> None:
        self.values: dict[str, Counter] = {}
        """Newest values by path, such as ``osd.op_w``."""
        self._declared: dict[str, PerfCounterType] = {}

    def forget(self) -> None:
        """Start a session, in which the daemon declares all its counters again."""
        self.values.clear()
        self._declared.clear()

    def take(self, report: MMgrReport) -> None:
        """Apply the declarations and values of a report.

        Raises:
            DecodeError: the values do not match the declarations, or more than MOST_COUNTERS are declared.
        """
        self._declared.update({declared.path: declared for declared in report.declare_types})
        for path in report.undeclare_types:
            self._declared.pop(path, None)
            self.values.pop(path, None)
        if len(self._declared) > MOST_COUNTERS:
            raise DecodeError(f"{len(self._declared)} counters declared, at most {MOST_COUNTERS} are kept")
        if report.packed:
            self._decode(Decoder(report.packed).versioned(_PACKED_VERSION))

    def _decode(self, packed: Decoder) -> None:
        """Read one value for each declared counter, in the order of the paths."""
        for path, declared in sorted(self._declared.items()):
            value, samples = packed.u64(), None
            if declared.type & CounterFlag.AVERAGE:
                samples = packed.u64()
                packed.skip(8)  # the count again: daemons update one copy before the sum and one after it
            self.values[path] = Counter(declared, value, samples)
