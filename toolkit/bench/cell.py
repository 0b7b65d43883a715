"""What one measurement is of, and what comes out of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from messenger.link import Protocol

KIB = 1024
MIB = 1024 * 1024
SIZES = (64, 4 * KIB, 64 * KIB, MIB, 4 * MIB)
IN_FLIGHT = (1, 32)
MODES = ("crc", "secure")
CORES = (1, 2)
REPLY_BYTES = 64
_UNITS = ((MIB, "M"), (KIB, "K"), (1, ""))


class Pattern(StrEnum):
    """Which messages are answered, and how."""

    REQUEST = "request"
    """Every message is answered by a message of 64 bytes, as in Ceph's own perf_msgr."""
    STREAM = "stream"
    """One way. The receiver says only now and then, in a message of 64 bytes, that it has half a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One square of the grid of measurements."""

    pattern: Pattern
    size: int
    """Bytes of each message's data."""
    in_flight: int
    """Most messages that the sender has unanswered at a time."""
    mode: str
    """crc or secure; msgr v1 has crcs only."""
    cores: int
    """Whether both processes share one CPU or have one each."""
    protocol: Protocol = Protocol.V2

    @property
    def per_reply(self) -> int:
        """How many messages one reply answers."""
        return 1 if self.pattern is Pattern.REQUEST else max(1, self.in_flight // 2)

    @property
    def name(self) -> str:
        """Its words, as in ``request v2 crc 4K x32 1core``."""
        size = next(f"{self.size // unit}{word}" for unit, word in _UNITS if self.size % unit == 0)
        return f"{self.pattern} {self.protocol} {self.mode} {size} x{self.in_flight} {self.cores}core"

    def rounded(self, count: float) -> int:
        """A number of messages near ``count`` that replies answer completely and that fills the window."""
        return max(round(count / self.per_reply), -(-self.in_flight // self.per_reply)) * self.per_reply


@dataclass(slots=True, kw_only=True)
class Result:
    """Medians over the rounds of one cell."""

    cell: Cell
    ops_per_s: float
    floor_ops_per_s: float
    """The same messages over a plain socket."""
    cpu_us_per_op: float
    """User and system time of both processes together."""
    floor_cpu_us_per_op: float
    peak_rss_mib: float
    """The larger one of the two processes' peaks."""

    @property
    def ratio(self) -> float:
        """Rate of the messenger as a part of the plain socket's."""
        return self.ops_per_s / self.floor_ops_per_s

    @property
    def latency_us(self) -> float | None:
        """From a message to its answer; None where several are on their way at a time."""
        return self._latency_us(self.ops_per_s)

    @property
    def floor_latency_us(self) -> float | None:
        """The same over the plain socket."""
        return self._latency_us(self.floor_ops_per_s)

    def _latency_us(self, ops_per_s: float) -> float | None:
        return round(1e6 / ops_per_s, 2) if self.cell.in_flight == 1 else None

    def as_json(self) -> dict[str, Any]:
        """The row of the JSON contract."""
        return {
            **asdict(self.cell),
            "ops_per_s": round(self.ops_per_s, 1),
            "floor_ops_per_s": round(self.floor_ops_per_s, 1),
            "ratio": round(self.ratio, 3),
            "latency_us": self.latency_us,
            "floor_latency_us": self.floor_latency_us,
            "cpu_us_per_op": round(self.cpu_us_per_op, 2),
            "floor_cpu_us_per_op": round(self.floor_cpu_us_per_op, 2),
            "peak_rss_mib": round(self.peak_rss_mib, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Which cells to measure; an axis that is None has the values of the quick or of the full grid."""

    patterns: Sequence[Pattern] | None = None
    sizes: Sequence[int] | None = None
    in_flight: Sequence[int] | None = None
    modes: Sequence[str] | None = None
    cores: Sequence[int] | None = None

    protocol: Protocol = Protocol.V2

    def cells(self, cores: Sequence[int], *, full: bool) -> list[Cell]:
        """The cells, where ``cores`` are possible on this machine.

        The quick grid leaves out streams with one message in flight: with an answer to each they are requests.
        """
        axes = product(
            self.patterns or tuple(Pattern),
            self.cores or cores,
            self.modes or (MODES if self.protocol is Protocol.V2 else MODES[:1]),
            self.in_flight or IN_FLIGHT,
            self.sizes or SIZES,
        )
        return [
            Cell(pattern=pattern, size=size, in_flight=in_flight, mode=mode, cores=count, protocol=self.protocol)
            for pattern, count, mode, in_flight, size in axes
            if full or self.in_flight or pattern is Pattern.REQUEST or in_flight > 1
        ]
